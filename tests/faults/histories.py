"""Histories: what drivers and bodies did, written down by themselves, one line for each beginning and each end.

A line is one write to a file of the process's own, so a killed process leaves all that it wrote. An operation that has
no end in the history was under way when its process died: what became of it, nobody knows.
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
"""Tells processes where to write theirs."""


class Operation(NamedTuple):
    """Something that was begun, and perhaps came to an end."""

    id: str
    kind: str
    process: str
    invoked: int
    completed: int | None
    what: dict[str, Any]
    result: dict[str, Any]

    @property
    def place(self) -> tuple[str, str, int, str]:
        """The document, its generation and the step that an operation was for."""
        what = self.what
        return what["batch"], what["key"], what["generation"], what["step"]


class Recorder:
    """Writes the history of this process, to the folder that is given or that the environment names.

    A fork of the process writes a history of its own.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._pid = 0

    def invoke(self, kind: str, **what: Any) -> str:
        """Writes down that something begins. Gives the number by which its end is written down."""
        if self._pid != os.getpid():
            self._begin_a_file()
        operation = f"{self._name}-{next(self._numbers)}"
        self._write({"id": operation, "kind": kind, "process": self._name, "at": monotonic_ns(), "what": what})
        return operation

    def complete(self, operation: str, **result: Any) -> None:
        """Writes down that it came to an end."""
        self._write({"id": operation, "at": monotonic_ns(), "result": result})

    def _begin_a_file(self) -> None:
        self._pid = os.getpid()
        self._name = f"{self._pid}-{os.urandom(3).hex()}"
        self._numbers = iter(range(10**9))
        folder = self._folder or Path(os.environ[FOLDER])
        self._file = os.open(folder / f"{self._name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def read(folder: Path) -> dict[str, Operation]:
    """Reads the histories of all processes: the operations by their numbers."""
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


def cut_short(operations: dict[str, Operation], kind: str) -> list[Operation]:
    """Gives the operations of a kind that have no end."""
    return [one for one in operations.values() if one.kind == kind and one.completed is None]


def of_each_process(operations: dict[str, Operation], kind: str) -> Counter[str]:
    """Counts the operations of a kind that each process began."""
    return Counter(one.process for one in operations.values() if one.kind == kind)


def summed(operations: dict[str, Operation]) -> str:
    """Says how much a history has: operations, processes, and how many ends nobody knows."""
    kinds = Counter(one.kind for one in operations.values())
    unknown = sum(one.completed is None for one in operations.values())
    processes = len({one.process for one in operations.values()})
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f"{len(operations)} operations of {processes} processes ({told}; {unknown} without an end)"


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    written = file.read_bytes().splitlines()
    for number, line in enumerate(written):
        try:
            yield json.loads(line)
        except ValueError:
            if number != len(written) - 1:  # a kill may tear the last line, and no other
                raise
