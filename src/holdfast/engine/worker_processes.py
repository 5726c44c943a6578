"""Run several worker processes: started together, stopped together, and replaced when they die if the caller wants it.

There are two ways to start one:

- ForkedProcess is a copy of this process, for `work(processes=...)`. Python computes in one thread at a time, so more
  threads do not help bodies that compute in Python. The copies are made before the worker has threads. They are workers
  like any other: when one dies, the rest take over its documents. Their events are passed to the listeners here.
- CommandProcess runs a command, for `holdfast work --processes`.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing.connection import Connection, Pipe
from time import monotonic, sleep
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from msgspec.structs import replace

from holdfast.core.errors import DefinitionError
from holdfast.core.retry import Retry
from holdfast.engine.budget import HANG_UP, Budget
from holdfast.engine.crash_evidence import mark_supervised
from holdfast.engine.processes.fork_server import run_and_exit
from holdfast.engine.processes.resource_limits import exit_with_parent, flush_output
from holdfast.observe.events import Committed, Event, Listener, Stopping

CHECK_INTERVAL = 0.1
"""Seconds between two checks of the processes and of the budget."""
FINAL_CHECK_INTERVAL = 0.005
"""The same, once there is nothing else to do than to wait for the processes."""
EXIT_SECONDS = 5.0
"""Seconds that a forked process has to end, beyond its grace, before it is killed."""
QUICK_DEATH = 5.0
"""A process that dies within this many seconds of its start has died quickly."""
RESTARTS = Retry(base=timedelta(seconds=0.1), ceiling=timedelta(seconds=2), jitter=0)
"""How long to wait before a process is replaced. Processes that die quickly are replaced less and less often."""

WorkFunction = Callable[[int, Listener], object]
"""Works in a forked process. It gets the number of the process, and a listener for its events."""


OnDeath = Callable[[int, int], object]
"""Is called with the process id and the exit code of a dead process, before anybody else can know that it is dead."""


class WorkerProcess(Protocol):
    """A process that a ProcessManager runs."""

    def exit_code(self) -> int | None:
        """Return the exit code, or the negative number of a signal. None while the process runs."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""


class Exit(NamedTuple):
    """How a worker process ended."""

    number: int
    code: int
    quick_deaths: int
    """How many processes of this number died in a row, each soon after its start."""

    def __str__(self) -> str:
        if self.code < 0:
            return f"worker process {self.number} was killed by {signal.Signals(-self.code).name}"
        return f"worker process {self.number} ended with exit code {self.code}"


