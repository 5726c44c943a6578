"""A capsule may come from a stranger: an invalid one raises CapsuleError, and nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core import capsule
from holdfast.core.capsule import Capsule, PackedDocument, PackedItem, packed_item, read_capsule, written
from holdfast.core.errors import CapsuleError, HoldfastError
from holdfast.core.plan import Shape, StepShape

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAN = Shape("papers", (StepShape("extract", "stream"), StepShape("judge", "value")))


def head(**changes: Any) -> Capsule:
    document = PackedDocument(
        **{
            "pipeline": "papers",
            "batch": "march",
            "key": "a.pdf",
            "payload": {"path": "a.pdf"},
            "fingerprint": "1",
            "priority": 0,
            "state": "dead",
            "generation": 2,
            "step": "judge",
            "cursor": None,
            "moves": 4,
            "attempts": 1,
            "crashes": 0,
            "reason": "ValueError: no",
            "error": "ValueError",
            "accepted_by": "",
            "reuses": {"extract": 1},
            "submitted_at": NOON,
            "moved_at": NOON,
            "due_at": None,
            "claimed_at": NOON,
            "cleaned_at": None,
        }
        | changes
    )
    return Capsule(holdfast="0", packed_at=NOON, plan=PLAN, document=document, outputs=[], asides=[], journal=[])


def bytes_of(*items: PackedItem, **changes: Any) -> bytes:
    return b"".join(written(head(**changes), items))


def edited(edit: Callable[[Any], object]) -> bytes:
    plain = json.loads(bytes_of(packed_item("extract", 0, '{"page":1}')))
    edit(plain)
    return json.dumps(plain).encode()


def test_what_is_written_is_read_again_exactly() -> None:
    kept = [("extract", 0, '{"page": 1.50}'), ("extract", 1, b"\x00\xff"), ("judge", -1, '"é"')]
    again = read_capsule(bytes_of(*(packed_item(*item) for item in kept)))
    assert [(item.step, item.position, item.kept) for item in again.items] == kept
    assert again.document == head().document
    assert again.generation_of("extract") == 1
    assert again.generation_of("judge") == 2


def test_a_capsule_is_plain_json() -> None:
    plain = json.loads(bytes_of(packed_item("extract", 0, '{"page":1}'), packed_item("extract", 1, b"\xff")))
    assert plain["items"][0] == {"step": "extract", "position": 0, "value": {"page": 1}}
    assert plain["items"][1]["data"] == "/w=="


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format": "1"}',
        b"\x80\x04K\x01.",  # a pickle
        b'{"format": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": 1, "holdfast": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_capsule_is_refused(data: bytes) -> None:
    with pytest.raises(CapsuleError, match="this is not a valid capsule"):
        read_capsule(data)


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def edit(plain: Any) -> None:
        for step in path[:-1]:
            plain = plain[step]
        plain[path[-1]] = to

    return edit


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (_set("surprise", to=1), "unknown field"),
        (_set("document", "surprise", to=1), "unknown field"),
        (_set("document", "state", to="lost"), "state"),
        (_set("document", "state", to="done"), "done when it has no next step"),
        (_set("document", "step", to=None), "done when it has no next step"),
        (_set("document", "state", to="waiting"), "needs a due time"),
        (_set("document", "generation", to=-1), "generation"),
        (_set("document", "moves", to=2**63), "moves"),
        (_set("document", "moves", to=True), "moves"),
        (_set("document", "moved_at", to="2026-01-01T12:00:00"), "timezone"),
        (_set("document", "reuses", "extract", to=2), "later generation"),
        (_set("document", "key", to="a\0b"), "NUL"),
        (_set("document", "pipeline", to="other"), "another pipeline"),
        (_set("document", "pipeline", to="../papers"), "a pipeline's name must be"),
        (_set("document", "step", to="'; drop table hf_document; --"), "a step's name must be"),
        (_set("document", "step", to=""), "a step's name must be"),
        (_set("items", 0, "step", to="x y"), "a step's name must be"),
        (_set("items", 0, "position", to=-2), "position"),
        (_set("items", 0, "data", to="AA=="), "JSON or bytes"),
        (_set("items", 0, to={"step": "extract", "position": 0}), "JSON or bytes"),
        (_set("items", 0, to={"step": "extract", "position": 0, "data": "!!"}), "base64"),
        (lambda plain: plain["items"].append(plain["items"][0]), "two items at one position"),
        (_set("plan", "steps", to=[]), "no steps"),
        (lambda plain: plain["plan"]["steps"].append(plain["plan"]["steps"][0]), "twice"),
    ],
)
def test_a_capsule_that_contradicts_itself_is_refused(edit: Callable[[Any], object], why: str) -> None:
    with pytest.raises(CapsuleError, match=why):
        read_capsule(edited(edit))


def test_the_sound_one_that_those_were_made_from_is_read() -> None:
    assert read_capsule(edited(lambda plain: None)).document.key == "a.pdf"


def test_another_format_is_told_by_its_number() -> None:
    with pytest.raises(CapsuleError, match="has format 2, but this holdfast reads format 1"):
        read_capsule(edited(_set("format", to=2)))


def test_a_capsule_that_is_too_big_is_neither_written_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes_of(packed_item("extract", 0, '"' + "x" * 5000 + '"'))
    monkeypatch.setattr(capsule, "LARGEST", 4000)
    with pytest.raises(CapsuleError, match="larger than"):
        read_capsule(whole)
    with pytest.raises(CapsuleError, match="is too large for a capsule"):
        bytes_of(packed_item("extract", 0, '"' + "x" * 5000 + '"'))


def test_it_is_an_error_of_ours() -> None:
    assert issubclass(CapsuleError, HoldfastError)
