"""A crew: copies of this process that work beside it.

Python computes in one thread at a time, so bodies that are busy in Python are not done sooner by more threads. The
copies are made before the worker has threads, and are workers as any other: each holds its own documents, and when one
dies the rest take over what it held. What they say is said here, so listeners and the report know of the whole crew.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection, Pipe
from time import monotonic, sleep
from typing import Any

from msgspec.structs import replace

from holdfast.core.errors import DefinitionError
from holdfast.engine.budget import Budget
from holdfast.engine.events import Committed, Event, Listener, Stopping
from holdfast.engine.isolation.limits import die_with, flush_output
from holdfast.engine.isolation.tending import become

GLANCE = 0.1
"""Seconds between looks whether it is time to stop."""
LEAVING = 5.0
"""Seconds that a copy has to leave, beyond its grace."""

Work = Callable[[int, Listener], object]
"""Works in a copy, which has a number, and tells a listener of it."""


@contextmanager
def beside(work: Work, *, others: int, hear: Listener, budget: Budget, grace: timedelta) -> Iterator[None]:
    """Has so many copies of this process work, until they find nothing more to do or the budget is over."""
    if not hasattr(os, "fork"):
        raise DefinitionError("processes= needs fork(), which this system has not; start several workers instead")
    mates: list[_Mate] = []
    try:
        for number in range(2, others + 2):
            mates.append(_Mate(partial(work, number), budget, grace, before=mates))
    except OSError:  # no more processes
        for mate in mates:
            mate.end()
        raise
    with ExitStack() as crew:
        for mate in mates:  # the threads that listen come after the last fork
            crew.enter_context(mate.heard_by(hear))
        yield


class _Mate:
    """One copy, and the line on which it tells."""

    def __init__(
        self, work: Callable[[Listener], object], budget: Budget, grace: timedelta, *, before: Sequence[_Mate]
    ) -> None:
        self._budget = budget
        self._patience = grace.total_seconds() + LEAVING
        self._trouble: BaseException | None = None
        self._line, theirs = Pipe(duplex=False)
        parent = os.getpid()
        flush_output()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the caller may have threads; ours come later
            self._pid = os.fork()
        if not self._pid:
            for mate in (*before, self):
                mate._line.close()  # those are for the first of us to hear
            become(_Life, work, budget, theirs, parent)
        theirs.close()

    @contextmanager
    def heard_by(self, hear: Listener) -> Iterator[None]:
        """Passes on what the copy tells, as long as it lives, and waits for its end. Raises what a listener raised."""
        ear = threading.Thread(target=self._listen, args=(hear,), name="holdfast-crew", daemon=True)
        ear.start()
        try:
            yield
        except BaseException:
            self._send(signal.SIGKILL)
            raise
        finally:
            self._bury()
            ear.join()
            self._line.close()
        if self._trouble is not None:
            raise self._trouble

    def _listen(self, hear: Listener) -> None:
        asked = False
        with suppress(EOFError, OSError):
            while True:
                if self._line.poll(GLANCE):
                    self._pass_on(self._line.recv_bytes(), hear)
                if self._budget.is_over() and not asked:
                    asked = True
                    self._send(signal.SIGTERM)

    def _pass_on(self, told: bytes, hear: Listener) -> None:
        """Tells a listener. When that fails all stop, and the copy is heard out: else it would wait for us for ever."""
        if self._trouble is not None:
            return
        try:
            hear(pickle.loads(told))  # noqa: S301 - our own copy wrote it
        except BaseException as error:  # noqa: BLE001 - raised in the thread that works
            self._trouble = error
            self._budget.stop("a listener failed")

    def end(self) -> None:
        """Ends the copy at once: others take over what it held."""
        self._send(signal.SIGKILL)
        self._bury()
        self._line.close()

    def _bury(self) -> None:
        """Waits for the end: of the work, or, once it is time to stop, of the copy's patience."""
        deadline: float | None = None
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            if deadline is None and self._budget.is_over():
                self._send(signal.SIGTERM)
                deadline = monotonic() + self._patience
            if deadline is not None and monotonic() > deadline:
                self._send(signal.SIGKILL)
            sleep(0.005)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


class _Life:
    """What a copy does: it works, tells of it, and stops when it is told to, or when nobody listens any more."""

    def __init__(self, work: Callable[[Listener], object], budget: Budget, line: Connection, parent: int) -> None:
        self._work = work
        self._budget = budget
        self._line = line
        self._parent = parent

    def run(self) -> None:
        """Works until the end."""
        die_with(self._parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells all; the first of us tells the rest
        signal.signal(signal.SIGTERM, self._stop)
        self._work(self._tell)

    def _stop(self, *_: Any) -> None:
        self._budget.stop("its crew stops")

    def _tell(self, event: Event) -> None:
        if isinstance(event, Stopping):
            return  # the first of us says why
        try:
            self._line.send_bytes(pickle.dumps(_light(event)))
        except OSError:
            self._budget.stop("nobody listens any more")


def _light(event: Event) -> Event:
    """Gives an event without what was kept: listeners only count that."""
    if isinstance(event, Committed):
        return replace(event, moves=[_without_values(move) for move in event.moves])
    return event


def _without_values(move: Any) -> Any:
    return replace(move, effect=None, items=range(len(move.items)))
