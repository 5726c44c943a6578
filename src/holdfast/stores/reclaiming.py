"""What becomes of an orphan, whoever takes it: the fleet by its verdict, or a scan by its strategy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.core.model import State
from holdfast.core.orphans import ERRORS, STRATEGIES, Orphan, Sign, Strategy
from holdfast.stores.protocol import Verdict

NOTHING = timedelta(0)
FOR_A_PERSON = "kept for review"
WOKEN = {"reason": "its time has come", "was": "paused", "state": "waiting"}
"""What the journal says of a pause that ended by itself."""


def vouched(steps: Sequence[str]) -> dict[str, Any]:
    """Says in the journal whose work was found to be there."""
    return {"reason": f"the work of {', '.join(steps)} is there", "steps": [*steps]}


class Held(NamedTuple):
    """A running document as it is while it is taken: nobody else changes it meanwhile."""

    id: int
    step: str
    attempts: int
    crashes: int
    fence: int
    holder: str
    overdue: bool


class Taken(Struct, frozen=True):
    """What is written about an orphan: its new state, after how long it is due, why, and the line in the journal."""

    id: int
    fence: int
    state: State
    delay: timedelta | None
    reason: str
    error: str
    attempts: int
    crashes: int
    detail: dict[str, Any]


def judged(held: Held, verdict: Verdict) -> Taken:
    """Decides as the fleet does: by its verdict on the step and what was counted."""
    sign: Sign = "overdue" if held.overdue else "silent"
    attempts, crashes = _counted(held, sign)
    state, delay = verdict(held.step, attempts, crashes)
    reason = f"overdue at {held.step}" if held.overdue else f"worker {held.holder} is gone"
    return _taken(held, sign, state, delay, reason=_for(state, reason), said={"reason": reason})


def resolved(held: Held, orphan: Orphan, *, strategy: Strategy, reason: str) -> Taken:
    """Decides as a scan does: by its strategy, for the reason that a person gave."""
    why = f"{orphan.why} ({reason})" if reason else orphan.why
    state = STRATEGIES[strategy]
    said = {"reason": reason or orphan.why, "found": orphan.why}
    return _taken(held, orphan.sign, state, NOTHING, reason=_for(state, why), said=said)


def _counted(held: Held, sign: Sign) -> tuple[int, int]:
    """The attempt that was counted at the claim turns out to be a crash when the worker is gone."""
    crashed = sign == "silent"
    return max(held.attempts - crashed, 0), held.crashes + crashed


def _for(state: State, why: str) -> str:
    return f"{FOR_A_PERSON}: {why}" if state == "paused" else why


def _taken(held: Held, sign: Sign, state: State, delay: timedelta, *, reason: str, said: dict[str, str]) -> Taken:
    attempts, crashes = _counted(held, sign)
    counted = {"attempts": attempts, "crashes": crashes}
    detail = {"from": held.holder, "was": "running", "state": state, **said, **counted}
    due = delay if state == "waiting" else None
    return Taken(held.id, held.fence, state, due, reason, ERRORS[sign], attempts, crashes, detail)
