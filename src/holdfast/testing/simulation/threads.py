"""What the engine takes from `threading`, `queue` and `time`, on a simulated machine.

The engine's own code runs unchanged: only the names under which its modules know threads, locks, queues and the clock
are lent to the machine, for as long as a simulation lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from holdfast.core import step
from holdfast.core.model import Worker
from holdfast.engine import bodies, budget, caretaker, doors, heartbeat, orphans, pace, report, rounds, runners, worker
from holdfast.testing.simulation.machine import Machine, Process, Waiters
from holdfast.testing.simulation.stage import SLACK

CLOCKED = (bodies, budget, caretaker, doors, pace, report, rounds, runners, worker)
"""The modules that ask what time it is."""

GRAINS = {
    (worker, "GLANCE"): 0.7,
    (rounds, "IDLE"): 1.5,
    (pace, "IDLE"): 1.5,
    (rounds, "UPKEEP"): 1.0,
    (doors, "ADMISSION"): 0.5,
}
"""How often workers look, in seconds: seldom, for nothing happens between two events that a look could find."""

_machine: Machine


class Thread:
    """A thread of the process that starts it."""

    def __init__(
        self, *, target: Callable[..., object], name: str = "", daemon: bool = True, args: Sequence[Any] = ()
    ) -> None:
        assert daemon, "nothing outlives its process here"
        self._run = lambda: target(*args)
        self._name = name
        self._thread: Any = None

    def start(self) -> None:
        current = _machine.current
        assert current is not None
        self._thread = _machine.begin(current.process, self._run, self._name)

    def join(self, timeout: float | None = None) -> None:
        """Waits a while. What is asked to end ends by itself."""
        if not self._thread.ended:
            _machine.sleep(min(timeout or 0.0, 0.01))


class Lock:
    """A lock that is held by a thread."""

    def __init__(self) -> None:
        self._held = False
        self._waiters: Waiters = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as in threading
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


class Event:
    """Something that happens once."""

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


class SimpleQueue:
    """First in, first out."""

    def __init__(self) -> None:
        self._things: deque[Any] = deque()
        self._waiters: Waiters = []

    def put(self, thing: Any) -> None:
        self._things.append(thing)
        _machine.wake(self._waiters)

    def get(self, timeout: float | None = None) -> Any:
        until = None if timeout is None else _machine.now + timeout
        while not self._things:
            if until is not None and _machine.now >= until:
                raise Empty
            _machine.wait(self._waiters, None if until is None else until - _machine.now)
        return self._things.popleft()

    def get_nowait(self) -> Any:
        if not self._things:
            raise Empty
        return self._things.popleft()


def _ident() -> int:
    return _machine.current.ident if _machine.current else 0


def _process() -> Process:
    assert _machine.current is not None
    return _machine.current.process


def _is_gone(one: Worker) -> bool:
    """Answers what a look into the process table would: of other hosts nothing is known."""
    processes = {process.pid: process for process in _machine.processes}
    return one.host == _process().host and not _machine.is_running(processes[one.pid])


THREADING = SimpleNamespace(Thread=Thread, Lock=Lock, Event=Event, get_ident=_ident)

LENT: dict[tuple[Any, str], Any] = {
    **GRAINS,
    (step, "SLACK"): SLACK,
    **{(module, "monotonic"): lambda: _machine.now for module in CLOCKED},
    **{(module, "threading"): THREADING for module in (heartbeat, runners, worker)},
    (runners, "SimpleQueue"): SimpleQueue,
    (worker, "os"): SimpleNamespace(getpid=lambda: _process().pid),
    (worker, "born"): str,
    (worker, "this_host"): lambda: _process().host,
    (orphans, "is_gone"): _is_gone,
}


@contextmanager
def lent() -> Iterator[None]:
    """Lends the engine's threads and clock to whichever machine runs."""
    patches = [patch.object(module, name, thing) for (module, name), thing in LENT.items()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def run_on(machine: Machine) -> None:
    """Lets this machine be the one that runs now."""
    global _machine  # noqa: PLW0603 - the engine knows threads by the names of modules, so there is one at a time
    _machine = machine
