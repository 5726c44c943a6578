"""The fixtures and helpers of the conformance suite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model import (
    Balance,
    Checkpoint,
    Claim,
    DocumentStatus,
    Failure,
    Item,
    NewDocument,
    State,
    SubmitResult,
    WorkerRecord,
)
from holdfast.core.moves import ACCEPTED, CommitResult, Effect, Move, Release, Tx
from holdfast.core.plan import Shape, StepShape
from holdfast.core.reasons import AT_GATE, sentence
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.stores.protocol import NO_DEATHS, OrphanCounts, OrphanDecision, OrphanVerdict, Store
from holdfast.testing.clock import ManualClock

OpenStore = Callable[[], Store]
"""A function that opens the database of a test. Every call opens it again."""

SEGFAULT = WorkerDeath("signal", "SIGSEGV", traceback="Fatal Python error: Segmentation fault")
"""The death of a worker for which there is evidence."""
LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)

PAPERS = Shape(
    "papers",
    (StepShape("extract", "stream"), StepShape("chunk", "stream"), StepShape("embed", "over", over="chunk")),
)
REVIEWS = Shape(
    "reviews",
    (StepShape("read", "value"), StepShape("review", "gate"), StepShape("file", "value"), StepShape("sign", "gate")),
)


def papers(*steps: str | StepShape, **renamed: str) -> Shape:
    """Return a shape of the pipeline `papers`. A step that is only a name is a stream."""
    return Shape(
        "papers", tuple(StepShape(step, "stream") if isinstance(step, str) else step for step in steps), renamed
    )


def waits(_: OrphanCounts) -> OrphanVerdict:
    """Return the verdict that lets every orphan wait, due at once."""
    return OrphanVerdict("waiting")


def dies(_: OrphanCounts) -> OrphanVerdict:
    """Return the verdict that makes every orphan a dead letter."""
    return OrphanVerdict("dead")


def after(claim: Claim, move: Move) -> Claim:
    """Return the claim as its worker holds it after a move."""
    return replace(claim, checkpoint=move.after, attempts=1, crashes=0)


class StoreHarness:
    """A store with one pipeline and one worker, and short calls for what tests do often."""

    def __init__(self, store: Store, clock: ManualClock, shape: Shape = PAPERS) -> None:
        self.store = store
        self.clock = clock
        self.shape = shape
        self.plan = store.declare(shape)
        self.worker = self.register_worker("ann")
        self._submissions = 0

    def register_worker(self, name: str, *, lease: timedelta = LEASE, host: str = "here") -> WorkerRecord:
        """Register one more worker."""
        return self.store.register_worker(name=name, host=host, pid=1, born="today", lease=lease)

    def submit(
        self, *keys: str, batch: str = "march", payload: Any = None, fingerprint: str = "", priority: int = 0
    ) -> SubmitResult:
        """Submit documents by key. Each call is a submission of its own."""
        self._submissions += 1
        documents = [NewDocument(key, payload, fingerprint, priority) for key in keys]
        return self.store.submit(self.plan, batch, documents, submission=self._submissions, part=0)

    def claim(self, *, limit: int = 100, worker: WorkerRecord | None = None, **more: Any) -> list[Claim]:
        """Claim documents that are due."""
        return self.store.claim(self.plan, worker or self.worker, limit=limit, **more)

    def claim_one(self, *, worker: WorkerRecord | None = None, **more: Any) -> Claim:
        """Claim one document. One has to be due."""
        (claim,) = self.claim(limit=1, worker=worker, **more)
        return claim

    def submit_and_claim(self, key: str = "a", **more: Any) -> Claim:
        """Submit one document and claim it."""
        self.submit(key, **more)
        return self.claim_one()

    def keys_claimed(self, **more: Any) -> list[str]:
        """Claim documents that are due and return their keys."""
        return [claim.key for claim in self.claim(**more)]

    def forward(self, claim: Claim, **more: Any) -> Move:
        """Return the move to the next step. At the last step, the move finishes the document."""
        at, names = claim.checkpoint, list(self.plan.step_ids)
        later = names[names.index(at.step or "") + 1 :]
        to = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
        return Move(claim, at, to, **{"state": "running" if later else "done"} | more)

    def within(self, claim: Claim, cursor: Any, **more: Any) -> Move:
        """Return a move to a later cursor of the same step."""
        at = claim.checkpoint
        return Move(claim, at, Checkpoint(at.generation, at.step, cursor, at.moves + 1), **more)

    def commit(self, *moves: Move) -> list[CommitResult]:
        """Commit moves in one group."""
        return self.store.commit(self.plan, moves)

    def advance(self, claim: Claim, **more: Any) -> Claim:
        """Commit the move to the next step and return the claim after it."""
        move = self.forward(claim, **more)
        assert self.commit(move) == [ACCEPTED]
        return after(claim, move)

    def keep(self, claim: Claim, *values: str | bytes, start: int = 0) -> Claim:
        """Commit items of the present step without leaving it."""
        name = claim.checkpoint.step or ""
        items = [Item(name, start + place, value) for place, value in enumerate(values)]
        move = self.within(claim, start + len(values), items=items)
        assert self.commit(move) == [ACCEPTED]
        return after(claim, move)

    def finish(self, claim: Claim) -> None:
        """Move a document through its remaining steps until it is done."""
        while claim.checkpoint.step is not None:
            claim = self.advance(claim)

    def park(self, claim: Claim, *, at: str) -> None:
        """Move a document to a gate, where it is parked."""
        assert self.commit(self.forward(claim, state="paused", reason=sentence(AT_GATE, gate=at), code=AT_GATE)) == [
            ACCEPTED
        ]

    def pass_gate(self, claim: Claim, *, at: str) -> Claim:
        """Move a document to a gate, let a person approve it, and claim it again after the gate."""
        self.park(claim, at=at)
        assert self.store.resume(self.plan, [claim.document_id], who="cat", reason="good")
        return self.claim_one(which=claim.document_id)

    def a_release(self, claim: Claim, *, state: State = "waiting", verb: Any = "fail", **more: Any) -> Release:
        """Return a release of a claim; by default, of a failed attempt."""
        return Release(claim, "ann", state, verb, **more)

    def release(self, claim: Claim, **more: Any) -> bool:
        """Release a claim without a move. Return False if the claim was lost."""
        (held,) = self.store.release([self.a_release(claim, **more)])
        return held

    def make_dead(self, claim: Claim) -> None:
        """Make a claimed document a dead letter."""
        assert self.release(claim, state="dead", failure=Failure("ValueError", "not a page"))

    def reclaim(
        self,
        *,
        decide: OrphanDecision = waits,
        gone: Sequence[int] = (),
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        """Return the claims of dead workers."""
        return self.store.reclaim(self.plan, who="bob", decide=decide, gone=gone, deaths=deaths)

    def crash(self, *, times: int = 1) -> None:
        """Claim documents that are due, and let the worker crash, with evidence, the given number of times."""
        self._lose_worker(SEGFAULT, times)

    def lose(self, *, times: int = 1) -> None:
        """Claim documents that are due, and lose the worker without evidence, the given number of times."""
        self._lose_worker(UNKNOWN_DEATH, times)

    def _lose_worker(self, death: WorkerDeath, times: int) -> None:
        for _ in range(times):
            victim = self.register_worker("victim")
            if not self.claim(worker=victim):
                self.store.claim(self.plan, victim, limit=1, which="suspect")
            self.reclaim(gone=[victim.id], deaths={victim.id: death})

    def document(self, key: str = "a", *, batch: str = "march") -> DocumentStatus:
        """Return the status of a document."""
        return self.store.document(self.plan.pipeline, batch, key)

    def balance(self, batch: str | None = None) -> Balance:
        """Return how many documents are in each state."""
        return self.store.balance(self.plan.pipeline, batch)

    def items(self, claim: Claim) -> list[tuple[str, int, str | bytes]]:
        """Return all items that are kept for a document."""
        return list(self.store.items(claim.document_id))

    def verbs(self, claim: Claim) -> list[str]:
        """Return the verbs in a document's journal."""
        return [entry.verb for entry in self.store.journal(claim.document_id)]

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in the store's database, as one transaction. Return the rows of the last one."""
        with self.store.transaction() as tx:
            for statement in statements:
                cursor = tx.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


