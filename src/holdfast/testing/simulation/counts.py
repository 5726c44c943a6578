"""What attempts and crashes must be after each verb: by them it is decided when a document has been tried enough.

An attempt counts from the claim on. It is given back by whatever was not the document's fault, turns into a crash when
the worker is gone, and both begin anew when the document gets on, or when a person forgives it.
"""

from __future__ import annotations

from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.stores import Call, ending_of

Counted = tuple[int, int]
"""Attempts and crashes."""

REFUNDS = ("retire", "surrender")
FORGIVES = ("redrive", "rewind_to", "submit")


def miscounted(call: Call | None, was: Seen, now: Seen, *, got_on: bool) -> str:
    """Says what is wrong with the counts of a document after a transaction, if anything is."""
    allowed = [*_allowed(call, was, now, got_on=got_on)]
    counted = (now.attempts, now.crashes)
    if counted in allowed:
        return ""
    verb = call.verb if call else "nobody"
    before = (was.attempts, was.crashes)
    return f"{verb} let {was.key} have {counted} attempts and crashes, which had {before}: it must have {allowed}"


def _allowed(call: Call | None, was: Seen, now: Seen, *, got_on: bool) -> list[Counted]:
    same = (was.attempts, was.crashes)
    refunded = (max(was.attempts - 1, 0), was.crashes)
    verb = call.verb if call else ""
    if verb in FORGIVES:
        return [(0, 0)]
    if verb == "rewind":  # whoever sets it back works on
        return [(1, 0)]
    if was.state == "waiting" and now.state == "running":
        return [(was.attempts + 1, was.crashes)]
    if verb in ("commit", "exchange"):
        return [(0 if now.state != "running" else 1 if got_on else was.attempts, 0)]
    if verb in REFUNDS or (verb == "pause" and was.state == "running"):
        return [refunded]
    if verb == "reclaim":
        crashed = (refunded[0], was.crashes + 1)
        return [crashed] if was.deadline_at is None else [crashed, same]  # one that is overdue failed
    if verb == "give_back":
        assert call is not None
        ending = ending_of(call, was.id, was.fence)
        return [same] if ending is not None and ending.verb == "fail" else [refunded]
    return [same]
