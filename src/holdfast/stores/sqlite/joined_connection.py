"""Join the transaction of a caller on a connection of Python's sqlite3."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.stores.joined_connection import (
    RELEASE,
    ROLL_BACK,
    SAVEPOINT,
    callers_connection,
    commits_by_itself,
    other_database,
    refuse_unknown,
)
from holdfast.stores.sqlite.database_files import file_identity

BEGIN = "begin immediate"
"""What the driver itself would begin with before an insert; but it does not know all statements that write."""
BEGIN_YOURSELF = "Run `begin immediate` on it first, or leave isolation_level as it is by default"


class JoinedConnection:
    """Runs statements of holdfast on the connection of a caller, whatever its row factory is."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement and return its cursor."""
        cursor = self._driver.cursor(sqlite3.Cursor)
        cursor.row_factory = None
        return cursor.execute(sql, parameters)


@contextmanager
def join_transaction(connection: Any, path: Path, url: str) -> Iterator[JoinedConnection]:
    """Run a block in the transaction of a caller. An error takes back what the block wrote, and nothing else.

    Args:
        connection: What the caller has given.
        path: The file of the store.
        url: The URL of the store, for messages.

    Raises:
        HoldfastError: The connection is to another database, or commits by itself.
    """
    driver = callers_connection(connection).driver
    if not isinstance(driver, sqlite3.Connection):
        raise refuse_unknown(driver, "sqlite3.Connection")
    ours, text_factory = JoinedConnection(driver), driver.text_factory
    driver.text_factory = str
    try:
        _refuse_other_file(ours, path, url)
        if not driver.in_transaction:
            if driver.isolation_level is None or getattr(driver, "autocommit", -1) is True:
                raise commits_by_itself(BEGIN_YOURSELF)
            ours.execute(BEGIN)
        ours.execute(SAVEPOINT)
        try:
            yield ours
        except BaseException:  # re-raised; whatever it is, nothing of the submit may stay
            if driver.in_transaction:  # a full disk ends the transaction
                ours.execute(ROLL_BACK)
                ours.execute(RELEASE)
            raise
        ours.execute(RELEASE)
    finally:
        driver.text_factory = text_factory


def _refuse_other_file(ours: JoinedConnection, path: Path, url: str) -> None:
    files = [row[2] for row in ours.execute("pragma database_list").fetchall() if row[1] == "main"]
    found = file_identity(files[0]) if files and files[0] else None
    if found is None or found != file_identity(path):
        raise other_database(url)
