"""Maintenance: what every worker does from time to time for all workers.

It reclaims the documents of dead workers, resumes documents whose pause is over, applies the default decision of gates
at which nobody decided in time, and ends the open documents of batches whose deadline has passed. It puts times right
that are in the future because the clock was set back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from holdfast.core.formatting import format_exact_duration
from holdfast.core.future_times import FutureTimes
from holdfast.core.model import DocumentStatus, Plan, WorkerRecord
from holdfast.core.orphans import STRATEGIES
from holdfast.core.pipeline import Pipeline
from holdfast.core.reasons import GATE_EXPIRED, LOST_TOO_OFTEN, sentence
from holdfast.core.step import AnyStep
from holdfast.engine.crash_evidence import DeathReports, find_deaths, forget_notes
from holdfast.observe.events import BatchExpired, ClockSetBack, Decided, Event
from holdfast.process_identity import gone_among
from holdfast.stores.protocol import MAX_PER_TRANSACTION, OrphanCounts, OrphanVerdict, Store

MAINTENANCE_INTERVAL = 2.0
"""Seconds between two maintenance runs while there is work."""

MANY_WORKERS = 50
"""Number of workers that may all look for work at the usual interval. With more workers, each waits longer."""

SECONDS_PER_PAIR = 0.0001
"""Seconds between two maintenance runs of a worker, for each pair of workers. Every worker checks every other one, so
the total cost would else grow with the square of their number. Together they still check many times a second."""

CHILD_CRASH_FACTOR = 10
"""Multiplies Retry.crashes for steps in a child process, where a worker crash is rarely the document's fault."""

NOTHING_KNOWN = DeathReports({})

WHO = "holdfast"
"""The name in the journal for decisions of gates, ends of pauses and ends at deadlines that no person made."""


