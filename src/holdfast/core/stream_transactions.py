"""Tell the stream whose code runs that it has opened a transaction of a store.

A stream that yields inside a transaction is suspended there. Its thread goes on with other work, on the same
connection, and nobody else can write meanwhile. So the worker refuses such a stream. For that it must know of the
transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class StreamTransactions(Protocol):
    """Counts the transactions that the code of a stream has open."""

    def transaction_opened(self) -> None:
        """Count one more."""

    def transaction_closed(self) -> None:
        """Count one less."""


CURRENT_STREAM: ContextVar[StreamTransactions | None] = ContextVar("holdfast_current_stream", default=None)
"""The stream whose code runs. A stream has a context of its own, whichever thread pulls it."""


@contextmanager
def counted_by_stream() -> Iterator[None]:
    """Let the stream that runs, if one does, count a transaction."""
    stream = CURRENT_STREAM.get()
    if stream is None:
        yield
        return
    stream.transaction_opened()
    try:
        yield
    finally:
        stream.transaction_closed()
