"""The document as a body sees it, and its keys for calls to other services."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given
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

    def next_position(self, step: str) -> int:
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


@pytest.mark.parametrize("call", ["output", "each", "decision"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("pages", r"takes a step, not 'pages'; did you mean doc\.{call}\(pages\), with the step itself\?"),
        ("my pages", r"takes a step, not 'my pages'; 'my pages' is not a step of a pipeline: add it with @pipeline"),
        (len, r"takes a step, not <built-in function len>; 'len' is not a step of a pipeline: add it"),
        (7, r"takes a step, not 7; pass what @pipeline\.step returned"),
        (papers, r"takes a step, not <Pipeline papers.*>; pass what @pipeline\.step returned"),
    ],
)
def test_what_is_not_a_step_is_refused_with_the_fix(call: str, given: Any, words: str) -> None:
    doc = Document(pipeline="papers", batch="b", key="a", reader=Shelf())
    with pytest.raises(BodyError, match=rf"doc\.{call}\(\) " + words.replace("{call}", call)):
        list(getattr(doc, call)(given))


def test_many_items_are_walked_page_by_page() -> None:
    document = _document(Shelf(pages={place: f'"{place}"' for place in range(PAGE * 2 + 1)}))
    assert list(document.each(pages)) == [str(place) for place in range(PAGE * 2 + 1)]
    assert list(document.each(pages, start=PAGE * 2)) == [str(PAGE * 2)]


def test_a_key_for_the_outside_is_the_same_on_every_attempt() -> None:
    assert _document(step="mail").idempotency_key(3) == _document(step="mail", payload=1).idempotency_key(3)


@pytest.mark.parametrize("other", [{"pipeline": "p"}, {"batch": "b"}, {"key": "k"}, {"generation": 1}, {"step": "s"}])
def test_a_key_for_the_outside_differs_with_everything_that_names_the_work(other: dict[str, Any]) -> None:
    assert _document(**other).idempotency_key() != _document().idempotency_key()


@given(st.lists(st.integers() | st.text() | st.none(), unique_by=repr))
def test_items_have_keys_of_their_own(items: list[int | str | None]) -> None:
    keys = {_document().idempotency_key(item) for item in items}
    assert len(keys) == len(items)


NAMES = st.text(st.sampled_from('ab\x1f:1#"\\,'), max_size=4)
PLACES = st.tuples(NAMES, NAMES, NAMES, st.integers(0, 20), NAMES, st.none() | st.integers(0, 20) | NAMES)


@given(st.lists(PLACES, min_size=2, max_size=2, unique=True))
@example([("p", "b\x1fx", "y", 0, "s", None), ("p", "b", "x\x1fy", 0, "s", None)])
@example([("p", "b", "k", 0, "s", None), ("p", "b", "k", 0, "s", "")])
@example([("p", "b", "k", 1, "1s", None), ("p", "b", "k", 11, "s", None)])
def test_no_two_places_share_a_key_whatever_their_names_contain(places: list[tuple[Any, ...]]) -> None:
    keys = set()
    for pipeline, batch, key, generation, step, item in places:
        document = _document(pipeline=pipeline, batch=batch, key=key, generation=generation, step=step)
        keys.add(document.idempotency_key(item))
    assert len(keys) == 2


def test_a_name_that_is_not_utf_8_has_a_key_and_a_float_has_none() -> None:
    assert _document().idempotency_key("a\udc80") != _document().idempotency_key("a?")
    with pytest.raises(TypeError):
        _document().idempotency_key(1.5)  # type: ignore[arg-type]
