"""Embed a question and find the nearest chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.pipelines.rag.embed.protocol import Embedder
from holdfast.pipelines.rag.embed.registry import model_of
from holdfast.pipelines.rag.index.protocol import Index
from holdfast.pipelines.rag.index.values import EmbeddingModel, Hit, Where
from holdfast.pipelines.rag.search.fusion import limit_per_document

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor  # imports logging, so it waits for the first question

    import numpy as np

FEEDBACK_DOCUMENTS, FEEDBACK_WEIGHT = 2, 0.3
"""Relevance feedback: the number of best documents that change the vector of a question, and the weight of each."""
THREADS = 8
"""Questions that are embedded at the same time, at most."""


class VectorSearch:
    """Search the vectors of one model in one index. Threads may share one."""

    def __init__(self, index: Index, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder
        self._pool = _ForkSafePool()

    def embed(self, question: str) -> Future[np.ndarray]:
        """Embed a question in another thread. The vector has length one, or is all zeros if the model returned that."""
        return self._pool.submit(self._vector, question)

    def nearest(self, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        """Return the chunks that are nearest to a vector, nearest first."""
        return self._index.search_vectors(self._model, vector, where, limit=limit) if vector.any() else []

    def compare(self, vector: np.ndarray, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of another search that have a vector, the nearest to a vector first."""
        return self._sorted(vector, hits, self._index.vectors(self._model, [hit.chunk for hit in hits]))

    def rerank(self, vector: np.ndarray, hits: Sequence[Hit], ranked: Sequence[Hit]) -> list[Hit]:
        """Sort the hits of a vector search again, with relevance feedback from the best documents.

        The best documents say in their own words what the question asks for. Other documents that say it are nearer to
        them than to the question. On SciFact and Cranfield this finds more; to search all vectors again with the new
        vector finds hardly more.

        Args:
            vector: The vector of the question.
            hits: The hits of the vector search.
            ranked: All hits in their present order, from which the best documents are taken.
        """
        import numpy as np

        best = [*islice(limit_per_document(1, ranked), FEEDBACK_DOCUMENTS)]
        vectors = self._index.vectors(self._model, [hit.chunk for hit in (*best, *hits)])
        if not any(hit.chunk in vectors for hit in hits):
            return [*hits]
        feedback = [
            FEEDBACK_WEIGHT * hit.score * np.frombuffer(vectors[hit.chunk], "<f2")
            for hit in best
            if hit.chunk in vectors
        ]
        return self._sorted(sum(feedback, start=vector), hits, vectors)

    def _sorted(self, vector: np.ndarray, hits: Sequence[Hit], vectors: Mapping[int, bytes]) -> list[Hit]:
        """Return the hits that have a vector, the nearest to `vector` first."""
        import numpy as np

        known = [hit for hit in hits if hit.chunk in vectors]
        if not known:
            return []
        rows = np.frombuffer(b"".join(vectors[hit.chunk] for hit in known), "<f2").reshape(len(known), -1)
        # einsum runs on this thread; @ would wait for the threads of the BLAS library
        similarity = np.einsum("ij,j->i", rows.astype(np.float32), vector)
        order = np.argsort(-similarity, kind="stable").tolist()
        return [replace(known[place], score=float(similarity[place])) for place in order]

    def _vector(self, question: str) -> np.ndarray:
        from holdfast.pipelines.rag.embed.protocol import unit_rows

        vector: np.ndarray = unit_rows([self._embedder.embed_query(question)], self._embedder, count=1)[0]
        return vector

    @property
    def _model(self) -> EmbeddingModel:
        return model_of(self._embedder)


class _ForkSafePool:
    """A thread pool. A forked child has none of its parent's threads and gets a pool of its own."""

    def __init__(self) -> None:
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def submit(self, call: Callable[[str], Any], question: str) -> Future[Any]:
        if self._pool is None or self._pool[0] != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            self._pool = (os.getpid(), ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-search"))
        return self._pool[1].submit(call, question)
