"""One schedule: a few workers process a few documents while faults happen; then the recovery phase.

While faults happen, every transaction must keep the invariants. After the last fault every document must come to its
end, and its items must be those of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from holdfast import Document
from holdfast.core.errors import HoldfastError, PlanRefused
from holdfast.core.staleness import Stale
from holdfast.engine.budget import Budget
from holdfast.engine.settings import WorkerSettings
from holdfast.engine.stored_items import StoreReader
from holdfast.engine.worker import Worker
from holdfast.ops.forecast import stale_groups
from holdfast.stores.protocol import DocumentFilter
from holdfast.stores.sqlite import SqliteStore
from tests.simulation.bodies import BEHAVIOURS, INCURABLE, TABLES, Behaviour, SimulatedBodies, new_document
from tests.simulation.choices import Choices
from tests.simulation.fake_os import START, Machine, NoProgress, SimulatedProcess, SimulatedThread
from tests.simulation.fake_threading import use_machine
from tests.simulation.faults import Faults
from tests.simulation.invariants import Invariants, KeyAndFence
from tests.simulation.observed_state import MemoryState, ObservedDocument, ObservedState, SqliteState
from tests.simulation.pipelines import ORDER, SHAPES, PipelineVersion, pipeline_of, places, use_bodies
from tests.simulation.recovery_phase import RecoveryPhase
from tests.simulation.watched_stores import LEASE, WatchedMemory, WatchedSqlite, WatchedStore

SWITCH_PROBABILITY = 0.08
"""Probability, at each switch point, that another thread runs first."""
MAX_FAULT_TURNS = 500
"""After this many turns the recovery begins, even if not all faults were injected."""
MAX_TURNS = 8000
BATCH = "batch"


class ScheduleOutcome(Struct):
    """The result of one schedule."""

    choices: list[int]
    violation: str
    turns: int
    faults: dict[str, int]
    states: set[int]


class Schedule:
    """The workers, their store, their documents, and everything that happens to them."""

    def __init__(
        self, choices: Choices, *, file: Path | None = None, output: Callable[[str], None] | None = None
    ) -> None:
        self.choices = choices
        self.faults = Faults(self)
        self.machine = Machine(choices, faults=self.faults, switch_probability=SWITCH_PROBABILITY, max_turns=MAX_TURNS)
        self.operator = SimulatedThread(SimulatedProcess("operator", pid=0, host=""), "", 0)
        self._output = output
        self.store = self._open(file)
        self.observed = self._open_observed()
        self.invariants = Invariants(self.machine, self.observed, is_incurable=self.is_incurable)
        self.store.watch.on_register = self.invariants.on_register
        self.store.watch.on_reclaim = self.invariants.on_reclaim
        self.store.watch.check = self.invariants.check
        self.bodies = SimulatedBodies(
            clock=lambda: START + timedelta(seconds=self.machine.now),
            wait=self.machine.sleep,
            on_verify=self._on_verify,
            die=self._die,
            log=self.log,
            on_misread=self._on_misread,
            expected_places=self.expected_places,
            inside=self._inside,
        )
        self._running_bodies: list[tuple[SimulatedProcess, KeyAndFence]] = []
        self.pipeline_version = PipelineVersion((), ())
        self.versions: dict[str, int] = {}
        self.budgets: dict[SimulatedProcess, Budget] = {}
        self.up_to_date: list[SimulatedProcess] = []

    def _open(self, file: Path | None) -> WatchedStore:
        return WatchedMemory(self.machine) if file is None else WatchedSqlite(self.machine, file)

    def _open_observed(self) -> ObservedState:
        if isinstance(self.store, WatchedMemory):
            return MemoryState(self.store)
        return SqliteState(SqliteStore(self.store.url))

    # the schedule

    def run(self) -> ScheduleOutcome:
        """Run the schedule."""
        use_machine(self.machine)
        use_bodies(self.bodies)
        try:
            self._prepare()
            self.machine.run(self._faults_are_over)
            self._start_recovery()
            recovery = RecoveryPhase(self)
            self.machine.run(recovery.is_over)
            recovery.check_results()
        except NoProgress as error:
            self.invariants.fail(f"{error}: {[*self.invariants.documents]}")
        except (Exception, SystemExit) as error:
            self.invariants.fail(f"{type(error).__name__}: {error}")
        finally:
            self.faults.stop()
            for process in [process for process in self.machine.processes if process.alive]:
                self.machine.kill(process)
            self.store.watch.delivered.clear()  # the calls refer to the store, and the garbage collector is off
            self.store.close()
            self.observed.close()
        violation = str(self.invariants.violation or "")
        return ScheduleOutcome(
            self.choices.taken, violation, self.machine.turns, self.faults.counts, self.invariants.states
        )

    def _prepare(self) -> None:
        with self.store.transaction() as tx:
            for table in TABLES:
                tx.execute(table)
        self.deploy(PipelineVersion.of(dict.fromkeys(SHAPES[self.choices.one_of(len(SHAPES))], 1)))
        for number in range(1 + self.choices.one_of(3)):
            self.submit(f"doc{number}")
        for _ in range(1 + self.choices.one_of(2)):
            self.start_worker()

    def _faults_are_over(self) -> bool:
        if (
            self.invariants.violation
            or self.faults.is_over
            or self.choices.are_exhausted
            or self.machine.turns > MAX_FAULT_TURNS
        ):
            return True
        self.ensure_a_worker_runs()
        return False

    def _start_recovery(self) -> None:
        self.log("recovery phase")
        self.faults.stop()
        self.bodies.is_away = lambda: False
        for process in self.machine.processes:
            process.skew = 0.0
        self.start_worker()

    def ensure_a_worker_runs(self) -> None:
        """Start a worker with the present version, if none runs."""
        if not any(self.machine.is_running(process) for process in self.up_to_date):
            self.restore_needed_steps()
            self.start_worker()

    def restore_needed_steps(self) -> None:
        """Deploy removed steps again if a worker with an older version brought documents to them.

        This is refused while other documents are open that went through those steps in another order. It is
        tried again later.
        """
        at = {document.step for document in self.invariants.documents if document.state != "cancelled"} - {
            None,
            *self.steps,
        }
        if at:
            self.log(f"the operator deploys {sorted(map(str, at))} again")
            try:
                self.deploy(self.pipeline_version.with_steps({step: 1 for step in ORDER if step in at}))
            except PlanRefused as refused:
                self.log(f"{refused}")

    # people and workers

    @contextmanager
    def as_operator(self) -> Iterator[None]:
        """Make the calls in this block as a person."""
        before, self.machine.current = self.machine.current, self.operator
        try:
            yield
        finally:
            self.machine.current = before

    def submit(self, key: str) -> None:
        """Submit a new document, or new content of a known one."""
        version = self.versions[key] = self.versions.get(key, 0) + 1
        pages = 1 + self.choices.one_of(3)
        kind = BEHAVIOURS[self.choices.one_of(len(BEHAVIOURS))]
        step = self.steps[self.choices.one_of(len(self.steps))]
        room = len(places(step, pages)) or 1
        self.bodies.behaviours[key, version] = Behaviour(
            kind, step, self.choices.one_of(room), 1 + self.choices.one_of(2)
        )
        self.log(
            f"the operator submits {key}, version {version}, {pages} pages, {self.bodies.behaviours[key, version]}"
        )
        with self.as_operator():
            document = new_document(key, version, pages)
            self.store.submit(self.plan, BATCH, [document], submission=len(self.bodies.behaviours), part=0)
        self.invariants.acknowledged.add(key)

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of the present version."""
        return self.pipeline_version.steps

    def deploy(self, pipeline_version: PipelineVersion) -> None:
        """Deploy a version. Running workers keep theirs."""
        shape = pipeline_of(pipeline_version).shape()
        with self.as_operator():
            self.plan = self.store.declare(shape)
            if self.store.shape(shape.pipeline) != shape:
                self.invariants.fail(f"{shape.names} was declared last, and is not the present shape")
        self.pipeline_version = pipeline_version
        self.invariants.version_checks.on_deploy(self.plan, pipeline_version)
        self.up_to_date = []

    def redo(self) -> int:
        """Rewind all stale documents. Return how many there were."""
        with self.as_operator():
            return sum(len(self._redo(group)) for group in stale_groups(self.store, pipeline_of(self.pipeline_version)))

    def _redo(self, group: Stale) -> list[int]:
        filters: list[DocumentFilter] = [
            {"plan": group.plan_id, "state": count.state, "step": count.step} for count in group.counts
        ]
        ids = [document_id for which in filters for document_id in self.store.select(self.plan.pipeline, **which)]
        return self.store.rewind_to(self.plan, ids, to=group.to, who="operator", reason=group.why)

    def start_worker(self) -> None:
        """Start a worker process with the present version."""
        number = len(self.machine.processes) + 1
        process = SimulatedProcess(f"worker{number}", pid=number, host="ab"[self.choices.one_of(2)])
        pipeline = pipeline_of(self.pipeline_version)
        budget = self.budgets[process] = Budget()
        settings = WorkerSettings(
            name=process.name,
            threads=1 + self.choices.one_of(2),
            concurrency=1 + self.choices.one_of(3),
            lease=LEASE,
            grace=timedelta(seconds=1),
        )

        def work() -> None:
            try:
                Worker(pipeline, self.store, settings=settings, budget=budget).work()
                process.has_stopped = True
            except HoldfastError as error:
                self.log(f"ends: {error}")
            except (Exception, SystemExit) as error:  # an error that cannot be read raises SystemExit
                self.invariants.fail(f"{process} ends with {type(error).__name__}: {error}")
            finally:
                self.machine.kill(process)

        self.log(f"{process} starts on host {process.host} with {self.steps}, {settings.threads} threads")
        self.machine.start(process, work)
        self.up_to_date.append(process)

    def _die(self, key: str, *, is_crash: bool) -> None:
        current = self.machine.current
        assert current is not None
        if current.process.alive and self.invariants.fence_held(current.process, key):
            current.process.ended_by = key
        self.machine.kill(current.process, is_crash=is_crash)
        self.machine.switch_point("")

    @contextmanager
    def _inside(self, doc: Document, step: str) -> Iterator[None]:
        current = self.machine.current
        assert current is not None
        body = (current.process, _held(doc))
        self._running_bodies.append(body)
        self.invariants.check_step_limit(step, self._running_bodies)
        try:
            yield
        finally:
            self._running_bodies.remove(body)

    def _on_verify(self, doc: Document, *, is_there: bool) -> None:
        current = self.machine.current
        assert current is not None
        self.invariants.on_verify(current.process, _held(doc), is_there=is_there)

    def expected_places(self, key: str, version: int, step: str, pages: int) -> list[int]:
        """Return the places at which a step must have made a value: all except those that were given up."""
        given_up = self.invariants.given_up.get((key, version, step), ())
        return [place for place in places(step, pages) if place not in given_up]

    def is_incurable(self, document: ObservedDocument) -> bool:
        """Return True if a document never becomes done."""
        return self.bodies.behaviours[document.key, document.version].kind in INCURABLE

    # the log

    def _on_misread(self, doc: Document, what: str) -> None:
        """Record that a body read a wrong value. If its claim was lost, that is allowed: its result is not kept."""
        current = self.machine.current
        assert current is not None
        if self.invariants.holds(current.process, doc.key, doc.generation):
            self.invariants.fail(f"{doc.key} of version {doc.payload['version']} {what}")

    def log(self, line: str) -> None:
        """Write a line of the log, if there is one."""
        if self._output is not None:
            current = self.machine.current
            who = f"{current.process} {current.name}" if current else ""
            self._output(f"{self.machine.now:8.2f}  {who:28} {line}")


def _held(doc: Document) -> KeyAndFence:
    """Return the fence under which a body was started. Its worker may hold the document under another fence by now."""
    assert isinstance(doc.reader, StoreReader)
    return doc.key, doc.reader.claim.fence
