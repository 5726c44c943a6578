"""A rate limit that all workers of a store share. One row of a table says when the next request may start.

Each request moves that time forward by its cost, and starts when its turn comes. So no minute has more requests than
the limit, with any number of workers. A turn that is too far in the future is not taken; otherwise the time would run
away from the clock.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.core.errors import RetryLater
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.http_errors import MAX_INLINE_WAIT
from holdfast.pipelines.rag.sql_statements import load_statements
from holdfast.stores.protocol import Store

SQL = load_statements(Path(__file__).parent / "queries")
CLOCK_SLACK = 60.0
"""Seconds by which the clocks of two workers may differ. A time in the row that is further ahead was written before a
clock was set back, and is not used."""


class RateLimit(Struct, frozen=True):
    """The limits of a service for each minute. None means no limit.

    Args:
        requests: Requests for each minute.
        texts: Texts for each minute.
        tokens: Tokens for each minute.

    Raises:
        ValueError: A limit is not greater than 0.
    """

    requests: float | None = None
    texts: float | None = None
    tokens: float | None = None

    def __post_init__(self) -> None:
        if any(limit is not None and limit <= 0 for limit in (self.requests, self.texts, self.tokens)):
            raise ValueError("a rate limit must be greater than 0 for each minute")

    def seconds(self, *, texts: int, tokens: int) -> float:
        """Return how long one request uses up the limits: the maximum over all of them.

        Args:
            texts: The number of texts of the request.
            tokens: The number of their tokens.

        Returns:
            Seconds. 0 without limits.
        """
        costs = ((self.requests, 1), (self.texts, texts), (self.tokens, tokens))
        return max((60.0 * count / limit for limit, count in costs if limit), default=0.0)


class SharedRateLimiter:
    """The rate limit of one service in one store. Threads and processes may share it.

    Args:
        store: The store whose workers share the limit.
        name: The name of the service.
        rate: The limits.
        patience: Seconds that a request waits for its turn, at most.
    """

    def __init__(self, store: Store, name: str, *, rate: RateLimit, patience: float = MAX_INLINE_WAIT) -> None:
        self._store = store
        self._name = name
        self._rate = rate
        self._patience = patience
        with store.transaction() as tx:
            if tx.dialect == "postgresql":
                SQL.run(tx, "lock_rate_table")
            SQL.run(tx, "create_rate_table")

    def take(self, *, texts: int, tokens: int = 0) -> float:
        """Take a turn for one request.

        Args:
            texts: Texts in the request.
            tokens: Tokens in the request.

        Returns:
            The seconds to wait before the request.

        Raises:
            RetryLater: The turn comes later than `patience`. No turn was taken.
        """
        cost = self._rate.seconds(texts=texts, tokens=tokens)
        if not cost:
            return 0.0
        with self._store.transaction() as tx:
            end = self._take_turn(tx, cost)
            if end is not None:
                return max(end - cost, 0.0)
            wait = self._wait_time(tx)
        raise RetryLater(f"the rate limit of {self._name} is used up", after=timedelta(seconds=wait))

    def _take_turn(self, tx: Tx, cost: float) -> float | None:
        row = SQL.run(
            tx, "take_turn", **self._params(), cost=cost, patience=self._patience, slack=CLOCK_SLACK
        ).fetchone()
        return None if row is None else float(row[0])

    def _wait_time(self, tx: Tx) -> float:
        row = SQL.run(tx, "wait_time", **self._params()).fetchone()
        return max(float(row[0]), 0.0) if row else 0.0

    def _params(self) -> dict[str, Any]:
        """Return the name and the time. Only SQLite uses the time: PostgreSQL has a clock that all workers share."""
        return {"name": self._name, "at": self._store.now().timestamp()}
