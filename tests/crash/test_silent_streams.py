"""Workers that are killed while the body of a stream is silent: what it yielded before is there."""

from __future__ import annotations

import subprocess

import pytest

import holdfast
from tests.crash.processes import finish, running_program, sorted_rows
from tests.crash.program import BATCH, SILENT, prepare
from tests.support.polling import wait_for


def first_line(process: subprocess.Popen[str]) -> str:
    """Return what the body says when it falls silent."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("where", SILENT)
def test_what_a_silent_stream_has_yielded_survives_a_kill_and_its_body_goes_on_after_it(url: str, where: str) -> None:
    pipeline = SILENT[where]
    with holdfast.open(url) as store:
        prepare(store)
        holdfast.submit(pipeline, store, batch=BATCH, documents=[("a", None)])
        with running_program("silent", url, where, HOLDFAST_SILENT="yes") as killed:
            assert first_line(killed) == "silent after 0\n"
            wait_for(lambda: store.document(where, BATCH, "a").checkpoint.cursor == 3)
            killed.kill()
            assert killed.wait(60) == -9
        here = store.document(where, BATCH, "a")
        assert [value for _, _, value in store.items(here.id)] == ["0", "1", "2"]
        assert sorted_rows(store, "select page from unpacked") == [(0,), (1,), (2,)]
        with running_program("silent", url, where) as resumed:
            assert first_line(resumed) == "silent after 3\n"
            finish(resumed)
        assert store.document(where, BATCH, "a").state == "done"
        assert [value for _, _, value in store.items(here.id)] == ["0", "1", "2", "3", "4"]
        assert sorted_rows(store, "select page from unpacked") == [(number,) for number in range(5)]
