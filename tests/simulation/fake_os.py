"""A simulated machine: processes and threads take turns in one thread; the clock moves when all of them wait.

Threads are greenlets. A thread yields only where it waits, and at the switch points around each transaction. Which
ready thread runs next is a choice, so a list of choices is an interleaving.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from tests.simulation.choices import Choices

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
COMMIT_FAULT_SHARE = 0.2
"""Share of faults that come inside a commit. Most have the same result there as before or after it."""


class Killed(BaseException):
    """The process was killed. Its threads are unwound, and they can neither wait nor write."""


class NoProgress(Exception):
    """No thread can continue, or the schedule does not end."""


class SimulatedProcess:
    """One process. It may be killed or frozen, and its clock may be wrong."""

    __slots__ = (
        "alive",
        "ended_by",
        "frozen_until",
        "has_stopped",
        "host",
        "is_crash",
        "name",
        "pid",
        "running",
        "skew",
        "threads",
        "was_running",
    )

    def __init__(self, name: str, *, pid: int, host: str, skew: float = 0.0) -> None:
        self.name = name
        self.pid = pid
        self.host = host
        self.skew = skew
        self.alive = True
        self.has_stopped = False  # normally, on request
        self.is_crash = False  # it died of what its own code did, and left evidence
        self.ended_by = ""  # the document whose body ended it
        self.running: Callable[[], frozenset[int]] = frozenset
        self.was_running: frozenset[int] = frozenset()  # at its end
        self.frozen_until = 0.0
        self.threads: list[SimulatedThread] = []

    @property
    def is_operator(self) -> bool:
        """True if this stands for a person and not for a process."""
        return not self.pid

    def __repr__(self) -> str:
        return self.name


class SimulatedThread:
    """One thread of a process: its greenlet, and until when it waits."""

    __slots__ = ("ended", "greenlet", "ident", "name", "process", "skew", "wakes_at", "woken")

    def __init__(self, process: SimulatedProcess, name: str, ident: int) -> None:
        self.process = process
        self.name = name
        self.ident = ident
        self.wakes_at: float | None = 0.0  # None: until another thread wakes it
        self.woken = False
        self.ended = False
        self.skew = 0.0  # the skew of its process at its last call
        self.greenlet: Any = None


Waiters = list[SimulatedThread]


class FaultInjector(Protocol):
    """Injects faults at switch points and commits."""

    @property
    def chance(self) -> float:
        """The probability of a fault now."""

    def inject(self, thread: SimulatedThread, where: str) -> None:
        """Inject a fault into the thread at this point, or into another process."""

    def inject_in_commit(self, thread: SimulatedThread, where: str) -> None:
        """Kill the process of this thread, or cut its connection."""


class Machine:
    """Runs threads one after another, by choice, and moves the clock when all of them wait."""

    def __init__(self, choices: Choices, *, faults: FaultInjector, switch_probability: float, max_turns: int) -> None:
        self.choices = choices
        self.now = 0.0
        self.turns = 0
        self.processes: list[SimulatedProcess] = []
        self.current: SimulatedThread | None = None
        self._faults = faults
        self._switch_probability = switch_probability
        self._max_turns = max_turns
        self._hub: Any = getcurrent()
        self._threads: list[SimulatedThread] = []
        self._idents = 0

    # what the engine uses

    def monotonic(self) -> float:
        """Return the seconds since the machine started."""
        return self.now

    def clock(self) -> datetime:
        """Return the time by the clock of the running process."""
        current = self.current
        return START + timedelta(seconds=self.now + (current.skew if current else 0.0))

    def start_thread(self, process: SimulatedProcess, run: Callable[[], object], name: str) -> SimulatedThread:
        """Start a thread. It runs when it is chosen."""
        self._idents += 1
        thread = SimulatedThread(process, name, self._idents)
        thread.greenlet = greenlet(lambda: self._run_thread(thread, run), self._hub)
        process.threads.append(thread)
        self._threads.append(thread)
        return thread

    def wait(self, waiters: Waiters, seconds: float | None) -> bool:
        """Wait until another thread wakes this one, or the time is over. Return True if it was woken."""
        thread = self._current_thread()
        thread.woken = False
        thread.wakes_at = None if seconds is None else self.now + max(seconds, 0.0)
        waiters.append(thread)
        self._yield(thread)
        if not thread.woken:
            waiters.remove(thread)
        return thread.woken

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        self.wait([], seconds)

    def wake(self, waiters: Waiters) -> None:
        """Wake the thread that waits longest."""
        if waiters:
            thread = waiters.pop(0)
            thread.woken = True
            thread.wakes_at = self.now

    def switch_point(self, where: str) -> None:
        """Let other threads run first, or inject a fault, by choice."""
        thread = self.current
        if thread is None or thread.greenlet is None:
            return  # a read of the simulation itself, or a decision of the operator
        self.raise_if_killed()
        chosen = self.choices.event(self._switch_probability, self._faults.chance)
        if chosen == 2:
            self._faults.inject(thread, where)
            self.raise_if_killed()
        if chosen == 1 or thread.process.frozen_until > self.now:
            thread.wakes_at = self.now
            self._yield(thread)

    def commit_point(self, where: str) -> None:
        """Kill the process or cut its connection, by choice. No other thread runs here."""
        thread = self.current
        if thread is None or thread.greenlet is None:
            return
        if self.choices.event(self._faults.chance * COMMIT_FAULT_SHARE):
            self._faults.inject_in_commit(thread, where)
            self.raise_if_killed()

    def raise_if_killed(self) -> None:
        """Raise Killed if the process of the running thread was killed."""
        if self.current is not None and not self.current.process.alive:
            raise Killed

    # processes

    def start(self, process: SimulatedProcess, run: Callable[[], object]) -> None:
        """Start a process."""
        self.processes.append(process)
        self.start_thread(process, run, "main")

    def kill(self, process: SimulatedProcess, *, is_crash: bool = False) -> None:
        """Kill a process. If the running thread is one of its own, that ends at its next switch point."""
        if not process.alive:
            return
        process.alive = False
        process.is_crash = is_crash
        process.was_running = process.running()  # before the threads are unwound
        self._threads = [thread for thread in self._threads if thread.process is not process]
        for thread in process.threads:
            if thread is not self.current:
                self._end_thread(thread)

    def _end_thread(self, thread: SimulatedThread) -> None:
        if thread.ended:
            return
        thread.ended = True
        before, self.current = self.current, thread
        if thread.greenlet:  # it has started and has not ended
            thread.greenlet.parent = getcurrent()
            thread.greenlet.throw(Killed)  # while it is unwound it can neither wait nor write
        self.current = before

    def is_running(self, process: SimulatedProcess) -> bool:
        """Return True if the main thread of a process still runs."""
        return process.alive and not process.threads[0].ended

    # turns

    def run(self, until: Callable[[], bool]) -> None:
        """Run threads until the condition holds. Raise NoProgress if it never does."""
        while not until():
            self.turns += 1
            if self.turns > self._max_turns:
                raise NoProgress(f"the schedule did not end after {self._max_turns} turns")
            self._turn(self._next())

    def _next(self) -> SimulatedThread:
        now = self.now
        ready = [
            thread
            for thread in self._threads
            if thread.wakes_at is not None and thread.wakes_at <= now and thread.process.frozen_until <= now
        ]
        if not ready:
            self.now = self._earliest()
            return self._next()
        chosen = ready[0] if len(ready) == 1 else ready[self.choices.one_of(len(ready))]
        self._threads.remove(chosen)
        self._threads.append(chosen)
        return chosen

    def _earliest(self) -> float:
        times = [
            max(thread.wakes_at, thread.process.frozen_until) for thread in self._threads if thread.wakes_at is not None
        ]
        if not times:
            raise NoProgress("every thread waits for another")
        return min(times)

    def _turn(self, thread: SimulatedThread) -> None:
        self.current = thread
        thread.greenlet.switch()
        self.current = None
        if thread.ended and thread in self._threads:
            self._threads.remove(thread)

    def _yield(self, thread: SimulatedThread) -> None:
        self._hub.switch()
        if not thread.process.alive:
            raise Killed

    def _current_thread(self) -> SimulatedThread:
        thread = self.current
        if thread is None or not thread.process.alive:
            raise Killed
        return thread

    def _run_thread(self, thread: SimulatedThread, run: Callable[[], object]) -> None:
        try:
            run()
        except (Killed, GreenletExit):
            pass
        finally:
            thread.ended = True
