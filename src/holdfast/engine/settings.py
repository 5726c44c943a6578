"""The settings of a worker. Its defaults are here and nowhere else."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TypedDict

from msgspec import Struct, field

from holdfast.core.errors import DefinitionError
from holdfast.engine.background_task import PeriodicTask
from holdfast.process_identity import host_name

DEFAULT_THREADS = 8
DEFAULT_PROCESSES = 1
DEFAULT_CONCURRENCY = 1000
DEFAULT_LEASE = timedelta(seconds=30)
DEFAULT_GRACE = timedelta(seconds=10)


def _unique_name() -> str:
    return f"{host_name()}-{os.getpid()}-{os.urandom(3).hex()}"


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a worker. Every field has a default that suits one machine; `holdfast.work` explains each."""

    batch: str | None = None
    threads: int = DEFAULT_THREADS
    processes: int = DEFAULT_PROCESSES
    concurrency: int = DEFAULT_CONCURRENCY
    lease: timedelta = DEFAULT_LEASE
    grace: timedelta = DEFAULT_GRACE
    name: str = field(default_factory=_unique_name)
    maintenance: PeriodicTask | None = None

    def __post_init__(self) -> None:
        if self.threads < 1 or self.concurrency < 1 or self.processes < 1:
            raise DefinitionError("a worker needs threads, processes and concurrency of at least 1")


class WorkerOptions(TypedDict, total=False):
    """The same fields as keywords of `work` and `drain`, so that editors and type checkers know them."""

    batch: str | None
    threads: int
    processes: int
    concurrency: int
    lease: timedelta
    grace: timedelta
    name: str
    maintenance: PeriodicTask | None
