"""Find the nearest of many vectors in memory: select candidates by their signs, then compare those exactly.

The visible vectors of a model are read from SQLite once. `VectorCache` updates them with what changed.

The signs of a vector are one bit for each number. A vector whose signs differ from the question's in few places is near
to it with high probability. The exact similarity is computed for a few thousand such candidates. This reads 48 bytes
instead of 768 for a vector of 384 numbers, and processors count bits very fast.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.core.codec import encode_json
from holdfast.pipelines.rag.index.values import Hit
from holdfast.pipelines.rag.sql_statements import index_statements

CANDIDATES = 2000
"""Vectors that are compared exactly, at least. More, if more than half as many results are wanted."""
INITIAL_CAPACITY = 1024
SCALE = np.float32(2.0**112)
"""`_scaled_floats` returns numbers divided by this."""
SQL = index_statements("sqlite")
ROWS_AT_ONCE = 10_000
"""Rows that are fetched at a time."""


class Vectors:
    """Vectors in arrays, with the ids of their chunks, documents and collections. An id of 0 marks an empty row."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._sign_words = -(-dimension // 64)
        self._count = 0
        self._vectors = np.zeros((INITIAL_CAPACITY, dimension), np.float16)
        # one row for each 64 signs: bits are counted along rows
        self._signs = np.zeros((self._sign_words, INITIAL_CAPACITY), np.uint64)
        self._chunks = np.zeros(INITIAL_CAPACITY, np.int64)
        self._documents = np.zeros(INITIAL_CAPACITY, np.int64)
        self._collections = np.zeros(INITIAL_CAPACITY, np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._documents[: self._count]))

    def add(
        self, chunks: Sequence[int], documents: Sequence[int], collections: Sequence[int], vectors: Sequence[bytes]
    ) -> None:
        """Add vectors, each as little-endian 16-bit floats."""
        if not vectors:
            return
        start, stop = self._count, self._count + len(vectors)
        if stop > len(self._chunks):
            self._grow(max(stop, 2 * len(self._chunks)))
        rows = np.frombuffer(b"".join(vectors), "<f2").reshape(-1, self._dimension)
        self._vectors[start:stop] = rows
        self._signs[:, start:stop] = self._signs_of(rows)
        self._chunks[start:stop] = chunks
        self._documents[start:stop] = documents
        self._collections[start:stop] = collections
        self._count = stop

    def drop(self, documents: Sequence[int]) -> None:
        """Remove the vectors of documents. The arrays are compacted when more than half of the rows are empty."""
        removed = np.isin(self._documents[: self._count], np.asarray(documents, np.int64))
        self._documents[: self._count][removed] = 0
        self._collections[: self._count][removed] = 0
        if 2 * len(self) < self._count:
            self._compact()

    def nearest(
        self, vector: np.ndarray, *, limit: int, collection: int | None = None, documents: Sequence[int] | None = None
    ) -> list[Hit]:
        """Return the nearest vectors, nearest first: of all, of a collection, or of some documents."""
        rows = self._candidates(vector, self._selected(collection, documents), max(CANDIDATES, 2 * limit))
        scaled = vector.astype(np.float32) * SCALE
        # einsum runs on this thread; @ would wait for the threads of the BLAS library
        similarity = np.einsum("ij,j->i", _scaled_floats(self._vectors[rows]), scaled)
        best = _largest(similarity, limit)
        chosen = rows[best]
        columns = self._chunks[chosen], self._documents[chosen], similarity[best]
        return [Hit(*hit) for hit in zip(*(column.tolist() for column in columns), strict=True)]

    def _selected(self, collection: int | None, documents: Sequence[int] | None) -> np.ndarray:
        """Return which rows a search looks at, as booleans."""
        documents_of_rows = self._documents[: self._count]
        if documents is not None:
            return np.isin(documents_of_rows, np.asarray(documents, np.int64))
        return documents_of_rows > 0 if collection is None else self._collections[: self._count] == collection

    def _candidates(self, vector: np.ndarray, selected: np.ndarray, enough: int) -> np.ndarray:
        """Return the rows to compare exactly: those whose signs differ least."""
        if np.count_nonzero(selected) <= enough:
            return np.flatnonzero(selected)
        distances = self._sign_distances(vector)
        distances[~selected] = self._dimension + 1
        within = np.cumsum(np.bincount(distances, minlength=self._dimension + 2))
        radius = int(np.searchsorted(within, enough))  # the smallest distance within which there are enough rows
        return np.flatnonzero(distances <= min(radius, self._dimension))[: 4 * enough]

    def _sign_distances(self, vector: np.ndarray) -> np.ndarray:
        """Count the signs in which each vector differs from the given one."""
        signs = self._signs_of(vector[None, :])
        distances = np.zeros(self._count, np.uint16)
        for row, word in zip(self._signs, signs, strict=True):
            distances += np.bitwise_count(row[: self._count] ^ word)
        return distances

    def _signs_of(self, rows: np.ndarray) -> np.ndarray:
        bits = np.packbits(rows > 0, axis=1)
        padded = np.zeros((len(rows), 8 * self._sign_words), np.uint8)
        padded[:, : bits.shape[1]] = bits
        return padded.view(np.uint64).T

    def _grow(self, rows: int) -> None:
        more = rows - len(self._chunks)
        self._vectors = np.concatenate([self._vectors, np.zeros((more, self._dimension), np.float16)])
        self._signs = np.concatenate([self._signs, np.zeros((self._sign_words, more), np.uint64)], axis=1)
        for name in ("_chunks", "_documents", "_collections"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, np.int64)]))

    def _compact(self) -> None:
        kept = np.flatnonzero(self._documents[: self._count])
        self._signs[:, : len(kept)] = self._signs[:, kept]
        for name in ("_vectors", "_chunks", "_documents", "_collections"):
            rows = getattr(self, name)
            rows[: len(kept)] = rows[kept]
        self._count = len(kept)


