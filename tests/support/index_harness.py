"""An index with its store, and short methods for tests of indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.collections.settings import Collection, create_collection
from holdfast.pipelines.rag.embed.hashing import HashEmbedder
from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, Index, IndexEntry, Where, storable_text
from holdfast.pipelines.rag.index.question import parse_question
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from holdfast.stores.protocol import Store

PAPERS = "papers"
NOTES = "notes"
ALL = Where()
TEXT = DocumentInfo("text", "")


class RolledBack(Exception):
    """Raised by a test to roll its transaction back."""


class IndexHarness:
    """Add, show and find documents. `another` opens a second index of the same data, as another process would."""

    def __init__(self, store: Store, index: Index, another: Callable[[], Index], dimension: int = 64) -> None:
        self.store = store
        self.index = index
        self.another = another
        self.embedder = HashEmbedder(dimension)
        self.model = EmbeddingModel(self.embedder.name, dimension)
        with store.transaction() as tx:
            index.create_tables(tx)
            index.create_tables(tx)  # what is there already is left alone
            create_collection(tx, Collection(PAPERS))
            create_collection(tx, Collection(NOTES))

    def add(
        self,
        key: str,
        texts: Sequence[str],
        *,
        version: int = 1,
        collection: str = PAPERS,
        source: str = "/folder",
        about: DocumentInfo | None = TEXT,
        last: bool = True,
        metadata: Mapping[str, Any] | None = None,
        tx: Tx | None = None,
    ) -> None:
        """Add chunks. The first chunks of a version describe the document, as in the pipeline."""
        name = DocumentName(collection, source, key)
        title = about.title if about else ""
        chunks = [
            Chunk.from_text(
                text,
                page=1 + place,
                title=title,
                about=about if not place else None,
                last=last and place == len(texts) - 1,
            )
            for place, text in enumerate(texts)
        ]
        entry = IndexEntry(name=name, version=version, about=about, metadata=metadata or {})
        with self._in(tx) as inner:
            self.index.add_chunks(inner, entry, chunks)

    def save_vectors(self, *texts: str, title: str = "", tx: Tx | None = None) -> None:
        """Save the vectors of texts."""
        contents = [Chunk.from_text(text, title=title) for text in texts]
        rows = self.embedder.embed([one.content for one in contents])
        halves = {one.hash: row.astype("<f2").tobytes() for one, row in zip(contents, rows, strict=True)}
        with self._in(tx) as inner:
            self.index.save_vectors(inner, self.model, halves)

    def upload(self, key: str, *, collection: str = PAPERS, source: str = "/folder") -> None:
        self.index.upload(DocumentName(collection, source, key), model=self.model)

    def make_visible(
        self, key: str, *, collection: str = PAPERS, source: str = "/folder", tx: Tx | None = None
    ) -> None:
        with self._in(tx) as inner:
            self.index.make_visible(inner, DocumentName(collection, source, key), model=self.model)

    def ingest(self, key: str, *texts: str, version: int = 1, **more: Any) -> None:
        """Add a complete version, in several transactions as the pipeline does."""
        about = more.get("about") or TEXT
        place = {name: more[name] for name in ("collection", "source") if name in more}
        self.add(key, texts, version=version, **more)
        self.save_vectors(*texts, title=about.title)
        self.upload(key, **place)
        self.make_visible(key, **place)

    def delete(self, key: str, *, tx: Tx | None = None) -> None:
        with self._in(tx) as inner:
            self.index.delete_document(inner, DocumentName(PAPERS, "/folder", key))

    def rename(self, key: str, *, to: str, tx: Tx | None = None) -> None:
        with self._in(tx) as inner:
            self.index.rename_document(inner, DocumentName(PAPERS, "/folder", key), to=to)

    def has(self, key: str, chunks: int, *, model: EmbeddingModel | None = None) -> bool:
        name, model = DocumentName(PAPERS, "/folder", key), model or self.model
        return (
            self.index.has_words(name, chunks=chunks)
            and self.index.has_vectors(name, model=model, chunks=chunks)
            and self.index.is_visible(name, model=model, chunks=chunks)
        )

    def word_hits(self, question: str, where: Where = ALL, *, limit: int = 100) -> list[str]:
        """Return the texts that a keyword search finds, best first."""
        question = storable_text(question)
        return self._texts(
            self.index, [hit.chunk for hit in self.index.search_words(parse_question(question), where, limit=limit)]
        )

    def run_hits(self, question: str, where: Where = ALL) -> dict[str, float]:
        """Return the texts that have runs of a question, with the share of its words that are in them."""
        hits = self.index.search_runs(parse_question(question), where, limit=100)
        texts = self._texts(self.index, [hit.chunk for hit in hits])
        return {text: hit.score for text, hit in zip(texts, hits, strict=True)}

    def vector_hits(
        self, question: str, where: Where = ALL, *, limit: int = 100, index: Index | None = None
    ) -> list[str]:
        """Return the texts that a vector search finds, nearest first."""
        index = index or self.index
        vector = self.embedder.embed_query(question)
        return self._texts(index, [hit.chunk for hit in index.search_vectors(self.model, vector, where, limit=limit)])

    def nearest(self, vector: np.ndarray, where: Where = ALL, *, limit: int = 10) -> list[str]:
        return self._texts(
            self.index, [hit.chunk for hit in self.index.search_vectors(self.model, vector, where, limit=limit)]
        )

    def execute(self, statement: str) -> None:
        """Change the database without the index."""
        with self.store.transaction() as tx:
            tx.execute(statement)

    @contextmanager
    def rolled_back(self) -> Iterator[Tx]:
        """A transaction that is rolled back."""
        try:
            with self.store.transaction() as tx:
                yield tx
                raise RolledBack  # noqa: TRY301
        except RolledBack:
            pass

    def _texts(self, index: Index, numbers: Sequence[int]) -> list[str]:
        stored = index.chunks(numbers)
        assert set(stored) == set(numbers)
        return [stored[number].text for number in numbers]

    @contextmanager
    def _in(self, tx: Tx | None) -> Iterator[Tx]:
        if tx is not None:
            yield tx
        else:
            with self.store.transaction() as own:
                yield own
