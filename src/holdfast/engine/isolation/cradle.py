"""The cradle: the process that forks children, as the worker sees it.

A worker has threads, and a process with threads must not fork: a lock that another thread holds stays locked in the
copy for ever. So the worker forks once, before its threads, and asks that copy for every further one. Bodies are
there already, also lambdas and functions of `__main__`, and a fork takes about a millisecond.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from socket import send_fds, socketpair
from time import monotonic, sleep
from typing import IO

from holdfast.core.pipeline import Pipeline
from holdfast.engine.isolation import child
from holdfast.engine.isolation.limits import flush_output
from holdfast.engine.isolation.talk import Talk
from holdfast.engine.isolation.tending import BEAR, CLOSE, DYING, END, FATE, REPLY, REQUEST, Tending, become


class Gone(Exception):
    """The cradle itself died."""


class Cradle:
    """Forks children, ends them, and tells how they ended."""

    def __init__(self, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socketpair()
        worker = os.getpid()
        child.warm(pipeline)
        flush_output()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the copy calls nothing that they may hold
            self.pid = os.fork()
        if not self.pid:
            become(Tending, theirs, worker, pipeline, stopping)
        theirs.close()

    def bear(self) -> Born:
        """Gives a new child."""
        ours, theirs = socketpair()
        diary = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it is closed with the child
        try:
            with theirs:
                pid = self.ask(BEAR, 0, [theirs.fileno(), diary.fileno()])
        except Gone:
            pid = 0
        if pid > 0:
            return Born(self, pid, Talk(ours), diary)
        ours.close()
        diary.close()
        raise OSError(-pid, os.strerror(-pid)) if pid else Gone

    def close(self) -> None:
        """Ends the cradle and all of its children."""
        with suppress(Gone):
            self.ask(CLOSE, 0)
        self._control.close()
        if not _ended(self.pid):
            os.kill(self.pid, signal.SIGKILL)
            _ended(self.pid)

    def ask(self, verb: bytes, pid: int, files: list[int] | None = None) -> int:
        """Asks one thing of the process that forks, or raises Gone."""
        try:
            with self._lock:
                send_fds(self._control, [REQUEST.pack(verb, pid)], files or [])
                reply = self._control.recv(REPLY.size)
        except OSError as error:
            raise Gone from error
        if not reply:
            raise Gone
        (answer,) = REPLY.unpack(reply)
        return int(answer)


class Born:
    """A child as the worker knows it: its process, its line, and the file in which it leaves a trace of a crash."""

    __slots__ = ("_cradle", "_diary", "pid", "talk")

    def __init__(self, cradle: Cradle, pid: int, talk: Talk, diary: IO[bytes]) -> None:
        self._cradle = cradle
        self.pid = pid
        self.talk = talk
        self._diary = diary

    def is_gone(self) -> bool:
        """Answers whether it died while it had nothing to do. It never speaks first, so anything to hear is its end."""
        return self.talk.wait(0)

    def dismiss(self) -> None:
        """Hangs up: the child tidies up and leaves."""
        self.talk.close()
        self._diary.close()

    def end(self) -> None:
        """Kills it, and what it started, if it still lives."""
        with suppress(Gone):
            self._cradle.ask(END, self.pid)

    def fate(self) -> int | None:
        """Answers how it ended: its exit code, or the negative number of a signal. None if nobody knows."""
        try:
            return self._cradle.ask(FATE, self.pid)
        except Gone:
            return None

    def last_words(self) -> str:
        """Gives the traceback that was written at a fault in native code; empty when there was none."""
        self._diary.seek(0)
        return _without_us(self._diary.read().decode(errors="replace"))


def _without_us(trace: str) -> str:
    """Leaves out what is below the body: this package, and the worker's own frames from before the fork."""
    told, ours = [], False
    for line in trace.splitlines():
        ours = bool(line) and (ours or f'"{child.__file__}"' in line)
        if not ours:
            told.append(line)
    return "\n".join(told).strip()


def _ended(pid: int) -> bool:
    """Waits for the end of a process. One that somebody else has buried has ended."""
    deadline = monotonic() + DYING
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if monotonic() > deadline:
                return False
            sleep(0.001)
    return True
