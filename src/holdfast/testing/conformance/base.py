"""What every test of the suite begins with: a store, a clock, and a desk that says the usual in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.decisions import waits_at
from holdfast.core.model import Balance, Checkpoint, Claim, Failure, Item, NewDocument, Receipt, Standing, State, Worker
from holdfast.core.moves import ACCEPTED, Answer, Effect, Ending, Move, Tx
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store, Verdict
from holdfast.testing.clock import ManualClock

OpenStore = Callable[[], Store]
"""Opens the one database of a test, again each time it is called."""

LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)

PAPERS = Shape(
    "papers",
    (StepShape("extract", "stream"), StepShape("chunk", "value"), StepShape("embed", "over", over="chunk")),
)
REVIEWS = Shape(
    "reviews",
    (StepShape("read", "value"), StepShape("review", "gate"), StepShape("file", "value"), StepShape("sign", "gate")),
)


def waits(_step: str, _attempts: int, _crashes: int) -> tuple[State, timedelta]:
    """The verdict that lets every orphan wait again at once."""
    return "waiting", NOTHING


def dies(_step: str, _attempts: int, _crashes: int) -> tuple[State, timedelta]:
    """The verdict that makes every orphan a dead letter."""
    return "dead", NOTHING


def after(claim: Claim, move: Move) -> Claim:
    """Gives the claim as its worker holds it after a move."""
    return replace(claim, checkpoint=move.after, attempts=1, crashes=0)


class Desk:
    """A store with one pipeline and one worker on it."""

    def __init__(self, store: Store, clock: ManualClock, shape: Shape = PAPERS) -> None:
        self.store = store
        self.clock = clock
        self.shape = shape
        self.plan = store.declare(shape)
        self.worker = self.enlist("ann")
        self._submissions = 0

    def enlist(self, name: str, *, lease: timedelta = LEASE) -> Worker:
        """Makes one more worker known."""
        return self.store.enlist(name=name, host="here", pid=1, born="today", lease=lease)

    def submit(
        self, *keys: str, batch: str = "march", payload: Any = None, fingerprint: str = "", priority: int = 0
    ) -> Receipt:
        """Submits documents by their keys, as a submission of its own."""
        self._submissions += 1
        documents = [NewDocument(key, payload, fingerprint, priority) for key in keys]
        return self.store.submit(self.plan, batch, documents, submission=self._submissions, part=0)

    def claim(self, *, limit: int = 100, worker: Worker | None = None, **more: Any) -> list[Claim]:
        """Claims what is due."""
        return self.store.claim(self.plan, worker or self.worker, limit=limit, **more)

    def claim_one(self, *, worker: Worker | None = None, **more: Any) -> Claim:
        """Claims one document; there has to be one that is due."""
        (claim,) = self.claim(limit=1, worker=worker, **more)
        return claim

    def take_in(self, key: str = "a", **more: Any) -> Claim:
        """Submits one document and claims it."""
        self.submit(key, **more)
        return self.claim_one()

    def keys_claimed(self, **more: Any) -> list[str]:
        """Claims what is due and gives the keys."""
        return [claim.key for claim in self.claim(**more)]

    def forward(self, claim: Claim, **more: Any) -> Move:
        """Makes the move to the next step; from the last, the move that ends the document."""
        at, names = claim.checkpoint, list(self.plan.step_ids)
        later = names[names.index(at.step or "") + 1 :]
        to = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
        return Move(claim, at, to, **{"state": "running" if later else "done"} | more)

    def within(self, claim: Claim, cursor: Any, **more: Any) -> Move:
        """Makes the move that goes further inside the step."""
        at = claim.checkpoint
        return Move(claim, at, Checkpoint(at.generation, at.step, cursor, at.moves + 1), **more)

    def commit(self, *moves: Move) -> list[Answer]:
        """Commits moves together."""
        return self.store.commit(self.plan, moves)

    def advance(self, claim: Claim, **more: Any) -> Claim:
        """Commits the move to the next step and gives the claim at its new place."""
        move = self.forward(claim, **more)
        assert self.commit(move) == [ACCEPTED]
        return after(claim, move)

    def keep(self, claim: Claim, *values: str | bytes, step: str | None = None, start: int = 0) -> Claim:
        """Commits items of the present step, which goes on."""
        name = step or claim.checkpoint.step or ""
        items = [Item(name, start + place, value) for place, value in enumerate(values)]
        move = self.within(claim, start + len(values), items=items)
        assert self.commit(move) == [ACCEPTED]
        return after(claim, move)

    def finish(self, claim: Claim) -> None:
        """Takes a document to its end."""
        while claim.checkpoint.step is not None:
            claim = self.advance(claim)

    def park(self, claim: Claim, *, at: str) -> None:
        """Moves a document to a gate, where it is parked."""
        assert self.commit(self.forward(claim, state="paused", reason=waits_at(at))) == [ACCEPTED]

    def ending(self, claim: Claim, *, state: State = "waiting", verb: Any = "fail", **more: Any) -> Ending:
        """Makes an ending of a claim; a failed attempt unless told otherwise."""
        return Ending(claim, "ann", state, verb, **more)

    def give_back(self, claim: Claim, **more: Any) -> bool:
        """Ends a claim without a move."""
        (held,) = self.store.give_back([self.ending(claim, **more)])
        return held

    def bury(self, claim: Claim) -> None:
        """Makes a held document a dead letter."""
        assert self.give_back(claim, state="dead", failure=Failure("ValueError", "not a page"))

    def reclaim(self, *, verdict: Verdict = waits, gone: Sequence[int] = ()) -> list[Standing]:
        """Takes documents from workers that are gone."""
        return self.store.reclaim(self.plan, who="bob", verdict=verdict, gone=gone)

    def crash(self, *, times: int = 1) -> None:
        """Claims what is due, and loses the worker, again and again."""
        for _ in range(times):
            victim = self.enlist("victim")
            if not self.claim(worker=victim):
                self.store.claim_suspect(self.plan, victim)
            self.reclaim(gone=[victim.id])

    def standing(self, key: str = "a", *, batch: str = "march") -> Standing:
        """Tells where a document stands."""
        return self.store.standing(self.plan.pipeline, batch, key)

    def balance(self, batch: str | None = None) -> Balance:
        """Counts documents by state."""
        return self.store.balance(self.plan.pipeline, batch)

    def items(self, claim: Claim) -> list[tuple[str, int, str | bytes]]:
        """Gives all that is kept for a document."""
        return list(self.store.items(claim.document_id))

    def verbs(self, claim: Claim) -> list[str]:
        """Gives the verbs in a document's journal."""
        return [entry.verb for entry in self.store.journal(claim.document_id)]

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs SQL of one's own in the database of the store, as one transaction. Gives the last rows."""
        with self.store.transaction() as tx:
            for statement in statements:
                cursor = tx.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


