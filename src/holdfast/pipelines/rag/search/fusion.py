"""Combine lists of hits into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.pipelines.rag.index.values import Hit

VECTOR_WEIGHT = 0.6
"""The weight of the vector search. The keyword search has the rest."""


def fuse(words: Sequence[Hit] | None, vectors: Sequence[Hit] | None) -> list[Hit]:
    """Combine the hits of the keyword search and of the vector search, best first.

    Scores of different searches cannot be compared, so each list is scaled from 1 (its best) to 0 (its last). On
    SciFact and Cranfield this was better than to add up ranks. A list of None, which was not asked for, has no weight.
    """
    scores: Counter[int] = Counter()
    documents: dict[int, int] = {}
    vector_weight = 0.0 if vectors is None else 1.0 if words is None else VECTOR_WEIGHT
    for hits, weight in ((words or (), 1 - vector_weight), (vectors or (), vector_weight)):
        for hit, score in zip(hits, _scaled_scores(hits), strict=True):
            scores[hit.chunk] += weight * score  # type: ignore[assignment]
            documents[hit.chunk] = hit.document
    return [Hit(chunk, documents[chunk], score) for chunk, score in scores.most_common()]


def merge_models(lists: Sequence[Sequence[Hit]]) -> Sequence[Hit]:
    """Combine the hits of several models. For a chunk that more than one found, the best score counts."""
    if len(lists) == 1:
        return lists[0]
    best: dict[int, Hit] = {}
    for hits in lists:
        for hit, score in zip(hits, _scaled_scores(hits), strict=True):
            if hit.chunk not in best or best[hit.chunk].score < score:
                best[hit.chunk] = Hit(hit.chunk, hit.document, score)
    return sorted(best.values(), key=lambda hit: -hit.score)


def limit_per_document(limit: int | None, hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield at most `limit` hits of each document, in order; all if it is None."""
    counts: Counter[int] = Counter()
    for hit in hits:
        counts[hit.document] += 1
        if limit is None or counts[hit.document] <= limit:
            yield hit


def _scaled_scores(hits: Sequence[Hit]) -> list[float]:
    """Return scores from 1, for the best of a list, to 0, for its last."""
    if not hits:
        return []
    best, last = hits[0].score, hits[-1].score
    return [(hit.score - last) / (best - last) if best > last else 1.0 for hit in hits]
