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
ROOM = 1024


class Vectors:
    """The vectors of what is seen, with the numbers of their chunks and documents."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._words = -(-dimension // 64)
        self._count = 0
        self._vectors = np.zeros((ROOM, dimension), np.float16)
        self._signs = np.zeros((ROOM, self._words), np.uint64)
        self._chunks = np.zeros(ROOM, np.int64)
        self._documents = np.zeros(ROOM, np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._documents[: self._count]))

    def add(self, chunks: Sequence[int], documents: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Adds vectors, each as little-endian halves."""
        if not vectors:
            return
        start, stop = self._count, self._count + len(vectors)
        if stop > len(self._chunks):
            self._make_room(max(stop, 2 * len(self._chunks)))
        rows = np.frombuffer(b"".join(vectors), "<f2").reshape(-1, self._dimension)
        self._vectors[start:stop] = rows
        self._signs[start:stop] = self._signs_of(rows)
        self._chunks[start:stop] = chunks
        self._documents[start:stop] = documents
        self._count = stop

    def drop(self, documents: Sequence[int]) -> None:
        """Drops the vectors of documents. Their room is used again when half of all is empty."""
        here = self._documents[: self._count]
        here[np.isin(here, np.asarray(documents, np.int64))] = 0
        if 2 * len(self) < self._count:
            self._close_ranks()

    def nearest(self, vector: np.ndarray, *, limit: int, among: Sequence[int] | None = None) -> list[Hit]:
        """Finds the nearest vectors, among those of some documents or of all."""
        documents = self._documents[: self._count]
        seen = documents > 0 if among is None else np.isin(documents, np.asarray(among, np.int64))
        places = self._candidates(vector, seen)
        nearness = self._vectors[places].astype(np.float32) @ vector
        best = _largest(nearness, limit)
        chosen = places[best]
        hits = zip(self._chunks[chosen].tolist(), documents[chosen].tolist(), nearness[best].tolist(), strict=True)
        return [Hit(*hit) for hit in hits]

    def _candidates(self, vector: np.ndarray, seen: np.ndarray) -> np.ndarray:
        places = np.flatnonzero(seen)
        if len(places) <= CANDIDATES:
            return places
        asked = self._signs_of(vector[None, :])[0]
        differing = np.bitwise_count(self._signs[: self._count] ^ asked).sum(axis=1, dtype=np.uint16)
        differing[~seen] = np.iinfo(np.uint16).max
        return np.argpartition(differing, CANDIDATES)[:CANDIDATES]

    def _signs_of(self, rows: np.ndarray) -> np.ndarray:
        bits = np.packbits(rows > 0, axis=1)
        padded = np.zeros((len(rows), 8 * self._words), np.uint8)
        padded[:, : bits.shape[1]] = bits
        return padded.view(np.uint64)

    def _make_room(self, rows: int) -> None:
        more = rows - len(self._chunks)
        self._vectors = np.concatenate([self._vectors, np.zeros((more, self._dimension), np.float16)])
        self._signs = np.concatenate([self._signs, np.zeros((more, self._words), np.uint64)])
        self._chunks = np.concatenate([self._chunks, np.zeros(more, np.int64)])
        self._documents = np.concatenate([self._documents, np.zeros(more, np.int64)])

    def _close_ranks(self) -> None:
        stay = np.flatnonzero(self._documents[: self._count])
        for name in ("_vectors", "_signs", "_chunks", "_documents"):
            rows = getattr(self, name)
            rows[: len(stay)] = rows[stay]
        self._count = len(stay)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Gives the places of the largest values, the largest first."""
    if len(values) > count:
        top = np.argpartition(-values, count)[:count]
        return top[np.argsort(-values[top], kind="stable")]
    return np.argsort(-values, kind="stable")
