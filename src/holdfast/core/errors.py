"""Everything holdfast raises, and the three words a body can say by raising.

HoldfastError
├── DefinitionError        a pipeline was written wrongly; raised while it is written
├── PlanRefused            open documents cannot go on under the pipeline as it is written now
├── DuplicateKey           one submit named the same document twice
├── BatchSealed            a sealed or closed batch takes no more documents
├── UnknownBatch           no batch of that name
├── UnknownDocument        no document of that name
├── CloseRefused           a batch cannot be closed yet
├── LeaseLost              another worker holds the document now; nothing was written
├── CapsuleError           a file is no capsule, or the document or the store is not fit for one
├── StoreError
│   ├── SchemaOutdated     run `holdfast migrate`
│   ├── SchemaNewer        this holdfast is older than the store
│   ├── StoreReadOnly      the database cannot be written
│   ├── StoreFull          the disk under the database is full
│   └── StoreGone          the database does not answer
└── BodyError              what a body did that cannot be accepted
    ├── CannotKeep         a value that is neither JSON nor bytes
    ├── CursorMovedBack    a stream went back, or did not move
    ├── WrongLength        a step over items answered for another number of items
    ├── CursorExpired      a cursor outlived `cursor_expires`
    ├── TooManyFailures    more items were set aside than the step allows
    ├── StepTimeout        a step took longer than its `timeout`
    └── BodyCrashed        the process that ran a body died

Signal                     not errors: what a body says by raising
├── RetryLater             not now; costs no attempt
├── Reject                 never; the document becomes a dead letter
└── Pause                  a person or a date has to come first
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.refusal import Refusal


class HoldfastError(Exception):
    """The root of every error that holdfast raises."""


class DefinitionError(HoldfastError):
    """A pipeline was written wrongly. The message says how to write it."""


class PlanRefused(HoldfastError):
    """Open documents cannot go on under the pipeline as it is written now. The message says which, and the way out."""


class DuplicateKey(HoldfastError):
    """One submit named the same document twice. Its earlier, whole slices stay submitted."""


class BatchSealed(HoldfastError):
    """A sealed or closed batch takes no more documents. Those that it has, unchanged, are no matter."""


class UnknownBatch(HoldfastError):
    """There is no batch of that name in that pipeline."""

    def __init__(self, pipeline: str, batch: str, known: Sequence[str]) -> None:
        has = f"it has: {', '.join(known)}" if known else "it has none yet"
        super().__init__(f"pipeline {pipeline!r} has no batch {batch!r}; {has}")


class UnknownDocument(HoldfastError):
    """There is no document of that name in that batch."""


class CloseRefused(HoldfastError):
    """A batch cannot be closed yet. The message says exactly what is missing; `refusal` has it for programs."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class LeaseLost(HoldfastError):
    """Another worker holds the document now. Nothing was written."""


class CapsuleError(HoldfastError):
    """A file is no capsule, or a document cannot be packed into one, or a store cannot take one in."""


class StoreError(HoldfastError):
    """The store cannot do what was asked."""


class SchemaOutdated(StoreError):
    """The store was made by an older holdfast."""


class SchemaNewer(StoreError):
    """The store was made, or upgraded meanwhile, by a newer holdfast."""


def upgraded(name: str, version: int, newest: int) -> SchemaNewer:
    """Gives the error for a store that a newer holdfast upgraded while this one worked on it."""
    return SchemaNewer(
        f"{name} was upgraded to schema {version} meanwhile, and this holdfast knows {newest}: what was committed is "
        "safe; upgrade holdfast and start it again"
    )


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreFull(StoreError):
    """The disk under the database is full. Nothing of the refused write was kept."""


class StoreGone(StoreError):
    """The database does not answer."""


class BodyError(HoldfastError):
    """A body did what cannot be accepted."""


class CannotKeep(BodyError):
    """A value is neither JSON nor bytes, so it would not come back as it was."""


class CursorMovedBack(BodyError):
    """A stream's cursor went back, or did not move."""


class WrongLength(BodyError):
    """A step over items answered for another number of items than it was given."""


class CursorExpired(BodyError):
    """A cursor outlived the step's `cursor_expires`."""


class TooManyFailures(BodyError):
    """More items were set aside than the step's `failure_rate` allows."""


class StepTimeout(BodyError):
    """A step took longer than its `timeout`."""


class BodyCrashed(BodyError):
    """The process that ran a body died: killed, out of memory, or a fault in native code."""


class Signal(Exception):
    """What a body says by raising."""


class RetryLater(Signal):
    """Try the document again after a while. Costs no attempt: being throttled is not failing."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        super().__init__(reason or "asked to be tried again later")
        self.after = timedelta(seconds=after) if isinstance(after, (int, float)) else after


class Reject(Signal):
    """Never try this document again: it becomes a dead letter with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Pause(Signal):
    """Park the document until `until`, or until a person resumes it."""

    def __init__(self, reason: str, *, until: datetime | None = None) -> None:
        super().__init__(reason)
        if until is not None and getattr(until, "tzinfo", None) is None:  # a length of time is none either
            raise ValueError("Pause(until=) needs a time with a zone, such as datetime.now(UTC) + timedelta(hours=1)")
        self.until = until
