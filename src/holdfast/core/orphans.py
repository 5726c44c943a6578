"""Orphans: running documents that no worker seems to advance. How they are found, and what is done with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from holdfast.core.formatting import format_duration
from holdfast.core.model import DocumentStatus, State
from holdfast.core.reasons import ORPHAN_OVERDUE, ORPHAN_SILENT, ORPHAN_STUCK, sentence

Strategy = Literal["requeue", "fail", "review"]
"""What is done with an orphan: requeue it, make it a dead letter, or pause it for a person."""

STRATEGIES: dict[Strategy, State] = {"requeue": "waiting", "fail": "dead", "review": "paused"}

Sign = Literal["silent", "overdue", "stuck"]
"""Why a document is an orphan: its worker is silent, its step is overdue, or it does not move."""

ERRORS: dict[Sign, str] = {"silent": "WorkerGone", "overdue": "Overdue", "stuck": "NoProgress"}
"""The value of hf_document.error for each, for filters."""

WORKER_CRASHED_ERROR = "WorkerCrashed"
"""The value of hf_document.error for a silent worker that crashed, with evidence."""

GRACE = timedelta(hours=2)
"""How long a document must show no sign of life before a scan calls it an orphan."""


class Orphan(Struct, frozen=True):
    """A running document that no worker seems to advance: since when, why, and whether its worker is alive.

    `fence` and the number of moves identify this finding. If either changed, the document was worked on since.
    """

    document: DocumentStatus
    fence: int
    sign: Sign
    since: datetime
    why: str
    alive: bool


def orphan_of(document: DocumentStatus, fence: int, *, heartbeat_at: datetime, silent: bool, now: datetime) -> Orphan:
    """Return why a document is an orphan. Check its worker first, then its deadline."""
    step, deadline = document.checkpoint.step, document.deadline_at
    if silent:
        why = sentence(ORPHAN_SILENT, worker=document.holder, since=format_utc(heartbeat_at))
        return Orphan(document, fence, "silent", heartbeat_at, why, alive=False)
    if deadline is not None and deadline < now:
        why = sentence(ORPHAN_OVERDUE, step=step, since=format_utc(deadline))
        return Orphan(document, fence, "overdue", deadline, why, alive=True)
    since = last_progress(document)
    why = sentence(ORPHAN_STUCK, step=step, duration=format_duration((now - since).total_seconds()))
    return Orphan(document, fence, "stuck", since, why, alive=True)


def last_progress(document: DocumentStatus) -> datetime:
    """Return when a document last moved or was claimed."""
    return max(document.moved_at, document.claimed_at or document.moved_at)


def format_utc(when: datetime) -> str:
    """Format a time in UTC. Stored reasons must read the same for everybody."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
