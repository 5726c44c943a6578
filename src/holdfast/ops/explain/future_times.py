"""Explain what a clock did that was ahead and was set back: documents wait too long, dead workers seem to be alive."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from holdfast.core.formatting import format_ago, format_duration, format_time
from holdfast.core.future_times import FutureTimes, is_future
from holdfast.core.wait_causes import Holder
from holdfast.ops.explain.context import DocumentContext

CORRECTION = "Workers put that right by themselves, when they start and then once in each lease"


def describe_future_times(found: FutureTimes) -> str:
    """Return sentences about times in the future, for people."""
    return f"The clock was set back by at least {found.setback}. Times in the future: {found}. {CORRECTION}."


def describe_wait(case: DocumentContext, due: datetime) -> str | None:
    """Return why a waiting document waits too long. None if it does not."""
    since = case.here.waits_since
    if since is None or not is_future(since, case.now):
        return None
    wait = max(due - since, timedelta(0))
    meant = f"after {format_duration(wait.total_seconds())}" if wait else "at once"
    case.because("clock", until=due, wait=wait, **_facts(since, case.now))
    return (
        f"It waits at step {case.step} until {format_time(due)}, {format_ago(due, case.now)}, because the clock was "
        f"set back by at least {_span(since, case.now)}. It was meant to go on {meant}. {CORRECTION}."
    )


def describe_pause(case: DocumentContext, since: datetime) -> str | None:
    """Return what is wrong with the end of a pause that began in the future. None if nothing is."""
    here, at = case.here, case.here.waits_since or since
    if here.due_at is None or not is_future(at, case.now):
        return None
    case.facts |= _facts(at, case.now)
    ahead = f"The time was set when the clock was ahead by at least {_span(at, case.now)}."
    return f"{ahead} {CORRECTION}." if here.waits_since else f"{ahead} It stays as it was given."


def describe_heartbeat(case: DocumentContext, holder: Holder) -> str | None:
    """Return what is wrong with a heartbeat in the future: its worker may be dead. None if nothing is."""
    if not is_future(holder.heartbeat_at, case.now):
        return None
    case.facts |= _facts(holder.heartbeat_at, case.now)
    back = _span(holder.heartbeat_at, case.now)
    return f"That heartbeat is in the future, because the clock was set back by at least {back}. {CORRECTION}."


def _facts(at: datetime, now: datetime) -> dict[str, Any]:
    return {"clock_set_back_by": at - now}


def _span(at: datetime, now: datetime) -> str:
    return format_duration((at - now).total_seconds())
