"""How a worker works: the one place where its defaults stand."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TypedDict

from msgspec import Struct, field

from holdfast.core.errors import DefinitionError
from holdfast.engine.hosts import host_name


def _name_of_its_own() -> str:
    return f"{host_name()}-{os.getpid()}-{os.urandom(3).hex()}"


class Settings(Struct, frozen=True, kw_only=True):
    """How a worker works. Every field has a default that suits one machine; `work` explains each."""

    batch: str | None = None
    threads: int = 8
    processes: int = 1
    concurrency: int = 1000
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=10)
    name: str = field(default_factory=_name_of_its_own)

    def __post_init__(self) -> None:
        if self.threads < 1 or self.concurrency < 1 or self.processes < 1:
            raise DefinitionError("a worker needs threads, processes and concurrency of at least 1")


class How(TypedDict, total=False):
    """The same fields as keywords of `work` and `drain`, so that editors and type checkers know them."""

    batch: str | None
    threads: int
    processes: int
    concurrency: int
    lease: timedelta
    grace: timedelta
    name: str
