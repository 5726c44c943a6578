"""A fleet of worker processes, and a thread that replaces workers that end."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

PROGRAM = Path(__file__).parent / "program.py"


class Fleet:
    """A constant number of worker processes.

    A thread continues suspended workers: the caller may wait for a lock that a suspended worker holds.
    """

    def __init__(
        self,
        url: str,
        workers: int,
        log: Path,
        *,
        program: str = str(PROGRAM),
        by: Sequence[str] = ("-m", "holdfast"),
        environment: Mapping[str, str] | None = None,
        descriptors: int | None = None,
    ) -> None:
        options = ["--store", url, "--lease", "2s", "--threads", "4"]
        self._command = [sys.executable, *by, "work", program, *options]
        self._environment = os.environ | (environment or {})
        self._descriptors = descriptors
        self._log = log.open("ab")
        self._suspended: dict[subprocess.Popen[bytes], float] = {}
        """Suspended workers, with the time at which they continue."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor")
        self.replaced = 0
        self.ended_with: Counter[int] = Counter()
        self._workers = [self._start() for _ in range(workers)]

    def _start(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=self._log, env=self._environment)
        if self._descriptors is not None:
            resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (self._descriptors, self._descriptors))
        return worker

    @property
    def pids(self) -> list[int]:
        """The pids of the present workers."""
        with self._lock:
            return [worker.pid for worker in self._workers]

    def kill(self, pid: int) -> None:
        """Send SIGKILL to a worker, if it still runs."""
        with self._lock:
            for worker in self._workers:
                if worker.pid == pid:
                    worker.kill()

    def kill_one(self, random: Random) -> None:
        """Send SIGKILL to a random worker."""
        with self._lock:
            random.choice(self._workers).kill()

    def kill_all(self) -> None:
        """Send SIGKILL to all workers at once, as if their machine lost power."""
        with self._lock:
            for worker in self._workers:
                worker.kill()

    def suspend_one(self, random: Random, *, seconds: float) -> int:
        """Send SIGSTOP to a random worker, and SIGCONT after some seconds. Return its pid."""
        with self._lock:
            worker = random.choice(self._workers)
            self._suspended[worker] = time.monotonic() + seconds
            worker.send_signal(signal.SIGSTOP)
            return worker.pid

    def _supervise(self) -> None:
        while not self._over.wait(0.05):
            with self._lock:
                self._continue_suspended(time.monotonic())
                self._replace_ended()

    def _continue_suspended(self, now: float) -> None:
        for worker in [worker for worker, until in self._suspended.items() if until <= now]:
            del self._suspended[worker]
            worker.send_signal(signal.SIGCONT)

    def _replace_ended(self) -> None:
        for place, worker in enumerate(self._workers):
            if (code := worker.poll()) is not None:
                self.ended_with[code] += 1
                self._suspended.pop(worker, None)
                self._workers[place] = self._start()
                self.replaced += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
        self._log.close()