class ProcessManager:
    """Start worker processes, and watch them until all have ended for good.

    When the budget is over, all get SIGTERM, and `kill_after` seconds later SIGKILL. `restart` decides whether a
    process that has ended is replaced. Used as a context manager: an error ends all processes, with SIGKILL after
    `interrupt_seconds`.
    """

    def __init__(
        self,
        start: Callable[[int], WorkerProcess],
        numbers: Iterable[int],
        *,
        budget: Budget,
        restart: Callable[[Exit], bool] = lambda _: False,
        kill_after: float | None = None,
        interrupt_seconds: float = 0.0,
    ) -> None:
        self._start = start
        self._budget = budget
        self._restart = restart
        self._kill_after = kill_after
        self._interrupt_seconds = interrupt_seconds
        self._kill_at: float | None = None
        self._is_stopping = False
        self._processes: dict[int, tuple[WorkerProcess, float]] = {}  # by number, with the time of the start
        self._quick_deaths: dict[int, int] = {}
        try:
            for number in numbers:
                self._add(number)
        except OSError:  # the system allows no more processes
            self.end()
            raise

    def watch(self, interval: Callable[[], float] = lambda: CHECK_INTERVAL) -> None:
        """Wait until all processes have ended for good."""
        while self._processes:
            self._stop_if_over()
            for number, (process, _) in [*self._processes.items()]:
                if (code := process.exit_code()) is not None:
                    self._on_exit(number, code)
            if self._processes:
                sleep(interval())

    def end(self) -> None:
        """End all processes now. Other workers take over their documents."""
        if self._interrupt_seconds:
            self._signal_all(signal.SIGTERM)
        deadline = monotonic() + self._interrupt_seconds
        processes = [process for process, _ in [*self._processes.values()]]
        while monotonic() < deadline and any(process.exit_code() is None for process in processes):
            sleep(CHECK_INTERVAL)
        self._signal_all(signal.SIGKILL)
        for process in processes:
            while process.exit_code() is None:
                sleep(FINAL_CHECK_INTERVAL)
        self._processes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is not None:
            self.end()

    def _add(self, number: int) -> None:
        self._processes[number] = (self._start(number), monotonic())

    def _stop_if_over(self) -> None:
        if not self._budget.is_over():
            return
        if not self._is_stopping:
            self._is_stopping = True
            self._kill_at = None if self._kill_after is None else monotonic() + self._kill_after
            self._signal_all(signal.SIGTERM)
        if self._kill_at is not None and monotonic() > self._kill_at:
            self._signal_all(signal.SIGKILL)

    def _on_exit(self, number: int, code: int) -> None:
        ended = self._processes.pop(number, None)
        if ended is None:
            return  # `end` was called meanwhile
        is_quick = monotonic() - ended[1] < QUICK_DEATH
        quick_deaths = self._quick_deaths[number] = self._quick_deaths.get(number, 0) + 1 if is_quick else 0
        if self._restart(Exit(number, code, quick_deaths)):
            sleep(RESTARTS.wait(quick_deaths + 1).total_seconds())
            self._add(number)

    def _signal_all(self, number: signal.Signals) -> None:
        for process, _ in [*self._processes.values()]:
            process.signal(number)


def _report_death(pid: int, on_death: OnDeath) -> None:
    """Report a process that has ended. It stays a zombie meanwhile, so that others wait for what is reported."""
    if not hasattr(os, "waitid"):  # in older Pythons on macOS
        return
    with suppress(ChildProcessError):  # other code of this process has waited for it
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            on_death(pid, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)


# commands


