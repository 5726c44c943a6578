"""Messages from child processes: a parser that was taken over by an attacker may send anything."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
from hypothesis import strategies as st

import holdfast
from holdfast.core.model import Failure
from holdfast.engine.processes.call_codec import decode_result
from holdfast.engine.processes.messages import (
    HEADER,
    MARK,
    ChannelClosed,
    ErrorResult,
    MessageChannel,
    StreamResult,
    ValueResult,
    VerifyResult,
)
from holdfast.engine.processes.remote_errors import RemoteError, decode_error
from tests.fuzz.inputs import json, numbers, texts
from tests.fuzz.target import takes, takes_bytes

_ERROR = RemoteError(["builtins:ValueError"], Failure("ValueError", "odd"))
_MESSAGES = [
    ValueResult([(0, "1"), (1, b"b")], True),
    StreamResult([(0, '"a"')], b"1", 1, False, _ERROR, False),
    VerifyResult(True, False),
    ErrorResult(_ERROR),
]


def _framed(message: object) -> bytes:
    frame = msgspec.msgpack.encode(message)
    return HEADER.pack(MARK, len(frame)) + frame


@takes_bytes(
    [*map(_framed, _MESSAGES), b"\xff" * 16, b"\x00" * 8, HEADER.pack(MARK, 1 << 40)],
    "Bytes on the channel are a message, or the channel is closed; memory is allocated only for data that arrived.",
    refusals=[ChannelClosed],
)
def received(data: bytes) -> None:
    parent, child = socket.socketpair()
    with parent, child:
        child.setblocking(False)
        try:
            child.sendall(data[: 1 << 16])
        except BlockingIOError:
            return
        child.close()
        message = MessageChannel(parent).receive()
    if isinstance(message, ValueResult | StreamResult | VerifyResult | ErrorResult):
        _result(message)


def _result(message: Any) -> None:
    try:
        decode_result(_step(), message)
    except ChannelClosed:
        raise
    except BaseException as error:
        if getattr(error, "remote_failure", None) is None:  # otherwise it is the error that the child sent
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
    "An error from a child becomes an error of a class that is loaded already; nothing is imported or called.",
    sealed=True,
)
def errors(given: tuple[list[str], str, str, Any, Any]) -> None:
    classes, kind, message, after, wait = given
    error = decode_error(RemoteError(classes, Failure(kind, message), after=after, retry_after=wait))
    assert isinstance(error, BaseException)
    assert error.remote_failure.message == message  # type: ignore[attr-defined]


@takes(json, "JSON that a child sends is a value, or the channel is closed.", refusals=[ChannelClosed])
def yielded(value: Any) -> None:
    try:
        cursor = msgspec.json.encode(value)
    except (ValueError, OverflowError, UnicodeEncodeError):
        cursor = repr(value).encode(errors="replace")
    _result(StreamResult([(0, "1")], cursor, 1, False, None, False))
