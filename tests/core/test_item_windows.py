"""Windows finish in any order; going on from the cursor repeats nothing and skips nothing."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.item_windows import Windows, merged


def _take_all(windows: Windows, size: int) -> list[tuple[int, int]]:
    return list(iter(lambda: windows.take(size), None))


def test_items_are_given_out_in_order() -> None:
    assert _take_all(Windows(10), 4) == [(0, 4), (4, 8), (8, 10)]


def test_nothing_to_do_is_finished() -> None:
    assert Windows(0).finished
    assert Windows(0).take(4) is None


def test_the_cursor_is_a_count_while_all_before_it_is_done() -> None:
    windows = Windows(10)
    for span in _take_all(windows, 4)[:2]:
        windows.finish(span)
    assert windows.cursor() == 8
    assert not windows.finished


def test_the_cursor_tells_what_was_done_out_of_order() -> None:
    windows = Windows(10)
    _take_all(windows, 2)
    windows.finish((0, 2))
    windows.finish((6, 8))
    assert windows.cursor() == {"next": 2, "done": [[6, 8]]} or windows.cursor() == {"next": 2, "done": [(6, 8)]}


def test_what_was_given_out_and_not_finished_is_given_out_again() -> None:
    windows = Windows(10)
    _take_all(windows, 2)
    windows.finish((4, 6))
    again = Windows(10, cursor=decode_json(encode_json(windows.cursor())))
    assert _take_all(again, 3) == [(0, 3), (3, 4), (6, 9), (9, 10)]


def test_an_item_set_aside_is_not_given_out_again() -> None:
    windows = Windows(3)
    windows.take(3)
    windows.set_aside(1, tries=2)
    again = Windows(3, cursor=decode_json(encode_json(windows.cursor())))
    assert again.aside == {1: 2}
    assert _take_all(again, 3) == [(0, 1), (2, 3)]


def test_a_walk_with_items_aside_is_finished() -> None:
    windows = Windows(2)
    windows.finish((0, 1))
    windows.set_aside(1, tries=1)
    assert windows.finished
    windows.mend(1)
    assert windows.finished
    assert windows.cursor() == 2


def test_mending_what_was_not_aside_does_nothing() -> None:
    windows = Windows(2, cursor=1)
    windows.mend(0)
    assert windows.cursor() == 1


def test_an_unknown_cursor_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown field"):
        Windows(2, cursor={"page": 3})


@given(
    total=st.integers(0, 40),
    runs=st.lists(st.tuples(st.integers(1, 9), st.randoms(use_true_random=False), st.integers(0, 12)), max_size=6),
)
def test_resuming_from_any_cursor_never_repeats_or_skips_an_item(
    total: int, runs: list[tuple[int, Random, int]]
) -> None:
    """Each item is done once, wherever and how often the work is interrupted."""
    cursor: Any = None
    done: list[int] = []
    aside: dict[int, int] = {}
    for size, random, finished in [*runs, (7, Random(0), total)]:
        windows = Windows(total, cursor=cursor)
        spans = _take_all(windows, size)
        random.shuffle(spans)
        for start, stop in spans[:finished]:
            done.extend(range(start, stop))
            bad = random.choice([None, *range(start, stop)])
            for position in range(start, stop):
                if position == bad:
                    windows.set_aside(position, tries=1)
                    aside[position] = 1
                else:
                    windows.finish((position, position + 1))
        cursor = decode_json(encode_json(windows.cursor()))
    assert sorted(done) == list(range(total))
    assert windows.finished
    assert windows.aside == aside


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_merged_spans_cover_the_same_and_never_touch(spans: list[tuple[int, int]]) -> None:
    joined = merged(spans)
    covered = {position for start, stop in spans for position in range(start, stop)}
    assert {position for start, stop in joined for position in range(start, stop)} == covered
    assert all(first[1] < second[0] for first, second in pairwise(joined))
