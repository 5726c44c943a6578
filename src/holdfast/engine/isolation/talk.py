"""Talk: what a worker and a child say to each other, in frames of msgpack with their length in front."""

from __future__ import annotations

import select
from collections.abc import Callable
from socket import socket
from struct import Struct as Layout
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.engine.isolation.stories import Told

LENGTH = Layout("!Q")
PIECE = 1 << 20
"""So much room is made for a frame before anything of it is there: a child that was taken over says any length."""
SMALL = 64 * 1024
"""A frame up to this size is copied once to be sent in one piece: a second system call costs more."""

Rows = list[tuple[int, Any]]
"""Positions and kept values, as readers give them: text or bytes, which msgpack tells apart."""


class Card(Struct):
    """Who a document is, for the child. Sent as JSON: payloads may hold numbers that msgpack cannot."""

    batch: str
    key: str
    payload: Any
    fingerprint: str
    generation: int
    step: str


class Task(Struct, array_like=True, tag="task"):
    """Worker: do this call for this document. `given` are the items of a window, read beforehand."""

    verb: str
    call: bytes
    card: bytes
    given: Rows


class Found(Struct, array_like=True, tag="found"):
    """Worker: these are the items you asked for."""

    rows: Rows


class Measured(Struct, array_like=True, tag="measured"):
    """Worker: so many items were kept."""

    extent: int


class Decided(Struct, array_like=True, tag="decided"):
    """Worker: this was decided (JSON: an answer may hold numbers that msgpack cannot), or nothing was."""

    decision: bytes | None


class AskItems(Struct, array_like=True, tag="items"):
    """Child: what did this step keep between these positions?"""

    step: str
    start: int
    stop: int


class AskExtent(Struct, array_like=True, tag="extent"):
    """Child: how many items did this step keep?"""

    step: str


class AskDecision(Struct, array_like=True, tag="decision"):
    """Child: what was decided at this gate, or about what this step asked?"""

    step: str


class Gave(Struct, array_like=True, tag="gave"):
    """Child: the body returned. Its values with their positions, for the store and for the effect."""

    rows: Rows
    last: bool


class Yielded(Struct, array_like=True, tag="yielded"):
    """Child: the stream gave these, and is at this cursor (JSON)."""

    rows: Rows
    cursor: bytes
    position: int
    exhausted: bool
    error: Told | None
    last: bool


class Verified(Struct, array_like=True, tag="verified"):
    """Child: the earlier work is there, or is not."""

    answer: bool
    last: bool


class Failed(Struct, array_like=True, tag="failed"):
    """Either: it raised. `last`, here and above: this child does nothing more."""

    told: Told
    last: bool = False


Question = AskItems | AskExtent | AskDecision
Answer = Gave | Yielded | Verified | Failed
Message = Task | Found | Measured | Decided | Question | Answer


_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[Any], Message] = msgspec.msgpack.Decoder(Message).decode  # made once: it takes milliseconds


class Hangup(Exception):
    """The other side is gone."""


class Garbled(Hangup):
    """The other side says what is no message. It is as good as gone."""


class Talk:
    """One end of a conversation."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def say(self, message: Message) -> None:
        """Sends one message."""
        frame = _encode(message)
        length = LENGTH.pack(len(frame))
        try:
            if len(frame) <= SMALL:
                self._connection.sendall(length + frame)
            else:
                self._connection.sendall(length)
                self._connection.sendall(frame)
        except OSError as error:
            raise Hangup from error

    def hear(self) -> Message:
        """Waits for one message."""
        (length,) = LENGTH.unpack(self._receive(LENGTH.size))
        frame = self._receive(length)
        try:
            return _decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Garbled(f"what was heard is no message: {error}") from error

    def wait(self, seconds: float) -> bool:
        """Waits so long for something to hear. Answers whether there is."""
        return bool(self._poll.poll(seconds * 1000))

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()

    def _receive(self, size: int) -> bytearray:
        """Receives so many bytes. Of a large frame there is room for as much again as is there already."""
        frame = bytearray(min(size, PIECE))
        self._fill(frame, 0)
        while (there := len(frame)) < size:
            frame.extend(bytes(min(size - there, there)))
            self._fill(frame, there)
        return frame

    def _fill(self, frame: bytearray, start: int) -> None:
        with memoryview(frame) as whole:
            rest = whole[start:]
            try:
                while rest:
                    count = self._connection.recv_into(rest)
                    if not count:
                        raise Hangup
                    rest = rest[count:]
            except OSError as error:
                raise Hangup from error
            finally:
                rest.release()
