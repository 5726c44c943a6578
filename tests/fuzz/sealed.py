"""Reads capsules and payloads of strangers under an audit hook, and tells everything that the process did meanwhile.

`python -m tests.fuzz.sealed FOLDER`: each `*.capsule` is read, loaded into a store of its own, looked at and worked on.
Prints a line of JSON for each: what came of it, and the events that would run code, open files or connect.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import holdfast
from holdfast.core.capsule import read
from holdfast.core.errors import HoldfastError
from holdfast.stores import open_store
from holdfast.stores.sqlite import SqliteStore
from tests.fuzz.guard import FORBIDDEN
from tests.fuzz.targets.capsules import genuine
from tests.fuzz.targets.values import _pipeline

PIPELINE = _pipeline()


class Hook:
    """Notes what the process does while it is told to, but for what it does to files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._ours = str(folder)
        self._noting = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._noting and event.startswith(FORBIDDEN):
            self._noting = False
            place = arguments[0] if arguments else ""
            if not (event in ("open", "sqlite3.connect", "sqlite3.connect/handle") and self._is_ours(place)):
                self.seen.append(f"{event} {arguments!r}"[:200])
            self._noting = True

    def _is_ours(self, place: object) -> bool:
        return (
            isinstance(place, int)
            or place == ":memory:"
            or "sqlite3.Connection" in repr(place)
            or str(place).startswith(self._ours)
        )

    def begin(self) -> None:
        self.seen = []
        self._noting = True

    def end(self) -> list[str]:
        self._noting = False
        return self.seen


def main() -> None:
    folder = Path(sys.argv[1])
    hook = Hook(folder)
    _attempt(genuine(), folder / "warm.db")  # whatever is imported late is imported by now
    for number, file in enumerate(sorted(folder.glob("*.capsule"))):
        data = file.read_bytes()
        hook.begin()
        came = _attempt(data, folder / f"{number}.db")
        seen = hook.end()
        print(json.dumps({"file": file.name, "came": came, "seen": seen}), flush=True)


def _attempt(data: bytes, database: Path) -> str:
    """Reads a capsule, loads it and works on it; then submits what it carries as a payload of one's own."""
    try:
        capsule = read(data)
    except HoldfastError as error:
        return f"refused: {error}"[:200]
    with closing(open_store(f"sqlite:///{database}")) as store:
        assert isinstance(store, SqliteStore)
        number = store.load(capsule, who="a stranger")
        (here,) = store.look([number])
        store.journal(number)
    with closing(open_store("memory://")) as store:
        holdfast.submit(PIPELINE, store, batch="b", documents=[("k", here.payload)])
        (one,) = store.find("k")
        assert one.payload == here.payload
    return "taken"


if __name__ == "__main__":
    main()
