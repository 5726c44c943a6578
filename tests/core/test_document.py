"""What a body sees of its document, and the keys it derives for calls to the outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.codec import Kept
from holdfast.core.document import PAGE, Document
from holdfast.core.errors import BodyError
from holdfast.core.pipeline import Pipeline

papers = Pipeline("papers")


@papers.step
def pages(doc: Document, cursor: int = 0) -> Iterator[str]:
    yield "x"


@papers.step
def count(doc: Document) -> int:
    return 1


@papers.step(keep=False)
def mail(doc: Document) -> None: ...


class Shelf:
    """Kept items, without a store."""

    def __init__(self, **kept: dict[int, Kept]) -> None:
        self.kept = kept

    def extent(self, step: str) -> int:
        return max(self.kept.get(step, {}), default=-1) + 1

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        return [(place, kept) for place, kept in sorted(self.kept.get(step, {}).items()) if start <= place < stop]


def _document(reader: Any = None, **more: Any) -> Document:
    return Document(**{"pipeline": "papers", "batch": "march", "key": "a", "reader": reader or Shelf()} | more)


def test_an_output_is_the_value_that_was_returned() -> None:
    assert _document(Shelf(count={-1: "7"})).output(count) == 7


def test_an_output_is_the_list_of_what_was_yielded() -> None:
    assert _document(Shelf(pages={0: '"a"', 2: '"c"'})).output(pages) == ["a", "c"]


def test_a_stream_that_yielded_nothing_has_an_empty_output() -> None:
    assert _document().output(pages) == []


def test_a_step_that_kept_nothing_has_no_output_to_read() -> None:
    with pytest.raises(BodyError, match=r"step 'mail' keeps nothing \(keep=False\)"):
        _document().output(mail)


def test_many_items_are_walked_page_by_page() -> None:
    document = _document(Shelf(pages={place: f'"{place}"' for place in range(PAGE * 2 + 1)}))
    assert list(document.each(pages)) == [str(place) for place in range(PAGE * 2 + 1)]
    assert list(document.each(pages, start=PAGE * 2)) == [str(PAGE * 2)]


def test_a_key_for_the_outside_is_the_same_on_every_attempt() -> None:
    assert _document(step="mail").idempotency_key(3) == _document(step="mail", payload=1).idempotency_key(3)


@pytest.mark.parametrize("other", [{"pipeline": "p"}, {"batch": "b"}, {"key": "k"}, {"generation": 1}, {"step": "s"}])
def test_a_key_for_the_outside_differs_with_everything_that_names_the_work(other: dict[str, Any]) -> None:
    assert _document(**other).idempotency_key() != _document().idempotency_key()


@given(st.lists(st.integers() | st.text(), unique_by=str))
def test_items_have_keys_of_their_own(items: list[int | str]) -> None:
    keys = {_document().idempotency_key(item) for item in items}
    assert len(keys) == len(items)
