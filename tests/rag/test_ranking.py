"""Lists of what was found, and the order in which people see it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipelines.rag.index import Hit
from holdfast.pipelines.rag.ranking import HEARD, LIKES, VOUCHING, vouched_for


def vector(angle: float) -> bytes:
    return np.array([np.cos(angle), np.sin(angle)], "<f2").tobytes()


def test_an_answer_among_its_likes_comes_before_one_that_stands_alone() -> None:
    alone, *together = [Hit(0, 0, 0.91), *(Hit(number, number, 0.9) for number in range(1, 5))]
    far = [Hit(number, number, 0.1) for number in range(5, 9)]
    angles = {0: 1.5} | {hit.chunk: 0.01 * hit.chunk for hit in together} | {hit.chunk: 1.4 for hit in far}
    ranked = vouched_for([alone, *together, *far], {number: vector(angle) for number, angle in angles.items()})
    assert [hit.chunk for hit in ranked[:5]] == [1, 2, 3, 4, 0]


def test_an_answer_without_a_vector_keeps_its_score() -> None:
    hits = [Hit(number, number, 1 - number / 10) for number in range(LIKES + 2)]
    ranked = vouched_for(hits, {hit.chunk: vector(hit.chunk) for hit in hits[1:]})
    assert ranked[0] == hits[0]


def test_too_few_answers_have_no_likes_to_vouch_for_them() -> None:
    hits = [Hit(number, number, 1.0) for number in range(LIKES)]
    assert vouched_for(hits, {hit.chunk: vector(0) for hit in hits}) == hits


@given(st.lists(st.floats(0, 1), max_size=2 * HEARD), st.integers(1, 4))
def test_none_is_lost_and_those_after_the_best_stay_behind_them(scores: list[float], known: int) -> None:
    hits = [Hit(number, number, score) for number, score in enumerate(sorted(scores, reverse=True))]
    ranked = vouched_for(hits, {hit.chunk: vector(hit.chunk) for hit in hits if hit.chunk % known == 0})
    assert sorted(hit.chunk for hit in ranked) == [hit.chunk for hit in hits]
    assert [hit.chunk for hit in ranked[HEARD:]] == [hit.chunk for hit in hits[HEARD:]]
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)
    assert all(hit.score >= (1 - VOUCHING) * hits[hit.chunk].score - 1e-9 for hit in ranked)
