"""Histories: each process records what it does, one line for the start of an operation and one for its end.

A line is one write to a file of the process, so a killed process loses nothing that it wrote. An operation without an
end was running when its process died. Nobody knows whether it took effect.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns
from typing import Any, NamedTuple

FOLDER = "HOLDFAST_HISTORY"
"""The environment variable with the folder for histories."""


class Operation(NamedTuple):
    """Something that was started, and perhaps completed."""

    id: str
    kind: str
    process: str
    invoked: int
    completed: int | None
    what: dict[str, Any]
    result: dict[str, Any]

    @property
    def place(self) -> tuple[str, str, int, str]:
        """The batch, key, generation and step of an operation."""
        what = self.what
        return what["batch"], what["key"], what["generation"], what["step"]


class Recorder:
    """Writes the history of this process to the given folder, or to the folder that the environment names.

    A fork of the process writes its own history.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._pid = 0

    def invoke(self, kind: str, **what: Any) -> str:
        """Record that an operation starts. Return its id, for `complete`."""
        if self._pid != os.getpid():
            self._open_file()
        operation = f"{self._name}-{next(self._numbers)}"
        self._write({"id": operation, "kind": kind, "process": self._name, "at": monotonic_ns(), "what": what})
        return operation

    def complete(self, operation: str, **result: Any) -> None:
        """Writes down that it came to an end."""
        self._write({"id": operation, "at": monotonic_ns(), "result": result})

    def _open_file(self) -> None:
        self._pid = os.getpid()
        self._name = f"{self._pid}-{os.urandom(3).hex()}"
        self._numbers = iter(range(10**9))
        folder = self._folder or Path(os.environ[FOLDER])
        self._file = os.open(folder / f"{self._name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def read(folder: Path) -> dict[str, Operation]:
    """Read the histories of all processes. Return the operations by id."""
    began: dict[str, dict[str, Any]] = {}
    ended: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in _lines(file):
            (began if "kind" in line else ended)[line["id"]] = line
    return {
        number: Operation(
            id=number,
            kind=line["kind"],
            process=line["process"],
            invoked=line["at"],
            completed=ended[number]["at"] if number in ended else None,
            what=line["what"],
            result=ended[number]["result"] if number in ended else {},
        )
        for number, line in began.items()
    }


def not_completed(operations: dict[str, Operation], kind: str) -> list[Operation]:
    """Return the operations of a kind that have no end."""
    return [operation for operation in operations.values() if operation.kind == kind and operation.completed is None]


def count_by_process(operations: dict[str, Operation], kind: str) -> Counter[str]:
    """Count the operations of a kind that each process started."""
    return Counter(operation.process for operation in operations.values() if operation.kind == kind)


def summary(operations: dict[str, Operation]) -> str:
    """Return the number of operations and processes, and of operations without an end."""
    kinds = Counter(operation.kind for operation in operations.values())
    unknown = sum(operation.completed is None for operation in operations.values())
    processes = len({operation.process for operation in operations.values()})
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f"{len(operations)} operations of {processes} processes ({counts}; {unknown} without an end)"


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    written = file.read_bytes().splitlines()
    for number, line in enumerate(written):
        try:
            yield json.loads(line)
        except ValueError:
            if number != len(written) - 1:  # a kill may cut the last line, but no other
                raise
