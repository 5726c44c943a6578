"""A fleet of workers in processes of their own, and a supervisor that replaces those that die."""

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
    """So many workers, always. A thread of its own wakes sleepers: one may hold the lock for which everybody waits."""

    def __init__(
        self,
        url: str,
        workers: int,
        log: Path,
        *,
        program: str = str(PROGRAM),
        by: Sequence[str] = ("-m", "holdfast.cli"),
        environment: Mapping[str, str] | None = None,
        descriptors: int | None = None,
    ) -> None:
        how = ["--store", url, "--lease", "2s", "--threads", "4"]
        self._command = [sys.executable, *by, "work", program, *how]
        self._environment = os.environ | (environment or {})
        self._descriptors = descriptors
        self._log = log.open("ab")
        self._asleep: dict[subprocess.Popen[bytes], float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="supervisor")
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
        """The processes that work now."""
        with self._lock:
            return [worker.pid for worker in self._workers]

    def kill(self, pid: int) -> None:
        """SIGKILL for one that still works."""
        with self._lock:
            for worker in self._workers:
                if worker.pid == pid:
                    worker.kill()

    def kill_one(self, chance: Random) -> None:
        """SIGKILL, at a moment that nobody chose."""
        with self._lock:
            chance.choice(self._workers).kill()

    def kill_all(self) -> None:
        """SIGKILL for all at once, as when their machine is unplugged."""
        with self._lock:
            for worker in self._workers:
                worker.kill()

    def stop_one(self, chance: Random, *, seconds: float) -> int:
        """SIGSTOP, for longer than the lease or for less. Gives the process that sleeps."""
        with self._lock:
            worker = chance.choice(self._workers)
            self._asleep[worker] = time.monotonic() + seconds
            worker.send_signal(signal.SIGSTOP)
            return worker.pid

    def _look_after(self) -> None:
        while not self._over.wait(0.05):
            with self._lock:
                self._wake(time.monotonic())
                self._replace()

    def _wake(self, now: float) -> None:
        for worker in [worker for worker, until in self._asleep.items() if until <= now]:
            del self._asleep[worker]
            worker.send_signal(signal.SIGCONT)

    def _replace(self) -> None:
        for place, worker in enumerate(self._workers):
            if (code := worker.poll()) is not None:
                self.ended_with[code] += 1
                self._asleep.pop(worker, None)
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
