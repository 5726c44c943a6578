"""Read hostile capsules and payloads under an audit hook, and report what the process did meanwhile.

`python -m tests.fuzz.capsule_audit FOLDER` reads each `*.capsule`, loads it into a new store and processes it:
capsules of document search while a folder is ingested, others by their own pipeline. It prints one line of JSON for
each: the outcome, and the events that would run code, open files or connect.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import holdfast
from holdfast.core.capsule import read_capsule
from holdfast.core.errors import HoldfastError
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from tests.fuzz.campaign import ROOT
from tests.fuzz.guard import FORBIDDEN, FORBIDDEN_FOR_WORKERS
from tests.fuzz.targets.capsules import DOCUMENTS, genuine, genuine_of_document_search, library
from tests.fuzz.targets.values import _pipeline

PIPELINE = _pipeline()
OWN = (str(ROOT), sys.prefix, sys.base_prefix, "/proc/", "/sys/fs/cgroup/", "/dev/", f"{gettempdir()}/holdfast-")
"""Where a worker may open files: its code, the process table, devices, and its own temporary folder."""
HARMLESS = ("open", "os.chmod", "sqlite3.connect", "sqlite3.connect/handle")
"""Events that are allowed for files of ours. Files that are open already are ours: they are seen when opened."""
EMPTY = ("/", gettempdir())
"""Folders that may be opened themselves: the working directory and the folder for temporary files."""
LETTERS = "letters"
"""The folder that is ingested while capsules of document search are processed."""


class Hook:
    """Records what this process and its forks do inside `reading` or `working`, except in the files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._ours = str(folder)
        self._notes = folder / "notes"
        self._forbidden: tuple[str, ...] = ()
        self._own: tuple[str, ...] = ()
        self._busy = threading.local()
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._forbidden or not event.startswith(self._forbidden) or getattr(self._busy, "recording", False):
            return
        self._busy.recording = True
        try:
            place = arguments[0] if arguments else ""
            if not (event in HARMLESS and (self._is_ours(place) or _is_inside_open_folder(arguments))):
                with self._notes.open("a") as notes:
                    notes.write(f"{event} {arguments!r}"[:200].replace("\n", " ") + "\n")
        finally:
            self._busy.recording = False

    def _is_ours(self, place: object) -> bool:
        name = place.decode(errors="replace") if isinstance(place, bytes) else str(place)
        return (
            isinstance(place, int)
            or place == ":memory:"
            or isinstance(place, sqlite3.Connection)
            or (self._own != () and name in EMPTY)
            or (".." not in name and name.startswith((self._ours, *self._own)))
        )

    @contextmanager
    def reading(self) -> Iterator[list[str]]:
        """Record events that reading untrusted data must not cause."""
        with self._recording(FORBIDDEN, own=()) as seen:
            yield seen

    @contextmanager
    def working(self) -> Iterator[list[str]]:
        """Record events that a worker must not cause."""
        with self._recording(FORBIDDEN_FOR_WORKERS, own=OWN) as seen:
            yield seen

    @contextmanager
    def _recording(self, forbidden: tuple[str, ...], *, own: tuple[str, ...]) -> Iterator[list[str]]:
        seen: list[str] = []
        self._notes.write_text("")
        self._forbidden, self._own = forbidden, own
        try:
            yield seen
        finally:
            self._forbidden = ()
            seen += self._notes.read_text().splitlines()


def _is_inside_open_folder(arguments: tuple[Any, ...]) -> bool:
    """Return True for a plain name that is opened without following links: it is in a folder that was opened before."""
    name, mode, flags = (*arguments, None, None, None)[:3]
    return mode is None and isinstance(flags, int) and bool(flags & os.O_NOFOLLOW) and "/" not in str(name)


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / LETTERS).mkdir(exist_ok=True)
    (folder / LETTERS / "tides.txt").write_text("The spring tide comes twice a month.")
    hook = Hook(folder)
    for number, data in enumerate((genuine(), genuine_of_document_search())):
        _attempt(data, folder / f"warm-{number}.db", hook)  # so that late imports are done before the first capsule
    for number, file in enumerate(sorted(folder.glob("*.capsule"))):
        result = _attempt(file.read_bytes(), folder / f"{number}.db", hook)
        print(json.dumps({"file": file.name, **result}), flush=True)


def _attempt(data: bytes, database: Path, hook: Hook) -> dict[str, Any]:
    """Read a capsule, load it, submit its payload to another store, and process it."""
    with hook.reading() as seen:
        outcome = _read(data, database)
    if outcome != "loaded":
        return {"outcome": outcome, "seen": seen}
    with closing(open_store(f"sqlite:///{database}")) as store:
        with hook.working() as done:
            _work(store, database.parent / LETTERS)
        states = [document.state for name in store.pipelines() for document in store.documents(name)]
    return {"outcome": outcome, "seen": seen, "states": states, "done": done}


def _read(data: bytes, database: Path) -> str:
    try:
        capsule = read_capsule(data)
    except HoldfastError as error:
        return f"refused: {error}"[:200]
    with closing(open_store(f"sqlite:///{database}")) as store:
        assert isinstance(store, SqliteStore)
        number = store.load(capsule, who="a stranger")
        (status,) = store.documents_by_id([number])
        store.journal(number)
    with closing(open_store("memory://")) as store:
        holdfast.submit(PIPELINE, store, batch="b", documents=[("k", status.payload)])
        (found,) = store.find("k")
        assert found.payload == status.payload
    return "loaded"


def _work(store: Store, letters: Path) -> None:
    if DOCUMENTS in store.pipelines():
        library(store).ingest(str(letters))
    else:
        holdfast.drain(PIPELINE, store, threads=1, budget=timedelta(seconds=20))


if __name__ == "__main__":
    main()
