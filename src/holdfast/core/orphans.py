"""Orphans: running documents that nobody seems to advance, how that is known, and what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from holdfast.core.model import Standing, State
from holdfast.core.words import span

Strategy = Literal["requeue", "fail", "review"]
"""What becomes of an orphan: it waits again at its checkpoint, is a dead letter, or is paused for a person."""

STRATEGIES: dict[Strategy, State] = {"requeue": "waiting", "fail": "dead", "review": "paused"}

Sign = Literal["silent", "overdue", "stuck"]
"""What gives an orphan away: its worker, its deadline, or that it does not move."""

ERRORS: dict[Sign, str] = {"silent": "WorkerGone", "overdue": "Overdue", "stuck": "NoProgress"}
"""The word for each in hf_document.error, for filters."""

GRACE = timedelta(hours=2)
"""How long ago the last sign of life has to be before a scan calls a document an orphan."""


class Orphan(Struct, frozen=True):
    """A running document that nobody seems to advance: since when, why that is thought, and whether its worker lives.

    `fence` and the moves of its checkpoint say which orphaning is meant: whatever happened since makes it another.
    """

    standing: Standing
    fence: int
    sign: Sign
    since: datetime
    why: str
    alive: bool


def orphan_of(standing: Standing, fence: int, *, beat_at: datetime, silent: bool, now: datetime) -> Orphan:
    """Says of a running document that is an orphan why it is one: the worker first, the deadline next."""
    step, deadline = standing.checkpoint.step, standing.deadline_at
    if silent:
        why = f"worker {standing.holder} is silent since {on_the_clock(beat_at)}"
        return Orphan(standing, fence, "silent", beat_at, why, alive=False)
    if deadline is not None and deadline < now:
        why = f"overdue at {step} since {on_the_clock(deadline)}"
        return Orphan(standing, fence, "overdue", deadline, why, alive=True)
    since = last_progress(standing)
    why = f"no progress at {step} for {span((now - since).total_seconds())}"
    return Orphan(standing, fence, "stuck", since, why, alive=True)


def last_progress(standing: Standing) -> datetime:
    """Gives the moment at which a document last moved, or was claimed."""
    return max(standing.moved_at, standing.claimed_at or standing.moved_at)


def on_the_clock(when: datetime) -> str:
    """Gives a moment as it is kept in reasons: the same for whoever reads it."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
