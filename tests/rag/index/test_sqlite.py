"""What the index in SQLite promises of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import index_of
from tests.rag.index.desk import Desk

TEXTS = [f"heron {number} stands in the water" for number in range(40)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with holdfast.open(f"sqlite:///{tmp_path}/words.db") as store:
        yield Desk(store, index_of(store), lambda: index_of(store))


def written(tx: Tx) -> int:
    """How many rows of words were written down."""
    return int(tx.execute("select count(*) from rag_words_data").fetchone()[0])


def test_the_words_of_many_documents_are_written_down_together(desk: Desk) -> None:
    """Each savepoint has FTS5 write a segment, which is merged with others again and again."""
    desk.ingest("first", *TEXTS)
    with desk.store.transaction() as tx:
        before = written(tx)
        for key in "abc":
            desk.add(key, TEXTS, version=0, tx=tx)
            desk.remember(*TEXTS, key, tx=tx)
            desk.show(key, tx=tx)
        assert written(tx) == before
    assert len(desk.words("heron", limit=200)) == 160


def test_a_store_is_searched_whatever_its_url_says_besides_its_file(tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/my%20words.db?synchronous=normal") as store:
        desk = Desk(store, index_of(store), lambda: index_of(store))
        desk.ingest("a", "heron stands in the water")
        assert desk.meaning("heron") == desk.words("heron") == ["heron stands in the water"]
