"""Reads capsules and payloads of strangers under an audit hook, and tells everything that the process did meanwhile.

`python -m tests.fuzz.sealed FOLDER`: each `*.capsule` is read, loaded into a store of its own, looked at and worked on:
those of document search while a folder is taken in there, others by their own pipeline. Prints a line of JSON for each:
what came of it, and the events that would run code, open files or connect.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import holdfast
from holdfast.core.capsule import read
from holdfast.core.errors import HoldfastError
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from tests.fuzz.guard import AT_WORK, FORBIDDEN
from tests.fuzz.targets.capsules import DOCUMENTS, genuine, genuine_of_document_search, library
from tests.fuzz.targets.values import _pipeline
from tests.fuzz.turns import ROOT

PIPELINE = _pipeline()
OWN = (str(ROOT), sys.prefix, sys.base_prefix, "/proc/", "/dev/")
"""Where a worker opens files of its own accord: what it consists of, who lives, and what leads nowhere."""
EMPTY = ("/", gettempdir())
"""What is opened itself: to stand somewhere, and for files that have no name."""
LETTERS = "letters"
"""The folder that is taken in where capsules of document search are."""


class Hook:
    """Notes what the process, and whatever it forks, does while it is told to, but for files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._ours = str(folder)
        self._notes = folder / "notes"
        self._forbidden: tuple[str, ...] = ()
        self._own: tuple[str, ...] = ()
        self._busy = threading.local()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._forbidden or not event.startswith(self._forbidden) or getattr(self._busy, "noting", False):
            return
        self._busy.noting = True
        try:
            place = arguments[0] if arguments else ""
            if not (event in ("open", "sqlite3.connect", "sqlite3.connect/handle") and self._is_ours(place)):
                with self._notes.open("a") as notes:
                    notes.write(f"{event} {arguments!r}"[:200].replace("\n", " ") + "\n")
        finally:
            self._busy.noting = False

    def _is_ours(self, place: object) -> bool:
        name = place.decode(errors="replace") if isinstance(place, bytes) else str(place)
        return (
            isinstance(place, int)
            or place == ":memory:"
            or "sqlite3.Connection" in repr(place)
            or (self._own != () and name in EMPTY)
            or (".." not in name and name.startswith((self._ours, *self._own)))
        )

    @contextmanager
    def reading(self) -> Iterator[list[str]]:
        """Notes all that reading a letter never does."""
        with self._noting(FORBIDDEN, own=()) as seen:
            yield seen

    @contextmanager
    def working(self) -> Iterator[list[str]]:
        """Notes what a worker does not do of its own accord."""
        with self._noting(AT_WORK, own=OWN) as seen:
            yield seen

    @contextmanager
    def _noting(self, forbidden: tuple[str, ...], *, own: tuple[str, ...]) -> Iterator[list[str]]:
        seen: list[str] = []
        self._notes.write_text("")
        self._forbidden, self._own = forbidden, own
        try:
            yield seen
        finally:
            self._forbidden = ()
            seen += self._notes.read_text().splitlines()


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / LETTERS).mkdir(exist_ok=True)
    (folder / LETTERS / "tides.txt").write_text("The spring tide comes twice a month.")
    hook = Hook(folder)
    for number, data in enumerate((genuine(), genuine_of_document_search())):
        _attempt(data, folder / f"warm-{number}.db", hook)  # whatever is imported late is imported by now
    for number, file in enumerate(sorted(folder.glob("*.capsule"))):
        told = _attempt(file.read_bytes(), folder / f"{number}.db", hook)
        print(json.dumps({"file": file.name, **told}), flush=True)


def _attempt(data: bytes, database: Path, hook: Hook) -> dict[str, Any]:
    """Reads a capsule, loads it, submits what it carries as a payload of one's own, and works on it."""
    with hook.reading() as seen:
        came = _read(data, database)
    if came != "taken":
        return {"came": came, "seen": seen}
    with closing(open_store(f"sqlite:///{database}")) as store:
        with hook.working() as done:
            _work(store, database.parent / LETTERS)
        ended = [one.state for name in store.pipelines() for one in store.standings(name)]
    return {"came": came, "seen": seen, "worked": ended, "done": done}


def _read(data: bytes, database: Path) -> str:
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


def _work(store: Store, letters: Path) -> None:
    if DOCUMENTS in store.pipelines():
        library(store).ingest(str(letters))
    else:
        holdfast.drain(PIPELINE, store, threads=1, budget=timedelta(seconds=20))


if __name__ == "__main__":
    main()
