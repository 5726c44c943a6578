"""An index that was damaged behind its back does not say that all is there."""

from __future__ import annotations

import pytest

from tests.rag.index.desk import Desk

DAMAGE = {
    "sqlite": [
        "delete from rag_words where rowid = (select max(id) from rag_chunk)",
        "delete from rag_chunk where position = 1",
        "delete from rag_vector where id = (select max(id) from rag_vector)",
        "delete from rag_meaning",
        "update rag_document set version = null",
        "delete from rag_document",
    ],
    "postgres": [
        "update rag_chunk set words = null where position = 1",
        "delete from rag_chunk where position = 1",
        "delete from rag_vector_1 where hash = (select hash from rag_chunk where position = 1)",
        "delete from rag_meaning",
        "update rag_document set version = null",
        "delete from rag_document",
    ],
}


@pytest.mark.parametrize("damage", range(6))
def test_what_is_not_all_there_is_not_held(desk: Desk, kind: str, damage: int) -> None:
    desk.ingest("a", "heron one", "heron two")
    desk.ingest("b", "stork")
    assert desk.holds("a", 2)
    desk.execute(DAMAGE["postgres" if kind == "postgres" else "sqlite"][damage])
    assert not (desk.holds("a", 2) and desk.holds("b", 1))
