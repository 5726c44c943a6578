"""The soak: documents are worked on while workers, the database and people get in the way. Then all is counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec

import holdfast
from holdfast.core.errors import StoreError
from holdfast.core.model import Balance, NewDocument
from holdfast.stores.protocol import Store
from tests.soak.books import faults
from tests.soak.fleet import Fleet
from tests.soak.program import prepare, soak

BATCHES = 10
CROWD = 200
"""How many documents a person decides about at once."""
GLANCE = 5.0
"""Seconds between looks whether all is settled: each look counts every document."""
WHO = {"who": "soak", "reason": "to make trouble"}


class Findings(msgspec.Struct, frozen=True):
    """What was done to the documents, and what came of them."""

    documents: int
    seconds: float
    settled_after: float
    troubles: dict[str, int]
    decided: dict[str, int]
    workers_replaced: int
    balance: Balance
    faults: list[str]


class Soak:
    """One run."""

    def __init__(
        self, store: Store, fleet: Fleet, *, documents: int, seed: int, restart: Callable[[], None] | None = None
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._documents = documents
        self._chance = Random(seed)
        self._restart = restart
        self._submitted = 0
        self._troubles: Counter[str] = Counter()
        self._decided: Counter[str] = Counter()
        self._cancelled: dict[str, int] = {}
        with store.transaction() as tx:
            prepare(tx)
        self._plan = store.declare(soak.shape())

    def run(self, seconds: float, *, patience: float) -> Findings:
        """Makes trouble for so long, then lets the fleet finish, and counts."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            self._submit_up_to(int(self._documents * min(passed / seconds * 1.5, 1)))
            self._make_trouble()
            time.sleep(self._chance.uniform(0, 0.3))
        self._submit_up_to(self._documents)
        settled = self._settle(patience)
        return Findings(
            documents=self._documents,
            seconds=seconds,
            settled_after=settled,
            troubles=dict(self._troubles),
            decided=dict(self._decided),
            workers_replaced=self._fleet.replaced,
            balance=self._store.balance("soak"),
            faults=list(faults(self._store, self._cancelled))[:100],
        )

    def _submit_up_to(self, number: int) -> None:
        with suppress(StoreError):  # the database is being restarted: the same documents are submitted the next time
            while self._submitted < number:
                until = min(self._submitted + 2000, number)
                self._submit([NewDocument(f"{one:07}", None, "first") for one in range(self._submitted, until)])
                self._submitted = until

    def _submit(self, documents: list[NewDocument]) -> None:
        by_batch: dict[str, list[NewDocument]] = {}
        for document in documents:
            by_batch.setdefault(f"batch-{int(document.key) % BATCHES}", []).append(document)
        for batch, some in by_batch.items():
            holdfast.submit(soak, self._store, batch=batch, documents=some)

    def _make_trouble(self) -> None:
        often = dict.fromkeys((self._stop, self._rewind, self._redrive, self._resume), 2.0) | {self._kill: 4.0}
        seldom = dict.fromkeys((self._cancel, self._change, self._pause), 1.0)
        if self._restart:
            seldom[self._restart_database] = 0.4
        kinds = often | seldom
        (trouble,) = self._chance.choices([*kinds], [*kinds.values()])
        self._troubles[trouble.__name__.strip("_")] += 1
        with suppress(StoreError):
            trouble()

    def _kill(self) -> None:
        self._fleet.kill_one(self._chance)

    def _stop(self) -> None:
        self._fleet.stop_one(self._chance, seconds=self._chance.uniform(0.5, 6))

    def _restart_database(self) -> None:
        assert self._restart is not None
        self._restart()

    def _some(self, **which: object) -> list[int]:
        """Some documents, anywhere."""
        after = self._chance.randrange(max(self._submitted, 1))
        ids: list[int] = self._store.select("soak", after=after, limit=self._chance.randint(1, CROWD), **which)
        return ids

    def _cancel(self) -> None:
        some = self._some()[:20]
        cancelled = self._store.cancel(some, **WHO)
        self._decided["cancel"] += len(cancelled)
        self._cancelled |= self._written(cancelled)

    def _rewind(self) -> None:
        to = self._chance.choice(soak.steps).name
        self._decided["rewind"] += len(self._store.rewind_to(self._plan, self._some(), to=to, **WHO))

    def _redrive(self) -> None:
        self._decided["redrive"] += len(self._store.redrive(self._some(state="dead"), **WHO))

    def _pause(self) -> None:
        self._decided["pause"] += len(self._store.pause(self._some(), **WHO))

    def _resume(self) -> None:
        self._decided["resume"] += len(self._store.resume(self._plan, self._some(state="paused"), **WHO))

    def _change(self) -> None:
        if self._submitted:
            mark = f"changed at {time.monotonic()}"
            keys = {f"{self._chance.randrange(self._submitted):07}" for _ in range(20)}
            self._submit([NewDocument(key, None, mark) for key in keys])
            self._decided["change"] += len(keys)

    def _written(self, document_ids: list[int]) -> dict[str, int]:
        """Counts what was written down for documents that have just ended: it must not become more."""
        if not document_ids:
            return {}
        listed = ", ".join(map(str, document_ids))
        with self._store.transaction() as tx:
            rows = tx.execute(
                f"""select b.name || '/' || d.key,
                           (select count(*) from soak_done s where s.key = b.name || '/' || d.key)
                      from hf_document d join hf_batch b on b.id = d.batch_id where d.id in ({listed})"""
            ).fetchall()
        return dict(rows)

    def _settle(self, patience: float) -> float:
        """Lets the fleet finish, with nobody in its way. Gives up when nothing moved for so long."""
        began = moved_at = time.monotonic()
        before: object = None
        while time.monotonic() - moved_at < patience:
            while paused := self._store.select("soak", after=0, limit=1000, state="paused"):
                self._store.resume(self._plan, paused, **WHO)
            now = self._store.balance("soak"), self._last_row()
            if not now[0].open:
                break
            if now != before:
                before, moved_at = now, time.monotonic()
            time.sleep(min(GLANCE, patience / 10))
        return time.monotonic() - began

    def _last_row(self) -> int:
        with self._store.transaction() as tx:
            return int(tx.execute("select coalesce(max(id), 0) from soak_done").fetchone()[0])


def run_soak(
    url: str,
    folder: Path,
    *,
    documents: int,
    seconds: float,
    workers: int,
    seed: int,
    restart: Callable[[], None] | None = None,
) -> Findings:
    """Runs a soak on a store that is empty."""
    with holdfast.open(url) as store, Fleet(url, workers, folder / "workers.log") as fleet:
        run = Soak(store, fleet, documents=documents, seed=seed, restart=restart)
        return run.run(seconds, patience=60.0)
