"""The cradle: the process that forks children. It has one thread, holds the pipeline, and runs no user code.

A worker has threads, and a process with threads must not fork: a lock that another thread holds stays locked in the
copy for ever. So the worker forks once, before its threads, and asks that copy for every further one. Bodies are
there already, also lambdas and functions of `__main__`, and a fork takes about a millisecond.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import os
import select
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from socket import recv_fds, send_fds, socket, socketpair
from struct import Struct as Layout
from time import monotonic, sleep
from typing import IO, Any, NoReturn

from holdfast.core.pipeline import Pipeline
from holdfast.engine.isolation import child
from holdfast.engine.isolation.limits import (
    die_with,
    flush_output,
    forget_signals,
    let_go_of_files,
    offer_to_the_oom_killer,
)
from holdfast.engine.isolation.talk import Talk

REQUEST = Layout("!ci")
REPLY = Layout("!i")
BEAR, END, FATE, CLOSE = b"b", b"e", b"f", b"c"

LOOK = 0.2
"""Seconds between looks for children that died, and for a worker that did."""
DYING = 5.0
"""Seconds to wait for the end of a process that was killed."""
LEAVING = 1.0
"""Seconds that children have to leave by themselves when the worker closes."""


class Gone(Exception):
    """The cradle itself died."""


class Born:
    """A child as the worker knows it: its process, its line, and the file in which it leaves a trace of a crash."""

    __slots__ = ("_diary", "pid", "talk")

    def __init__(self, pid: int, talk: Talk, diary: IO[bytes]) -> None:
        self.pid = pid
        self.talk = talk
        self._diary = diary

    def is_gone(self) -> bool:
        """Answers whether it died while it had nothing to do. It never speaks first, so anything to hear is its end."""
        return self.talk.wait(0)

    def last_words(self) -> str:
        """Gives the traceback that was written at a fault in native code; empty when there was none."""
        self._diary.seek(0)
        return _without_us(self._diary.read().decode(errors="replace"))

    def dismiss(self) -> None:
        """Hangs up: the child tidies up and leaves."""
        self.talk.close()
        self._diary.close()


class Cradle:
    """The worker's side: asks the cradle for children and for their ends."""

    def __init__(self, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socketpair()
        worker = os.getpid()
        flush_output()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the copy calls nothing that they may hold
            self.pid = os.fork()
        if not self.pid:
            _become(_Tending, theirs, worker, pipeline, stopping)
        theirs.close()

    def bear(self) -> Born:
        """Gives a new child."""
        ours, theirs = socketpair()
        diary = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it is closed with the child
        try:
            with theirs:
                pid = self._ask(BEAR, 0, [theirs.fileno(), diary.fileno()])
        except Gone:
            pid = 0
        if pid > 0:
            return Born(pid, Talk(ours), diary)
        ours.close()
        diary.close()
        raise OSError(-pid, os.strerror(-pid)) if pid else Gone

    def end(self, born: Born) -> None:
        """Kills a child and what it started, if it still lives."""
        with suppress(Gone):
            self._ask(END, born.pid)

    def fate(self, born: Born) -> int | None:
        """Answers how a child ended: its exit code, or the negative number of a signal. None if nobody knows."""
        try:
            return self._ask(FATE, born.pid)
        except Gone:
            return None

    def close(self) -> None:
        """Ends the cradle and all of its children."""
        with suppress(Gone):
            self._ask(CLOSE, 0)
        self._control.close()
        if not _ended(self.pid, within=DYING):
            os.kill(self.pid, signal.SIGKILL)
            _ended(self.pid, within=DYING)

    def _ask(self, verb: bytes, pid: int, files: list[int] | None = None) -> int:
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


class _Tending:
    """The cradle's side: forks, ends and buries children until its worker closes or dies."""

    def __init__(self, control: socket, worker: int, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self.control = control
        self.worker = worker
        self.pipeline = pipeline
        self.stopping = stopping
        self.me = os.getpid()
        self.children: set[int] = set()
        self.fates: dict[int, int] = {}

    def run(self) -> None:
        """Answers the worker, as long as there is one. However it died, nobody is left behind."""
        os.setpgid(0, 0)
        forget_signals()
        let_go_of_files(keep={self.control.fileno()})
        gc.freeze()  # what we were born with is never collected: it is our parent's
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while os.getppid() == self.worker:
            if poll.poll(LOOK * 1000) and not self._hear():
                break
            self._bury()
        for pid in tuple(self.children):
            self._end(pid)

    def _hear(self) -> bool:
        try:
            request, files, _, _ = recv_fds(self.control, REQUEST.size, 2)
        except OSError:
            return False
        if len(request) < REQUEST.size:
            return False
        verb, pid = REQUEST.unpack(request)
        if verb == CLOSE:
            self._await_leaving()
            return False
        self.control.sendall(REPLY.pack(self._answer(verb, pid, files)))
        return True

    def _answer(self, verb: bytes, pid: int, files: list[int]) -> int:
        if verb == BEAR:
            return self._bear(*files)
        if pid in self.children:
            self._end(pid)
        return self.fates.pop(pid, 0) if verb == FATE else 0

    def _bear(self, line: int, diary: int) -> int:
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            self.control.close()
            _become(_Living, line, diary, self)
        os.close(line)
        os.close(diary)
        if pid > 0:
            with suppress(OSError):
                os.setpgid(pid, pid)  # it does so itself; whoever comes first
            self.children.add(pid)
            self.fates.pop(pid, None)
        return pid

    def _end(self, pid: int) -> None:
        """Kills a child with all that it started. A dead one stays as dead as it was."""
        _kill(pid)
        deadline = monotonic() + DYING
        while pid in self.children and monotonic() < deadline:
            self._bury()
            if pid in self.children:
                sleep(0.0005)

    def _bury(self) -> None:
        for pid in tuple(self.children):
            if _is_dead(pid):
                _kill(pid)  # what it started would else live on, and hold the line open; its number is ours until now
                _, status = os.waitpid(pid, 0)
                self.children.discard(pid)
                fate = os.waitstatus_to_exitcode(status)
                if fate:
                    self.fates[pid] = fate

    def _await_leaving(self) -> None:
        deadline = monotonic() + LEAVING
        while self.children and monotonic() < deadline:
            self._bury()
            sleep(0.001)


class _Living:
    """A child's first moments: its own group, its own end, its own line."""

    def __init__(self, line: int, diary: int, cradle: _Tending) -> None:
        self.line = line
        self.diary = diary
        self.cradle = cradle

    def run(self) -> None:
        """Lives until the worker hangs up."""
        os.setpgid(0, 0)
        die_with(self.cradle.me)
        offer_to_the_oom_killer()
        faulthandler.enable(self.diary)
        child.Child(Talk(socket(fileno=self.line)), self.cradle.pipeline, self.cradle.stopping).live()


def _without_us(trace: str) -> str:
    """Leaves out what is below the body: this package, and the worker's own frames from before the fork."""
    told, ours = [], False
    for line in trace.splitlines():
        ours = bool(line) and (ours or f'"{child.__file__}"' in line)
        if not ours:
            told.append(line)
    return "\n".join(told).strip()


def _become(life: Callable[..., Any], *given: Any) -> NoReturn:
    """Lives another life in this copy of a process, and never comes back to the parent's code."""
    try:
        life(*given).run()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing of this copy may go on as if it were its parent
        traceback.print_exc()
    finally:
        os._exit(70)


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def _is_dead(pid: int) -> bool:
    if not hasattr(os, "waitid"):  # an older Python on macOS
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ended(pid: int, *, within: float) -> bool:
    """Waits for the end of a process. One that somebody else has buried has ended."""
    deadline = monotonic() + within
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if monotonic() > deadline:
                return False
            sleep(0.001)
    return True
