"""Check the counts of attempts, crashes and losses after each verb. They decide when a document was tried enough.

- An attempt counts from the claim on.
- An attempt is refunded if it ended for a reason that is not the document's fault, also later: in an outage.
- An attempt becomes a crash if the worker died with evidence while the document was running, and a loss without.
- All counts are reset when the document makes progress, or by a decision of a person.
"""

from __future__ import annotations

from tests.simulation.fake_os import SimulatedProcess
from tests.simulation.observed_state import ObservedDocument
from tests.simulation.watched_stores import Call, release_of

Counts = tuple[int, int, int]
"""Attempts, crashes and losses."""

REFUNDS = ("retire_worker", "release_unknown")
RESETS = ("redrive", "rewind_to", "submit")


def count_violation(
    call: Call | None,
    was: ObservedDocument,
    now: ObservedDocument,
    *,
    progressed: bool,
    holder: SimulatedProcess | None,
) -> str:
    """Return what is wrong with the counts of a document after a transaction. Return "" if they are right."""
    allowed = [*_allowed(call, was, now, progressed=progressed, holder=holder)]
    counted = _counts(now)
    if counted in allowed:
        return ""
    verb = call.verb if call else "no call"
    return (
        f"{verb} changed attempts, crashes and losses of {was.key} from {_counts(was)} to {counted}: "
        f"allowed are {allowed}"
    )


def _counts(document: ObservedDocument) -> Counts:
    return document.attempts, document.crashes, document.losses


def _allowed(
    call: Call | None,
    was: ObservedDocument,
    now: ObservedDocument,
    *,
    progressed: bool,
    holder: SimulatedProcess | None,
) -> list[Counts]:
    same = _counts(was)
    refunded = (max(was.attempts - 1, 0), was.crashes, was.losses)
    verb = call.verb if call else ""
    if verb in RESETS:
        return [(0, 0, 0)]
    if verb == "rewind":  # the worker that rewinds a document keeps it
        return [(1, 0, 0)]
    if was.state == "waiting" and now.state == "running":
        return [(was.attempts + 1, was.crashes, was.losses)]
    if verb in ("commit", "exchange"):
        return [(0 if now.state != "running" else 1 if progressed else was.attempts, 0, 0)]
    if verb in REFUNDS or (verb == "pause" and was.state == "running"):
        return [refunded]
    if verb == "reclaim":
        assert call is not None
        lost = [*_after_death(call, was, refunded, holder)]
        return lost if was.deadline_at is None else [*lost, same]  # an overdue document keeps its attempt
    if verb == "open_circuit":
        assert call is not None
        back = [attempts for claim, attempts in call.options["give_back"] if claim.document_id == was.id]
        return [(max(was.attempts - attempts, 0), was.crashes, was.losses) for attempts in back]
    if verb == "release":
        assert call is not None
        release = release_of(call, was.id, was.fence)
        return [same] if release is not None and release.verb == "fail" else [refunded]
    return [same]


def _after_death(call: Call, was: ObservedDocument, refunded: Counts, holder: SimulatedProcess | None) -> list[Counts]:
    """Return the counts after the worker died: by what can be known of its end on the host of the caller."""
    attempts, crashes, losses = refunded
    crash, loss = (attempts, crashes + 1, losses), (attempts, crashes, losses + 1)
    if holder is None or holder.host != call.process.host:
        return [loss]  # nothing is known of other hosts
    if was.worker_id not in call.options["gone"]:
        return [loss, refunded]  # it is silent: what it runs is known, and not why it is silent
    charged = not holder.was_running or was.id in holder.was_running or holder.ended_by == was.key
    return [refunded] if not charged else [crash] if holder.is_crash else [loss]
