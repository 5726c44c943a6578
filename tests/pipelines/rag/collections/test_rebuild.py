"""The words of an index are made again after an upgrade, from the stored texts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.rebuild import rebuild_index
from holdfast.pipelines.rag.index import words_rebuild
from holdfast.pipelines.rag.index.words_rebuild import WordsOutdated
from holdfast.stores.protocol import Store

FIRST_WORDS = {
    "sqlite": [
        "create virtual table before using fts5 (text, title, tokenize = 'porter unicode61 remove_diacritics 2')",
        "insert into before (rowid, text, title) select rowid, text, '' from rag_words",
        "drop table rag_word",
        "drop table rag_words",
        "alter table before rename to rag_words",
        "create virtual table rag_word using fts5vocab (rag_words, row)",
    ],
    "postgres": ["update rag_chunk set words = to_tsvector('english', text)"],
}
FIRST_TABLES = [
    "drop table rag_tokenizer",
    "drop table rag_language",
    "alter table rag_document drop column language",
    "alter table rag_document drop column title_terms",
]
"""What makes the tables as the first release made them."""
TIDES = "Die Gezeiten am Hafen.\n\nDie Springflut kommt zweimal im Monat, bei Neumond und bei Vollmond."


@pytest.fixture
def library(each_store: Store, tmp_path: Path) -> rag.Library:
    """A library with three documents, in tables of the first release."""
    pytest.importorskip("numpy")
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text(TIDES)
    (folder / "wind.txt").write_text("The wind comes from the west, and the sea is moderate this week.")
    (folder / "moon.txt").write_text("大潮は月に二回、新月と満月のときに起こります。")
    library = rag.Library(each_store, settings=rag.CollectionSettings(embedder="hash:64"))
    library.ingest(str(folder))
    library.close()
    with each_store.transaction() as tx:
        for statement in [*FIRST_WORDS["sqlite" if tx.dialect == "sqlite" else "postgres"], *FIRST_TABLES]:
            tx.execute(statement)
    return library


def found(store: Store, question: str) -> list[str]:
    with closing(rag.Library(store)) as library:
        return [result.key for result in library.search(question, by="words")]


def test_an_index_of_an_earlier_release_is_refused_until_it_was_rebuilt(
    library: rag.Library, each_store: Store
) -> None:
    for _ in range(2):
        with pytest.raises(WordsOutdated, match="holdfast collection rebuild"):
            rag.Library(each_store)
    assert rebuild_index(each_store) == 3
    assert found(each_store, "Springfluten") == ["tides.txt"]
    assert found(each_store, "満月") == ["moon.txt"]
    assert found(each_store, '"wind comes"') == ["wind.txt"]
    assert found(each_store, "Hafen title:gezeiten") == ["tides.txt"]
    assert rebuild_index(each_store) == 0


def test_a_rebuild_that_was_killed_continues(
    library: rag.Library, each_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_rebuild, "DOCUMENTS_AT_ONCE", 1)

    def stop(done: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_index(each_store, stop)
    with pytest.raises(WordsOutdated):
        rag.Library(each_store)
    assert rebuild_index(each_store) == 1
    assert found(each_store, "Springfluten") == ["tides.txt"]


def test_words_of_a_later_release_are_refused(each_store: Store) -> None:
    pytest.importorskip("numpy")
    rag.Library(each_store, settings=rag.CollectionSettings(embedder="hash:64")).close()
    with each_store.transaction() as tx:
        tx.execute("update rag_tokenizer set version = 99")
    with pytest.raises(WordsOutdated, match="later release"):
        rag.Library(each_store)
