"""What a worker hears from a child: a parser that was taken over may say anything."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
from hypothesis import strategies as st

import holdfast
from holdfast.core.model import Failure
from holdfast.engine.isolation.stories import Told, retold
from holdfast.engine.isolation.talk import Failed, Gave, Hangup, Talk, Verified, Yielded
from holdfast.engine.isolation.translation import result_of
from tests.fuzz.inputs import json, numbers, texts
from tests.fuzz.target import takes, takes_bytes

_TOLD = Told(["builtins:ValueError"], Failure("ValueError", "odd"))
_SAID = [
    Gave([(0, "1"), (1, b"b")], True),
    Yielded([(0, '"a"')], b"1", 1, False, _TOLD, False),
    Verified(True, False),
    Failed(_TOLD),
]


def _framed(message: object) -> bytes:
    frame = msgspec.msgpack.encode(message)
    return len(frame).to_bytes(8) + frame


@takes_bytes(
    [*map(_framed, _SAID), b"\xff" * 16, b"\x00" * 8, (1 << 40).to_bytes(8)],
    "What comes over the line is a message, or the line is dead; nothing is allocated before it is there.",
    refusals=[Hangup],
)
def heard(data: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        try:
            there.sendall(data[: 1 << 16])
        except BlockingIOError:
            return
        there.close()
        message = Talk(here).hear()
    if isinstance(message, Gave | Yielded | Verified | Failed):
        _result(message)


def _result(message: Any) -> None:
    try:
        result_of(_step(), message)
    except Hangup:
        raise
    except BaseException as error:
        if getattr(error, "story", None) is None:  # else it is what the child told
            raise


def _step() -> Any:
    pipeline = holdfast.Pipeline("fuzz")

    @pipeline.step
    def read(doc: Any) -> list[int]:
        return [1]

    @read.effect
    def write(tx: Any, doc: Any, value: list[int]) -> None: ...

    return read


CLASSES = ("builtins:ValueError", "builtins:SystemExit", "builtins:type", "os:system", "sys:modules", "a:b", ":", "")
CLASS = st.sampled_from(CLASSES) | texts


@takes(
    st.tuples(st.lists(CLASS, max_size=4), texts, texts, st.none() | st.floats() | numbers, st.none() | st.floats()),
    "An error that a child tells is one here too, of a class that is loaded already; nothing is imported or called.",
    sealed=True,
)
def stories(given: tuple[list[str], str, str, Any, Any]) -> None:
    classes, kind, message, after, wait = given
    error = retold(Told(classes, Failure(kind, message), after=after, retry_after=wait))
    assert isinstance(error, BaseException)
    assert error.story.message == message  # type: ignore[attr-defined]


@takes(json, "Values that a child sends as JSON are values, or the line is dead.", refusals=[Hangup])
def yielded(value: Any) -> None:
    try:
        cursor = msgspec.json.encode(value)
    except (ValueError, OverflowError, UnicodeEncodeError):
        cursor = repr(value).encode(errors="replace")
    _result(Yielded([(0, "1")], cursor, 1, False, None, False))