def writes(text: str) -> Effect:
    """Makes an effect that writes one row into the table `notes`."""

    def effect(tx: Tx) -> None:
        tx.execute(f"insert into notes (text) values ('{text}')")  # noqa: S608

    return effect


def breaks(tx: Tx) -> None:
    """The effect that fails."""
    tx.execute("insert into notes (text) values ('half')")
    raise RuntimeError("the effect is broken")


class Conformance:
    """The fixtures of the suite. A store's own class gives `open_store`, and overrides `forbidden` where needed."""

    forbidden: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)
    """What the store raises for what a CHECK constraint forbids."""

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        """Writes columns of a document as no verb would: past all constraints that a person can get past."""
        pytest.skip(f"override corrupt() to damage document {document_id} of {store.url} with {columns}")

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The clock of every store that a test opens."""
        return ManualClock()

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Gives a function that opens the database of this test; every call opens it again, with the same clock."""
        raise NotImplementedError(
            "override the fixture open_store: def open_store(self, tmp_path, clock): "
            'return lambda: MyStore(f"my://{tmp_path}/test.db", clock=clock)'
        )

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[Store]:
        """The store of a test."""
        store = open_store()
        yield store
        store.close()

    @pytest.fixture
    def other(self, open_store: OpenStore, store: Store) -> Iterator[Store]:
        """The same database, opened by somebody else."""
        other = open_store()
        yield other
        if other is not store:
            other.close()

    @pytest.fixture(autouse=True)
    def nothing_disappears(self, store: Store) -> Iterator[None]:
        """After every test: each batch has the documents that it expects."""
        yield
        for pipeline in store.pipelines():
            for batch in store.batches(pipeline):
                assert batch.balance.balances, f"{pipeline}/{batch.name} does not balance: {batch.balance}"
                assert batch.balance == store.balance(pipeline, batch.name)
                assert sum(batch.at_step.values()) == batch.balance.open

    @pytest.fixture
    def desk(self, store: Store, clock: ManualClock) -> Desk:
        """A store with the pipeline `papers` and the worker ann."""
        return Desk(store, clock)

    @pytest.fixture
    def gated(self, store: Store, clock: ManualClock) -> Desk:
        """A store with the pipeline `reviews`: read, the gate review, file, the gate sign."""
        return Desk(store, clock, REVIEWS)

    @pytest.fixture
    def notes(self, desk: Desk) -> Callable[[], list[str]]:
        """A table `notes` for effects to write into; gives what it holds."""
        desk.sql("create table notes (text varchar(20) not null)")
        return lambda: [row[0] for row in desk.sql("select text from notes order by text")]
