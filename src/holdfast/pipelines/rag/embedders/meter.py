"""A rate limit that all workers of a store share: one row that says when the next request may go.

Each request moves the row on by what it costs and goes when its place comes, so no window of a minute sees more than
the limit, however many workers there are. A place that is too far off is not taken, or the row would run away.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.core.errors import RetryLater
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.asking import SHORT
from holdfast.pipelines.rag.embedders.rate import Rate
from holdfast.stores.protocol import Store

SLACK = 60.0
"""Seconds that the clocks of two statements may differ. A row further ahead than that was written before a clock
jumped back, and is not believed."""

_TABLE = """
create table if not exists rag_meter (
    name    text primary key,
    next_at double precision not null,
    ahead   double precision not null
)
"""

# Takes the next place, if it is near enough. `ahead` is how far from its own moment a move can have led.
_TAKE = """
with clock (now) as (select cast({now} as double precision))
insert into rag_meter as meter (name, next_at, ahead)
select {p}, now + {p}, {p}
from clock
where true
on conflict (name) do update
set next_at = excluded.next_at - (select now from clock)
            + case when meter.next_at between (select now from clock)
                                          and (select now from clock) + meter.ahead + {slack}
                   then meter.next_at
                   else (select now from clock)
              end,
    ahead = excluded.ahead
where meter.next_at <= (select now from clock) + {p}
   or meter.next_at > (select now from clock) + meter.ahead + {slack}
returning next_at - (select now from clock)
"""

_LOOK = "select next_at - cast({now} as double precision) from rag_meter where name = {p}"


class Meter:
    """One service's rate, in one store. Any number of threads and processes may share it."""

    def __init__(self, store: Store, name: str, *, rate: Rate, patience: float = SHORT) -> None:
        self._store = store
        self._name = name
        self._rate = rate
        self._patience = patience
        with store.transaction() as tx:
            _make_table(tx)

    def take(self, *, texts: int, tokens: int = 0) -> float:
        """Takes a place for one request and gives the seconds until it comes.

        Raises RetryLater, and takes none, when that is longer than the patience.
        """
        cost = self._rate.seconds(texts=texts, tokens=tokens)
        if not cost:
            return 0.0
        with self._store.transaction() as tx:
            until = self._move(tx, cost)
            if until is not None:
                return max(until - cost, 0.0)
            wait = self._ask(tx)
        raise RetryLater(f"the rate limit of {self._name} is used up", after=timedelta(seconds=wait))

    def _move(self, tx: Tx, cost: float) -> float | None:
        parameters = (self._name, cost, self._patience + cost, self._patience)
        row = tx.execute(*self._put(tx, _TAKE, parameters)).fetchone()
        return None if row is None else float(row[0])

    def _ask(self, tx: Tx) -> float:
        row = tx.execute(*self._put(tx, _LOOK, (self._name,))).fetchone()
        return max(float(row[0]), 0.0) if row else 0.0

    def _put(self, tx: Tx, sql: str, parameters: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        """Gives a statement in the database's own words. PostgreSQL knows the time; to SQLite it is told."""
        if tx.dialect == "postgresql":
            now = "extract(epoch from clock_timestamp())"
            return sql.format(now=now, p="%s", slack=SLACK), parameters
        return sql.format(now="?", p="?", slack=SLACK), (self._store.now().timestamp(), *parameters)


def _make_table(tx: Tx) -> None:
    if tx.dialect == "postgresql":  # two at once would both make it, and one would fail
        tx.execute("select pg_advisory_xact_lock(hashtext('rag_meter'))")
    tx.execute(_TABLE)
