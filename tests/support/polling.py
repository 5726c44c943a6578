"""Wait for a condition by polling: any condition, or one of the store of another process."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

TIME_LIMIT = 30.0
"""Seconds after which a condition that does not hold fails the test."""
POLL_INTERVAL = 0.01


def wait_for(condition: Callable[[], object], *, time_limit: float = TIME_LIMIT) -> None:
    """Wait until a condition is true. Fail the test if it is not within the time limit."""
    deadline = time.monotonic() + time_limit
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {time_limit:.0f} s"
        time.sleep(POLL_INTERVAL)


def wait_until(query: str, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Run a query on ./holdfast.db until `enough` accepts the first column of its rows. Return that column."""
    column: list[Any] = []

    def holds() -> bool:
        if not Path("holdfast.db").exists():
            return False
        try:
            with closing(sqlite3.connect("holdfast.db")) as db:
                column[:] = [row[0] for row in db.execute(query)]
        except sqlite3.Error:  # the process is still creating the database
            return False
        return enough(column)

    wait_for(holds)
    return column


def wait_for_items(number: int) -> None:
    """Wait until at least this many items are stored."""
    wait_until("select count(*) from hf_item", lambda column: column[0] >= number)


def wait_for_workers(number: int) -> list[int]:
    """Wait until exactly this many workers are registered. Return their pids."""
    return wait_until("select pid from hf_worker where gone_at is null", lambda pids: len(pids) == number)
