"""What a question means to a model, and what is near to that."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.pipelines.rag.embedders import Embedder
from holdfast.pipelines.rag.index import Hit, Index, Model, Where
from holdfast.pipelines.rag.models import model_of
from holdfast.pipelines.rag.ranking import at_most

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor  # which imports logging: it waits for the first question

    import numpy as np

BEST, PULL = 2, 0.3
"""Of how many documents the best answers pull a question towards themselves, and how strongly one does that fits."""
THREADS = 8
"""How many questions are embedded at once, at most."""


class Sense:
    """The vectors of one model in one index. Any number of threads may share one."""

    def __init__(self, index: Index, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder
        self._others = _Others()

    def vector(self, question: str) -> Future[np.ndarray]:
        """Gives the vector of a question, of length one, made by another thread; all zeros where it says nothing."""
        return self._others.submit(self._vector, question)

    def near(self, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        """Finds the chunks that are nearest to a vector."""
        return self._index.by_meaning(self._model, vector, where, limit=limit) if vector.any() else []

    def asked_again(self, vector: np.ndarray, hits: Sequence[Hit], ranked: Sequence[Hit]) -> list[Hit]:
        """Puts what was found by meaning into the order of a question that knows the best answers.

        They say what was asked for as documents say it, and other documents that do are nearer to them than to the
        question. On SciFact and Cranfield this finds more; looking at all vectors once again finds hardly more yet.
        """
        import numpy as np

        best = [*islice(at_most(1, ranked), BEST)]
        known = self._index.vectors(self._model, [hit.chunk for hit in (*best, *hits)])
        there = [hit for hit in hits if hit.chunk in known]
        if not there:
            return [*hits]
        pull = [PULL * hit.score * np.frombuffer(known[hit.chunk], "<f2") for hit in best if hit.chunk in known]
        asked = sum(pull, start=vector)
        rows = np.frombuffer(b"".join(known[hit.chunk] for hit in there), "<f2").reshape(len(there), -1)
        nearness = np.einsum("ij,j->i", rows.astype(np.float32), asked)  # on this thread: @ waits for others
        order = np.argsort(-nearness, kind="stable").tolist()
        return [replace(there[place], score=float(nearness[place])) for place in order]

    def _vector(self, question: str) -> np.ndarray:
        from holdfast.pipelines.rag.embedders.units import unit_rows

        vector: np.ndarray = unit_rows([self._embedder.embed_query(question)], self._embedder, count=1)[0]
        return vector

    @property
    def _model(self) -> Model:
        return model_of(self._embedder)


class _Others:
    """Other threads. A forked child has none of its parent's, and gets some of its own."""

    def __init__(self) -> None:
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def submit(self, call: Callable[[str], Any], question: str) -> Future[Any]:
        if self._pool is None or self._pool[0] != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            self._pool = (os.getpid(), ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-search"))
        return self._pool[1].submit(call, question)
