"""The soak test: workers process documents while random faults and decisions happen; then everything is checked."""

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
from tests.soak.checker import violations
from tests.soak.fleet import Fleet
from tests.soak.program import prepare, soak

BATCHES = 10
MAX_DECIDED = 200
"""How many documents one decision is about at most."""
POLL_INTERVAL = 5.0
"""Seconds between two checks whether all documents are finished. Each check counts every document."""
WHO = {"who": "soak", "reason": "a random decision"}


class SoakResult(msgspec.Struct, frozen=True):
    """The faults and decisions of a soak test, and the final state."""

    documents: int
    seconds: float
    finished_after: float
    events: dict[str, int]
    decided: dict[str, int]
    workers_replaced: int
    balance: Balance
    violations: list[str]


class Soak:
    """One soak test on one store."""

    def __init__(
        self, store: Store, fleet: Fleet, *, documents: int, seed: int, restart: Callable[[], None] | None = None
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._documents = documents
        self._random = Random(seed)
        self._restart = restart
        self._submitted = 0
        self._events: Counter[str] = Counter()
        self._decided: Counter[str] = Counter()
        self._cancelled: dict[str, int] = {}
        with store.transaction() as tx:
            prepare(tx)
        self._plan = store.declare(soak.shape())

    def run(self, seconds: float, *, time_limit: float) -> SoakResult:
        """Inject faults for some seconds, then let the workers finish, and check the result."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            self._submit_up_to(int(self._documents * min(passed / seconds * 1.5, 1)))
            self._cause_random_event()
            time.sleep(self._random.uniform(0, 0.3))  # so that the next event happens at a random moment
        self._submit_up_to(self._documents)
        finished_after = self._wait_until_finished(time_limit)
        return SoakResult(
            documents=self._documents,
            seconds=seconds,
            finished_after=finished_after,
            events=dict(self._events),
            decided=dict(self._decided),
            workers_replaced=self._fleet.replaced,
            balance=self._store.balance("soak"),
            violations=list(violations(self._store, self._cancelled))[:100],
        )

    def _submit_up_to(self, number: int) -> None:
        with suppress(StoreError):  # the database restarts; the same documents are submitted again next time
            while self._submitted < number:
                until = min(self._submitted + 2000, number)
                self._submit([NewDocument(f"{number:07}", None, "first") for number in range(self._submitted, until)])
                self._submitted = until

    def _submit(self, documents: list[NewDocument]) -> None:
        by_batch: dict[str, list[NewDocument]] = {}
        for document in documents:
            by_batch.setdefault(f"batch-{int(document.key) % BATCHES}", []).append(document)
        for batch, in_batch in by_batch.items():
            holdfast.submit(soak, self._store, batch=batch, documents=in_batch)

    def _cause_random_event(self) -> None:
        often = dict.fromkeys((self._suspend, self._rewind, self._redrive, self._resume), 2.0) | {self._kill: 4.0}
        seldom = dict.fromkeys((self._cancel, self._change, self._pause), 1.0)
        if self._restart:
            seldom[self._restart_database] = 0.4
        weights = often | seldom
        (event,) = self._random.choices([*weights], [*weights.values()])
        self._events[event.__name__.strip("_")] += 1
        with suppress(StoreError):
            event()

    def _kill(self) -> None:
        self._fleet.kill_one(self._random)

    def _suspend(self) -> None:
        self._fleet.suspend_one(self._random, seconds=self._random.uniform(0.5, 6))

    def _restart_database(self) -> None:
        assert self._restart is not None
        self._restart()

    def _random_documents(self, **which: object) -> list[int]:
        """Return the ids of some random documents."""
        after = self._random.randrange(max(self._submitted, 1))
        ids: list[int] = self._store.select("soak", after=after, limit=self._random.randint(1, MAX_DECIDED), **which)
        return ids

    def _cancel(self) -> None:
        cancelled = self._store.cancel(self._random_documents()[:20], **WHO)
        self._decided["cancel"] += len(cancelled)
        self._cancelled |= self._written(cancelled)

    def _rewind(self) -> None:
        to = self._random.choice(soak.steps).name
        self._decided["rewind"] += len(self._store.rewind_to(self._plan, self._random_documents(), to=to, **WHO))

    def _redrive(self) -> None:
        self._decided["redrive"] += len(self._store.redrive(self._random_documents(state="dead"), **WHO))

    def _pause(self) -> None:
        self._decided["pause"] += len(self._store.pause(self._random_documents(), **WHO))

    def _resume(self) -> None:
        self._decided["resume"] += len(self._store.resume(self._plan, self._random_documents(state="paused"), **WHO))

    def _change(self) -> None:
        if self._submitted:
            mark = f"changed at {time.monotonic()}"
            keys = {f"{self._random.randrange(self._submitted):07}" for _ in range(20)}
            self._submit([NewDocument(key, None, mark) for key in keys])
            self._decided["change"] += len(keys)

    def _written(self, document_ids: list[int]) -> dict[str, int]:
        """Count the rows of documents that were just cancelled. No more rows may be written for them."""
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

    def _wait_until_finished(self, time_limit: float) -> float:
        """Wait until no document is open. Give up if nothing changed within the time limit. Return the seconds."""
        began = moved_at = time.monotonic()
        before: object = None
        while time.monotonic() - moved_at < time_limit:
            while paused := self._store.select("soak", after=0, limit=1000, state="paused"):
                self._store.resume(self._plan, paused, **WHO)
            now = self._store.balance("soak"), self._last_row()
            if not now[0].open:
                break
            if now != before:
                before, moved_at = now, time.monotonic()
            time.sleep(min(POLL_INTERVAL, time_limit / 10))
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
) -> SoakResult:
    """Run a soak test on an empty store.

    Args:
        url: The URL of the store.
        folder: A folder for the log of the workers.
        documents: How many documents are submitted.
        seconds: How long faults are injected.
        workers: How many worker processes run.
        seed: The seed of all random choices.
        restart: Restarts the database. None for SQLite.

    Returns:
        The result. `violations` is empty if every guarantee holds.
    """
    with holdfast.open(url) as store, Fleet(url, workers, folder / "workers.log") as fleet:
        run = Soak(store, fleet, documents=documents, seed=seed, restart=restart)
        return run.run(seconds, time_limit=60.0)
