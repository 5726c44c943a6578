"""Check how long a document waits after a release or a reclaim, and how long it may run.

It waits as its retry policy says, and not at all if the release was not its fault. While it runs it has a deadline,
after which other workers take it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.core.model import Claim
from holdfast.core.reasons import CIRCUIT_OPEN
from tests.simulation.bodies import RETRY_DELAY, SLACK, TIMEOUT
from tests.simulation.cursor_reader import failed_places
from tests.simulation.observed_state import ObservedDocument
from tests.simulation.pipelines import BACKOFF, FACTOR, WITH_TIMEOUT
from tests.simulation.uncertainty import Uncertainty
from tests.simulation.watched_stores import Call, release_of

AT_ONCE = timedelta(0)
MAY_RUN = 2 * TIMEOUT + SLACK


def due_time_violation(call: Call, was: ObservedDocument, now: ObservedDocument, uncertainty: Uncertainty) -> str:
    """Return what is wrong with the due time of a released document. Return "" if it is right."""
    assert now.due_at is not None
    allowed, wait = _allowed(call, was, now, uncertainty), max(now.due_at - call.at, AT_ONCE)
    if wait in allowed:
        return ""
    counted = f"{now.attempts} attempts, {now.crashes} crashes and {now.losses} losses"
    return f"{call.verb} makes {was.key} wait {wait} after {counted}, not {' or '.join(map(str, allowed))}"


def deadline_violation(call: Call | None, was: ObservedDocument, now: ObservedDocument, *, at: datetime) -> str:
    """Return what is wrong with the deadline of a document that was just claimed or moved. Return "" if it is right.

    `at` is the caller's clock now: a worker may be frozen between two transactions of one call.
    """
    progressed = (was.state, was.fence, was.moves) != (now.state, now.fence, now.moves)
    if call is None or now.state != "running" or not progressed:
        return ""
    allowed = {call.at + MAY_RUN, at + MAY_RUN} if now.step in WITH_TIMEOUT else {None}
    wrong = now.deadline_at not in allowed
    return f"the deadline of {was.key} at {now.step} is {now.deadline_at}, not {allowed}" if wrong else ""


def _allowed(call: Call, was: ObservedDocument, now: ObservedDocument, uncertainty: Uncertainty) -> list[timedelta]:
    if call.verb == "reclaim":
        known = was.step in call.arguments[0].step_ids  # a worker that does not know the step does not know its retry
        charged = now.crashes > was.crashes or now.losses > was.losses or now.attempts == was.attempts
        tries = max(now.attempts, now.crashes - 1, now.losses - 1)  # no wait for the first crash or loss
        return [_wait_after(tries) if known and charged else AT_ONCE]
    release = release_of(call, was.id, was.fence)
    if release is None or release.verb not in ("fail", "defer"):
        return [AT_ONCE]
    counts: list[ObservedDocument | Claim] = (
        [was, release.claim] if (was.id, was.fence) in uncertainty.ahead_of_holder else [was]
    )
    if release.code == CIRCUIT_OPEN:  # it is put off with the wait of its failure, which its worker counted
        failed = [was, release.claim]
        return [_wait_after(1), *(_wait_after(max(count.attempts, count.crashes, 1)) for count in failed)]
    if release.verb == "fail":
        return [_wait_after(max(count.attempts, count.crashes, 1)) for count in counts]
    tries = [max(failed_places(was).values(), default=1), now.deferrals]
    tries += [count.deferrals + 1 for count in counts]
    return [RETRY_DELAY, *map(_wait_after, tries)]  # the delay of RetryLater, or of an error of the store or an item


def _wait_after(tries: int) -> timedelta:
    return BACKOFF * FACTOR ** (tries - 1) if tries else AT_ONCE
