"""What is said about batches: where their documents are, whether they may be closed, and what is filed about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.core import refusal
from holdfast.core.errors import CloseRefused
from holdfast.core.model import State
from holdfast.core.plan import Shape, StepShape
from holdfast.core.refusal import Refusal, percent

NAMED = refusal.NAMED
"""So many documents are named in a refusal."""

BatchState = Literal["open", "sealed", "closed"]

CLOSING = ".closing"
"""How the name of the pipeline ends that has the closing steps of another."""

MOST_LISTED = 10_000
"""So many dead letters, and so many cancelled or missing documents, are named in a report; all are counted."""


class Counted(Struct, frozen=True, kw_only=True):
    """Documents by state. The accepted are among the dead, the orphaned among the running."""

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
        """How many documents are there, or were cleaned up after they had ended."""
        return self.done + self.dead + self.cancelled + self.running + self.waiting + self.paused

    @property
    def open(self) -> int:
        """How many documents are still to be decided."""
        return self.running + self.waiting + self.paused

    @property
    def not_accepted(self) -> int:
        """How many dead letters nobody has accepted."""
        return self.dead - self.accepted


class Reconciliation(Counted, frozen=True, kw_only=True):
    """Where all documents of one batch are, in all and by step, counted in one moment.

    Done documents have no step any more. `gone` says how many of the counted were cleaned up. `mark` grows with every
    claim and every generation: while it stays, nothing was begun.
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

    @property
    def balances(self) -> bool:
        """Whether nothing disappeared, and nothing came from nowhere."""
        return self.expected == self.found

    def closed(self, at: datetime) -> Reconciliation:
        """Gives the same batch when it is closed: all its dead letters are accepted then."""
        steps = {step: replace(counted, accepted=counted.dead) for step, counted in self.steps.items()}
        return replace(self, state="closed", closed_at=at, accepted=self.dead, steps=steps)


class DeadLetter(Struct, frozen=True):
    """A dead letter as it is filed."""

    key: str
    step: str | None
    error: str
    reason: str
    attempts: int
    crashes: int
    fingerprint: str
    accepted_by: str
    died_at: datetime


class BatchReport(Struct, frozen=True, kw_only=True):
    """What is filed about a batch: counts, failures and their reasons, hashes, versions and times.

    pipeline, batch, state, expected, balances   which batch, and whether it balances
    in_all, at_step      its documents by state; those that are not done also by step
    created_at, sealed_at, closed_at, made_at    times, in UTC
    closed_by, reason, tolerance                 who closed it, why, and the share of dead letters that was tolerated
    holdfast, plan, steps                        the version of holdfast, the digest of the plan, its steps and versions
    dead_letters         the first 10,000; in_all counts them all
    cancelled, missing   their keys, the first 10,000
    asides               how many single items were set aside
    gone                 how many documents were cleaned up before this was made
    workers              who was at work between the batch's begin and its end
    documents_sha256     over [key, fingerprint, generation, state] of each document that is there, a JSON line each,
                         in the order of their keys' bytes
    sha256               over this report, as JSON, with this field empty
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
        """Whether it is as it was made."""
        return self.sha256 == _hash(replace(self, sha256=""))

    def summary(self) -> dict[str, Any]:
        """Gives what closing steps are told as their document's payload: the counts, without the lists."""
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
    """Gives what follows a key directly: no key has a NUL in it, the one character that is smaller."""
    return key + "\x01"


class Closing(Struct, frozen=True):
    """What closing a batch came to: its report, and whether it was this call that closed it."""

    report: BatchReport
    is_new: bool


class Cleaned(Struct, frozen=True):
    """What a cleanup of a batch has deleted so far. `goes_on_at` is a key; None when there is no more to delete."""

    documents: int = 0
    items: int = 0
    asides: int = 0
    lines: int = 0
    goes_on_at: str | None = ""
    journal_id: int = 0

    def counts(self) -> dict[str, int]:
        """Gives what is told of it."""
        return {"documents": self.documents, "items": self.items, "asides": self.asides, "lines": self.lines}


NOTHING_YET = Cleaned()
"""Where a cleanup begins."""


class Examined(Struct, frozen=True, kw_only=True):
    """What a report needs besides the counts: it takes long to find, so it is found before anything is locked."""

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
    """Makes the report of a batch."""
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
    """Hashes documents in the order of their keys, as they come."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, rows: Iterable[tuple[str, str, int, State]]) -> None:
        """Adds (key, fingerprint, generation, state) of the next documents."""
        lines = [msgspec.json.encode(row) for row in rows]
        self._hash.update(b"".join([line + b"\n" for line in lines]))

    def hexdigest(self) -> str:
        """Gives the hash of all that was added."""
        return self._hash.hexdigest()


def refuse_to_close(found: Reconciliation, *, tolerate: float, dead: Sequence[str], missing: Sequence[str]) -> None:
    """Raises CloseRefused unless the batch may be closed, with everything that keeps it."""
    too_dead = found.not_accepted > tolerated(found.expected, tolerate)
    why = Refusal(
        pipeline=found.pipeline,
        batch=found.batch,
        is_open=found.state == "open",
        expected=found.expected,
        found=found.found,
        missing=tuple(missing),
        left={state: number for state in ("waiting", "running", "paused") if (number := getattr(found, state))},
        not_accepted=found.not_accepted if too_dead else 0,
        dead=tuple(dead),
        tolerate=tolerate,
    )
    if not why.is_none:
        raise CloseRefused(why)


def tolerated(expected: int, share: float) -> int:
    """Answers how many dead letters nobody has to accept by name."""
    return int(expected * share + 1e-9)


def by_tolerance(share: float) -> str:
    """Says who accepted a dead letter that nobody did by name."""
    return f"tolerance of {percent(share)}"
