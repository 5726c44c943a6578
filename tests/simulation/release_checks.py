"""Check how a document leaves its worker: by a release or a reclaim, with a cause that is true and journalled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime

from tests.simulation.fake_os import Machine, SimulatedProcess
from tests.simulation.observed_state import ObservedDocument, ObservedState
from tests.simulation.pipelines import ATTEMPTS, CRASHES, LOSSES
from tests.simulation.uncertainty import Uncertainty
from tests.simulation.wait_checks import due_time_violation
from tests.simulation.watched_stores import LEASE, Call, release_of


class ReleaseChecks:
    """Remembers how often each document failed, crashed and lost its worker since its last progress."""

    def __init__(
        self,
        machine: Machine,
        observed: ObservedState,
        *,
        uncertainty: Uncertainty,
        holder_of: Callable[[ObservedDocument], SimulatedProcess | None],
        is_incurable: Callable[[ObservedDocument], bool],
    ) -> None:
        self._machine = machine
        self._observed = observed
        self._uncertainty = uncertainty
        self._holder_of = holder_of
        self._is_incurable = is_incurable
        self._failures: Counter[int] = Counter()
        self._crashes: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._deferrals: Counter[int] = Counter()
        self._outages: defaultdict[int, set[str]] = defaultdict(set)

    def progressed(self, document: ObservedDocument) -> None:
        """Reset the counts of a document that moved or was redriven."""
        self._failures[document.id] = self._crashes[document.id] = self._losses[document.id] = 0
        self._outages.pop(document.id, None)

    def given_back(self, was: ObservedDocument, now: ObservedDocument) -> None:
        """Forget failures of a document that were the fault of an outage. The last one may not be released yet."""
        self._failures[was.id] -= was.attempts - now.attempts

    def check(self, call: Call, was: ObservedDocument, now: ObservedDocument, *, at: datetime) -> Iterator[str]:
        """Yield what is wrong with the way in which a document left its worker.

        Args:
            call: The call that took it from there.
            was: The document before.
            now: The document after.
            at: The time of the commit, by the clock of the caller. A store may read the time of a call as late as that.
        """
        if call.verb == "release":
            yield from self._check_release(call, was, now)
        elif call.verb == "reclaim":
            yield from self._check_reclaim(call, was, now, at)
        elif call.verb == "release_unknown" and was.id in call.options["keeping"]:
            yield f"{call.process} still works on {was.key}, and it was released"
        if now.state == "waiting" and not self._uncertainty.clocks:
            yield due_time_violation(call, was, now, self._uncertainty)
        if now.state == "dead":
            yield from self._check_dead(call, was, now)

    def _check_release(self, call: Call, was: ObservedDocument, now: ObservedDocument) -> Iterator[str]:
        release = release_of(call, was.id, was.fence)
        if release is None:
            yield f"{call.process} released {was.key}, which {self._holder_of(was)} holds"
        elif release.verb == "defer":
            self._deferrals[was.id] += 1
            if (counted := self._observed.deferrals(was.id)) != self._deferrals[was.id]:
                yield f"{was.key} was put off {self._deferrals[was.id]} times, and its journal counts {counted}"
        elif self._observed.journal(was.id)[-1:] != [release.verb]:
            yield f"{was.key} was released as {now.state}, and its journal has no {release.verb}"
        if release is not None and release.failure is not None and release.failure.kind == "ServiceAway":
            self._outages[was.id].add(release.failure.message)
            if now.state == "dead" and len(self._outages[was.id]) < 2 and not self._uncertainty.clocks:
                yield f"{was.key} died of {release.failure.message} alone"
        if now.attempts == was.attempts and now.state in ("waiting", "dead"):
            self._failures[was.id] += 1
        if self._failures[was.id] > ATTEMPTS:
            yield f"{was.key} failed {self._failures[was.id]} times at {was.step}, where {ATTEMPTS} are allowed"

    def _check_reclaim(self, call: Call, was: ObservedDocument, now: ObservedDocument, at: datetime) -> Iterator[str]:
        """Check that a live worker loses nothing, and that a worker that stopped on request causes no crash."""
        holder, beat = self._holder_of(was), self._observed.heartbeat_at(was.worker_id or 0)
        self._crashes[was.id] += now.crashes > was.crashes
        self._losses[was.id] += now.losses > was.losses
        charged = (now.crashes, now.losses) != (was.crashes, was.losses)
        if charged and holder is not None and holder.has_stopped and not self._uncertainty.assignments:
            yield f"{holder} stopped on request, and it counts as a crash or a loss of {was.key}"
        tried_enough = now.attempts >= ATTEMPTS or now.crashes >= CRASHES or now.losses >= LOSSES
        if now.state != "dead" and tried_enough and was.step in call.arguments[0].step_ids:
            counts = f"{now.attempts} attempts, {now.crashes} crashes and {now.losses} losses"
            yield f"{was.key} is {now.state} after {counts} at {was.step}"
        overdue = was.deadline_at is not None and was.deadline_at < at
        if holder is not None and self._machine.is_running(holder) and at <= beat + LEASE and not overdue:
            yield f"{was.key} was taken from {holder}, whose last heartbeat was {at - beat} ago"

    def _check_dead(self, call: Call, was: ObservedDocument, now: ObservedDocument) -> Iterator[str]:
        tried, crashed, lost = self._failures[was.id], self._crashes[was.id], self._losses[was.id]
        too_early = tried < ATTEMPTS and crashed < CRASHES and lost < LOSSES and now.attempts < ATTEMPTS
        if too_early and not self._is_incurable(now):
            counts = f"{tried} failures, {crashed} crashes and {lost} losses"
            yield f"{call.verb} made {was.key} a dead letter after {counts} at {was.step}"
