"""The requests of the executor, and the events that answer them. All are plain values: any loop can drive it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.item_windows import Span
from holdfast.core.model import Item
from holdfast.core.moves import Move, Release


class RunValue(Struct, frozen=True, gc=False):
    """Run a body that returns."""

    step: str


class PullStream(Struct, frozen=True, gc=False):
    """Take the next items from a body that yields. If it is not open, start it at this cursor."""

    step: str
    cursor: Any
    position: int


class RunWindow(Struct, frozen=True, gc=False):
    """Run a body over these items of its source."""

    step: str
    span: Span


class MeasureExtent(Struct, frozen=True, gc=False):
    """Count the items that a step kept."""

    step: str


class CountKept(Struct, frozen=True, gc=False):
    """Count the items of all steps of a document that has very many. It is in this step."""

    step: str


class RunVerify(Struct, frozen=True):
    """Ask whether a step's earlier work is still there."""

    step: str


Call = RunValue | PullStream | RunWindow | MeasureExtent | CountKept | RunVerify


class Produced(Struct, frozen=True, gc=False):
    """The result of a value body or a window: the items to keep, and the value for the effect."""

    items: Sequence[Item]
    value: Any


NOTHING_THERE = Produced((), None)
"""The result of a window whose items are all missing: it is done, and has no effect."""


class Pulled(Struct, frozen=True, gc=False):
    """The result of pulling a stream: its items, its cursor, and whether it ended, with or without an error.

    `own_cursor` says whether the stream yielded a cursor of its own, so that its cursor is not a count. `total` is how
    many items it said it will yield in all, if it said so in this call.
    """

    items: Sequence[Item]
    values: Sequence[Any]
    cursor: Any
    position: int
    exhausted: bool
    error: BaseException | None = None
    own_cursor: bool = False
    total: int | None = None


class Yielded(Struct, frozen=True, gc=False):
    """A stream has yielded this. Its call goes on: the body computes the next item."""

    call: Call
    result: Pulled


class Returned(Struct, frozen=True, gc=False):
    """A call returned a result."""

    call: Call
    result: Any


class Raised(Struct, frozen=True):
    """A call raised an error."""

    call: Call
    error: BaseException


Event = Yielded | Returned | Raised


class Compute(Struct, frozen=True, gc=False):
    """Start these calls. Answer with a list of events as soon as one has ended."""

    calls: Sequence[Call] = ()


class CommitMove(Struct, frozen=True, gc=False):
    """Commit this move. Answer with the result of the commit."""

    move: Move


class GiveBack(Struct, frozen=True):
    """Release the claim like this. The executor ends."""

    release: Release


class RewindDocument(Struct, frozen=True):
    """Rewind the document to this step, for this reason. Answer with the new claim."""

    to: str
    code: str
    reason: str


class ReadJournal(Struct, frozen=True):
    """Answer with the document's journal."""


Request = Compute | CommitMove | GiveBack | RewindDocument | ReadJournal
