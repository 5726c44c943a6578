from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines.files import Ceiling, FilesError, Loader, file_loads, set_aside
from tests.pipelines.files.conftest import Load

NO_AGE = timedelta(0)
CHILD = """
import sys
from datetime import timedelta
import holdfast
from holdfast.pipelines.files import Loader
with holdfast.open(sys.argv[1]) as store:
    loader = Loader(store, "event", commit_every=200)
    loader.submit([sys.argv[2]], min_age=timedelta(0))
    print("ready", flush=True)
    loader.drain(threads=2)
"""


def test_a_load_that_is_killed_again_and_again_has_the_rows_of_an_undisturbed_one(load: Load) -> None:
    for number in range(4):
        load.write(f"{number}.csv", "id,text\n" + "".join(f'{number * 10**6 + n},"text\n{n}"\n' for n in range(15_000)))
    if not load.store.url.startswith("sqlite"):
        load.store.disconnect()
    kills = 0
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, load.store.url, str(load.folder)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 0.2 + 0.15 * kills
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if child.poll() is not None:
            break
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        kills += 1
        assert kills < 60
    child.stdout.close()
    assert kills
    expected = [(number * 10**6 + n, f"text\n{n}") for number in range(4) for n in range(15_000)]
    assert load.rows() == expected


def test_files_that_are_still_written_are_not_taken(sqlite_load: Load) -> None:
    path = sqlite_load.write("a.csv", "id\n1\n")
    loader = Loader(sqlite_load.store, "event")
    assert loader.submit([str(path)], min_age=timedelta(hours=1), wait=False).new == 0
    assert loader.young == [str(path)]
    assert loader.submit([str(path)], min_age=timedelta(milliseconds=1)).new == 1


def test_a_dry_run_writes_nothing(sqlite_load: Load) -> None:
    path = sqlite_load.write("a.csv", "id,name\n1,Ann\n2\n")
    found = Loader(sqlite_load.store, "event").dry_run([str(path)])
    assert [(column.name, column.kind) for column in found.columns] == [("id", "integer"), ("name", "text")]
    assert (found.rows, found.counts["set_aside"], found.files) == ([(1, "Ann")], 1, 1)
    assert sqlite_load.store.pipelines() == []


def test_a_failed_file_goes_on_where_it_stopped(load: Load) -> None:
    path = load.write("a.csv", "id\n" + "1\n" * 100 + "x,y\n" * 3 + "2\n")
    first = Loader(load.store, "event", ceiling=Ceiling(count=2), commit_every=10)
    first.submit([str(path)], min_age=NO_AGE)
    assert first.drain().dead == 1
    (one,) = file_loads(load.store, state="dead")
    assert one.total >= 100
    second = Loader(load.store, "event", ceiling=Ceiling(count=3))
    assert second.retry_failed(who="Ada", reason="more are allowed") == 1
    assert second.drain().done == 1
    assert len(load.rows()) == 101


def test_mended_records_are_loaded_once(load: Load) -> None:
    path = load.write("a.csv", "id,name\n1,Ann\n2\n3\n")
    loader = Loader(load.store, "event", ceiling=Ceiling(count=5))
    loader.submit([str(path)], min_age=NO_AGE)
    loader.drain()
    first, second = set_aside(load.store)
    assert loader.load_set_aside({first.number: b"2,Ben\n"}) == (1, [])
    assert loader.load_set_aside({first.number: b"2,Ben\n"}) == (0, [])
    loaded, left = loader.load_set_aside()
    assert (loaded, [one.number for one in left]) == (0, [second.number])
    assert load.rows() == [(1, "Ann"), (2, "Ben")]
    (one,) = file_loads(load.store)
    assert (one.persisted, one.failed) == (2, 1)


def test_records_of_an_earlier_version_are_not_loaded(load: Load) -> None:
    path = load.write("a.csv", "id,name\n1,Ann\n2\n")
    loader = Loader(load.store, "event", ceiling=Ceiling(count=5))
    loader.submit([str(path)], min_age=NO_AGE)
    loader.drain()
    load.write("a.csv", "id,name\n1,Ann\n2,Ben\n")
    loader.submit([str(path)], min_age=NO_AGE)
    loader.drain()
    assert list(set_aside(load.store)) == []
    assert load.rows() == [(1, "Ann"), (2, "Ben")]


def test_a_store_in_memory_is_refused() -> None:
    with holdfast.open("memory://") as store, pytest.raises(FilesError, match="needs a database"):
        Loader(store, "event")


def test_a_target_without_files_or_columns_is_refused(sqlite_load: Load, tmp_path: Path) -> None:
    empty = sqlite_load.write("a.csv", "")
    with pytest.raises(FilesError, match="is empty"):
        Loader(sqlite_load.store, "event").submit([str(empty)], min_age=NO_AGE)
