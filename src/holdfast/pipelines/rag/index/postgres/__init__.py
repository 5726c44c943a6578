"""The index in PostgreSQL, in the same database as the checkpoints: full text by tsvector, vectors by pgvector."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from holdfast.core.codec import encode_json
from holdfast.core.errors import StoreError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import Drawn, Entry, Hit, Model, Name, Place, Stored, Where, entered, plain
from holdfast.pipelines.rag.index.postgres.globs import as_regex
from holdfast.pipelines.rag.index.postgres.schema import SQL, NoPgvector, number_of, prepare
from holdfast.pipelines.rag.index.postgres.words import Vocabulary, expressions
from holdfast.pipelines.rag.model import Chunk
from holdfast.stores.postgres.connection import Connections, Db

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NoPgvector", "PostgresIndex"]

FEW = 5000
"""Of how many chunks all are compared. Among more, the index of vectors looks."""
SEARCH = """
set local hnsw.ef_search = {effort};
set local hnsw.iterative_scan = 'strict_order';
set local hnsw.max_scan_tuples = 50000
"""
"""How thoroughly the index of vectors looks, and that it goes on while a filter leaves too few."""
EFFORT, MOST_EFFORT = 200, 1000
NO_NEW_CHUNKS = "lock table rag_chunk in share mode"
"""Else somebody whose chunk is not committed yet finds its vector known, and it is gone when the chunk is there."""
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class PostgresIndex:
    """The index of a fleet."""

    def __init__(self, url: str) -> None:
        self._db = Connections(url)
        self._models: dict[Model, int] = {}
        self._vocabulary = Vocabulary()

    def prepare(self, tx: Tx) -> None:
        prepare(tx)

    # writing

    def add(self, tx: Tx, entry: Entry, chunks: Sequence[Chunk]) -> None:
        version = {"document_id": self._enter(tx, entry), "version": entry.version}
        columns = {
            "pages": [one.page for one in chunks],
            "starts": [one.start for one in chunks],
            "stops": [one.end for one in chunks],
            "hashes": [one.hash for one in chunks],
            "texts": [plain(one.text) for one in chunks],
            "titles": [plain(one.title) for one in chunks],
        }
        tx.execute(SQL["add_chunks"], version | columns)
        if chunks and chunks[-1].last:
            tx.execute(SQL["chunked"], version)

    def _enter(self, tx: Tx, entry: Entry) -> int:
        if entry.about is None:
            found = self._find(tx, entry.name)
            return entered([found] if found else [], entry.name)[0]
        coming = encode_json(asdict(entry.about) | {"metadata": entry.metadata, "version": entry.version})
        said = asdict(entry.name) | {"coming": _NUL.sub(r"\1\\ufffd", coming)}
        return entered(tx.execute(SQL["enter"], said).fetchall(), entry.name)[0]

    def remember(self, tx: Tx, model: Model, vectors: Mapping[bytes, bytes]) -> None:
        if vectors:
            columns = {"hashes": [*vectors], "vectors": [_literal(halves) for halves in vectors.values()]}
            tx.execute(_of(number_of(tx, model), SQL["remember"]), columns)

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
        found = self._find(tx, name)
        here = {"document_id": found[0] if found else None}
        shown = tx.execute(SQL["show"], here).fetchall()
        if not shown:
            return  # it had no text at all, and no chunk
        version = here | {"version": shown[0][0]}
        tx.execute(SQL["mean"], version | {"model_id": number_of(tx, model)})
        tx.execute(SQL["outdated_chunks"], version)

    def forget(self, tx: Tx, name: Name) -> None:
        found = self._find(tx, name)
        if found is None:
            return
        here = {"document_id": found[0], "version": None}
        tx.execute(SQL["forget_meaning"], here)
        tx.execute(SQL["outdated_chunks"], here)
        tx.execute(SQL["forget"], here)

    def rename(self, tx: Tx, name: Name, *, to: str) -> None:
        found = self._find(tx, name)
        if found is None or to == name.key:
            return
        self.forget(tx, replace(name, key=to))
        tx.execute(SQL["rename"], {"document_id": found[0], "key": to})

    def _find(self, tx: Tx, name: Name) -> Any:
        return tx.execute(SQL["find"], asdict(name)).fetchone()

    # reading

    def known(self, model: Model, hashes: Sequence[bytes]) -> set[bytes]:
        number = self._number(model)
        if number is None or not hashes:
            return set()
        return {row[0] for row in self._all(_of(number, SQL["known"]), {"hashes": list(hashes)})}

    def has_words(self, name: Name, *, chunks: int) -> bool:
        return not chunks or self._count(SQL["has_words"], asdict(name)) == chunks

    def has_vectors(self, name: Name, *, model: Model, chunks: int) -> bool:
        number = self._number(model)
        if not chunks or number is None:
            return not chunks
        return self._count(_of(number, SQL["has_vectors"]), asdict(name)) >= chunks

    def shows(self, name: Name, *, model: Model, chunks: int) -> bool:
        asked = asdict(name) | {"model_id": self._number(model)}
        return not chunks or self._count(SQL["shows"], asked) == 1

    def _count(self, question: str, asked: dict[str, Any]) -> int:
        return int(self._all(question, asked)[0][0])

    def complete(self, collection: str, *, model: Model) -> bool:
        rows = self._all(SQL["complete"], {"collection": collection, "model_id": self._number(model)})
        return bool(rows[0][0])

    def by_words(self, question: str, where: Where, *, limit: int) -> list[Hit]:
        asked = self._about(where)

        def look(db: Db) -> list[Hit]:
            hits: list[Hit] = []
            for expression in expressions(db, question, self._vocabulary, enough=limit):
                rows = db.execute(SQL["by_words"].asking(asked), asked | expression | {"limit": limit}).fetchall()
                hits = [Hit(*row) for row in rows]
                if len(hits) == limit or not asked:
                    break  # else the rare words may all stand in what was not asked about
            return hits

        return self._db.reading(look)

    def by_meaning(self, model: Model, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        number = self._number(model)
        if number is None:
            return []
        asked = self._about(where)
        near = {"vector": _numbers(vector.tolist()), "model_id": number, "limit": limit}

        def look(db: Db) -> list[Hit]:
            if asked and db.execute(SQL["reach"].asking(asked), asked | {"most": FEW}).fetchall()[0][0] < FEW:
                statement = SQL["by_meaning_of_few"]
            else:
                statement = SQL["by_meaning"]
                db.execute(SEARCH.format(effort=min(max(EFFORT, 2 * limit), MOST_EFFORT)))
            rows = db.execute(_of(number, statement.asking(asked)), asked | near).fetchall()
            return [Hit(*row) for row in rows]

        return self._db.reading_one_moment(look)

    def vectors(self, model: Model, numbers: Sequence[int]) -> dict[int, bytes]:
        number = self._number(model)
        if number is None:
            return {}
        rows = self._all(_of(number, SQL["vectors"]), {"ids": list(numbers)}, binary=True)
        return {chunk: _halves(vector, model) for chunk, vector in rows}

    def chunks(self, numbers: Sequence[int]) -> dict[int, Stored]:
        return {
            number: Stored(Name(*name), *rest)
            for number, *name, kind, title, metadata, page, start, end, text in self._all(
                SQL["chunks"], {"ids": list(numbers)}
            )
            for rest in [(kind, title, metadata, page, start, end, text)]
        }

    def close(self) -> None:
        self._db.close()

    # for what stands on it

    def number(self, name: Name) -> int | None:
        rows = self._all(SQL["find"], asdict(name))
        return rows[0][0] if rows else None

    def beginning(self, name: Name) -> list[Name]:
        return [replace(name, key=key) for (key,) in self._all(SQL["beginning"], asdict(name))]

    def drawn(self, name: Name, *, model: Model) -> Drawn | None:
        rows = self._all(SQL["find"], asdict(name))
        if not rows or rows[0][2] is None:
            return None
        return self.version(rows[0][0], rows[0][2], model=model)

    def mean(self, tx: Tx, document: int, version: int, *, model: Model) -> None:
        here = {"document_id": document, "version": version}
        if tx.execute(SQL["learn"], here).fetchone():
            tx.execute(SQL["mean"], here | {"model_id": number_of(tx, model)})

    def version(self, document: int, version: int, *, model: Model) -> Drawn:
        number = self._number(model)
        if number is None:
            return Drawn(document, version, [])
        chunks = self._all(_of(number, SQL["drawn"]), {"document_id": document, "version": version}, binary=True)
        return Drawn(document, version, [(position, page, _halves(vector, model)) for position, page, vector in chunks])

    def seen(self, model: Model, places: Sequence[Place]) -> dict[Place, int]:
        documents, versions, positions = zip(*places, strict=True) if places else ((), (), ())
        asked = {"documents": [*documents], "versions": [*versions], "positions": [*positions]}
        rows = self._all(SQL["seen"], asked | {"model_id": self._number(model)})
        return {(document, version, position): chunk for document, version, position, chunk in rows}

    def versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        rows = self._all(SQL["versions"], {"documents": list(documents)})
        return {number: {one for one in alive if one is not None} for number, *alive in rows}

    def documents(self, where: Where) -> list[int]:
        asked = where.asked()
        if "path" in asked:
            asked["path"] = as_regex(asked["path"])
        if "metadata" in asked:
            asked["metadata"] = _NUL.sub(r"\1\\ufffd", asked["metadata"])
        return [row[0] for row in self._all(SQL["allowed"].asking(asked), asked)]

    def ask(self, statement: str, *values: Any) -> list[Any]:
        ask: Callable[[Db], list[Any]] = lambda db: db.execute(statement.replace("?", "%s"), values).fetchall()  # noqa: E731
        return self._db.reading(ask)

    # for tidying up

    def unused(self, model: Model, *, after: bytes, limit: int) -> list[bytes]:
        number = self._number(model)
        asked = {"after": after, "limit": limit}
        return [] if number is None else [row[0] for row in self._all(_of(number, SQL["unused"]), asked)]

    def shed(self, tx: Tx, model: Model, contents: Sequence[bytes]) -> int:
        tx.execute(NO_NEW_CHUNKS)
        removed: int = tx.execute(_of(number_of(tx, model), SQL["shed"]), {"hashes": list(contents)}).rowcount
        return removed

    def lost(self, *, limit: int) -> list[int]:
        return [row[0] for row in self._all(SQL["lost"], {"limit": limit})]

    def discard(self, tx: Tx, document: int) -> None:
        here = {"document_id": document, "version": None}
        if not tx.execute("select 1 from rag_document where id = %(document_id)s", here).fetchone():
            tx.execute(SQL["forget_meaning"], here)
            tx.execute(SQL["outdated_chunks"], here)

    def _about(self, where: Where) -> dict[str, Any]:
        """Gives the conditions of a question: none, a collection, or the documents that it is about."""
        return {"documents": self.documents(where)} if where.names_documents else where.asked()

    def _number(self, model: Model) -> int | None:
        """Gives the number of a model that was committed; numbers never change."""
        if model not in self._models:
            rows = self._all(SQL["model"], {"name": model.name})
            if not rows:
                return None
            self._models[model] = rows[0][0]
        return self._models[model]

    def _all(self, statement: str, parameters: Mapping[str, Any], *, binary: bool = False) -> list[tuple[Any, ...]]:
        def ask(db: Db) -> list[tuple[Any, ...]]:
            return db.execute(statement, parameters, binary=binary).fetchall()

        return self._db.reading(ask)


def _of(model_id: int, statement: str) -> str:
    """Gives a statement about the vectors of one model."""
    return statement.replace("{model_id}", str(model_id))


def _literal(halves: bytes) -> str:
    import numpy as np

    return _numbers(np.frombuffer(halves, "<f2").tolist())


def _numbers(values: Sequence[float]) -> str:
    return f"[{','.join(map(str, values))}]"


def _halves(sent: bytes, model: Model) -> bytes:
    """Gives a vector as pgvector sends it: after four bytes of what is known, its numbers the other way round.

    Any bytes could be taken for halves, so those of another type or length are refused.
    """
    import numpy as np

    if len(sent) != 4 + 2 * model.dimension:
        raise StoreError(
            f"a vector of {model.name} is kept in {len(sent):,} bytes, and {model.dimension:,} halves are "
            f"{4 + 2 * model.dimension:,}: its table is not as it was made"
        )
    return np.frombuffer(sent, ">f2", offset=4).astype("<f2").tobytes()
