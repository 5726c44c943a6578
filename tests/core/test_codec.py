"""A value can be kept if decoding returns an equal value. Other values are refused with their place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.codec import ANYTHING, Codec, checked_json, decode_json, encode_json, read_scalar
from holdfast.core.errors import CannotKeep, DefinitionError

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)
ANYTHING_AT_ALL = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.sets(st.integers()) | st.datetimes(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.integers() | st.text(), inner),
    max_leaves=10,
)


@dataclass
class Page:
    number: int
    text: str


class Chunk(msgspec.Struct):
    words: list[str]


class Row(TypedDict):
    id: int


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine takes its time
@given(JSON)
def test_json_comes_back_equal(value: Any) -> None:
    kept = ANYTHING.encode(value)
    assert isinstance(kept, str)
    assert ANYTHING.decode(kept) == value


@given(st.binary())
def test_bytes_are_kept_as_they_are(value: bytes) -> None:
    assert ANYTHING.encode(value) is value
    assert ANYTHING.decode(value) is value


def _with_lists(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_with_lists(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _with_lists(inner) for key, inner in value.items()}
    return value


@given(ANYTHING_AT_ALL)
def test_whatever_is_kept_comes_back_equal_but_for_tuples(value: Any) -> None:
    try:
        kept = ANYTHING.encode(value)
    except CannotKeep:
        return
    assert ANYTHING.decode(kept) == _with_lists(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Page, Page(1, "one")),
        (list[Page], [Page(1, "one"), Page(2, "two")]),
        (Chunk, Chunk(["a"])),
        (Row, {"id": 1}),
        (datetime, datetime(2025, 3, 1, tzinfo=UTC)),
        (Decimal, Decimal("1.10")),
        (set[int], {1, 2}),
        (dict[int, str], {1: "one"}),
    ],
)
def test_what_the_annotation_names_comes_back_as_that(kind: Any, value: Any) -> None:
    codec = Codec(kind)
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"pages": [1, {2}]}, r"\['pages'\]\[1\] is a builtins\.set"),
        ({"when": datetime(2025, 3, 1, tzinfo=UTC)}, r"\['when'\] is a datetime\.datetime"),
        ({"ratio": float("nan")}, r"\['ratio'\] is nan, which JSON cannot express; use None"),
        ([1.0, float("-inf")], r"\[1\] is -inf"),
        ({1: "one"}, r"it has the key 1, but JSON keys are text; use str"),
        ({"a": {None: 1}}, r"\['a'\] has the key None"),
        ({"raw": b"x"}, r"\['raw'\] is bytes; bytes can be stored only as the whole value"),
        (bytearray(b"x"), r"it is bytearray"),
        (Page(1, "one"), r"it is a .*Page, which is neither JSON \(dict, list, str, .*\) nor bytes$"),
        ({"path": PurePosixPath("/x")}, r"\['path'\] is a pathlib\..*PurePosixPath"),
        (["caf\udce9"], r"\[0\] has lone surrogates; decode the text with errors='replace'"),
        (object(), r"it is a builtins\.object"),
        (1j, r"it is a builtins\.complex"),
    ],
)
def test_what_cannot_be_kept_is_named_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(CannotKeep, match=words):
        ANYTHING.encode(value)


@pytest.mark.parametrize("value", [Page(1, "one"), {"page": Page(1, "one")}])
def test_the_error_about_an_unknown_class_ends_with_the_advice(value: Any) -> None:
    with pytest.raises(CannotKeep, match=r"Page, which is neither .*; annotate the body$"):
        Codec(advice="annotate the body").encode(value)


def test_the_error_about_another_type_ends_with_the_advice() -> None:
    with pytest.raises(CannotKeep, match=r"Expected `int`, got `str`; it says int$"):
        Codec(int, advice="it says int").encode("one")


def test_the_error_about_a_value_that_no_annotation_allows_has_no_advice() -> None:
    with pytest.raises(CannotKeep, match=r"use None or text$"):
        Codec(advice="annotate the body").encode(float("nan"))


def test_the_error_says_what_it_was_about() -> None:
    with pytest.raises(CannotKeep, match="the payload of 'a' cannot be kept"):
        checked_json({1}, "the payload of 'a'")


def test_a_value_that_holds_itself_cannot_be_kept() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(CannotKeep):
        ANYTHING.encode(value)


def test_a_value_of_another_type_than_annotated_cannot_be_kept() -> None:
    with pytest.raises(CannotKeep, match="Expected `int`"):
        Codec(int).encode("one")


def test_an_annotation_that_cannot_be_decoded_is_refused_when_written() -> None:
    with pytest.raises(DefinitionError, match=r"cannot be kept.*Annotate the body with JSON types"):
        Codec(dict[Page, int] | dict[str, Chunk])


def test_kept_text_is_plain_json() -> None:
    assert encode_json({"a": [1, None, "ü"]}) == '{"a":[1,null,"ü"]}'
    assert decode_json('{"a":[1,null,"\\u00fc"]}') == {"a": [1, None, "ü"]}


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("acme", "acme"),
        ("2024", 2024),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('"2024"', "2024"),
        ("007", "007"),
        ("", ""),
        ("[1]", "[1]"),
        ("{}", "{}"),
        ("NaN", "NaN"),
        ("a=b", "a=b"),
    ],
)
def test_what_a_person_typed_is_a_value_where_it_is_one(typed: str, value: object) -> None:
    assert read_scalar(typed) == value
    assert type(read_scalar(typed)) is type(value)


def test_bytes_are_no_payload() -> None:
    with pytest.raises(CannotKeep, match="the payload of 'a' cannot be kept: it is bytes"):
        checked_json(b"scan", "the payload of 'a'")


@pytest.mark.parametrize("typed", ["\udcff", '"\ud800"', "[" * 5000])
def test_what_is_typed_in_no_characters_is_text(typed: str) -> None:
    assert read_scalar(typed) == typed
