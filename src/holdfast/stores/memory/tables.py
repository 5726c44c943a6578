"""What the memory store keeps: tables of rows, and a way to take back what a failed verb wrote.

Rows are frozen. What the CHECKs of the SQL stores forbid cannot be made here either.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from sqlite3 import IntegrityError
from typing import Literal, TypeVar

from msgspec import Struct

from holdfast.core.codec import Kept
from holdfast.core.model import STATES, Aside, Entry, State, Worker
from holdfast.core.plan import Shape

K = TypeVar("K")
V = TypeVar("V")

Undo = list[Callable[[], object]]
"""What to do, last first, to be where the transaction began."""

Place = tuple[int, int, int]
"""Where items are: document, generation, step."""


class Table(dict[K, V]):
    """Rows by their key. Remembers in the undo list what it overwrites."""

    def __init__(self, undo: Undo) -> None:
        super().__init__()
        self._undo = undo

    def __setitem__(self, key: K, row: V) -> None:
        restore = partial(super().__setitem__, key, self[key]) if key in self else partial(super().__delitem__, key)
        self._undo.append(restore)
        super().__setitem__(key, row)

    def __delitem__(self, key: K) -> None:
        self._undo.append(partial(super().__setitem__, key, self[key]))
        super().__delitem__(key)


class Shelves(dict[K, Table[int, V]]):
    """Numbered rows by the place they belong to: items by position, journal lines by number."""

    def __init__(self, undo: Undo) -> None:
        super().__init__()
        self._undo = undo

    def __missing__(self, place: K) -> Table[int, V]:
        table = self[place] = Table(self._undo)
        return table


class Tables:
    """Everything that is kept. Numbers are given from 1, as the SQL stores do."""

    def __init__(self) -> None:
        self.undo: Undo = []
        self.pipelines: Table[str, int] = Table(self.undo)
        self.steps: Table[int, StepRow] = Table(self.undo)
        self.plans: Table[int, PlanRow] = Table(self.undo)
        self.batches: Table[int, BatchRow] = Table(self.undo)
        self.workers: Table[int, WorkerRow] = Table(self.undo)
        self.documents: Table[int, DocumentRow] = Table(self.undo)
        self.keys: Table[tuple[int, str], int] = Table(self.undo)
        self.items: Shelves[Place, ItemRow] = Shelves(self.undo)
        self.asides: Shelves[Place, Aside] = Shelves(self.undo)
        self.permits: Shelves[int, int] = Shelves(self.undo)
        self.paces: Table[int, tuple[int, float]] = Table(self.undo)
        self.journals: Shelves[int, Entry] = Shelves(self.undo)
        self.batch_journals: Shelves[int, Entry] = Shelves(self.undo)
        self.manifests: Table[int, tuple[str, ...]] = Table(self.undo)
        self.last_numbers: Table[str, int] = Table(self.undo)

    def next_number(self, table: str) -> int:
        """Gives a number that was never given before: whoever still knows a deleted row must not find another."""
        number = self.last_numbers[table] = self.last_numbers.get(table, 0) + 1
        return number

    def take_back(self) -> None:
        """Makes everything as it was when the transaction began."""
        while self.undo:
            self.undo.pop()()


class StepRow(Struct, frozen=True):
    """A step that a pipeline has, or had. A renamed one keeps its number, so documents and items follow."""

    id: int
    pipeline_id: int
    name: str


class PlanRow(Struct, frozen=True):
    """A shape that a pipeline has, or had, and the numbers of its steps in order. Without a time nobody declared it."""

    id: int
    pipeline_id: int
    shape: Shape
    step_ids: tuple[int, ...]
    declared_at: datetime | None


class BatchRow(Struct, frozen=True):
    """A batch, and how many documents were ever submitted to it."""

    id: int
    pipeline_id: int
    name: str
    created_at: datetime
    state: Literal["open", "sealed", "closed"] = "open"
    expected: int = 0
    gone_done: int = 0
    gone_dead: int = 0
    gone_cancelled: int = 0
    sealed_at: datetime | None = None
    closed_at: datetime | None = None
    report: str | None = None

    def __post_init__(self) -> None:
        closed = self.state == "closed"
        _forbid(
            closed_without_a_time=closed != (self.closed_at is not None),
            closed_without_a_report=closed != (self.report is not None),
        )

    @property
    def gone(self) -> dict[str, int]:
        """How many documents were cleaned up, by the state they had."""
        return {"done": self.gone_done, "dead": self.gone_dead, "cancelled": self.gone_cancelled}


class WorkerRow(Struct, frozen=True):
    """One incarnation of a worker, and when it last said that it lives."""

    worker: Worker
    beat_at: datetime
    gone_at: datetime | None = None

    @property
    def gone(self) -> bool:
        """Whether it left, or was given up."""
        return self.gone_at is not None

    def __post_init__(self) -> None:
        _forbid(lease_is_not_positive=self.worker.lease.total_seconds() <= 0)

    def is_stale(self, now: datetime) -> bool:
        """Answers whether it was silent for longer than its lease."""
        return self.beat_at + self.worker.lease < now


class ItemRow(Struct, frozen=True):
    """A value that a step kept, and when."""

    value: Kept
    kept_at: datetime


class DocumentRow(Struct, frozen=True):
    """A document and its checkpoint: generation, step, cursor, and the number of moves that led there.

    The step is the one to run next; a document without one is done. A claim sets `worker_id` and raises `fence`;
    whoever writes later names the fence, generation and moves that it expects. `worked_by` had it last.
    """

    id: int
    pipeline_id: int
    batch_id: int
    plan_id: int
    key: str
    payload: str
    fingerprint: str
    submission: int
    part: int
    priority: int
    submitted_at: datetime
    moved_at: datetime
    step_id: int | None
    due_at: datetime | None
    state: State = "waiting"
    generation: int = 0
    cursor: str | None = None
    moves: int = 0
    fence: int = 0
    worker_id: int | None = None
    worked_by: int | None = None
    attempts: int = 0
    crashes: int = 0
    deadline_at: datetime | None = None
    claimed_at: datetime | None = None
    reason: str = ""
    error: str = ""
    accepted_by: str | None = None
    reuses: dict[int, int] | None = None
    serves: dict[int, int] | None = None
    cleaned_at: datetime | None = None

    def due_after(self, delay: timedelta, now: datetime) -> datetime:
        """What is due at once keeps its place in the queue: work that was begun comes first."""
        return now + delay if delay else self.submitted_at

    def __post_init__(self) -> None:
        _forbid(
            state_is_unknown=self.state not in STATES,
            running_without_a_worker=(self.state == "running") != (self.worker_id is not None),
            done_with_a_step=(self.state == "done") != (self.step_id is None),
            waiting_without_a_time=self.state == "waiting" and self.due_at is None,
            deadline_without_running=self.state != "running" and self.deadline_at is not None,
            running_without_a_claim=self.state == "running" and self.claimed_at is None,
            cleaned_up_while_open=self.cleaned_at is not None and self.state not in ("done", "dead", "cancelled"),
            accepted_without_being_dead=self.state != "dead" and self.accepted_by is not None,
            negative_count=min(self.attempts, self.crashes, self.moves, self.fence, self.generation) < 0,
        )

    def generation_of(self, step_id: int) -> int:
        """Answers which generation's items serve a step: the present one, or an earlier one that is reused."""
        return (self.reuses or {}).get(step_id, self.generation)


def _forbid(**wrongs: bool) -> None:
    for wrong, found in wrongs.items():
        if found:
            raise IntegrityError(f"CHECK constraint failed: {wrong}")
