"""An index whose tables were damaged does not report its documents as complete."""

from __future__ import annotations

import pytest

from tests.support.index_harness import IndexHarness

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
def test_a_damaged_document_is_not_complete(harness: IndexHarness, kind: str, damage: int) -> None:
    harness.ingest("a", "heron one", "heron two")
    harness.ingest("b", "stork")
    assert harness.has("a", 2)
    harness.execute(DAMAGE["postgres" if kind == "postgres" else "sqlite"][damage])
    assert not (harness.has("a", 2) and harness.has("b", 1))