class WorkerMaintenance:
    """Reclaim orphans, resume paused documents, decide at gates whose time is over, and check for suspects."""

    def __init__(
        self, pipeline: Pipeline, store: Store, plan: Plan, *, emit: Callable[[Event], None], batch: str | None = None
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._emit = emit
        self._batch = batch
        self._gates = [step for step in pipeline.steps if step.options.within is not None]
        self._ran_at = 0.0
        self._released_unknown_at = monotonic()
        self._timeouts = {step.name: step.deadline for step in pipeline.steps if step.deadline is not None}
        self._lease_began: float | None = None
        self._others = 0
        self.suspects = False
        self.paused: Sequence[str] = ()
        """The steps that are paused: their suspects are not due."""

    @property
    def wait_factor(self) -> float:
        """The factor by which a worker waits longer before it looks for work again, because many others look too."""
        return max(self._others / MANY_WORKERS, 1.0)

    def is_due(self, every: float) -> bool:
        """Return True if it is time for a run."""
        return monotonic() - self._ran_at >= max(every, SECONDS_PER_PAIR * self._others**2)

    def run(self, me: WorkerRecord, held: Sequence[int]) -> list[DocumentStatus]:
        """Do all maintenance once. Return the documents that were reclaimed.

        A worker that is silent itself does nothing. Its machine was suspended, and its next heartbeat comes at once.
        Until then it would take its own documents away from itself.
        """
        self._ran_at = monotonic()
        workers = self._store.workers()
        if any(silent for worker, _, silent in workers if worker.id == me.id):
            return []
        is_new_lease = self._lease_began is None or monotonic() - self._lease_began > me.lease.total_seconds()
        if is_new_lease:
            self._lease_began = monotonic()
            self._reset_future_times(me)
        others = {worker: silent for worker, _, silent in workers if worker.id != me.id}
        gone = gone_among(others)
        self._others = sum(not silent and worker.id not in gone for worker, silent in others.items())
        reclaimed = self._reclaim(
            me, [worker for worker, silent in others.items() if silent or worker.id in gone], gone
        )
        self._wake_paused()
        if is_new_lease:
            self._set_gate_deadlines()
            self._expire_batches(me)
        for gate in self._gates:
            self._decide_overdue(gate, me)
        self.suspects = self._store.suspects_due(self._plan, batch=self._batch, paused=self.paused)
        if monotonic() - self._released_unknown_at > me.lease.total_seconds():
            self._released_unknown_at = monotonic()
            self._store.release_unknown(me, keeping=held)
        return reclaimed

    def _reset_future_times(self, me: WorkerRecord) -> None:
        """Put right what a clock wrote that was ahead, in slices, so that others can commit in between."""
        found = self._store.future_times(self._pipeline.name)
        if not found.any:
            return
        total, is_over = FutureTimes(ahead=found.ahead), False
        while not is_over:
            part = self._store.reset_future_times(self._plan, who=WHO, timeouts=self._timeouts)
            total, is_over = total + part, part.waiting < MAX_PER_TRANSACTION
        if total.any:  # another worker may have been faster
            self._emit(ClockSetBack(total, pipeline=self._pipeline.name, worker=me.name))

    def _reclaim(self, me: WorkerRecord, lost: Sequence[WorkerRecord], gone: Sequence[int]) -> list[DocumentStatus]:
        """Take documents from dead workers, by what is known about their end."""
        reports = find_deaths(self._store, lost, gone=gone) if lost else NOTHING_KNOWN
        reclaimed = self._store.reclaim(
            self._plan,
            who=me.name,
            decide=self._decide_orphan,
            gone=[worker_id for worker_id in gone if worker_id not in reports.pending],
            deaths=reports.deaths,
        )
        if reports.deaths:  # what they say is stored now, with the records of those that were given up
            listed = {worker.id for worker, _, _ in self._store.workers()}
            forget_notes(self._store, [worker for worker in lost if worker.id not in listed])
        return reclaimed

    def _wake_paused(self) -> None:
        """Resume all documents whose pause is over, in slices, so that others can commit in between."""
        while self._store.wake(self._plan, who=WHO):
            pass

    def _expire_batches(self, me: WorkerRecord) -> None:
        """End the open documents of batches whose deadline has passed. The first worker to do it wins."""
        while (expired := self._store.expire_batch(self._plan, who=WHO)) is not None:
            self._emit(BatchExpired(expired, pipeline=self._pipeline.name, worker=me.name))

    def _set_gate_deadlines(self) -> None:
        """Set the deadline of documents that were parked by a worker whose pipeline had none at this gate."""
        for gate in self._gates:
            assert gate.options.within is not None
            while self._store.set_gate_deadline(self._plan, gate.name, within=gate.options.within):
                pass

    def _decide_overdue(self, gate: AnyStep, me: WorkerRecord) -> None:
        """Decide about documents that wait at a gate for too long. The first worker or person to decide wins."""
        assert gate.options.within is not None
        within = format_exact_duration(gate.options.within)
        reason = sentence(GATE_EXPIRED, gate=gate.name, within=within)
        entry = {"who": WHO, "reason": reason, "code": GATE_EXPIRED}
        while overdue := self._store.overdue_at_gate(self._plan, gate.name):
            if gate.options.otherwise == "approve":
                decided = self._store.resume(self._plan, [*overdue], at=overdue, **entry)
            else:
                decided = self._store.reject([*overdue], at=overdue, **entry)
            if not decided:
                return
            decision = gate.options.otherwise or "reject"
            self._emit(Decided(gate.name, decision, decided, pipeline=self._pipeline.name, worker=me.name))

    def _decide_orphan(self, counts: OrphanCounts) -> OrphanVerdict:
        step, attempts, crashes, losses, charge = counts
        if self._pipeline.orphans != "requeue":
            return OrphanVerdict(STRATEGIES[self._pipeline.orphans])
        if charge == "nothing" or step not in self._pipeline:
            return OrphanVerdict("waiting")
        options = self._pipeline[step].options
        retry, isolated = options.retry, options.runs_in == "process"
        if attempts >= retry.attempts or crashes >= retry.crashes * (CHILD_CRASH_FACTOR if isolated else 1):
            return OrphanVerdict("dead")
        if losses >= retry.losses:
            return OrphanVerdict("dead", code=LOST_TOO_OFTEN)
        tries = max(attempts, crashes - 1, losses - 1)  # the first crash or loss is most often the machine's fault
        return OrphanVerdict("waiting", retry.wait(tries) if tries else timedelta(0))
