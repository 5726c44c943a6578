"""Lists of what was found, and how one list is made of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.pipelines.rag.index import Hit

if TYPE_CHECKING:
    import numpy as np

MEANING = 0.6
"""How much meaning counts beside words."""
HEARD, LIKES, VOUCHING = 100, 3, 0.3
"""How many answers vouch for each other, how many of its likes each has, and how much of its score is theirs."""


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


def vouched_for(ranked: Sequence[Hit], vectors: Mapping[int, bytes]) -> list[Hit]:
    """Gives the best answers a part of the scores of their likes, and puts them into that order.

    What answers a question is like other answers to it; what only has its words stands alone. An answer without a
    vector keeps its score. Those after the best stay behind them.
    """
    import numpy as np

    best, rest = ranked[:HEARD], ranked[HEARD:]
    there = [hit for hit in best if hit.chunk in vectors]
    if len(there) <= LIKES:
        return [*ranked]
    rows = rows_of([vectors[hit.chunk] for hit in there])
    likeness = np.einsum("ij,kj->ik", rows, rows)  # on this thread: @ waits for others
    np.fill_diagonal(likeness, -np.inf)
    likes = np.argpartition(-likeness, LIKES - 1)[:, :LIKES]
    own = np.array([hit.score for hit in there])
    shared = (1 - VOUCHING) * own + VOUCHING * own[likes].mean(axis=1)
    scores = {hit.chunk: score for hit, score in zip(there, shared.tolist(), strict=True)}
    heard = [replace(hit, score=scores.get(hit.chunk, hit.score)) for hit in best]
    behind = [replace(hit, score=(1 - VOUCHING) * hit.score) for hit in rest]
    return [*sorted(heard, key=lambda hit: -hit.score), *behind]


def rows_of(vectors: Sequence[bytes]) -> np.ndarray:
    """Gives vectors, as they are remembered, as rows."""
    import numpy as np

    return np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)


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
