"""The transaction that effects write through."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from psycopg import Connection
from psycopg.pq import TransactionStatus

from holdfast.core.errors import StoreError, TransactionEnded
from holdfast.core.moves import refuse_to_end
from holdfast.stores.chained_submit import SubmittingTx, SubmitWithin
from holdfast.stores.postgres.error_mapping import own_errors


class Tx(SubmittingTx):
    """The transaction that effects write through. Its errors are the store's; all other errors are the effect's own."""

    dialect: Literal["sqlite", "postgresql"] = "postgresql"

    __slots__ = ("_db", "_name", "answered_at", "idle", "store_error")

    def __init__(self, db: Connection[Any], name: str, submit_within: SubmitWithin) -> None:
        super().__init__(submit_within)
        self._db = db
        self._name = name
        self.store_error: StoreError | None = None
        self.answered_at = time.monotonic()
        self.idle = 0.0
        """How many seconds the transaction was idle before the last statement. Waiting for an answer is not idle."""

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run one statement and return psycopg's cursor."""
        refuse_to_end(sql)
        with self._statements():
            return self._db.execute(sql, parameters or None)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Run one statement for each of many parameters, in one round trip."""
        refuse_to_end(sql)
        with self._statements():
            cursor = self._db.cursor()
            cursor.executemany(sql, parameters)
            return cursor

    @contextmanager
    def _statements(self) -> Iterator[None]:
        self.idle = time.monotonic() - self.answered_at
        if self._db.pgconn.transaction_status == TransactionStatus.IDLE:  # the statement would commit by itself
            raise TransactionEnded("the transaction has ended, so nothing more can be written with it")
        try:
            with own_errors(self._db, self._name):
                yield
        except StoreError as error:
            self.store_error = error
            raise
        finally:
            self.answered_at = time.monotonic()