def writes(text: str) -> Effect:
    """Return an effect that writes one row into the table `notes`."""

    def effect(tx: Tx) -> None:
        tx.execute(f"insert into notes (text) values ('{text}')")  # noqa: S608

    return effect


def breaks(tx: Tx) -> None:
    """An effect that fails after it wrote a row."""
    tx.execute("insert into notes (text) values ('half')")
    raise RuntimeError("the effect is broken")


class Conformance:
    """The fixtures of the suite. The test class of a store overrides `open_store`, and the others where needed.

    Example:
        class TestMyStore(StoreConformance):
            forbidden = (mydb.IntegrityError,)

            @pytest.fixture
            def open_store(self, tmp_path, clock):
                return lambda: MyStore(f"my://{tmp_path}/test.db", clock=clock)

            def corrupt(self, store, document_id, **columns):
                for column, value in columns.items():
                    mydb.connect(store.url).execute(f"update hf_document set {column} = ? where id = ?", ...)
    """

    forbidden: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)
    """The exceptions that the store raises when a CHECK constraint is violated."""

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        """Damage the row of a document: write values that no verb would write, without checks of foreign keys.

        Tests that need it are skipped unless the test class overrides it.

        Args:
            store: The store of the test.
            document_id: The document.
            **columns: The new values, by column of `hf_document`.
        """
        pytest.skip(f"override corrupt() to damage document {document_id} of {store.url} with {columns}")

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The clock of every store that a test opens."""
        return ManualClock()

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return a function that opens the database of this test. Every call opens it again, with the same clock."""
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
        """The same database, opened a second time."""
        other = open_store()
        yield other
        if other is not store:
            other.close()

    @pytest.fixture(autouse=True)
    def nothing_disappears(self, store: Store) -> Iterator[None]:
        """After every test: check that each batch has the documents that it expects."""
        yield
        for pipeline in store.pipelines():
            for batch in store.batches(pipeline):
                assert batch.balance.balances, f"{pipeline}/{batch.name} does not balance: {batch.balance}"
                assert batch.balance == store.balance(pipeline, batch.name)
                assert sum(batch.at_step.values()) == batch.balance.open

    @pytest.fixture
    def harness(self, store: Store, clock: ManualClock) -> StoreHarness:
        """A harness with the pipeline `papers` and the worker ann."""
        return StoreHarness(store, clock)

    @pytest.fixture
    def gated(self, store: Store, clock: ManualClock) -> StoreHarness:
        """A harness with the pipeline `reviews`: read, the gate review, file, the gate sign."""
        return StoreHarness(store, clock, REVIEWS)

    @pytest.fixture
    def notes(self, harness: StoreHarness) -> Callable[[], list[str]]:
        """Create a table `notes` for effects to write into. Return a function that reads its rows."""
        harness.sql("create table notes (text varchar(20) not null)")
        return lambda: [row[0] for row in harness.sql("select text from notes order by text")]
