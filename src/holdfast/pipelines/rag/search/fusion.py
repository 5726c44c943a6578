"""Combine lists of hits into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.pipelines.rag.index.values import Hit

VECTOR_WEIGHT = 0.6
"""The weight of the vector search. The keyword search has the rest."""

RUN_WEIGHT, RUN_POWER = 4.0, 6
"""The weight of the runs of a question that a chunk has, beside words and vectors together, and the power to which the
share of the covered words is raised."""


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


def add_runs(hits: Sequence[Hit], runs: Sequence[Hit]) -> list[Hit]:
    """Rank chunks higher that have words of the question in its order: a person who copies words knows the passage.

    The score of `runs` is the share of the words that are in such runs, and it is raised to a power. So a few runs,
    which any text on the subject may have, hardly count, and a passage that has all of them comes first.
    """
    if not runs:
        return [*hits]
    shares = {hit.chunk: hit.score**RUN_POWER for hit in runs}
    documents = {hit.chunk: hit.document for hit in (*runs, *hits)}
    scores = dict.fromkeys(shares, 0.0) | {hit.chunk: hit.score for hit in hits}
    most = 1 + RUN_WEIGHT * max(shares.values())
    merged = [
        Hit(chunk, documents[chunk], (score + RUN_WEIGHT * shares.get(chunk, 0.0)) / most)
        for chunk, score in scores.items()
    ]
    return sorted(merged, key=lambda hit: -hit.score)


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
