"""What the executor asks for and what it is told: plain values, so that anything can drive it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.model import Item
from holdfast.core.moves import Ending, Move
from holdfast.core.windows import Span


class RunValue(Struct, frozen=True, gc=False):
    """Run a body that returns."""

    step: str


class PullStream(Struct, frozen=True, gc=False):
    """Take the next items from a body that yields, from this cursor if it does not run yet."""

    step: str
    cursor: Any
    position: int


class RunWindow(Struct, frozen=True, gc=False):
    """Run a body over these items of its source."""

    step: str
    span: Span


class MeasureExtent(Struct, frozen=True, gc=False):
    """Find out how many items a step kept."""

    step: str


class AskVerify(Struct, frozen=True):
    """Ask whether a step's earlier work is still there."""

    step: str


Call = RunValue | PullStream | RunWindow | MeasureExtent | AskVerify


class Produced(Struct, frozen=True, gc=False):
    """What a value body or a window gave: the items to keep, and the value for the effect."""

    items: Sequence[Item]
    value: Any


NOTHING_THERE = Produced((), None)
"""What a window gives whose items are all missing: it is done, and has no effect."""


class Pulled(Struct, frozen=True, gc=False):
    """What a stream gave: items, where it is now, and whether it ended, well or badly."""

    items: Sequence[Item]
    values: Sequence[Any]
    cursor: Any
    position: int
    exhausted: bool
    error: BaseException | None = None


class Returned(Struct, frozen=True, gc=False):
    """A call came back with a result."""

    call: Call
    result: Any


class Raised(Struct, frozen=True):
    """A call came back with an error."""

    call: Call
    error: BaseException


Event = Returned | Raised


class Compute(Struct, frozen=True, gc=False):
    """Start these calls, and tell me as soon as something came back."""

    calls: Sequence[Call] = ()


class Commit(Struct, frozen=True, gc=False):
    """Make this move durable, and tell me the answer."""

    move: Move


class GiveBack(Struct, frozen=True):
    """I am finished with this document for now: give it back like this."""

    ending: Ending


class Rewind(Struct, frozen=True):
    """Set the document back to this step, and go on from there."""

    to: str
    reason: str


class ReadJournal(Struct, frozen=True):
    """Tell me what was done to the document so far."""


Request = Compute | Commit | GiveBack | Rewind | ReadJournal
