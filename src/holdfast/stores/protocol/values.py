"""Types of the arguments and results of store verbs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypedDict

from holdfast.core.model import (
    Claim,
    State,
    WrittenRows,
)
from holdfast.core.moves import CommitResult, Tx
from holdfast.core.worker_deaths import Charge

MAX_PER_TRANSACTION = 2000
"""How many documents one transaction changes at most, so that workers do not wait long for it."""

Clock = Callable[[], datetime]
"""Returns the current time, with a time zone. Tests move it by hand."""


class OrphanCounts(NamedTuple):
    """What was counted against an orphan at its step since it last moved, and what was counted just now."""

    step: str
    attempts: int
    crashes: int
    losses: int
    charge: Charge


class OrphanVerdict(NamedTuple):
    """The new state of an orphan, and the delay before it is due again. `code` is its reason, if it has another one."""

    state: State
    delay: timedelta = timedelta(0)
    code: str = ""


OrphanDecision = Callable[[OrphanCounts], OrphanVerdict]
"""Decides about an orphan."""

RewindThen = Literal["wait", "park", "keep_hold"]
"""What a rewound document does next: it waits for a worker, is paused for the reason of the rewind, or, if it was
paused before, stays paused as it was."""

Timeouts = Mapping[str, timedelta]
"""How long a document may be in a step, for the steps that have a timeout."""

StepTimes = Mapping[str, tuple[int, float]]
"""For each step: how many documents passed it, and how many seconds its bodies took in all."""

Exchanged = tuple[list[CommitResult], list[Claim]]
"""The results of the committed moves, and the new claims."""

RenameEffect = Callable[[Tx, list[str]], object]
"""Renames rows of other tables in the same transaction. It gets the transaction and the old keys of the documents."""

UndoRows = Callable[[Tx, Sequence[WrittenRows]], object]
"""Removes what the effects of documents wrote, in the same transaction."""


ClaimChoice = Literal["due", "suspect"] | int
"""Which documents are claimed.

due       due documents that are not suspects
suspect   a due document that crashed its workers, or lost many; the worker must process it alone
an id     this document, if it waits, even if it is not due
"""


class Scope(TypedDict, total=False):
    """Which documents are claimed, and how long they may be in their steps. By default all documents, without limit.

    No document is claimed at a step that is `paused`.
    """

    batch: str | None
    timeouts: Timeouts
    paused: Collection[str]


class ItemFilter(TypedDict, total=False):
    """Which items that were set aside are selected: those that match every given value. None matches all.

    batch   the name of the batch of their document
    key     the key of their document, or a pattern: * matches any text, ? matches one character
    step    the step in which they failed
    error   the class of their error
    text    a text that their error contains, its class included, upper or lower case
    """

    batch: str | None
    key: str | None
    step: str | None
    error: str | None
    text: str | None


ItemPlace = tuple[int, str, int]
"""Where an item is: the id of its document, its step, and its position."""


class DocumentFilter(TypedDict, total=False):
    """Which documents of a pipeline are selected: those that match every given value. None matches all.

    batch     the name of their batch
    key       their key, or a pattern: * matches any text, ? matches one character
    state     their state
    step      the step at which they are
    error     the class of their last error
    code      their reason code
    text      a text that their reason contains, upper or lower case
    idle      how long ago they last moved, at least
    accepted  True for accepted dead letters, False for all other documents
    plan      the id of the plan that they are pinned to
    """

    batch: str | None
    key: str | None
    state: State | None
    step: str | None
    error: str | None
    code: str | None
    text: str | None
    idle: timedelta | None
    accepted: bool | None
    plan: int | None
