"""The index in SQLite, in the same file as the checkpoints: full text by FTS5, vectors as rows, searched in memory."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import Drawn, Entry, Hit, Model, Name, Place, Stored, Where, entered
from holdfast.pipelines.rag.index.sqlite.statements import SQL
from holdfast.pipelines.rag.index.sqlite.stems import Stems
from holdfast.pipelines.rag.index.words import match, words_of
from holdfast.pipelines.rag.model import About, Chunk
from holdfast.stores import files_of
from holdfast.stores.queries import in_statements

if TYPE_CHECKING:
    import numpy as np

    from holdfast.pipelines.rag.index.sqlite.loaded import Loaded

HERE = Path(__file__).parent
COMMON, STALE = 500, 500
"""From how many chunks on a word counts as common, and for how many changes that is believed."""
TOKENIZER = "porter unicode61 remove_diacritics 2"


class SqliteIndex:
    """The index that is there without a server."""

    def __init__(self, url: str) -> None:
        self._path = files_of(url)[0]
        self._reading = threading.local()
        self._connections: list[tuple[int, sqlite3.Connection]] = []
        self._lock = threading.Lock()
        self._models: dict[Model, int] = {}
        self._stems: Stems | None = None
        self._vectors: dict[int, Loaded] = {}
        self._common: dict[str, int] = {}
        self._common_at = 0

    def prepare(self, tx: Tx) -> None:
        for statement in (HERE / "schema.sql").read_text().split(";\n"):
            tx.execute(statement)

    # writing

    def add(self, tx: Tx, entry: Entry, chunks: Sequence[Chunk]) -> None:
        if entry.about is not None:
            self._enter(tx, entry, entry.about)
        asked = asdict(entry.name) | {"version": entry.version}
        document_id, last, at = entered(tx.execute(SQL["next_chunk"], asked).fetchall(), entry.name)
        rows: list[Any] = []
        words: list[Any] = []
        for number, (place, chunk) in enumerate(enumerate(chunks, at), last + 1):
            rows += (number, document_id, entry.version, place, chunk.page, chunk.start, chunk.end, chunk.hash)
            words.append((number, chunk.text, chunk.title))
        _write(tx, "add_chunk", rows, width=8)
        tx.executemany(SQL["add_words"], words)
        if chunks and chunks[-1].last:
            tx.execute(SQL["chunked"], {"document_id": document_id, "version": entry.version})

    def _enter(self, tx: Tx, entry: Entry, about: About) -> None:
        coming = encode_json(asdict(about) | {"metadata": entry.metadata, "version": entry.version})
        tx.execute(SQL["enter"], asdict(entry.name) | {"coming": coming})

    def remember(self, tx: Tx, model: Model, vectors: Mapping[bytes, bytes]) -> None:
        number = self._number(tx, model)
        rows = [value for content, vector in vectors.items() for value in (number, content, vector)]
        _write(tx, "remember", rows, width=3)

    # the vectors are searched where they are remembered

    def reach(self, collection: str, *, model: Model) -> None:
        pass

    def publish(self, name: Name, *, model: Model) -> None:
        pass

    def bring(self, collection: str, *, model: Model) -> int:  # noqa: ARG002
        return 0

    def tend(self, collection: str, *, model: Model) -> None:
        pass

    # what searches see

    def show(self, tx: Tx, name: Name, *, model: Model) -> None:
        found = tx.execute(SQL["ready"], asdict(name)).fetchone()
        if found is None:
            return  # it had no text at all, and no chunk
        document_id, version, others = found
        tx.execute(SQL["show"], {"document_id": document_id})
        tx.execute(SQL["mean"], {"document_id": document_id, "model_id": self._number(tx, model), "version": version})
        if others:
            self._drop_all_but(tx, document_id, version)

    def forget(self, tx: Tx, name: Name) -> None:
        found = self._find(tx, name)
        if found is None:
            return
        here = {"document_id": found[0]}
        tx.execute(SQL["hide"], here)
        tx.execute(SQL["forget_meaning"], here)
        self._drop_all_but(tx, found[0], None)

    def rename(self, tx: Tx, name: Name, *, to: str) -> None:
        found = self._find(tx, name)
        if found is None or to == name.key:
            return
        self.forget(tx, replace(name, key=to))
        tx.execute(SQL["rename"], {"document_id": found[0], "key": to})

    def _find(self, tx: Tx, name: Name) -> Any:
        return tx.execute(SQL["find"], asdict(name)).fetchone()

    def _drop_all_but(self, tx: Tx, document_id: int, version: int | None) -> None:
        others = {"document_id": document_id, "version": version}
        tx.execute(SQL["outdated_words"], others)
        tx.execute(SQL["outdated_chunks"], others)

    def _number(self, tx: Tx, model: Model) -> int:
        """Gives the number of a model. One that is not committed yet is asked for again: it may be rolled back."""
        if model in self._models:
            return self._models[model]
        asked = {"name": model.name, "dimension": model.dimension}
        known = tx.execute(SQL["model"], asked).fetchone() or tx.execute(SQL["add_model"], asked).fetchone()
        number, dimension = known
        if dimension != model.dimension:
            raise ValueError(
                f"{model.name} gave vectors of {dimension} numbers before, and gives {model.dimension} now"
            )
        return int(number)

    # reading

    def known(self, model: Model, hashes: Sequence[bytes]) -> set[bytes]:
        number = self._known_number(model)
        if number is None or not hashes:
            return set()
        rows = self._db.execute(SQL["known"].for_rows(len(hashes)), [number, *hashes]).fetchall()
        return {row[0] for row in rows}

    def has_words(self, name: Name, *, chunks: int) -> bool:
        return not chunks or self._count("has_words", name) == chunks

    def has_vectors(self, name: Name, *, model: Model, chunks: int) -> bool:
        return not chunks or self._count("has_vectors", name, model_id=self._known_number(model)) >= chunks

    def shows(self, name: Name, *, model: Model, chunks: int) -> bool:
        return not chunks or self._count("shows", name, model_id=self._known_number(model)) == 1

    def _count(self, query: str, name: Name, **more: Any) -> int:
        return int(self._db.execute(SQL[query], asdict(name) | more).fetchone()[0])

    def complete(self, collection: str, *, model: Model) -> bool:
        asked = {"collection": collection, "model_id": self._known_number(model)}
        return bool(self._db.execute(SQL["complete"], asked).fetchone()[0])

    def by_words(self, question: str, where: Where, *, limit: int) -> list[Hit]:
        asked: dict[str, Any] = {"limit": limit}
        if where.names_documents:
            asked["documents"] = encode_json(self.documents(where))
        elif where.collection:
            asked |= where.asked()
        hits: list[Hit] = []
        for expression in self._expressions(question, enough=limit):
            rows = self._searched.execute(SQL["by_words"].asking(asked), asked | {"words": expression}).fetchall()
            hits = [Hit(*row) for row in rows]
            if len(hits) == limit or len(asked) == 1:
                break  # else the rare words may all stand in what was not asked about
        return hits

    def _expressions(self, question: str, *, enough: int) -> list[str]:
        words = words_of(question)
        if self._stems is None:
            self._stems = Stems(TOKENIZER)
        return match(words, self._stems.of(words), self._occurrences, enough=enough)

    def by_meaning(self, model: Model, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        number = self._known_number(model)
        if number is None:
            return []
        with self._lock:
            if number not in self._vectors:
                from holdfast.pipelines.rag.index.sqlite.loaded import Loaded

                self._vectors[number] = Loaded(number, model.dimension)
            loaded = self._vectors[number]
        if where.names_documents:
            return loaded.nearest(self._searched, vector, limit=limit, among=self.documents(where))
        if where.collection:
            return loaded.nearest(self._searched, vector, limit=limit, collection=self._collection(where))
        return loaded.nearest(self._searched, vector, limit=limit)

    def vectors(self, model: Model, numbers: Sequence[int]) -> dict[int, bytes]:
        asked = {"model_id": self._known_number(model), "ids": encode_json(list(numbers))}
        return dict(self._searched.execute(SQL["vectors"], asked).fetchall())

    def chunks(self, numbers: Sequence[int]) -> dict[int, Stored]:
        rows = self._searched.execute(SQL["chunks"], {"ids": encode_json(list(numbers))}).fetchall()
        return {
            number: Stored(Name(*name), kind, title, decode_json(metadata), page, start, end, text)
            for number, *name, kind, title, metadata, page, start, end, text in rows
        }

    def close(self) -> None:
        with self._lock:
            for pid, connection in self._connections:
                if pid == os.getpid():
                    connection.close()
            self._connections.clear()
            self._vectors.clear()
            self._reading = threading.local()

    # for what stands on it

    def number(self, name: Name) -> int | None:
        found = self._db.execute(SQL["find"], asdict(name)).fetchone()
        return found[0] if found else None

    def beginning(self, name: Name) -> list[Name]:
        return [replace(name, key=key) for (key,) in self._db.execute(SQL["beginning"], asdict(name)).fetchall()]

    def drawn(self, name: Name, *, model: Model) -> Drawn | None:
        found = self._db.execute(SQL["find"], asdict(name)).fetchone()
        if found is None or found[2] is None:
            return None
        return self.version(found[0], found[2], model=model)

    def mean(self, tx: Tx, document: int, version: int, *, model: Model) -> None:
        here = {"document_id": document, "version": version}
        if tx.execute(SQL["learn"], here).rowcount:
            tx.execute(SQL["mean"], here | {"model_id": self._number(tx, model)})

    def version(self, document: int, version: int, *, model: Model) -> Drawn:
        asked = {"document_id": document, "version": version, "model_id": self._known_number(model)}
        return Drawn(document, version, self._db.execute(SQL["drawn"], asked).fetchall())

    def seen(self, model: Model, places: Sequence[Place]) -> dict[Place, int]:
        asked = {"model_id": self._known_number(model), "places": encode_json(places)}
        return {(*place,): number for *place, number in self._db.execute(SQL["seen"], asked).fetchall()}

    def versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        rows = self._db.execute(SQL["versions"], {"documents": encode_json(list(documents))}).fetchall()
        return {number: {one for one in alive if one is not None} for number, *alive in rows}

    def documents(self, where: Where) -> list[int]:
        asked = where.asked()
        return [row[0] for row in self._db.execute(SQL["allowed"].asking(asked), asked).fetchall()]

    def ask(self, statement: str, *values: Any) -> list[Any]:
        return self._db.execute(statement, values).fetchall()

    # for tidying up

    def unused(self, model: Model, *, after: bytes, limit: int) -> list[bytes]:
        asked = {"model_id": self._known_number(model), "after": after, "limit": limit}
        return [row[0] for row in self._db.execute(SQL["unused"], asked).fetchall()]

    def shed(self, tx: Tx, model: Model, contents: Sequence[bytes]) -> int:
        asked = [self._number(tx, model), *contents]
        return int(tx.execute(SQL["shed"].for_rows(len(contents)), asked).rowcount)

    def lost(self, *, limit: int) -> list[int]:
        return [row[0] for row in self._db.execute(SQL["lost"], {"limit": limit}).fetchall()]

    def discard(self, tx: Tx, document: int) -> None:
        if not tx.execute("select 1 from rag_document where id = ?", (document,)).fetchone():
            tx.execute(SQL["forget_meaning"], {"document_id": document})
            self._drop_all_but(tx, document, None)

    def _collection(self, where: Where) -> int:
        row = self._db.execute("select id from rag_collection where name = :collection", where.asked()).fetchone()
        return row[0] if row else -1

    def _occurrences(self, stems: Sequence[str]) -> dict[str, int]:
        """Counts the chunks that words stand in. Of common words that is slow, so it is remembered for a while."""
        ((now,),) = self._searched.execute("select coalesce(max(changed), 0) from rag_document").fetchall()
        if now > self._common_at + STALE:
            self._common, self._common_at = {}, now
        common = self._common
        asked = [stem for stem in stems if stem not in common]
        counts = dict(self._searched.execute(SQL["occurrences"], {"terms": encode_json(asked)}).fetchall())
        common |= {stem: count for stem, count in counts.items() if count > COMMON}
        return counts | {stem: common[stem] for stem in stems if stem in common}

    def _known_number(self, model: Model) -> int | None:
        if model not in self._models:
            known = self._db.execute(SQL["model"], asdict(model)).fetchone()
            if known is None or known[1] != model.dimension:
                return None
            self._models[model] = known[0]
        return self._models[model]

    @property
    def _db(self) -> sqlite3.Connection:
        """A connection of this thread's own, which only reads. A forked child must not use its parent's."""
        mine: tuple[int, sqlite3.Connection] | None = getattr(self._reading, "mine", None)
        if mine is None or mine[0] != os.getpid():
            address = self._path.resolve().as_uri() + "?mode=ro"
            db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            db.execute("pragma query_only = on")
            mine = self._reading.mine = (os.getpid(), db)
            self._reading.mapped = False
            with self._lock:
                self._connections.append(mine)
        return mine[1]

    @property
    def _searched(self) -> sqlite3.Connection:
        """The same for searches, which read the file as memory. Who only ingests need not look as large as the file."""
        db = self._db
        if not self._reading.mapped:
            db.execute("pragma mmap_size = 1073741824")
            self._reading.mapped = True
        return db


def _write(tx: Tx, verb: str, rows: Sequence[Any], *, width: int) -> None:
    """Writes many rows in few statements: each one is a turn in which another thread may hold up the commit."""
    for statement, parameters in in_statements(SQL[verb], (), rows, width):
        tx.execute(statement, parameters)
