"""How long a document waits that was given back or taken away: as its retry says, and not at all if it was innocent."""

from __future__ import annotations

from datetime import timedelta

from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.places import aside
from holdfast.testing.simulation.shapes import BACKOFF, FACTOR
from holdfast.testing.simulation.stage import LATER
from holdfast.testing.simulation.stores import Call, ending_of

AT_ONCE = timedelta(0)


def waits_wrongly(call: Call, was: Seen, now: Seen) -> str:
    """Says what is wrong with the time at which a document is due that nobody holds any more, if anything is."""
    assert now.due_at is not None
    allowed, wait = _allowed(call, was, now), max(now.due_at - call.at, AT_ONCE)
    if wait in allowed:
        return ""
    counted = f"{now.attempts} attempts and {now.crashes} crashes"
    return f"{call.verb} lets {was.key} wait {wait} after {counted}, not {' or '.join(map(str, allowed))}"


def _allowed(call: Call, was: Seen, now: Seen) -> list[timedelta]:
    if call.verb == "reclaim":
        knows = was.step in call.arguments[0].step_ids  # whoever does not, does not know its retry either
        return [_wait_after(max(now.attempts, now.crashes - 1)) if knows else AT_ONCE]  # the first crash is forgiven
    ending = ending_of(call, was.id, was.fence)
    if ending is not None and ending.verb == "fail":
        return [_wait_after(max(was.attempts, was.crashes, 1))]
    if ending is not None and ending.verb == "defer":
        tries = [max(was.attempts, 1), max(aside(was).values(), default=1)]
        return [LATER, *map(_wait_after, tries)]  # as it asked for, or while the store is in trouble, or items are
    return [AT_ONCE]


def _wait_after(tries: int) -> timedelta:
    return BACKOFF * FACTOR ** (tries - 1) if tries else AT_ONCE