def _scaled_floats(halves: np.ndarray) -> np.ndarray:
    """Convert finite 16-bit floats to 32-bit floats divided by SCALE.

    It only moves bits, which is six times as fast as a conversion. Both formats have sign, exponent and fraction in the
    same order. Their exponents are biased 112 apart.
    """
    bits = halves.view(np.int16).astype(np.int32)  # copies the sign into the upper half
    bits <<= 13
    bits &= np.int32(-0x70002000)  # the sign, five bits of exponent and ten of fraction
    return bits.view(np.float32)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Return the positions of the largest values, largest first."""
    if len(values) > count:
        top = np.argpartition(-values, count)[:count]
        return top[np.argsort(-values[top], kind="stable")]
    return np.argsort(-values, kind="stable")


class VectorCache:
    """The visible vectors of one model. Threads may share one: its lock guards all fields."""

    def __init__(self, model_id: int, dimension: int) -> None:
        self._model_id = model_id
        self._vectors = Vectors(dimension)
        self._last_change = 0
        self._lock = threading.Lock()

    def nearest(
        self,
        db: sqlite3.Connection,
        vector: np.ndarray,
        *,
        limit: int,
        collection: int | None = None,
        documents: Sequence[int] | None = None,
    ) -> list[Hit]:
        """Read what changed since the last call, then find the nearest vectors.

        One thread at a time: arrays that grow may move in memory.
        """
        with self._lock:
            self._update(db)
            return self._vectors.nearest(vector, limit=limit, collection=collection, documents=documents)

    def _update(self, db: sqlite3.Connection) -> None:
        db.execute("begin")
        try:
            changed = db.execute(SQL["changed_documents"], {"since": self._last_change}).fetchall()
            if changed:
                self._read(db, [row[0] for row in changed])
                self._last_change = changed[-1][1]
        finally:
            db.execute("rollback")

    def _read(self, db: sqlite3.Connection, documents: Sequence[int]) -> None:
        params: dict[str, Any] = {"model_id": self._model_id}
        if self._last_change:
            self._vectors.drop(documents)
            params["documents"] = encode_json(list(documents))
        rows = db.execute(SQL["visible_vectors"].with_conditions(params), params)
        while batch := rows.fetchmany(ROWS_AT_ONCE):
            self._vectors.add(*zip(*batch, strict=True))
