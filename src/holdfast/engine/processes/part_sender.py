"""Send what a stream in a child has yielded to the worker, while its body computes the next item.

It is for streams with a time in `commit_every`. The thread of the body is in user code, so a second thread does it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from holdfast.core import forked_copy
from holdfast.core.errors import CannotKeep
from holdfast.core.step import AnyStep
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.executor_requests import Call, Pulled
from holdfast.engine.processes.messages import ChannelClosed, MessageChannel, Rows, StreamPart

CHECK_INTERVAL = 0.02
"""Seconds between two checks whether it is time to commit what a stream has yielded."""

_json = msgspec.json.Encoder().encode


class PartSender:
    """A thread that sends parts of the stream that runs.

    `_call` is set by the thread that runs calls, and read by this one. Both have the lock for it, and this one also
    while it sends. So a part never follows the result of its call.
    """

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._call: tuple[BodyCaller, Call, AnyStep] | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="holdfast-parts", daemon=True).start()

    @contextmanager
    def sending(self, bodies: BodyCaller, call: Call, step: AnyStep) -> Iterator[None]:
        """Send parts of this call in a `with` block."""
        forks = forked_copy.count
        with self._changed:
            self._call = (bodies, call, step)
            self._changed.notify()
        try:
            yield
        finally:
            if forked_copy.count == forks:  # a copy has no such thread, and perhaps a lock that nobody releases
                with self._changed:
                    self._call = None

    def _run(self) -> None:
        with self._changed:
            while True:
                self._changed.wait(None if self._call is None else CHECK_INTERVAL)
                if self._call is None:
                    continue
                try:
                    self._send_part(*self._call)
                except ChannelClosed:
                    return  # the worker is gone, and this process exits
                except (CannotKeep, MemoryError):
                    self._call = None  # nothing was taken: the result of the call has it, or the error

    def _send_part(self, bodies: BodyCaller, call: Call, step: AnyStep) -> None:
        def send(part: Pulled) -> None:
            rows = rows_of_stream(step, part)
            self._channel.send(StreamPart(rows, _json(part.cursor), part.position, part.own_cursor, part.total))

        bodies.take_part(call, send)


def rows_of_stream(step: AnyStep, pulled: Pulled) -> Rows:
    """Return the values of a stream, as they are kept. Values for the effect alone are encoded too."""
    if step.options.keep or not pulled.values:
        return [(item.position, item.value) for item in pulled.items]
    return encoded_rows(step, pulled.values, f"what step {step.name!r} yielded to its effect")


def encoded_rows(step: AnyStep, values: Sequence[Any], what: str) -> Rows:
    """Return the encoded values, with their places in the list. `what` names them in errors."""

    def name_of(position: int) -> Callable[[], str]:
        return lambda: f"{what}, element {position},"

    encode = step.codec_of_item.encode
    return [(position, encode(value, name_of(position))) for position, value in enumerate(values)]
