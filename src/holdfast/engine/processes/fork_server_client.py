"""The fork server as the worker sees it.

A worker has threads, and a process with threads must not fork: a lock that another thread holds stays locked in the
copy. So the worker forks once, before it starts threads, and asks that copy for every further fork. All bodies are
loaded there already, even lambdas and functions of `__main__`, and a fork takes about a millisecond.
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
from holdfast.engine.processes import child
from holdfast.engine.processes.fork_server import (
    CLOSE,
    EXIT_CODE,
    FORK,
    KILL,
    KILL_SECONDS,
    REPLY,
    REQUEST,
    ForkServer,
    run_and_exit,
)
from holdfast.engine.processes.messages import MessageChannel
from holdfast.engine.processes.resource_limits import flush_output


class ForkServerGone(Exception):
    """The fork server died."""


class ForkServerClient:
    """Fork children, kill them, and find out how they ended."""

    def __init__(self, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socketpair()
        worker = os.getpid()
        child.preload(pipeline)
        flush_output()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: the copy uses none of their locks
            self.pid = os.fork()
        if not self.pid:
            run_and_exit(ForkServer, theirs, worker, pipeline, stopping)
        theirs.close()

    def fork(self) -> ChildHandle:
        """Return a new child. Raise OSError if the system allows no more processes."""
        ours, theirs = socketpair()
        crash_file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it is closed with the child
        try:
            with theirs:
                pid = self.request(FORK, 0, [theirs.fileno(), crash_file.fileno()])
        except ForkServerGone:
            pid = 0
        if pid > 0:
            return ChildHandle(self, pid, MessageChannel(ours), crash_file)
        ours.close()
        crash_file.close()
        raise OSError(-pid, os.strerror(-pid)) if pid else ForkServerGone

    def close(self) -> None:
        """End the fork server and all its children."""
        with suppress(ForkServerGone):
            self.request(CLOSE, 0)
        self._control.close()
        if not _wait_for_exit(self.pid):
            os.kill(self.pid, signal.SIGKILL)
            _wait_for_exit(self.pid)

    def request(self, verb: bytes, pid: int, files: list[int] | None = None) -> int:
        """Send one request and return the reply. Raise ForkServerGone if there is none."""
        try:
            with self._lock:
                send_fds(self._control, [REQUEST.pack(verb, pid)], files or [])
                reply = self._control.recv(REPLY.size)
        except OSError as error:
            raise ForkServerGone from error
        if not reply:
            raise ForkServerGone
        (result,) = REPLY.unpack(reply)
        return int(result)


class ChildHandle:
    """A child as the worker sees it: its process, its channel, and the file for the traceback of a crash."""

    __slots__ = ("_crash_file", "_server", "channel", "pid")

    def __init__(self, server: ForkServerClient, pid: int, channel: MessageChannel, crash_file: IO[bytes]) -> None:
        self._server = server
        self.pid = pid
        self.channel = channel
        self._crash_file = crash_file

    def has_exited(self) -> bool:
        """Return True if an idle child died. It never sends first, so anything to receive is the end of its socket."""
        return self.channel.wait(0)

    def close(self) -> None:
        """Close the channel. The child cleans up and exits."""
        self.channel.close()
        self._crash_file.close()

    def kill(self) -> None:
        """Kill the child, and the processes that it started, if it still runs."""
        with suppress(ForkServerGone):
            self._server.request(KILL, self.pid)

    def exit_code(self) -> int | None:
        """End the child. Return its exit code, or the negative number of a signal. None if it is unknown."""
        try:
            return self._server.request(EXIT_CODE, self.pid)
        except ForkServerGone:
            return None

    def crash_traceback(self) -> str:
        """Return the traceback that was written at a fault in native code. Empty if there was none."""
        self._crash_file.seek(0)
        return _without_our_frames(self._crash_file.read().decode(errors="replace"))


def _without_our_frames(traceback: str) -> str:
    """Leave out the frames below the body: those of this package, and those of the worker from before the fork."""
    lines, is_ours = [], False
    for line in traceback.splitlines():
        is_ours = bool(line) and (is_ours or f'"{child.__file__}"' in line)
        if not is_ours:
            lines.append(line)
    return "\n".join(lines).strip()


def _wait_for_exit(pid: int) -> bool:
    """Wait for the end of a process. Return True if it ended. One that other code has reaped has ended."""
    deadline = monotonic() + KILL_SECONDS
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if monotonic() > deadline:
                return False
            sleep(0.001)
    return True
