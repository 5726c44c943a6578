"""Start the program in processes, and check afterwards what they wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.stores.protocol import Store
from tests.crash.program import BATCH, PAGES

PROGRAM = Path(__file__).parent / "program.py"


@contextmanager
def running_program(*arguments: Any, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program, with these environment variables. Kill it at the end of the block if it still runs."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for the program to end by itself. Fail with its error output if it did not end well."""
    _, error_output = process.communicate(timeout=60)
    assert process.returncode == 0, error_output


def kill_after(process: subprocess.Popen[str], seconds: float) -> None:
    """Kill the program some seconds after it printed that it is ready, unless it ended by itself before."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def sorted_rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted."""
    with store.transaction() as tx:
        return sorted(map(tuple, tx.execute(query).fetchall()))


def assert_everything_was_done_once(store: Store, count: int) -> None:
    """Check the balance, the items, and the rows of every effect: nothing is missing and nothing is there twice."""
    balance = store.balance("parcels")
    assert balance.balances
    assert (balance.expected, balance.done) == (count, count)
    keys = [f"parcel-{number:05}" for number in range(count)]
    assert sorted_rows(store, "select parcel, page from unpacked") == [
        (key, page) for key in keys for page in range(PAGES)
    ]
    assert sorted_rows(store, "select parcel, grams from weighed") == [
        (key, page * 100) for key in keys for page in range(PAGES)
    ]
    assert sorted_rows(store, "select parcel from sent") == [(key,) for key in keys]
    assert sorted_rows(store, "select parcels from total") == [(count,)]
    for key in keys[:: max(count // 20, 1)]:
        kept = [(step, position) for step, position, _ in store.items(store.document("parcels", BATCH, key).id)]
        pages = range(PAGES)
        assert sorted(kept) == sorted(
            [("unpack", page) for page in pages] + [("weigh", page) for page in pages] + [("send", -1)]
        )
