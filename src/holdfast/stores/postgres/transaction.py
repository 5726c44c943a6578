"""The transaction that effects write through."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from psycopg import Connection

from holdfast.core.errors import StoreError
from holdfast.core.moves import refuse_to_end
from holdfast.stores.postgres.complaints import own_words


class Tx:
    """The transaction that effects write through. What goes wrong with it is the store's, all else the effect's own."""

    dialect: Literal["sqlite", "postgresql"] = "postgresql"

    __slots__ = ("_db", "_name", "heard_at", "idle", "trouble")

    def __init__(self, db: Connection[Any], name: str) -> None:
        self._db = db
        self._name = name
        self.trouble: StoreError | None = None
        self.heard_at = time.monotonic()
        self.idle = 0.0
        """For how many seconds nothing was asked before the last statement. Waiting for an answer is not idling."""

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Runs one statement and answers psycopg's cursor."""
        refuse_to_end(sql)
        with self._telling():
            return self._db.execute(sql, parameters or None)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Runs one statement for each of many parameters, in one round trip."""
        refuse_to_end(sql)
        with self._telling():
            cursor = self._db.cursor()
            cursor.executemany(sql, parameters)
            return cursor

    @contextmanager
    def _telling(self) -> Iterator[None]:
        self.idle = time.monotonic() - self.heard_at
        try:
            with own_words(self._db, self._name):
                yield
        except StoreError as error:
            self.trouble = error
            raise
        finally:
            self.heard_at = time.monotonic()
