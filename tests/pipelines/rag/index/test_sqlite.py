"""What only the index in SQLite does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.registry import database_index
from tests.support.index_harness import IndexHarness

TEXTS = [f"heron {number} stands in the water" for number in range(40)]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[IndexHarness]:
    with holdfast.open(f"sqlite:///{tmp_path}/words.db") as store:
        yield IndexHarness(store, database_index(store), lambda: database_index(store))


def written(tx: Tx) -> int:
    """Count the rows of the full-text index."""
    return int(tx.execute("select count(*) from rag_words_data").fetchone()[0])


def test_the_words_of_many_documents_are_written_as_one_segment(harness: IndexHarness) -> None:
    """FTS5 writes a segment at each savepoint, and merges segments again and again."""
    harness.ingest("first", *TEXTS)
    with harness.store.transaction() as tx:
        before = written(tx)
        for key in "abc":
            harness.add(key, TEXTS, version=0, tx=tx)
            harness.save_vectors(*TEXTS, key, tx=tx)
            harness.make_visible(key, tx=tx)
        assert written(tx) == before
    assert len(harness.word_hits("heron", limit=200)) == 160


def test_options_in_the_url_of_a_store_do_not_hinder_searches(tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/my%20words.db?synchronous=normal") as store:
        harness = IndexHarness(store, database_index(store), lambda: database_index(store))
        harness.ingest("a", "heron stands in the water")
        assert harness.vector_hits("heron") == harness.word_hits("heron") == ["heron stands in the water"]
