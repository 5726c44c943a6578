"""Run one test of the conformance suite without pytest, to see whether it finds a mutant."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock, conformance
from holdfast.testing.conformance.base import REVIEWS, StoreHarness


def find_failure(test: str, store: str) -> str:
    """Run a test, `SealConformance.test_a_seal_is_journalled`. Return why it failed; empty if it passed.

    A test with parameters is run with the first value of each.
    """
    part, _, name = test.partition(".")
    run = getattr(getattr(conformance, part)(), name)
    first = {mark.args[0]: next(iter(mark.args[1])) for mark in getattr(run, "pytestmark", ())}
    with _fixtures(store) as fixtures:
        given = fixtures | first
        if "notes" in inspect.signature(run).parameters:
            given["notes"] = _notes(given["harness"])
        try:
            run(**{argument: given[argument] for argument in inspect.signature(run).parameters})
        except (Exception, pytest.fail.Exception) as error:  # a mutant may break anything
            return f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ""


def _notes(harness: Any) -> Callable[[], list[str]]:
    harness.sql("create table notes (text varchar(20) not null)")
    return lambda: [row[0] for row in harness.sql("select text from notes order by text")]


@contextmanager
def _fixtures(kind: str) -> Iterator[dict[str, object]]:
    """Yield the fixtures that most tests use, by name."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        stores = [*_open(kind, Path(folder), clock)]
        try:
            yield {
                "store": stores[0],
                "other": stores[-1],
                "clock": clock,
                "harness": StoreHarness(stores[0], clock),
                "gated": StoreHarness(stores[0], clock, REVIEWS),
            }
        finally:
            for store in stores:
                store.close()


def _open(kind: str, folder: Path, clock: ManualClock) -> Iterator[Store]:
    """Yield the database once or twice. A memory store cannot be opened again."""
    if kind == "memory":
        yield MemoryStore(clock=clock)
        return
    for _ in range(2):
        yield SqliteStore(f"sqlite:///{folder}/store.db?synchronous=normal", clock=clock)
