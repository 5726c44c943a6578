"""Lists of what was found, and how one list is made of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.pipelines.rag.index import Hit

MEANING = 0.6
"""How much meaning counts beside words."""


def fuse(words: Sequence[Hit] | None, meaning: Sequence[Hit] | None) -> list[Hit]:
    """Makes one list of two. Scores of different kinds do not compare; how far each is from the best of its list does.

    On SciFact and Cranfield this was better than counting places. A list that was not asked for, None, has no weight.
    """
    scores: Counter[int] = Counter()
    documents: dict[int, int] = {}
    by_meaning = 0.0 if meaning is None else 1.0 if words is None else MEANING
    for hits, weight in ((words or (), 1 - by_meaning), (meaning or (), by_meaning)):
        for hit, nearness in zip(hits, _spread(hits), strict=True):
            scores[hit.chunk] += weight * nearness  # type: ignore[assignment]
            documents[hit.chunk] = hit.document
    return [Hit(chunk, documents[chunk], score) for chunk, score in scores.most_common()]


def joined(meanings: Sequence[Sequence[Hit]]) -> Sequence[Hit]:
    """Makes one list of what several models found near: of a chunk that more than one found, the best counts."""
    if len(meanings) == 1:
        return meanings[0]
    best: dict[int, Hit] = {}
    for hits in meanings:
        for hit, nearness in zip(hits, _spread(hits), strict=True):
            if hit.chunk not in best or best[hit.chunk].score < nearness:
                best[hit.chunk] = Hit(hit.chunk, hit.document, nearness)
    return sorted(best.values(), key=lambda hit: -hit.score)


def at_most(each: int | None, hits: Sequence[Hit]) -> Iterator[Hit]:
    """Gives so many hits of one document, at most; all, if nothing is said."""
    shown: Counter[int] = Counter()
    for hit in hits:
        shown[hit.document] += 1
        if each is None or shown[hit.document] <= each:
            yield hit


def _spread(hits: Sequence[Hit]) -> list[float]:
    """Gives scores from 1, for the best of a list, to 0, for its last."""
    if not hits:
        return []
    best, last = hits[0].score, hits[-1].score
    return [(hit.score - last) / (best - last) if best > last else 1.0 for hit in hits]
