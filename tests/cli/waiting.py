"""Waits until a process has come so far, by looking into its store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

PATIENCE = 30.0


def until(question: str, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Asks ./holdfast.db until the answer is enough."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if Path("holdfast.db").exists():
            try:
                with closing(sqlite3.connect("holdfast.db")) as db:
                    answer = [row[0] for row in db.execute(question)]
                if enough(answer):
                    return answer
            except sqlite3.Error:
                pass  # it is only being made
        time.sleep(0.02)
    raise AssertionError(f"it did not come to it: {question}")


def until_items(number: int) -> None:
    """Waits until so many items are kept."""
    until("select count(*) from hf_item", lambda answer: answer[0] >= number)


def until_workers(number: int) -> list[int]:
    """Waits until so many workers have enlisted, and gives their pids."""
    return until("select pid from hf_worker where gone_at is null", lambda pids: len(pids) == number)
