"""The values that stores, engine and readers hand each other. All frozen; state lives in the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from holdfast.core.codec import Kept, unkept
from holdfast.core.errors import CannotKeep

State = Literal["waiting", "running", "paused", "done", "dead", "cancelled"]
STATES: tuple[State, ...] = ("waiting", "running", "paused", "done", "dead", "cancelled")
OPEN_STATES: tuple[State, ...] = ("waiting", "running", "paused")

ON_HOLD = "OnHold"
"""The `error` of documents that somebody paused: they wait for nobody's decision, at a gate neither."""

WHOLE = -1
"""The position of a value that is not a list: the step returned one thing, and this is it."""


LEAST = -(2**31)
"""The lowest priority that every database keeps."""


class NewDocument(Struct, frozen=True):
    """A document to submit: its name within the batch, what bodies need, and a mark that changes with its content."""

    key: str
    payload: Any = None
    fingerprint: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        for text in (self.key, self.fingerprint):
            if why := unkept(text):
                raise CannotKeep(f"the document {self.key!r} cannot be kept: its name or fingerprint {why}")
        if not LEAST <= self.priority <= -LEAST - 1:
            raise CannotKeep(f"the document {self.key!r} cannot be kept: its priority {self.priority} has over 32 bits")


class Receipt(Struct, frozen=True):
    """What a submit found: new documents, changed ones (a new generation each), and unchanged ones."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: Receipt) -> Receipt:
        return Receipt(self.new + other.new, self.changed + other.changed, self.unchanged + other.unchanged)

    @property
    def total(self) -> int:
        """How many documents were named."""
        return self.new + self.changed + self.unchanged


class Plan(Struct, frozen=True):
    """A pipeline as a store knows it: the numbers it gave to the pipeline, its shape and its steps, in order."""

    pipeline: str
    pipeline_id: int
    plan_id: int
    step_ids: dict[str, int]
    gates: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """The number of the step at which documents begin."""
        return next(iter(self.step_ids.values()))

    @property
    def gate_ids(self) -> list[int]:
        """The numbers of its gates."""
        return [self.step_ids[gate] for gate in self.gates]

    @property
    def body_ids(self) -> list[int]:
        """The numbers of its steps that are no gates."""
        return [number for step, number in self.step_ids.items() if step not in self.gates]

    def before(self, step: str) -> list[str]:
        """Names the steps before one."""
        names = list(self.step_ids)
        return names[: names.index(step)]


class Checkpoint(Struct, frozen=True, gc=False):
    """How far a document is. `step` is the one to run next, None past the last; `moves` counts what led here."""

    generation: int
    step: str | None
    cursor: Any
    moves: int


class Claim(Struct, frozen=True):
    """The exclusive, expiring right to advance one document, with all a worker needs to do so.

    `damage` says what of the document's row cannot be read; such a document is parked, never worked on.
    """

    document_id: int
    fence: int
    batch: str
    key: str
    payload: Any
    fingerprint: str
    checkpoint: Checkpoint
    attempts: int
    crashes: int
    cursor_age: timedelta
    reuses: dict[str, int] | None = None
    damage: str = ""


class Item(Struct, frozen=True, gc=False):
    """One value that a step kept, at its position."""

    step: str
    position: int
    value: Kept


class Aside(Struct, frozen=True):
    """One item that a step could not do, set aside with its error while the rest went on."""

    position: int
    tries: int
    error: Failure


class Failure(Struct, frozen=True):
    """What went wrong: for a person, for the journal and for filters."""

    kind: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


class Worker(Struct, frozen=True):
    """One incarnation of a worker. A name is never used twice: a restarted process is another worker."""

    id: int
    name: str
    host: str
    pid: int
    born: str
    lease: timedelta
    enlisted_at: datetime | None = None


class Balance(Struct, frozen=True):
    """A batch's promise: expected = done + dead + cancelled + running + waiting + paused."""

    expected: int
    waiting: int = 0
    running: int = 0
    paused: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0

    @property
    def found(self) -> int:
        """How many documents are there, whatever their state."""
        return self.waiting + self.running + self.paused + self.done + self.dead + self.cancelled

    @property
    def balances(self) -> bool:
        """Whether nothing disappeared."""
        return self.expected == self.found

    @property
    def open(self) -> int:
        """How many documents are still to be decided."""
        return self.waiting + self.running + self.paused


class Batch(Struct, frozen=True):
    """Documents that belong together."""

    pipeline: str
    name: str
    state: Literal["open", "sealed", "closed"]
    created_at: datetime
    balance: Balance
    at_step: dict[str, int]


class Survey(Struct, frozen=True):
    """What can be seen of a pipeline from outside, at one moment: the numbers behind its gauges."""

    pipeline: str
    documents: dict[tuple[State, str | None], int]
    """How many there are, by state and step."""
    dead: dict[tuple[str, str], int]
    """How many dead letters there are, by step and class of error."""
    oldest_due: timedelta | None
    """How long the document that has waited longest could have been worked on; None when none is due."""
    orphans: int
    """How many documents are held by workers that are gone or silent, or are overdue in their step."""


class Entry(Struct, frozen=True):
    """One line of the journal: who did what to a document, and why."""

    at: datetime
    verb: str
    who: str
    generation: int
    step: str | None
    cursor: Any
    detail: Any


class Decision(Struct, frozen=True):
    """What somebody decided about a document that was parked: who, why, the answer to its question, and when."""

    who: str
    reason: str
    answer: Any
    at: datetime


class Output(Struct, frozen=True):
    """What one step kept for a document: how many items, how many set aside, and when."""

    step: str
    items: int
    aside: int
    first_at: datetime | None
    last_at: datetime | None


class Standing(Struct, frozen=True):
    """Where one document stands, for people and programs that look.

    `worked_by` names the worker that had it last. It is None before the first, after it was begun anew, and when that
    worker was cleaned up.
    """

    id: int
    pipeline: str
    batch: str
    key: str
    payload: Any
    fingerprint: str
    priority: int
    state: State
    checkpoint: Checkpoint
    attempts: int
    crashes: int
    reason: str
    holder: str
    submitted_at: datetime
    moved_at: datetime
    due_at: datetime | None
    error: str = ""
    accepted_by: str = ""
    claimed_at: datetime | None = None
    deadline_at: datetime | None = None
    cleaned_at: datetime | None = None
    plan_id: int = 0
    worked_by: str | None = None


class Worked(Struct, frozen=True):
    """What a worker brought to an end, in all pipelines: how many documents are done by it, and how many dead."""

    worker: Worker
    gone: bool
    done: int
    dead: int
