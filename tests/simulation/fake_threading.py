"""The parts of `threading`, `queue` and `time` that the engine uses, on a simulated machine.

The engine's code runs unchanged. Only the names by which its modules know threads, locks, queues and the clock are
patched while a simulation runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from holdfast import process_identity
from holdfast.core import step
from holdfast.core.model import WorkerRecord
from holdfast.core.worker_deaths import Evidence, WorkerDeath
from holdfast.engine import (
    body_calls,
    budget,
    claim_size,
    heartbeat,
    maintenance,
    runners,
    scheduler,
    step_circuits,
    step_limits,
    step_timings,
    stream_collector,
    worker,
)
from holdfast.engine.crash_evidence import DeathReports, RunningMarks
from holdfast.engine.crash_evidence.running_marks import running_documents
from holdfast.observe import report
from holdfast.stores.protocol import Store
from tests.simulation.bodies import SLACK
from tests.simulation.fake_os import Machine, SimulatedProcess, Waiters

MODULES_WITH_CLOCK = (
    body_calls,
    budget,
    claim_size,
    maintenance,
    report,
    runners,
    scheduler,
    step_circuits,
    step_limits,
    step_timings,
    stream_collector,
    worker,
)
"""The modules that read the monotonic clock."""

INTERVALS = {
    (worker, "TICK_INTERVAL"): 0.7,
    (scheduler, "IDLE"): 1.5,
    (claim_size, "IDLE"): 1.5,
    (scheduler, "MAINTENANCE_INTERVAL"): 1.0,
    (step_limits, "CHECK_INTERVAL"): 0.5,
}
"""How often workers poll, in seconds. Seldom, because between two events a poll can find nothing."""

_machine: Machine


class FakeThread:
    """A thread of the process that starts it."""

    def __init__(
        self, *, target: Callable[..., object], name: str = "", daemon: bool = True, args: Sequence[Any] = ()
    ) -> None:
        assert daemon, "the simulation has only daemon threads"
        self._run = lambda: target(*args)
        self._name = name
        self._thread: Any = None

    def start(self) -> None:
        current = _machine.current
        assert current is not None
        self._thread = _machine.start_thread(current.process, self._run, self._name)

    def join(self, timeout: float | None = None) -> None:
        """Wait a short time. The thread ends by itself."""
        if not self._thread.ended:
            _machine.sleep(min(timeout or 0.0, 0.01))


class FakeLock:
    """A lock that is held by a thread."""

    def __init__(self) -> None:
        self._held = False
        self._waiters: Waiters = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        until = None if timeout < 0 else _machine.now + timeout
        while self._held:
            if not blocking or (until is not None and _machine.now >= until):
                return False
            _machine.wait(self._waiters, None if until is None else until - _machine.now)
        self._held = True
        return True

    def release(self) -> None:
        self._held = False
        _machine.wake(self._waiters)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class FakeEvent:
    """An event that is set once."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: Waiters = []

    def set(self) -> None:
        self._is_set = True
        while self._waiters:
            _machine.wake(self._waiters)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            _machine.wait(self._waiters, timeout)
        return self._is_set


class FakeQueue:
    """A first-in, first-out queue."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters: Waiters = []

    def put(self, item: Any) -> None:
        self._items.append(item)
        _machine.wake(self._waiters)

    def get(self, timeout: float | None = None) -> Any:
        until = None if timeout is None else _machine.now + timeout
        while not self._items:
            if until is not None and _machine.now >= until:
                raise Empty
            _machine.wait(self._waiters, None if until is None else until - _machine.now)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()


def _ident() -> int:
    return _machine.current.ident if _machine.current else 0


def _process() -> SimulatedProcess:
    assert _machine.current is not None
    return _machine.current.process


class FakeRecorder:
    """Keeps which documents a process runs. What it keeps outlives the process."""

    def __init__(self, process: SimulatedProcess, marks: RunningMarks) -> None:
        process.running = lambda: running_documents(marks.cells) or frozenset()

    def refresh(self) -> None:
        """Do nothing: no count of the machine is kept."""

    def close(self) -> None:
        """Do nothing: the next worker of the process replaces what is kept."""


def _record_crashes(_store: Store, _worker: WorkerRecord, *, marks: RunningMarks, oom: object) -> FakeRecorder:
    assert oom is not None
    return FakeRecorder(_process(), marks)


def _find_deaths(_store: Store, workers: Iterable[WorkerRecord], *, gone: Collection[int]) -> DeathReports:
    """Return what is known about workers of this host. Evidence is known of those that are dead."""
    processes = {process.pid: process for process in _machine.processes}
    here = [(one.id, processes[one.pid]) for one in workers if one.host == _process().host]
    return DeathReports({worker_id: death_of(process, is_gone=worker_id in gone) for worker_id, process in here})


def death_of(process: SimulatedProcess, *, is_gone: bool) -> WorkerDeath:
    """Return what a worker on the same host learns about the end of a process."""
    if not is_gone:
        return WorkerDeath(running=process.running())
    crashed: Evidence = "signal" if process.is_crash else ""
    return WorkerDeath(crashed, "SIGSEGV" if process.is_crash else "", process.was_running)


def _is_gone(worker_record: WorkerRecord) -> bool:
    """Return True if the process table shows that a worker is gone. Nothing is known of other hosts."""
    processes = {process.pid: process for process in _machine.processes}
    return worker_record.host == _process().host and not _machine.is_running(processes[worker_record.pid])


THREADING = SimpleNamespace(Thread=FakeThread, Lock=FakeLock, Event=FakeEvent, get_ident=_ident)

PATCHES: dict[tuple[Any, str], Any] = {
    **INTERVALS,
    (step, "SLACK"): SLACK,
    **{(module, "monotonic"): lambda: _machine.now for module in MODULES_WITH_CLOCK},
    **{(module, "threading"): THREADING for module in (heartbeat, runners, worker)},
    (runners, "SimpleQueue"): FakeQueue,
    (stream_collector, "Lock"): FakeLock,
    (worker, "os"): SimpleNamespace(getpid=lambda: _process().pid),
    (worker, "born"): str,
    (worker, "this_host"): lambda: _process().host,
    (process_identity, "is_gone"): _is_gone,
    (worker, "record_crashes"): _record_crashes,
    (worker, "OomWatch"): SimpleNamespace,
    (maintenance, "find_deaths"): _find_deaths,
    (maintenance, "forget_notes"): lambda _store, _workers: None,
}


@contextmanager
def patched_engine() -> Iterator[None]:
    """Patch the engine's threads and clocks with those of the simulated machine."""
    patches = [patch.object(module, name, item) for (module, name), item in PATCHES.items()]
    for applied in patches:
        applied.start()
    try:
        yield
    finally:
        for applied in patches:
            applied.stop()


def use_machine(machine: Machine) -> None:
    """Make this the machine that the patched engine runs on."""
    global _machine  # noqa: PLW0603 - the patches are on modules of the engine, so there is one machine at a time
    _machine = machine
