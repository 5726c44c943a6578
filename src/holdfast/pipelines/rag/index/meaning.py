"""Vectors in memory: the nearest are found by their signs first, then exactly.

The signs of a vector are one bit for each number. Those that differ from a question's in few places are near to it with
high probability; of a few thousand such candidates the exact nearness is computed. This reads 48 bytes of a vector of
384 numbers instead of 768, and a count of bits is the quickest thing a processor does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.pipelines.rag.index import Hit

CANDIDATES = 2000
"""Of how many the exact nearness is computed, at least: more where more than half as many are wanted."""
ROOM = 1024
NARROW = np.float32(2.0**112)
"""How many times smaller `_narrowed` makes numbers."""


class Vectors:
    """The vectors of what is seen, with the numbers of their chunks, documents and collections."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._words = -(-dimension // 64)
        self._count = 0
        self._vectors = np.zeros((ROOM, dimension), np.float16)
        self._signs = np.zeros((self._words, ROOM), np.uint64)  # lies by words: counting bits goes along the rows
        self._chunks = np.zeros(ROOM, np.int64)
        self._documents = np.zeros(ROOM, np.int64)
        self._collections = np.zeros(ROOM, np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._documents[: self._count]))

    def add(
        self, chunks: Sequence[int], documents: Sequence[int], collections: Sequence[int], vectors: Sequence[bytes]
    ) -> None:
        """Adds vectors, each as little-endian halves."""
        if not vectors:
            return
        start, stop = self._count, self._count + len(vectors)
        if stop > len(self._chunks):
            self._make_room(max(stop, 2 * len(self._chunks)))
        rows = np.frombuffer(b"".join(vectors), "<f2").reshape(-1, self._dimension)
        self._vectors[start:stop] = rows
        self._signs[:, start:stop] = self._signs_of(rows)
        self._chunks[start:stop] = chunks
        self._documents[start:stop] = documents
        self._collections[start:stop] = collections
        self._count = stop

    def drop(self, documents: Sequence[int]) -> None:
        """Drops the vectors of documents. Their room is used again when half of all is empty."""
        gone = np.isin(self._documents[: self._count], np.asarray(documents, np.int64))
        self._documents[: self._count][gone] = 0
        self._collections[: self._count][gone] = 0
        if 2 * len(self) < self._count:
            self._close_ranks()

    def nearest(
        self, vector: np.ndarray, *, limit: int, collection: int | None = None, among: Sequence[int] | None = None
    ) -> list[Hit]:
        """Finds the nearest vectors: of all, of a collection, or among those of some documents."""
        places = self._candidates(vector, self._seen(collection, among), max(CANDIDATES, 2 * limit))
        asked = vector.astype(np.float32) * NARROW
        nearness = np.einsum("ij,j->i", _narrowed(self._vectors[places]), asked)  # on this thread: @ waits for others
        best = _largest(nearness, limit)
        chosen = places[best]
        columns = self._chunks[chosen], self._documents[chosen], nearness[best]
        return [Hit(*hit) for hit in zip(*(column.tolist() for column in columns), strict=True)]

    def _seen(self, collection: int | None, among: Sequence[int] | None) -> np.ndarray:
        documents = self._documents[: self._count]
        if among is not None:
            return np.isin(documents, np.asarray(among, np.int64))
        return documents > 0 if collection is None else self._collections[: self._count] == collection

    def _candidates(self, vector: np.ndarray, seen: np.ndarray, enough: int) -> np.ndarray:
        if np.count_nonzero(seen) <= enough:
            return np.flatnonzero(seen)
        differing = self._differing(vector)
        differing[~seen] = self._dimension + 1
        reach = np.cumsum(np.bincount(differing, minlength=self._dimension + 2))
        far = int(np.searchsorted(reach, enough))  # the least distance within which there are enough
        return np.flatnonzero(differing <= min(far, self._dimension))[: 4 * enough]

    def _differing(self, vector: np.ndarray) -> np.ndarray:
        """Counts the signs in which each vector differs from a question's."""
        asked = self._signs_of(vector[None, :])
        differing = np.zeros(self._count, np.uint16)
        for row, word in zip(self._signs, asked, strict=True):
            differing += np.bitwise_count(row[: self._count] ^ word)
        return differing

    def _signs_of(self, rows: np.ndarray) -> np.ndarray:
        bits = np.packbits(rows > 0, axis=1)
        padded = np.zeros((len(rows), 8 * self._words), np.uint8)
        padded[:, : bits.shape[1]] = bits
        return padded.view(np.uint64).T

    def _make_room(self, rows: int) -> None:
        more = rows - len(self._chunks)
        self._vectors = np.concatenate([self._vectors, np.zeros((more, self._dimension), np.float16)])
        self._signs = np.concatenate([self._signs, np.zeros((self._words, more), np.uint64)], axis=1)
        for name in ("_chunks", "_documents", "_collections"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, np.int64)]))

    def _close_ranks(self) -> None:
        stay = np.flatnonzero(self._documents[: self._count])
        self._signs[:, : len(stay)] = self._signs[:, stay]
        for name in ("_vectors", "_chunks", "_documents", "_collections"):
            rows = getattr(self, name)
            rows[: len(stay)] = rows[stay]
        self._count = len(stay)


def _narrowed(halves: np.ndarray) -> np.ndarray:
    """Gives finite halves as floats, NARROW times too small, by moving their bits: six times as fast as a conversion.

    The two keep sign, exponent and fraction in the same order, and count exponents from 112 apart.
    """
    bits = halves.view(np.int16).astype(np.int32)  # copies the sign into the upper half
    bits <<= 13
    bits &= np.int32(-0x70002000)  # the sign, five bits of exponent and ten of fraction
    return bits.view(np.float32)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Gives the places of the largest values, the largest first."""
    if len(values) > count:
        top = np.argpartition(-values, count)[:count]
        return top[np.argsort(-values[top], kind="stable")]
    return np.argsort(-values, kind="stable")
