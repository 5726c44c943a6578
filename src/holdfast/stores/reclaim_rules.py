"""What happens to an orphan: a worker decides for itself, a scan by a strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.core.formatting import format_count, format_duration, name_first
from holdfast.core.model import JournalEntry, State
from holdfast.core.orphans import ERRORS, STRATEGIES, WORKER_CRASHED_ERROR, Orphan, Sign, Strategy, format_utc
from holdfast.core.reasons import (
    CLOCK_SET_BACK,
    FOR_REVIEW,
    LOST_TOO_OFTEN,
    NO_PROGRESS,
    OVERDUE,
    VERIFIED,
    WOKEN,
    WORKER_CRASHED,
    WORKER_GONE,
    sentence,
)
from holdfast.core.worker_deaths import Charge, WorkerDeath
from holdfast.stores.protocol import OrphanCounts, OrphanDecision

NO_DELAY = timedelta(0)
CODES: dict[Sign, str] = {"silent": WORKER_GONE, "overdue": OVERDUE, "stuck": NO_PROGRESS}

MAX_TRACEBACKS = 50
"""If more documents ran in a worker that crashed, its traceback is kept only with the worker: all have the same one."""

ReadJournal = Callable[[int], Sequence[JournalEntry]]
"""Reads the journal of a document, within the same transaction."""


def woken_detail() -> dict[str, str]:
    """Return the journal detail of a pause that ended by itself."""
    return {"reason": sentence(WOKEN), "was": "paused", "state": "waiting"}


def restarted_detail(ahead: timedelta) -> dict[str, str]:
    """Return the journal detail of a wait that started again, because the clock was set back."""
    return {"reason": sentence(CLOCK_SET_BACK, ahead=format_duration(ahead.total_seconds()))}


def verified_detail(steps: Sequence[str]) -> dict[str, Any]:
    """Return the journal detail for steps whose work was found to be there."""
    return {"reason": sentence(VERIFIED, steps=", ".join(steps)), "steps": [*steps]}


class HeldDocument(NamedTuple):
    """A running document at the moment it is reclaimed. Nobody else changes it meanwhile."""

    id: int
    step: str
    attempts: int
    crashes: int
    losses: int
    fence: int
    overdue: bool
    worker_id: int
    holder: str
    host: str
    heartbeat_at: datetime
    death: WorkerDeath

    @property
    def machine(self) -> str:
        """The name of the machine of its worker, without boot id and pid namespace."""
        return self.host.partition("/")[0]


class ReclaimedDocument(Struct, frozen=True):
    """What is written about an orphan: its new state, the delay until it is due, the reason, and the journal detail."""

    id: int
    fence: int
    state: State
    delay: timedelta | None
    code: str
    reason: str
    error: str
    attempts: int
    crashes: int
    losses: int
    recoverable: bool | None
    detail: dict[str, Any]


def reclaimed_by_decision(held: HeldDocument, decide: OrphanDecision, journal: ReadJournal) -> ReclaimedDocument:
    """Decide as a worker does: by its decision about the step and the counts."""
    sign: Sign = "overdue" if held.overdue else "silent"
    counts = _counted(held, sign)
    verdict = decide(counts)
    code = verdict.code or _code(sign, counts.charge)
    reason = _lost_too_often(held, counts, journal) if code == LOST_TOO_OFTEN else _reason(code, held)
    return _reclaimed(
        held,
        sign,
        verdict.state,
        verdict.delay,
        code=code,
        reason=_for(verdict.state, reason),
        reasons={"reason": reason},
    )


def reclaimed_by_strategy(held: HeldDocument, orphan: Orphan, *, strategy: Strategy, reason: str) -> ReclaimedDocument:
    """Decide as a scan does: by its strategy, with the reason that a person gave."""
    why = f"{orphan.why} ({reason})" if reason else orphan.why
    state = STRATEGIES[strategy]
    reasons = {"reason": reason or orphan.why, "found": orphan.why}
    code = _code(orphan.sign, _counted(held, orphan.sign).charge)
    return _reclaimed(held, orphan.sign, state, NO_DELAY, code=code, reason=_for(state, why), reasons=reasons)


def _counted(held: HeldDocument, sign: Sign) -> OrphanCounts:
    """Return the counts. The attempt that was counted at the claim is something else if the worker is gone."""
    charge: Charge = held.death.charge(held.id) if sign == "silent" else "attempt"
    refund = charge != "attempt"
    return OrphanCounts(
        held.step,
        max(held.attempts - refund, 0),
        held.crashes + (charge == "crash"),
        held.losses + (charge == "loss"),
        charge,
    )


def _code(sign: Sign, charge: Charge) -> str:
    return WORKER_CRASHED if charge == "crash" else CODES[sign]


def _reason(code: str, held: HeldDocument) -> str:
    return sentence(code, worker=held.holder, step=held.step, sign=held.death.sign)


def _for(state: State, why: str) -> str:
    return sentence(FOR_REVIEW, why=why) if state == "paused" else why


def _lost_too_often(held: HeldDocument, counts: OrphanCounts, journal: ReadJournal) -> str:
    """Say what is known about the losses: how often, on which workers and machines, and the last sign of life."""
    before = [_place_of_loss(entry) for entry in journal(held.id) if _is_loss(entry)]
    places = [*before[max(len(before) - counts.losses + 1, 0) :], (held.holder, held.machine)]
    workers, machines = ([*dict.fromkeys(filter(None, names))] for names in zip(*places, strict=True))
    where = f"with {name_first(workers)}" + (f" on {name_first(machines)}" if machines else "")
    last = f"the last one, {held.holder}, sent its last heartbeat at {format_utc(held.heartbeat_at)}"
    return sentence(LOST_TOO_OFTEN, times=format_count(counts.losses, "time"), step=held.step, where=where, last=last)


def _is_loss(entry: JournalEntry) -> bool:
    detail = entry.detail if isinstance(entry.detail, Mapping) else {}
    return "loss" in (detail.get("counts_as"), detail.get("costs"))


def _place_of_loss(entry: JournalEntry) -> tuple[str, str]:
    """Return the worker and the machine of a loss. A worker that lost only a child process wrote the line itself."""
    return str(entry.detail.get("from", entry.who)), str(entry.detail.get("host", ""))


def _reclaimed(
    held: HeldDocument,
    sign: Sign,
    state: State,
    delay: timedelta,
    *,
    code: str,
    reason: str,
    reasons: dict[str, str],
) -> ReclaimedDocument:
    _, attempts, crashes, losses, charge = _counted(held, sign)
    detail = {
        "from": held.holder,
        "host": held.machine,
        "was": "running",
        "state": state,
        **reasons,
        "counts_as": charge,
        "attempts": attempts,
        "crashes": crashes,
        "losses": losses,
    }
    if charge == "crash":
        detail |= {"evidence": held.death.evidence, "sign": held.death.sign}
        if held.death.running is None or len(held.death.running) <= MAX_TRACEBACKS:
            detail["traceback"] = held.death.traceback
    due = delay if state == "waiting" else None
    error = WORKER_CRASHED_ERROR if charge == "crash" else ERRORS[sign]
    recoverable = True if charge in ("loss", "nothing") else None
    return ReclaimedDocument(
        held.id, held.fence, state, due, code, reason, error, attempts, crashes, losses, recoverable, detail
    )
