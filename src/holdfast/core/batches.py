"""Batches: counts of documents by state, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.core.formatting import format_time
from holdfast.core.model import DocumentStatus, State
from holdfast.core.plan import Shape, StepShape

BatchState = Literal["open", "sealed", "closed"]

DeadlineAction = Literal["fail", "cancel"]
"""What happens to documents that are open at the deadline of their batch: they become dead, or are cancelled."""

DEFAULT_DEADLINE_ACTION: DeadlineAction = "fail"

AT_DEADLINE: dict[DeadlineAction, State] = {"fail": "dead", "cancel": "cancelled"}

CLOSING = ".closing"
"""The closing steps of pipeline `p` are a pipeline named `p` plus this suffix."""

MOST_LISTED = 10_000
"""How many dead letters, cancelled and missing documents a report lists, at most. All are counted."""


class Counted(Struct, frozen=True, kw_only=True):
    """How many documents are in each state. `accepted` is part of `dead`, `orphaned` is part of `running`."""

    done: int = 0
    dead: int = 0
    accepted: int = 0
    cancelled: int = 0
    running: int = 0
    orphaned: int = 0
    waiting: int = 0
    paused: int = 0

    @property
    def found(self) -> int:
        """How many documents there are, including those that were cleaned up after they ended."""
        return self.done + self.dead + self.cancelled + self.running + self.waiting + self.paused

    @property
    def open(self) -> int:
        """How many documents have not ended: running, waiting or paused."""
        return self.running + self.waiting + self.paused

    @property
    def not_accepted(self) -> int:
        """How many dead letters nobody accepted."""
        return self.dead - self.accepted


class Reconciliation(Counted, frozen=True, kw_only=True):
    """The documents of one batch by state and step, counted in one query.

    `steps` has no entry for done documents. `gone` is how many of the counted documents were cleaned up. `mark` grows
    with every claim and every generation: if it did not change, no work was started. `expired_at` is when the last
    document was ended after the deadline.
    """

    pipeline: str
    batch: str
    state: BatchState
    expected: int
    created_at: datetime
    sealed_at: datetime | None = None
    closed_at: datetime | None = None
    moved_at: datetime | None = None
    gone: int = 0
    mark: int = 0
    steps: dict[str, Counted] = {}
    deadline_at: datetime | None = None
    deadline_action: DeadlineAction = DEFAULT_DEADLINE_ACTION
    expired_at: datetime | None = None

    @property
    def balances(self) -> bool:
        """True if the number of documents is the expected one."""
        return self.expected == self.found

    def closed(self, at: datetime) -> Reconciliation:
        """Return the counts after closing: all dead letters are accepted then."""
        steps = {step: replace(counted, accepted=counted.dead) for step, counted in self.steps.items()}
        return replace(self, state="closed", closed_at=at, accepted=self.dead, steps=steps)


def describe_deadline(found: Reconciliation) -> str:
    """Return what the deadline of a batch does to its documents, or what it did; empty if it has none."""
    if found.deadline_at is None:
        return ""
    at = format_time(found.deadline_at)
    if found.expired_at is not None:
        ended = {"fail": "became dead letters", "cancel": "were cancelled"}[found.deadline_action]
        return f"The deadline of batch {found.batch} has passed: documents that were open at {at} {ended}."
    ending = {"fail": "become dead letters", "cancel": "are cancelled"}[found.deadline_action]
    return f"Documents of batch {found.batch} that are still open at {at} {ending}."


class ExpiredBatch(Struct, frozen=True):
    """A batch whose deadline has passed, and the documents that one call has ended.

    `is_over` is True if no document was left to end.
    """

    batch: str
    deadline_at: datetime
    action: DeadlineAction
    documents: tuple[DocumentStatus, ...] = ()
    is_over: bool = False


class DeadLetter(Struct, frozen=True, omit_defaults=True):
    """A dead letter in a report.

    `recoverable` says whether its error can go away by itself, and `losses` how often its worker was lost. They are
    left out of the report if nobody knows and if there were none, so that the hashes of older reports stay the same.
    """

    key: str
    step: str | None
    error: str
    reason: str
    attempts: int
    crashes: int
    fingerprint: str
    accepted_by: str
    died_at: datetime
    recoverable: bool | None = None
    losses: int = 0


class BatchReport(Struct, frozen=True, kw_only=True):
    """A report about a batch, to be filed: counts, failures with reasons, hashes, versions and times.

    Attributes:
        pipeline: The pipeline.
        batch: The batch.
        state: `"open"`, `"sealed"` or `"closed"`.
        expected: How many documents were submitted.
        balances: True if all of them are there.
        in_all: How many documents are in each state.
        at_step: The same by step, for documents that are not done.
        created_at: When the batch was created. All times are in UTC.
        sealed_at: When it was sealed.
        closed_at: When it was closed.
        made_at: When this report was made.
        closed_by: Who closed it.
        reason: Why.
        tolerance: The share of dead letters that needed no acceptance.
        holdfast: The version of holdfast.
        plan: A hash of the steps of the pipeline.
        steps: The steps with their versions and settings.
        dead_letters: The first 10,000 dead letters. `in_all` counts all.
        cancelled: The keys of the first 10,000 cancelled documents.
        missing: The keys of the first 10,000 missing documents.
        asides: How many single items were set aside.
        gone: How many documents were cleaned up before this report was made.
        workers: The workers that ran between the beginning and the end of the batch.
        documents_sha256: A hash over `[key, fingerprint, generation, state]` of every document: one JSON line each, in
            the order of the bytes of the keys.
        sha256: A hash over this report as JSON, with this field empty.
    """

    pipeline: str
    batch: str
    state: BatchState
    expected: int
    balances: bool
    in_all: Counted
    at_step: dict[str, Counted]
    created_at: datetime
    sealed_at: datetime | None
    closed_at: datetime | None
    made_at: datetime
    closed_by: str = ""
    reason: str = ""
    tolerance: float = 0.0
    holdfast: str
    plan: str
    steps: tuple[StepShape, ...]
    dead_letters: tuple[DeadLetter, ...] = ()
    cancelled: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    asides: int = 0
    gone: int = 0
    workers: tuple[str, ...] = ()
    documents_sha256: str = ""
    sha256: str = ""

    @property
    def is_whole(self) -> bool:
        """True if `sha256` is the hash of the report: nobody changed it."""
        return self.sha256 == _hash(replace(self, sha256=""))

    def summary(self) -> dict[str, Any]:
        """Return the report without its lists. Closing steps get it as the payload of their document.

        Returns:
            The batch, the counts, who closed it and why, and the hashes.
        """
        return {
            "pipeline": self.pipeline,
            "batch": self.batch,
            "expected": self.expected,
            **asdict(self.in_all),
            "asides": self.asides,
            "closed_at": None if self.closed_at is None else self.closed_at.isoformat(),
            "closed_by": self.closed_by,
            "reason": self.reason,
            "documents_sha256": self.documents_sha256,
            "report_sha256": self.sha256,
        }


def past(key: str) -> str:
    """Return the smallest text after a key. Keys contain no NUL, the only character below `\\x01`."""
    return key + "\x01"


class Closing(Struct, frozen=True):
    """The result of closing a batch: its report, and whether this call closed it."""

    report: BatchReport
    is_new: bool


class Cleaned(Struct, frozen=True):
    """What a cleanup of a batch has deleted so far. It goes on at the key `goes_on_at`; None means finished."""

    documents: int = 0
    items: int = 0
    asides: int = 0
    lines: int = 0
    goes_on_at: str | None = ""
    journal_id: int = 0

    def counts(self) -> dict[str, int]:
        """Return the counts for people and programs."""
        return {"documents": self.documents, "items": self.items, "asides": self.asides, "lines": self.lines}


NOTHING_YET = Cleaned()
"""The beginning of a cleanup."""


class Examined(Struct, frozen=True, kw_only=True):
    """What a report needs besides counts. It is slow to collect, so it is collected before anything is locked."""

    shape: Shape
    holdfast: str
    documents_sha256: str = ""
    asides: int = 0
    cancelled: Sequence[str] = ()
    missing: Sequence[str] = ()
    workers: Sequence[str] = ()


def report_of(
    found: Reconciliation, examined: Examined, dead_letters: Iterable[DeadLetter], *, made_at: datetime, **closed: Any
) -> BatchReport:
    """Make the report of a batch."""
    shape = examined.shape
    report = BatchReport(
        pipeline=found.pipeline,
        batch=found.batch,
        state=found.state,
        expected=found.expected,
        balances=found.balances,
        in_all=_only_counts(found),
        at_step=found.steps,
        created_at=found.created_at,
        sealed_at=found.sealed_at,
        closed_at=found.closed_at,
        made_at=made_at,
        holdfast=examined.holdfast,
        plan=shape.digest(),
        steps=shape.steps,
        dead_letters=tuple(dead_letters),
        cancelled=tuple(examined.cancelled),
        missing=tuple(examined.missing),
        asides=examined.asides,
        gone=found.gone,
        workers=tuple(examined.workers),
        documents_sha256=examined.documents_sha256,
        **closed,
    )
    return replace(report, sha256=_hash(report))


def _only_counts(found: Reconciliation) -> Counted:
    return Counted(**{field: getattr(found, field) for field in Counted.__struct_fields__})


def _hash(report: BatchReport) -> str:
    return sha256(msgspec.json.encode(report)).hexdigest()


class DocumentsHash:
    """Hash documents one after the other. The caller adds them in the order of their keys."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, rows: Iterable[tuple[str, str, int, State]]) -> None:
        """Add (key, fingerprint, generation, state) of the next documents."""
        lines = [msgspec.json.encode(row) for row in rows]
        self._hash.update(b"".join([line + b"\n" for line in lines]))

    def hexdigest(self) -> str:
        """Return the hash of all documents that were added."""
        return self._hash.hexdigest()
