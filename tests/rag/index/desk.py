"""An index with a store beside it, and the verbs that tests of indexes say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.collections import Collection, create
from holdfast.pipelines.rag.embedders.hashing import Hashing
from holdfast.pipelines.rag.index import Entry, Index, Model, Name, Where
from holdfast.pipelines.rag.model import About, Chunk
from holdfast.stores.protocol import Store

PAPERS = "papers"
NOTES = "notes"
ALL = Where()
TEXT = About("text", "")


class RolledBack(Exception):
    """What a test raises to have its transaction undone."""


class Desk:
    """Adds, shows, finds. `another` gives an index of the same data, as another process would open it."""

    def __init__(self, store: Store, index: Index, another: Callable[[], Index], dimension: int = 64) -> None:
        self.store = store
        self.index = index
        self.another = another
        self.embedder = Hashing(dimension)
        self.model = Model(self.embedder.name, dimension)
        with store.transaction() as tx:
            index.prepare(tx)
            index.prepare(tx)  # what is there already is left alone
            create(tx, Collection(PAPERS))
            create(tx, Collection(NOTES))

    def add(
        self,
        key: str,
        texts: Sequence[str],
        *,
        version: int = 1,
        collection: str = PAPERS,
        source: str = "/folder",
        about: About | None = TEXT,
        last: bool = True,
        metadata: Mapping[str, Any] | None = None,
        tx: Tx | None = None,
    ) -> None:
        """Adds chunks. The first ones of a version say what the document is, as those of the pipeline do."""
        name = Name(collection, source, key)
        title = about.title if about else ""
        chunks = [
            Chunk.holding(
                text,
                page=1 + place,
                title=title,
                about=about if not place else None,
                last=last and place == len(texts) - 1,
            )
            for place, text in enumerate(texts)
        ]
        entry = Entry(name=name, version=version, about=about, metadata=metadata or {})
        with self._in(tx) as inner:
            self.index.add(inner, entry, chunks)

    def remember(self, *texts: str, title: str = "", tx: Tx | None = None) -> None:
        """Remembers the vectors of texts."""
        contents = [Chunk.holding(text, title=title) for text in texts]
        rows = self.embedder.embed([one.content for one in contents])
        halves = {one.hash: row.astype("<f2").tobytes() for one, row in zip(contents, rows, strict=True)}
        with self._in(tx) as inner:
            self.index.remember(inner, self.model, halves)

    def publish(self, key: str, *, collection: str = PAPERS, source: str = "/folder") -> None:
        self.index.publish(Name(collection, source, key), model=self.model)

    def show(self, key: str, *, collection: str = PAPERS, source: str = "/folder", tx: Tx | None = None) -> None:
        with self._in(tx) as inner:
            self.index.show(inner, Name(collection, source, key), model=self.model)

    def ingest(self, key: str, *texts: str, version: int = 1, **more: Any) -> None:
        """Adds a version whole, as the pipeline does in several transactions."""
        about = more.get("about") or TEXT
        place = {name: more[name] for name in ("collection", "source") if name in more}
        self.add(key, texts, version=version, **more)
        self.remember(*texts, title=about.title)
        self.publish(key, **place)
        self.show(key, **place)

    def forget(self, key: str, *, tx: Tx | None = None) -> None:
        with self._in(tx) as inner:
            self.index.forget(inner, Name(PAPERS, "/folder", key))

    def rename(self, key: str, *, to: str, tx: Tx | None = None) -> None:
        with self._in(tx) as inner:
            self.index.rename(inner, Name(PAPERS, "/folder", key), to=to)

    def holds(self, key: str, chunks: int, *, model: Model | None = None) -> bool:
        name, model = Name(PAPERS, "/folder", key), model or self.model
        return (
            self.index.has_words(name, chunks=chunks)
            and self.index.has_vectors(name, model=model, chunks=chunks)
            and self.index.shows(name, model=model, chunks=chunks)
        )

    def words(self, question: str, where: Where = ALL, *, limit: int = 100) -> list[str]:
        """Gives the texts that are found by words, the best first."""
        return self._texts(self.index, [hit.chunk for hit in self.index.by_words(question, where, limit=limit)])

    def meaning(self, question: str, where: Where = ALL, *, limit: int = 100, index: Index | None = None) -> list[str]:
        """Gives the texts that are found by meaning, the nearest first."""
        index = index or self.index
        vector = self.embedder.embed_query(question)
        return self._texts(index, [hit.chunk for hit in index.by_meaning(self.model, vector, where, limit=limit)])

    def nearest(self, vector: np.ndarray, where: Where = ALL, *, limit: int = 10) -> list[str]:
        return self._texts(
            self.index, [hit.chunk for hit in self.index.by_meaning(self.model, vector, where, limit=limit)]
        )

    def execute(self, statement: str) -> None:
        """Does something behind the index's back."""
        with self.store.transaction() as tx:
            tx.execute(statement)

    @contextmanager
    def rolled_back(self) -> Iterator[Tx]:
        """A transaction that comes to nothing."""
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
