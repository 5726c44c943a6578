"""How long a document waits that was given back or taken away, and how long it may run.

It waits as its retry says, and not at all if it was innocent. While it runs, it has a deadline by which others take it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.core.model import Claim
from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.doubts import Doubts
from holdfast.testing.simulation.places import aside
from holdfast.testing.simulation.shapes import BACKOFF, FACTOR, TIMED
from holdfast.testing.simulation.stage import LATER, SLACK, TIMEOUT
from holdfast.testing.simulation.stores import Call, ending_of

AT_ONCE = timedelta(0)
MAY_RUN = 2 * TIMEOUT + SLACK


def waits_wrongly(call: Call, was: Seen, now: Seen, doubts: Doubts) -> str:
    """Says what is wrong with the time at which a document is due that nobody holds any more, if anything is."""
    assert now.due_at is not None
    allowed, wait = _allowed(call, was, now, doubts), max(now.due_at - call.at, AT_ONCE)
    if wait in allowed:
        return ""
    counted = f"{now.attempts} attempts and {now.crashes} crashes"
    return f"{call.verb} lets {was.key} wait {wait} after {counted}, not {' or '.join(map(str, allowed))}"


def runs_wrongly(call: Call | None, was: Seen, now: Seen, *, at: datetime) -> str:
    """Says what is wrong with the deadline of a document that was just claimed or moved, if anything is.

    `at` is what the clock says now of whoever called: a worker may stand still between the transactions of one call.
    """
    got_on = (was.state, was.fence, was.moves) != (now.state, now.fence, now.moves)
    if call is None or now.state != "running" or not got_on:
        return ""
    ought = {call.at + MAY_RUN, at + MAY_RUN} if now.step in TIMED else {None}
    wrong = now.deadline_at not in ought
    return f"{was.key} may run at {now.step} until {now.deadline_at}, not {ought}" if wrong else ""


def _allowed(call: Call, was: Seen, now: Seen, doubts: Doubts) -> list[timedelta]:
    if call.verb == "reclaim":
        knows = was.step in call.arguments[0].step_ids  # whoever does not, does not know its retry either
        return [_wait_after(max(now.attempts, now.crashes - 1)) if knows else AT_ONCE]  # the first crash is forgiven
    ending = ending_of(call, was.id, was.fence)
    if ending is None or ending.verb not in ("fail", "defer"):
        return [AT_ONCE]
    counts: list[Seen | Claim] = [was, ending.claim] if (was.id, was.fence) in doubts.ahead else [was]
    if ending.verb == "fail":
        return [_wait_after(max(count.attempts, count.crashes, 1)) for count in counts]
    tries = [max(aside(was).values(), default=1), *(max(count.attempts, 1) for count in counts)]
    return [LATER, *map(_wait_after, tries)]  # as it asked for, or while the store is in trouble, or items are


def _wait_after(tries: int) -> timedelta:
    return BACKOFF * FACTOR ** (tries - 1) if tries else AT_ONCE
