"""The fork server: a process with one thread that has the pipeline loaded and runs no user code.

It handles the requests of its worker, kills children with all processes that they started, and reaps dead ones. When
its worker closes or dies, no process is left over: the fork server sees the socket close, or that its parent changed.
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
from holdfast.engine.processes.child import Child
from holdfast.engine.processes.messages import MessageChannel
from holdfast.engine.processes.resource_limits import (
    detach_shared_files,
    exit_with_parent,
    raise_oom_score,
    reset_signals,
)

REQUEST = Layout("!ci")
REPLY = Layout("!i")
FORK, KILL, EXIT_CODE, CLOSE = b"f", b"k", b"x", b"c"
"""The requests of a worker: one of these and a process id. With FORK two files are sent: the child's socket, and its
file for the traceback of a crash."""

CLOSE_ON_EXEC = getattr(sockets, "MSG_CMSG_CLOEXEC", 0)
"""Files that are received are not passed on to programs that a body starts."""

CHECK_INTERVAL = 0.2
"""Seconds between two checks for dead children, and for a dead worker."""
WAS_ALIVE = 256
"""The exit code of a child that did not exit, but closed its socket, and was killed for that. Others are smaller."""
KILL_SECONDS = 5.0
"""Seconds to wait for the end of a process that was killed."""
EXIT_SECONDS = 1.0
"""Seconds that children have to exit by themselves when the worker closes, or when their socket was closed."""


def run_and_exit(factory: Callable[..., Any], *args: Any) -> NoReturn:
    """Create an object, call its `run` and exit. A forked process must never return to the code of its parent."""
    try:
        factory(*args).run()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - no error of this copy may reach the code of its parent
        traceback.print_exc()
    finally:
        os._exit(70)


class ForkServer:
    """Fork, kill and reap children until the worker closes or dies."""

    def __init__(self, control: socket, worker: int, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self.control = control
        self.worker = worker
        self.pipeline = pipeline
        self.stopping = stopping
        self.pid = os.getpid()
        self.children: set[int] = set()
        self.exit_codes: dict[int, int] = {}

    def run(self) -> None:
        """Handle requests as long as the worker lives. Kill all children at the end."""
        os.setpgid(0, 0)
        reset_signals()
        detach_shared_files(keep={self.control.fileno()})
        gc.freeze()  # objects of the parent are never collected here
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while os.getppid() == self.worker:
            if poll.poll(CHECK_INTERVAL * 1000) and not self._handle_request():
                break
            self._reap()
        for pid in tuple(self.children):
            self._end(pid)

    def _handle_request(self) -> bool:
        """Handle one request. Return False if it was the last."""
        try:
            request, files, _, _ = recv_fds(self.control, REQUEST.size, 2, CLOSE_ON_EXEC)
        except OSError:
            return False
        if len(request) < REQUEST.size:
            return False
        verb, pid = REQUEST.unpack(request)
        if verb == CLOSE:
            self._wait_for_exits()
            return False
        reply = REPLY.pack(self._result(verb, pid, files))
        try:
            self.control.sendall(reply)
        except OSError:  # the worker died while it waited
            return False
        return True

    def _result(self, verb: bytes, pid: int, files: list[int]) -> int:
        if verb == FORK:
            return self._fork(*files)
        if verb == KILL:
            if pid in self.children:
                _kill(pid)
            return 0
        return self._exit_code(pid)

    def _exit_code(self, pid: int) -> int:
        """Return how a child ended that has closed its socket. Kill it if it is still there."""
        deadline = monotonic() + EXIT_SECONDS
        while pid in self.children and monotonic() < deadline:  # a process that exits closes its files first
            self._reap()
            if pid in self.children:
                sleep(0.0005)
        was_alive = pid in self.children
        self._end(pid)
        exit_code = self.exit_codes.pop(pid, 0)
        return WAS_ALIVE if was_alive else exit_code

    def _fork(self, connection: int, crash_file: int) -> int:
        """Return the process id of a new child, or a negative errno."""
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            self.control.close()
            run_and_exit(_ChildProcess, connection, crash_file, self)
        os.close(connection)
        os.close(crash_file)
        if pid > 0:
            with suppress(OSError):
                os.setpgid(pid, pid)  # the child does it too: whichever runs first
            self.children.add(pid)
            self.exit_codes.pop(pid, None)
        return pid

    def _end(self, pid: int) -> None:
        """Kill a child with all processes that it started, and reap it. A dead one keeps its exit code."""
        deadline = monotonic() + KILL_SECONDS
        if pid in self.children:
            _kill(pid)
        while pid in self.children and monotonic() < deadline:
            self._reap()
            if pid in self.children:
                sleep(0.0005)

    def _reap(self) -> None:
        for pid in tuple(self.children):
            status = _exit_status(pid)
            if status is not None:
                self.children.discard(pid)
                exit_code = os.waitstatus_to_exitcode(status)
                if exit_code:
                    self.exit_codes[pid] = exit_code

    def _wait_for_exits(self) -> None:
        deadline = monotonic() + EXIT_SECONDS
        while self.children and monotonic() < deadline:
            self._reap()
            sleep(0.001)


class _ChildProcess:
    """The start of a child: its process group, its end with its parent, and its connection."""

    def __init__(self, connection: int, crash_file: int, server: ForkServer) -> None:
        self.connection = connection
        self.crash_file = crash_file
        self.server = server

    def run(self) -> None:
        """Run calls until the worker closes the connection."""
        os.setpgid(0, 0)
        exit_with_parent(self.server.pid)
        raise_oom_score()
        faulthandler.enable(self.crash_file)
        channel = MessageChannel(socket(fileno=self.connection))
        Child(channel, self.server.pipeline, self.server.stopping).run()


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def _exit_status(pid: int) -> int | None:
    """Return the status of a child that ended, or None while it runs. Kill what it started: that shares its socket."""
    if hasattr(os, "waitid"):  # not in older Pythons on macOS
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _kill(pid)  # before it is reaped, because its process id may be used again afterwards
    reaped, status = os.waitpid(pid, os.WNOHANG)
    return status if reaped else None
