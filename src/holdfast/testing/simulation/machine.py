"""The machine: processes and threads that take turns in one thread, and a clock that moves when all of them wait.

Threads are greenlets: one gives way only where it waits, and at the points that stores put around each transaction.
Which of those that could go on does so is a choice, so a list of choices is an interleaving.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from holdfast.testing.simulation.choices import Choices

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
SELDOM = 0.2
"""How much of the trouble comes inside a transaction: most often it is the same as before or after it."""


class Killed(BaseException):
    """The process is gone. Whatever its threads still do to come to an end, nobody notices."""


class Stuck(Exception):
    """Nobody can go on, or everybody goes on for ever."""


class Process:
    """One process: it may be killed, it may stand still for a while, and its clock may be wrong."""

    __slots__ = ("alive", "frozen_until", "has_stopped", "host", "name", "pid", "skew", "threads")

    def __init__(self, name: str, *, pid: int, host: str, skew: float = 0.0) -> None:
        self.name = name
        self.pid = pid
        self.host = host
        self.skew = skew
        self.alive = True
        self.has_stopped = False  # because it was asked to
        self.frozen_until = 0.0
        self.threads: list[Thread] = []

    @property
    def is_somebody(self) -> bool:
        """Whether it is no process at all, but a person."""
        return not self.pid

    def __repr__(self) -> str:
        return self.name


class Thread:
    """One thread of a process: what it runs, and until when it waits."""

    __slots__ = ("ended", "greenlet", "ident", "name", "process", "skew", "wakes_at", "woken")

    def __init__(self, process: Process, name: str, ident: int) -> None:
        self.process = process
        self.name = name
        self.ident = ident
        self.wakes_at: float | None = 0.0  # None: until somebody wakes it
        self.woken = False
        self.ended = False
        self.skew = 0.0  # as its process had it when it last asked for something
        self.greenlet: Any = None


Waiters = list[Thread]


class Interference(Protocol):
    """What may happen at a point."""

    @property
    def chance(self) -> float:
        """How likely it is that something happens now."""

    def happen(self, thread: Thread, where: str) -> None:
        """Lets something happen to the thread that came by, or to others: it may be killed, held up or cut off."""

    def strike(self, thread: Thread, where: str) -> None:
        """Kills the process that came by, or cuts it off."""


class Machine:
    """Runs threads one after another, by choice, and moves the clock on when all wait."""

    def __init__(self, choices: Choices, *, trouble: Interference, give_way: float, most_turns: int) -> None:
        self.choices = choices
        self.now = 0.0
        self.turns = 0
        self.processes: list[Process] = []
        self.current: Thread | None = None
        self.story: Callable[[str], None] | None = None
        self._trouble = trouble
        self._give_way = give_way
        self._most_turns = most_turns
        self._hub: Any = getcurrent()
        self._threads: list[Thread] = []
        self._idents = 0

    # what the engine asks for

    def monotonic(self) -> float:
        """Gives the seconds since the machine began."""
        return self.now

    def clock(self) -> datetime:
        """Gives what the clock of the process that runs now says."""
        current = self.current
        return START + timedelta(seconds=self.now + (current.skew if current else 0.0))

    def begin(self, process: Process, run: Callable[[], object], name: str) -> Thread:
        """Starts a thread. It runs when its turn comes."""
        self._idents += 1
        thread = Thread(process, name, self._idents)
        thread.greenlet = greenlet(lambda: self._live(thread, run), self._hub)
        process.threads.append(thread)
        self._threads.append(thread)
        return thread

    def wait(self, waiters: Waiters, seconds: float | None) -> bool:
        """Waits among others until somebody wakes this thread, or the time is over. Answers whether it was woken."""
        thread = self._who()
        thread.woken = False
        thread.wakes_at = None if seconds is None else self.now + max(seconds, 0.0)
        waiters.append(thread)
        self._leave(thread)
        if not thread.woken:
            waiters.remove(thread)
        return thread.woken

    def sleep(self, seconds: float) -> None:
        """Lets the time pass."""
        self.wait([], seconds)

    def wake(self, waiters: Waiters) -> None:
        """Wakes the one that waits longest."""
        if waiters:
            thread = waiters.pop(0)
            thread.woken = True
            thread.wakes_at = self.now

    def point(self, where: str) -> None:
        """A place at which others may go on first, and at which anything may happen."""
        thread = self.current
        if thread is None or thread.greenlet is None:
            return  # the simulation itself looks, or a person decides
        self.require_life()
        chosen = self.choices.which(self._give_way, self._trouble.chance)
        if chosen == 2:
            self._trouble.happen(thread, where)
            self.require_life()
        if chosen == 1 or thread.process.frozen_until > self.now:
            thread.wakes_at = self.now
            self._leave(thread)

    def brink(self, where: str) -> None:
        """A place inside a transaction: nobody else goes on here, but the process may end, or be cut off."""
        thread = self.current
        if thread is None or thread.greenlet is None:
            return
        if self.choices.which(self._trouble.chance * SELDOM):
            self._trouble.strike(thread, where)
            self.require_life()

    def require_life(self) -> None:
        """Ends what runs now if its process is gone."""
        if self.current is not None and not self.current.process.alive:
            raise Killed

    # processes

    def start(self, process: Process, run: Callable[[], object]) -> None:
        """Starts a process."""
        self.processes.append(process)
        self.begin(process, run, "main")

    def kill(self, process: Process) -> None:
        """Ends a process at once. The thread that runs now, if it is one of its own, ends at its next step."""
        if not process.alive:
            return
        process.alive = False
        self._threads = [thread for thread in self._threads if thread.process is not process]
        for thread in process.threads:
            if thread is not self.current:
                self._bury(thread)

    def _bury(self, thread: Thread) -> None:
        if thread.ended:
            return
        thread.ended = True
        before, self.current = self.current, thread
        if thread.greenlet:  # it has begun, and is not at its end
            thread.greenlet.parent = getcurrent()
            thread.greenlet.throw(Killed)  # whatever it does on its way out, it can neither wait nor write
        self.current = before

    def is_running(self, process: Process) -> bool:
        """Answers whether any thread of a process is left."""
        return process.alive and not process.threads[0].ended

    # turns

    def run(self, until: Callable[[], bool]) -> None:
        """Lets threads take turns until then. Raises Stuck when that does not come."""
        while not until():
            self.turns += 1
            if self.turns > self._most_turns:
                raise Stuck(f"not at an end after {self._most_turns} turns")
            self._turn(self._next())

    def _next(self) -> Thread:
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
            raise Stuck("every thread waits for another")
        return min(times)

    def _turn(self, thread: Thread) -> None:
        self.current = thread
        thread.greenlet.switch()
        self.current = None
        if thread.ended and thread in self._threads:
            self._threads.remove(thread)

    def _leave(self, thread: Thread) -> None:
        self._hub.switch()
        if not thread.process.alive:
            raise Killed

    def _who(self) -> Thread:
        thread = self.current
        if thread is None or not thread.process.alive:
            raise Killed
        return thread

    def _live(self, thread: Thread, run: Callable[[], object]) -> None:
        try:
            run()
        except (Killed, GreenletExit):
            pass
        finally:
            thread.ended = True