class CommandProcess:
    """A worker process that runs a command, and the lines that it prints."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_line: Callable[[bytes], object],
        on_death: OnDeath = lambda _pid, _code: None,
    ) -> None:
        self._on_line = on_line
        self._on_death = on_death
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )  # the end of stdin tells it that this process is gone; a session, because only this process handles Ctrl-C
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def exit_code(self) -> int | None:
        """Return the exit code, or the negative number of a signal. None while the process runs."""
        if self._process.returncode is None:
            _report_death(self._process.pid, self._on_death)
        code = self._process.poll()
        if code is not None:
            self._reader.join(timeout=1)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._on_line(line)


# forks


@contextmanager
def forked_workers(
    work: WorkFunction,
    *,
    count: int,
    relay: Listener,
    budget: Budget,
    grace: timedelta,
    on_death: OnDeath = lambda _pid, _code: None,
) -> Iterator[None]:
    """Run copies of this process beside it, until they find no more work or the budget is over.

    Their events are passed to `relay`. If that raises, all processes stop, and the error is raised here at the end.
    `on_death` is called with the process id and the exit code of a copy that has ended.
    """
    if not hasattr(os, "fork"):
        raise DefinitionError("processes= needs fork(), which this system does not have; start several workers instead")
    events = _EventRelay(relay, budget)
    forked: list[ForkedProcess] = []

    def start(number: int) -> WorkerProcess:
        process = ForkedProcess(lambda emit: work(number, emit), budget, others=forked, on_death=on_death)
        forked.append(process)
        return process

    kill_after = grace.total_seconds() + EXIT_SECONDS
    with ProcessManager(start, range(2, count + 2), budget=budget, kill_after=kill_after) as manager:
        for process in forked:  # threads start after the last fork
            process.read_events(events)
        is_done = threading.Event()
        watcher = threading.Thread(
            target=manager.watch,
            args=(lambda: FINAL_CHECK_INTERVAL if is_done.is_set() else CHECK_INTERVAL,),
            name="holdfast-processes",
            daemon=True,
        )
        watcher.start()
        yield
        is_done.set()
        watcher.join()
    if events.error is not None:
        raise events.error


class ForkedProcess:
    """A copy of this process that works, and the pipe on which it sends its events."""

    def __init__(
        self,
        work: Callable[[Listener], object],
        budget: Budget,
        *,
        others: Sequence[ForkedProcess],
        on_death: OnDeath = lambda _pid, _code: None,
    ) -> None:
        self._code: int | None = None
        self._on_death = on_death
        self._lock = threading.Lock()  # for `_code`: the watching thread and an ending one may wait for the process
        self._reader: threading.Thread | None = None
        self._events, theirs = Pipe(duplex=False)
        parent = os.getpid()
        flush_output()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the caller may have threads; ours start later
            self._pid = os.fork()
        if not self._pid:
            for process in (*others, self):
                process._events.close()  # only the parent reads them
            run_and_exit(_ForkedWork, work, budget, theirs, parent)
        theirs.close()

    def read_events(self, relay: _EventRelay) -> None:
        """Start to pass on the events of the process."""
        self._reader = threading.Thread(
            target=relay.read_all, args=(self._events,), name="holdfast-event-relay", daemon=True
        )
        self._reader.start()

    def exit_code(self) -> int | None:
        """Return the exit code, or the negative number of a signal. None while the process runs."""
        with self._lock:
            if self._code is None:
                _report_death(self._pid, self._on_death)
                try:
                    pid, status = os.waitpid(self._pid, os.WNOHANG)
                except ChildProcessError:  # other code of this process has waited for it
                    pid, status = self._pid, 0
                if pid == 0:
                    return None
                self._code = os.waitstatus_to_exitcode(status)
                if self._reader is not None:
                    self._reader.join()
                self._events.close()
            return self._code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        with self._lock, suppress(ProcessLookupError):
            if self._code is None:
                os.kill(self._pid, number)


class _EventRelay:
    """Pass the events of forked processes to one listener. Every process has its own thread here."""

    def __init__(self, relay: Listener, budget: Budget) -> None:
        self._relay = relay
        self._budget = budget
        self.error: BaseException | None = None

    def read_all(self, events: Connection) -> None:
        """Read events until the process has ended, even after an error: else the process would block on its pipe."""
        with suppress(EOFError, OSError):
            while True:
                self._pass_on(events.recv_bytes())

    def _pass_on(self, event: bytes) -> None:
        if self.error is not None:
            return
        try:
            self._relay(pickle.loads(event))  # noqa: S301 - a copy of this process wrote it
        except BaseException as error:  # noqa: BLE001 - user code: a listener; raised in the main thread
            self.error = error
            self._budget.stop("a listener failed")


class _ForkedWork:
    """What a forked process does: work and send events, until it is stopped or its parent is gone."""

    def __init__(self, work: Callable[[Listener], object], budget: Budget, events: Connection, parent: int) -> None:
        self._work = work
        self._budget = budget
        self._events = events
        self._parent = parent

    def run(self) -> None:
        """Work until the end."""
        exit_with_parent(self._parent)
        mark_supervised()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all; the parent handles it
        if HANG_UP is not None:
            signal.signal(HANG_UP, signal.SIG_IGN)  # a terminal that closes tells all, too
        signal.signal(signal.SIGTERM, self._stop)
        self._work(self._send)

    def _stop(self, *_: Any) -> None:
        self._budget.stop("its parent process stops")

    def _send(self, event: Event) -> None:
        if isinstance(event, Stopping):
            return  # the parent emits it for all
        try:
            self._events.send_bytes(pickle.dumps(_without_values(event)))
        except OSError:
            self._budget.stop("its parent process is gone")


def _without_values(event: Event) -> Event:
    """Return an event without the values of items: listeners only count these."""
    if not isinstance(event, Committed):
        return event
    moves: list[Any] = [replace(move, effect=None, items=range(len(move.items))) for move in event.moves]
    return replace(event, moves=moves)
