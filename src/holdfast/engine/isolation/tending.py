"""Tending: the cradle's own side. A process with one thread that holds the pipeline and runs no user code.

It answers its worker, ends children with all that they started, and buries the dead. When its worker closes or dies,
however it dies, nobody is left behind: it sees the line close, or finds itself with another parent.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import os
import select
import signal
import socket as sockets
import traceback
from collections.abc import Callable
from contextlib import suppress
from socket import recv_fds, socket
from struct import Struct as Layout
from time import monotonic, sleep
from typing import Any, NoReturn

from holdfast.core.pipeline import Pipeline
from holdfast.engine.isolation.child import Child
from holdfast.engine.isolation.limits import die_with, forget_signals, let_go_of_files, offer_to_the_oom_killer
from holdfast.engine.isolation.talk import Talk

REQUEST = Layout("!ci")
REPLY = Layout("!i")
BEAR, END, FATE, CLOSE = b"b", b"e", b"f", b"c"
"""What a worker asks: a verb and a process id; with BEAR two files are sent along, a child's line and its diary."""

UNSHARED = getattr(sockets, "MSG_CMSG_CLOEXEC", 0)
"""Files that are received are not handed on to programs that a body starts."""

LOOK = 0.2
"""Seconds between looks for children that died, and for a worker that did."""
DYING = 5.0
"""Seconds to wait for the end of a process that was killed."""
LEAVING = 1.0
"""Seconds that children have to leave by themselves when the worker closes."""


def become(life: Callable[..., Any], *given: Any) -> NoReturn:
    """Lives another life in this copy of a process, and never comes back to the parent's code."""
    try:
        life(*given).run()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing of this copy may go on as if it were its parent
        traceback.print_exc()
    finally:
        os._exit(70)


class Tending:
    """Forks, ends and buries children until its worker closes or dies."""

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
            request, files, _, _ = recv_fds(self.control, REQUEST.size, 2, UNSHARED)
        except OSError:
            return False
        if len(request) < REQUEST.size:
            return False
        verb, pid = REQUEST.unpack(request)
        if verb == CLOSE:
            self._await_leaving()
            return False
        answer = REPLY.pack(self._answer(verb, pid, files))
        try:
            self.control.sendall(answer)
        except OSError:  # it died while it waited
            return False
        return True

    def _answer(self, verb: bytes, pid: int, files: list[int]) -> int:
        if verb == BEAR:
            return self._bear(*files)
        if verb == END:
            if pid in self.children:
                _kill(pid)
            return 0
        self._end(pid)
        return self.fates.pop(pid, 0)

    def _bear(self, line: int, diary: int) -> int:
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            self.control.close()
            become(_Living, line, diary, self)
        os.close(line)
        os.close(diary)
        if pid > 0:
            with suppress(OSError):
                os.setpgid(pid, pid)  # it does so itself; whoever comes first
            self.children.add(pid)
            self.fates.pop(pid, None)
        return pid

    def _end(self, pid: int) -> None:
        """Kills a child with all that it started, and buries it. A dead one stays as dead as it was."""
        deadline = monotonic() + DYING
        if pid in self.children:
            _kill(pid)
        while pid in self.children and monotonic() < deadline:
            self._bury()
            if pid in self.children:
                sleep(0.0005)

    def _bury(self) -> None:
        for pid in tuple(self.children):
            status = _status(pid)
            if status is not None:
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

    def __init__(self, line: int, diary: int, cradle: Tending) -> None:
        self.line = line
        self.diary = diary
        self.cradle = cradle

    def run(self) -> None:
        """Lives until the worker hangs up."""
        os.setpgid(0, 0)
        die_with(self.cradle.me)
        offer_to_the_oom_killer()
        faulthandler.enable(self.diary)
        Child(Talk(socket(fileno=self.line)), self.cradle.pipeline, self.cradle.stopping).live()


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def _status(pid: int) -> int | None:
    """Answers how a child ended; None while it lives. What it had started ends with it, and lets go of its line."""
    if hasattr(os, "waitid"):  # not in older Pythons on macOS
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _kill(pid)  # now, for a number is used again once its process is buried
    buried, status = os.waitpid(pid, os.WNOHANG)
    return status if buried else None
