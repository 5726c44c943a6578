"""A short form of `make kills`: a few kills, few documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.document_search.killed_ingest import kill_again_and_again
from tests.support.sample_files import pdf

pytest.importorskip("pypdfium2", reason="document search needs the extra rag")


def test_an_ingest_that_is_killed_many_times_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    for number in range(6):
        pages = [
            f"Page {page} of book {number}: on the keeping of logs and the reading of winds." for page in range(40)
        ]
        (tmp_path / f"book{number}.pdf").write_bytes(pdf(pages))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    found = kill_again_and_again(tmp_path, kills=4, seed=1)
    assert found.different == []
    assert found.parsed_after_commit == []
    assert (found.pages, found.dead) == (240, 1)
    assert found.kills
