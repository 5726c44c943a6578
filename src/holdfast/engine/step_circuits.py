"""Step circuits: steps that are paused for all documents while a service is away.

Workers count failures in a row in memory. The worker that has seen enough of them opens the circuit in the store, and
all workers leave the step out when they claim. From time to time one of them claims one document there. If it moves,
the circuit is closed. A worker that dies in between loses nothing: the store has the state, and gives the next worker
a document to try when the claim of the last one is over.

While nothing fails, nothing is read, written or counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core.circuit import CircuitStatus
from holdfast.core.model import Claim, Failure, Plan, WorkerRecord
from holdfast.core.moves import Move, Release
from holdfast.core.pipeline import Pipeline
from holdfast.core.reasons import CIRCUIT_OPEN, CIRCUIT_PROBED, CIRCUIT_REMOVED, SERVICE_FAILED, sentence
from holdfast.engine.executor_requests import NOTHING_THERE, Event, Pulled, Returned, Yielded
from holdfast.engine.runners import BODIES
from holdfast.observe.events import CircuitClosed, CircuitOpened
from holdfast.observe.events import Event as EngineEvent
from holdfast.stores.protocol import Scope, Store

RETRY_SECONDS = 1.0
"""Seconds until a worker asks for a document to try again, after it got none: another worker may be trying one."""
READ_INTERVAL = 1.0
"""Seconds for which a worker that counts failures relies on what it read about circuits."""
FEW_PROBES = 3
"""After this many tries in vain `drain` ends, if a person has to do something first, or if few documents failed."""


class FailuresInARow(Struct):
    """The failures of a step since it last worked in this worker."""

    count: int = 0
    failure: Failure = Failure("", "")
    documents: dict[int, tuple[Claim, int]] = field(default_factory=dict)
    """The last claim on each document that failed, and how many attempts that cost it."""

    def add(self, release: Release) -> None:
        """Count a failure."""
        self.count += 1
        self.failure = release.failure or self.failure

    def charge(self, claim: Claim) -> None:
        """Remember that the failure cost its document an attempt."""
        _, times = self.documents.get(claim.document_id, (claim, 0))
        self.documents[claim.document_id] = (claim, times + 1)


class StepCircuits:
    """The circuits of a pipeline, as one worker knows them. Used under the scheduler lock."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan, *, emit: Callable[[EngineEvent], None]) -> None:
        bodies = [step for step in pipeline.steps if step.kind != "gate"]
        self._pipeline = pipeline
        self._options = {step.name: step.options.circuit for step in bodies if step.options.circuit is not None}
        self._store = store
        self._plan = plan
        self._emit = emit
        self._failed: dict[str, FailuresInARow] = {}
        self._probes: dict[int, str] = {}  # the steps that are tried, by the id of the document
        self._probe_times: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._read_at = -READ_INTERVAL
        self.paused: dict[str, CircuitStatus] = {}
        """The steps that are paused. It is replaced, not changed: the main thread reads it without the lock."""

    @property
    def is_counting(self) -> bool:
        """True if failures were counted, so that a success would change something."""
        return bool(self._failed)

    @property
    def is_probing(self) -> bool:
        """True if this worker tries a document."""
        return bool(self._probes)

    def start(self, *, who: str) -> None:
        """Read which steps are paused. A worker that starts may have the right settings, so it tries them at once.

        Steps that have no circuit any more go on: they were removed, or their option was changed.
        """
        for circuit in self._store.circuits(self._plan.pipeline):
            if circuit.is_open and circuit.step not in self._options:
                self._close(circuit.step, CIRCUIT_REMOVED, who=who)
        if self._options:
            self._store.hasten_probes(self._plan)
            self.refresh(who=who)

    def why_held_back(self, document_id: int, step: str) -> str:
        """Return why a document must not be processed: its step is paused. Return an empty text if it may be."""
        if step not in self.paused or document_id in self._probes:
            return ""
        return sentence(CIRCUIT_OPEN, step=step, why=self.paused[step].reason)

    def refresh(self, *, who: str) -> list[str]:
        """Read which steps are paused. Return those that were not so far."""
        if not self._options:
            return []
        now, before = monotonic(), self.paused
        self._read_at = now
        circuits = self._store.circuits(self._plan.pipeline)
        self.paused = {one.step: one for one in circuits if one.is_open and one.step in self._options}
        for step in [step for step in before if step not in self.paused]:
            self._forget_failures(step)
        for step, circuit in self.paused.items():
            wait = min(circuit.probe_in.total_seconds() if circuit.probe_in else 0.0, self._wait(step).total_seconds())
            self._probe_times[step] = max(now + wait, self._asked_at.get(step, 0.0) + RETRY_SECONDS)
        new = [step for step in self.paused if step not in before]
        for step in [step for step in new if step in self._failed]:
            self._open(step, self._failed[step], who=who)  # another worker opened it: our documents get theirs back
        return new

    # failures

    def after_failure(self, release: Release) -> Release:
        """Count a failure of a service, and return how its document is given back.

        If the step is paused, or is paused now, the document gets its attempt back. It becomes no dead letter unless
        the step works for other documents.
        """
        step = release.step
        if step not in self.paused and monotonic() - self._read_at >= READ_INTERVAL:
            self.refresh(who=release.who)
        if step in self.paused:
            return self._put_off(release)
        failures = self._failed.setdefault(step, FailuresInARow())
        failures.add(release)
        if release.state == "dead" and (attempts := self._attempts_if_left(release)) is not None:
            delay = self._pipeline[step].options.retry.wait(max(attempts, 1))
            release = replace(release, state="waiting", delay=delay, code=SERVICE_FAILED)
        if failures.count >= self._options[step].failures or self._is_last_hope(release):
            self._open(step, failures, who=release.who)
            self.refresh(who=release.who)
            return self._put_off(release)
        if release.costs == "attempt":
            failures.charge(release.claim)
        return release

    def after_result(self, event: Event) -> None:
        """Start counting again for a step whose body worked. Results come in the order in which calls ended."""
        if isinstance(event, (Returned, Yielded)) and isinstance(event.call, BODIES) and _has_worked(event.result):
            self._forget_failures(event.call.step)

    def _attempts_if_left(self, release: Release) -> int | None:
        """Return the attempts of a document that got some back while its body ran: its worker does not know that."""
        limit = self._pipeline[release.step].options.retry.attempts
        found = self._store.documents_by_id([release.claim.document_id])
        return next((one.attempts for one in found if one.attempts < limit), None)

    def _is_last_hope(self, release: Release) -> bool:
        """Return True if a document would become a dead letter, and nothing says that the step works for others."""
        document_id = release.claim.document_id
        return release.state == "dead" and not self._store.works_for_others(self._plan, release.step, document_id)

    def _open(self, step: str, failures: FailuresInARow, *, who: str) -> None:
        opened = self._store.open_circuit(
            self._plan,
            step,
            failures.failure,
            failures=failures.count,
            wait=self._options[step].wait(0),
            who=who,
            give_back=[*failures.documents.values()],
        )
        self._forget_failures(step)
        if opened:
            source = {"pipeline": self._plan.pipeline, "worker": who}
            self._emit(CircuitOpened(step, failures.failure, failures.count, **source))

    def _put_off(self, release: Release) -> Release:
        """Return how a document is given back that failed because a service is away: its attempt does not count."""
        retry, failure = self._pipeline[release.step].options.retry, release.failure
        delay = release.delay or retry.wait(1)
        reason, code = str(failure or release.reason), CIRCUIT_OPEN
        return replace(release, state="waiting", verb="defer", delay=delay, costs="nothing", reason=reason, code=code)

    def _forget_failures(self, step: str) -> None:
        self._failed.pop(step, None)

    # probes

    def due_probes(self) -> Iterator[str]:
        """Yield the paused steps at which a document may be tried."""
        now = monotonic()
        for step in [step for step in self.paused if self._probe_times.get(step, 0.0) <= now]:
            self._asked_at[step] = now
            self._probe_times[step] = now + RETRY_SECONDS
            yield step

    def claim_probe(self, step: str, worker: WorkerRecord, scope: Scope, *, is_alone: bool) -> Claim | None:
        """Claim a document to try. A suspect is tried only by a worker that holds no other document."""
        wait, longest = self._wait(step), self._options[step].ceiling
        claim = self._store.claim_probe(self._plan, worker, step, wait=wait, longest=longest, **scope)
        if claim is None and is_alone:
            claim = self._store.claim_probe(
                self._plan, worker, step, wait=wait, longest=longest, which="suspect", **scope
            )
        if claim is not None:
            self._probes[claim.document_id] = step
        return claim

    def claim_document(self, step: str, worker: WorkerRecord, document_id: int, scope: Scope) -> Claim | None:
        """Claim one document to try its paused step with it, if it is the time for that."""
        if step not in [*self.due_probes()]:
            return None
        wait, longest = self._wait(step), self._options[step].ceiling
        claim = self._store.claim_probe(
            self._plan, worker, step, wait=wait, longest=longest, which=document_id, **scope
        )
        if claim is not None:
            self._probes[claim.document_id] = step
        return claim

    def after_probe(self, release: Release) -> Release:
        """Record that a document was tried and did not move. Return how it is given back."""
        step = self._probes.pop(release.claim.document_id)
        is_away = release.outage or release.verb == "defer"
        if is_away:
            failure = release.failure or Failure("RetryLater", release.reason)
            wait = self._options[step].wait(self._probes_in_vain(step) + 1)
            self._store.end_probe(self._plan, step, release.claim, wait=wait, failure=failure)
        else:  # it says nothing about the service
            wait = min(self._options[step].probe, self._options[step].wait(0))
            self._store.end_probe(self._plan, step, release.claim, wait=wait)
        self._asked_at.pop(step, None)
        self.refresh(who=release.who)
        return self._put_off(release) if release.outage and release.step == step else release

    def is_probe(self, document_id: int) -> bool:
        """Return True if a document is being tried."""
        return document_id in self._probes

    def drop_probe(self, document_id: int) -> None:
        """Forget a document that was being tried, because the worker gave it back or lost it."""
        self._probes.pop(document_id, None)

    def after_moves(self, moves: Sequence[Move], *, who: str) -> list[str]:
        """Close the circuits of steps at which a document was tried and moved. Return these steps."""
        closed = []
        for move in moves:
            step = move.before.step or ""
            if move.is_progress and self._probes.get(move.claim.document_id) == step:
                self.drop_probe(move.claim.document_id)
                self._close(step, CIRCUIT_PROBED, who=who)
                self._forget_failures(step)
                closed.append(step)
        return closed

    def _close(self, step: str, why: str, *, who: str) -> None:
        if self._store.close_circuit(self._plan.pipeline, step, who=who, reason=sentence(why)):
            self._emit(CircuitClosed(step, pipeline=self._plan.pipeline, worker=who))
        self.paused = {name: one for name, one in self.paused.items() if name != step}

    def _probes_in_vain(self, step: str) -> int:
        return self.paused[step].probes if step in self.paused else 0

    def _wait(self, step: str) -> timedelta:
        return self._options[step].wait(self._probes_in_vain(step))

    # patience

    def is_hopeless(self, step: str, *, waited: float, probes: int) -> bool:
        """Return True if `drain` should not wait any longer for a paused step.

        Args:
            step: The step.
            waited: For how many seconds there was nothing else to do.
            probes: How many documents had been tried in vain when that began.
        """
        circuit, options = self.paused[step], self._options[step]
        is_doubtful = circuit.failures < options.failures  # a document of its own may be the reason
        if (circuit.recoverable is False or is_doubtful) and circuit.probes - probes >= FEW_PROBES:
            return True
        return waited >= options.patience.total_seconds()


def _has_worked(result: Any) -> bool:
    """Return True if a body ran to its end, or to its next item."""
    return result is not NOTHING_THERE and not (isinstance(result, Pulled) and result.error is not None)
