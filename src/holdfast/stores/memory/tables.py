"""The tables of the memory store, and how a failed transaction is rolled back.

Rows are frozen. They check the same rules as the CHECK constraints of the SQL stores.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from sqlite3 import IntegrityError
from typing import Any, Literal, TypeVar

from msgspec import Struct

from holdfast.core.batches import DEFAULT_DEADLINE_ACTION, DeadlineAction
from holdfast.core.codec import Kept
from holdfast.core.model import STATES, FailedItem, JournalEntry, State, WorkerRecord
from holdfast.core.plan import Shape
from holdfast.core.retry import is_suspect
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath

K = TypeVar("K")
V = TypeVar("V")

Undo = list[Callable[[], object]]
"""What to call, the last first, to roll a transaction back."""

Place = tuple[int, int, int]
"""The key of items: document, generation, step."""


class UndoTable(dict[K, V]):
    """Rows by key. It records in the undo list how to revert each change."""

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


class GroupedTable(dict[K, UndoTable[int, V]]):
    """Tables by key: items by position, journal entries by number."""

    def __init__(self, undo: Undo) -> None:
        super().__init__()
        self._undo = undo

    def __missing__(self, place: K) -> UndoTable[int, V]:
        table = self[place] = UndoTable(self._undo)
        return table


class Tables:
    """All tables. Ids start at 1, as in the SQL stores."""

    def __init__(self) -> None:
        self.undo: Undo = []
        self.pipelines: UndoTable[str, int] = UndoTable(self.undo)
        self.scans: UndoTable[int, datetime] = UndoTable(self.undo)
        self.steps: UndoTable[int, StepRow] = UndoTable(self.undo)
        self.plans: UndoTable[int, PlanRow] = UndoTable(self.undo)
        self.batches: UndoTable[int, BatchRow] = UndoTable(self.undo)
        self.workers: UndoTable[int, WorkerRow] = UndoTable(self.undo)
        self.documents: UndoTable[int, DocumentRow] = UndoTable(self.undo)
        self.keys: UndoTable[tuple[int, str], int] = UndoTable(self.undo)
        self.items: GroupedTable[Place, StoredItem] = GroupedTable(self.undo)
        self.asides: GroupedTable[Place, FailedItem] = GroupedTable(self.undo)
        self.permits: GroupedTable[int, int] = GroupedTable(self.undo)
        self.step_times: UndoTable[int, tuple[int, float]] = UndoTable(self.undo)
        self.worked_at: UndoTable[int, datetime] = UndoTable(self.undo)
        self.circuits: UndoTable[int, CircuitRow] = UndoTable(self.undo)
        self.journals: GroupedTable[int, JournalEntry] = GroupedTable(self.undo)
        self.batch_journals: GroupedTable[int, JournalEntry] = GroupedTable(self.undo)
        self.manifests: UndoTable[int, tuple[str, ...]] = UndoTable(self.undo)
        self.last_numbers: UndoTable[str, int] = UndoTable(self.undo)

    def next_number(self, table: str) -> int:
        """Return a new id. Ids of deleted rows are never used again, because others may still know them."""
        number = self.last_numbers[table] = self.last_numbers.get(table, 0) + 1
        return number

    def roll_back(self) -> None:
        """Revert all changes since the start of the transaction."""
        while self.undo:
            self.undo.pop()()


class StepRow(Struct, frozen=True):
    """A step that a pipeline has or had. A renamed one keeps its id, so documents and items need no change.

    `rows_left` says whether somebody was told that its effect left rows of an earlier generation behind.
    """

    id: int
    pipeline_id: int
    name: str
    rows_left: bool = False


class PlanRow(Struct, frozen=True):
    """A shape that a pipeline has or had, and the ids of its steps. A combined plan has no `declared_at`."""

    id: int
    pipeline_id: int
    shape: Shape
    step_ids: tuple[int, ...]
    declared_at: datetime | None


class BatchRow(Struct, frozen=True):
    """A batch, with the number of documents that were submitted to it."""

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
    deadline_at: datetime | None = None
    deadline_action: DeadlineAction = DEFAULT_DEADLINE_ACTION
    expired_at: datetime | None = None

    def __post_init__(self) -> None:
        closed = self.state == "closed"
        _forbid(
            closed_without_a_time=closed != (self.closed_at is not None),
            closed_without_a_report=closed != (self.report is not None),
            expired_without_a_deadline=self.expired_at is not None and self.deadline_at is None,
        )

    @property
    def gone(self) -> dict[str, int]:
        """The number of cleaned-up documents, by the state they had."""
        return {"done": self.gone_done, "dead": self.gone_dead, "cancelled": self.gone_cancelled}


class WorkerRow(Struct, frozen=True):
    """A worker, and the time of its last heartbeat."""

    worker: WorkerRecord
    heartbeat_at: datetime
    gone_at: datetime | None = None
    death: WorkerDeath = UNKNOWN_DEATH

    @property
    def gone(self) -> bool:
        """True if it retired or was marked as dead."""
        return self.gone_at is not None

    def __post_init__(self) -> None:
        _forbid(lease_is_not_positive=self.worker.lease.total_seconds() <= 0)

    def is_stale(self, now: datetime) -> bool:
        """Return True if its last heartbeat is longer ago than its lease."""
        return self.heartbeat_at + self.worker.lease < now


class CircuitRow(Struct, frozen=True):
    """A step that is paused for all documents, or was so once. `probe` is the document that was tried last: id, fence.

    It is open if it has a time at which it opened.
    """

    step_id: int
    opened_at: datetime | None = None
    opened_by: str = ""
    failures: int = 0
    error: str = ""
    category: str = ""
    reason: str = ""
    probes: int = 0
    probe_at: datetime | None = None
    probe: tuple[int, int] | None = None
    closed_at: datetime | None = None
    closed_by: str = ""
    close_reason: str = ""

    def __post_init__(self) -> None:
        _forbid(
            open_without_a_probe=(self.opened_at is None) != (self.probe_at is None),
            negative_count=min(self.failures, self.probes) < 0,
        )


class StoredItem(Struct, frozen=True):
    """A value that a step kept, and the time."""

    value: Kept
    kept_at: datetime


NO_SETBACKS: dict[str, Any] = {"losses": 0, "deferrals": 0, "deferred_at": None, "interruptions": 0}
"""The counts of a document that has moved, beside attempts and crashes."""


class DocumentRow(Struct, frozen=True):
    """A document and its checkpoint: generation, step, cursor, and the number of moves that led there.

    The step is the next one to run; a document without one is done. A claim sets `worker_id` and raises `fence`. Every
    later write names the fence, generation and moves that it expects. `worked_by` is the last worker.
    `waits_since` is when `due_at` was written; None if that is a moment that somebody gave.
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
    waits_since: datetime | None = None
    state: State = "waiting"
    generation: int = 0
    cursor: str | None = None
    moves: int = 0
    fence: int = 0
    worker_id: int | None = None
    worked_by: int | None = None
    attempts: int = 0
    crashes: int = 0
    losses: int = 0
    deferrals: int = 0
    deferred_at: datetime | None = None
    interruptions: int = 0
    recoverable: bool | None = None
    effects: dict[int, int] = {}
    extents: dict[int, int] | None = None
    totals: dict[int, int] | None = None
    deadline_at: datetime | None = None
    claimed_at: datetime | None = None
    reason: str = ""
    code: str = ""
    error: str = ""
    accepted_by: str | None = None
    reuses: dict[int, int] | None = None
    serves: dict[int, int] | None = None
    cleaned_at: datetime | None = None

    def due_after(self, delay: timedelta, now: datetime) -> datetime:
        """Return when it is due. Without a delay it is due since its submission, so that started work comes first."""
        return now + delay if delay else min(self.submitted_at, now)

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
            negative_count=min(
                self.attempts,
                self.crashes,
                self.losses,
                self.deferrals,
                self.interruptions,
                self.moves,
                self.fence,
                self.generation,
            )
            < 0,
        )

    @property
    def is_suspect(self) -> bool:
        """True if it has to be processed alone."""
        return is_suspect(crashes=self.crashes, losses=self.losses)

    def generation_of(self, step_id: int) -> int:
        """Return the generation of a step's items: the current one, or an earlier one that is reused."""
        return (self.reuses or {}).get(step_id, self.generation)


def _forbid(**wrongs: bool) -> None:
    for wrong, found in wrongs.items():
        if found:
            raise IntegrityError(f"CHECK constraint failed: {wrong}")
