"""The messages between a worker and a child, as frames of msgpack with a mark and their length in front.

A program of a body may inherit the connection and write into it. Its bytes do not begin with the mark, so they are
noticed at once. Without a mark they could announce a length that never arrives.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from socket import socket
from struct import Struct as Layout
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.engine.processes.remote_errors import RemoteError

HEADER = Layout("!4sQ")
MARK = b"\xfbhf\xfa"
"""Each frame begins with it. It is in no text."""
FIRST_ALLOCATION = 1 << 20
"""Maximum bytes to allocate for a frame before any of it has arrived. A hijacked child may announce any length."""
MAX_COPIED = 64 * 1024
"""A frame up to this size is copied once, so that one system call sends it. A second call costs more than the copy."""

Rows = list[tuple[int, Any]]
"""Positions and kept values: text or bytes, which msgpack keeps apart."""


class ChildDocument(Struct):
    """The document, for the child. It is sent as JSON: payloads may contain numbers that msgpack cannot encode."""

    batch: str
    key: str
    payload: Any
    fingerprint: str
    generation: int
    step: str
    id: int
    attempt: int
    resumed: bool


class RunCall(Struct, array_like=True, tag="run"):
    """Worker to child: run this call for this document. `items` are the items of a window, read beforehand.

    `in_parts` asks for what a stream yielded as soon as it is time to commit that, while the body goes on.
    """

    kind: str
    call: bytes
    document: bytes
    items: Rows
    in_parts: bool = False


class ItemsReply(Struct, array_like=True, tag="items_reply"):
    """Worker to child: the items that were asked for."""

    rows: Rows


class ExtentReply(Struct, array_like=True, tag="extent_reply"):
    """Worker to child: how many items the step kept."""

    extent: int


class DecisionReply(Struct, array_like=True, tag="decision_reply"):
    """Worker to child: the decision, or None. It is JSON: an answer may contain numbers that msgpack cannot encode."""

    decision: bytes | None


class AskItems(Struct, array_like=True, tag="items"):
    """Child to worker: which items did this step keep between these positions?"""

    step: str
    start: int
    stop: int


class AskExtent(Struct, array_like=True, tag="extent"):
    """Child to worker: how many items did this step keep?"""

    step: str


class AskDecision(Struct, array_like=True, tag="decision"):
    """Child to worker: what was decided at this gate, or about the question of this step?"""

    step: str


class ValueResult(Struct, array_like=True, tag="value"):
    """Child to worker: the body returned. Its values with their positions, for the store and for the effect."""

    rows: Rows
    last: bool


class StreamResult(Struct, array_like=True, tag="stream"):
    """Child to worker: the stream yielded these values and is at this cursor, which is JSON."""

    rows: Rows
    cursor: bytes
    position: int
    exhausted: bool
    error: RemoteError | None
    last: bool
    own_cursor: bool = False
    total: int | None = None


class StreamPart(Struct, array_like=True, tag="part"):
    """Child to worker: the stream has yielded these values so far, and its body computes the next item."""

    rows: Rows
    cursor: bytes
    position: int
    own_cursor: bool
    total: int | None = None


class VerifyResult(Struct, array_like=True, tag="verify"):
    """Child to worker: whether the earlier work is still there."""

    is_there: bool
    last: bool


class ErrorResult(Struct, array_like=True, tag="error"):
    """Both ways: it raised an error. `last`, here and above, means that this child runs no further call."""

    error: RemoteError
    last: bool = False


Question = AskItems | AskExtent | AskDecision
CallResult = ValueResult | StreamResult | VerifyResult | ErrorResult
Message = RunCall | ItemsReply | ExtentReply | DecisionReply | Question | StreamPart | CallResult


_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[Any], Message] = msgspec.msgpack.Decoder(Message).decode  # made once: it takes milliseconds


class ChannelClosed(Exception):
    """The other side has closed the channel, or is gone."""


class InvalidMessage(ChannelClosed):
    """The other side sent bytes that are not a message. The channel is of no use any more."""


class MessageChannel:
    """One end of a connection between a worker and a child."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()  # a body may read from its own threads, while parts of its stream are sent
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def send(self, message: Message) -> None:
        """Send one message."""
        frame = _encode(message)
        header = HEADER.pack(MARK, len(frame))
        try:
            with self._sending:
                if len(frame) <= MAX_COPIED:
                    self._connection.sendall(header + frame)
                else:
                    self._connection.sendall(header)
                    self._connection.sendall(frame)
        except OSError as error:
            raise ChannelClosed from error

    def receive(self) -> Message:
        """Wait for one message."""
        mark, length = HEADER.unpack(self._receive(HEADER.size))
        if mark != MARK:
            raise InvalidMessage(
                "it sent bytes that are not a message: a program of the body wrote into its connection"
            )
        frame = self._receive(length)
        try:
            return _decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidMessage(f"it sent bytes that are not a message: {error}") from error

    def wait(self, seconds: float) -> bool:
        """Wait up to this long for something to receive. Return True if there is something."""
        return bool(self._poll.poll(seconds * 1000))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _receive(self, size: int) -> bytearray:
        """Receive this many bytes. The buffer of a large frame grows only as the bytes arrive, by doubling."""
        frame = bytearray(min(size, FIRST_ALLOCATION))
        self._fill(frame, 0)
        while (received := len(frame)) < size:
            frame.extend(bytes(min(size - received, received)))
            self._fill(frame, received)
        return frame

    def _fill(self, frame: bytearray, start: int) -> None:
        with memoryview(frame) as whole:
            rest = whole[start:]
            try:
                while rest:
                    count = self._connection.recv_into(rest)
                    if not count:
                        raise ChannelClosed
                    rest = rest[count:]
            except OSError as error:
                raise ChannelClosed from error
            finally:
                rest.release()
