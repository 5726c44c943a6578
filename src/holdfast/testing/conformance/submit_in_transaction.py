"""Submits in a transaction: of an effect (`tx.submit`), or of the connection of a caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest

from holdfast.core.codec import decode_json
from holdfast.core.errors import BatchSealed, BodyError, CannotKeep, DuplicateKey, HoldfastError, StoreReadOnly
from holdfast.core.model import DocumentStatus, NewDocument, SubmitResult
from holdfast.core.moves import LOST, CommitResult, Effect, Refused, Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import Shape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, Conformance, StoreHarness, breaks

Notes = Callable[[], list[str]]

NEW, CHANGED, SAME = SubmitResult(1, 0, 0), SubmitResult(0, 1, 0), SubmitResult(0, 0, 1)


def _pipeline(name: str, *steps: str) -> Pipeline:
    pipeline = Pipeline(name)
    for step in steps:

        def body(doc: Any) -> Any:
            return doc.payload

        body.__name__ = step
        pipeline.step(body)
    return pipeline


ARCHIVE = _pipeline("archive", "store", "seal")


def submits(key: str, payload: Any = None, **how: Any) -> Effect:
    """Return an effect that submits a document to the pipeline `archive`."""

    def effect(tx: Tx) -> None:
        tx.submit(ARCHIVE, key, payload, **how)

    return effect


def _archived(store: Store) -> list[DocumentStatus]:
    return sorted(store.documents("archive", limit=100), key=lambda document: document.key)


def _keys(store: Store) -> list[str]:
    return [document.key for document in _archived(store)]


def _refused(answers: list[CommitResult]) -> list[bool]:
    return [isinstance(answer, Refused) for answer in answers]


class ChainedSubmitConformance(Conformance):
    """Tests of tx.submit."""

    def test_an_effect_submits_a_document_with_its_checkpoint(self, harness: StoreHarness) -> None:
        results: list[SubmitResult] = []

        def effect(tx: Tx) -> None:
            results.append(tx.submit(ARCHIVE, "a/1", {"page": 1}, fingerprint="f", priority=7))

        harness.advance(harness.submit_and_claim(batch="april"), effect=effect)
        (document,) = _archived(harness.store)
        assert results == [NEW]
        assert (document.key, document.batch, document.payload) == ("a/1", "april", {"page": 1})
        assert (document.fingerprint, document.priority, document.state) == ("f", 7, "waiting")
        assert document.checkpoint.step == "store"
        (batch,) = harness.store.batches("archive")
        assert (batch.name, batch.balance.expected, batch.balance.waiting) == ("april", 1, 1)

    def test_a_submitted_document_is_claimed_and_finished_by_its_own_workers(self, harness: StoreHarness) -> None:
        harness.advance(harness.submit_and_claim(), effect=submits("a/1", {"page": 1}))
        archive = StoreHarness(harness.store, harness.clock, ARCHIVE.shape())
        claim = archive.claim_one()
        assert (claim.key, claim.payload) == ("a/1", {"page": 1})
        archive.finish(claim)
        assert harness.store.balance("archive", "march").done == 1

    def test_an_effect_that_fails_submits_nothing(self, harness: StoreHarness, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.submit(ARCHIVE, "a/1")
            breaks(tx)

        claim = harness.submit_and_claim()
        assert _refused(harness.commit(harness.forward(claim, effect=effect))) == [True]
        assert harness.store.pipelines() == ["papers"]
        harness.advance(claim, effect=submits("a/1"))
        assert _keys(harness.store) == ["a/1"]
        assert notes() == []

    def test_a_pipeline_that_was_declared_in_vain_is_declared_again(self, harness: StoreHarness) -> None:
        other = _pipeline("ledger", "store", "seal")

        def effect(tx: Tx) -> None:
            tx.submit(ARCHIVE, "a/1")
            raise RuntimeError

        claim = harness.submit_and_claim()
        assert _refused(harness.commit(harness.forward(claim, effect=effect))) == [True]
        harness.submit("b")
        harness.advance(harness.claim_one(), effect=lambda tx: tx.submit(other, "b/1") and None)  # may get its ids
        harness.advance(claim, effect=submits("a/1"))
        assert _keys(harness.store) == ["a/1"]
        assert [document.key for document in harness.store.documents("ledger", limit=9)] == ["b/1"]

    def test_a_savepoint_that_is_rolled_back_takes_its_submits_along(self, harness: StoreHarness) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("savepoint here")
            tx.submit(ARCHIVE, "undone")
            tx.execute("rollback to savepoint here")
            tx.submit(ARCHIVE, "kept")

        if harness.store.url == "memory://":
            pytest.skip("savepoints of the memory store concern only the rows of effects")
        harness.advance(harness.submit_and_claim(), effect=effect)
        assert _keys(harness.store) == ["kept"]

    @pytest.mark.parametrize("bad", [0, 1, 3])
    def test_a_group_with_one_failing_effect_submits_the_documents_of_the_others(
        self, harness: StoreHarness, notes: Notes, bad: int
    ) -> None:
        harness.submit(*"abcd")
        claims = harness.claim()
        moves = [harness.forward(one, effect=submits(f"{one.key}/1")) for one in claims]

        def submits_and_breaks(tx: Tx) -> None:
            tx.submit(ARCHIVE, "half")
            breaks(tx)

        moves[bad] = harness.forward(claims[bad], effect=submits_and_breaks)
        assert _refused(harness.commit(*moves)) == [place == bad for place in range(4)]
        assert _keys(harness.store) == [f"{key}/1" for place, key in enumerate("abcd") if place != bad]
        assert harness.store.balance("archive", "march").expected == 3
        assert notes() == []

    def test_each_document_of_a_group_submits_to_its_own_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("b", batch="april")
        harness.submit("c", batch="march")
        harness.commit(*(harness.forward(one, effect=submits(f"{one.key}/1")) for one in harness.claim()))
        places = [(document.key, document.batch) for document in _archived(harness.store)]
        assert places == [("a/1", "march"), ("b/1", "april"), ("c/1", "march")]

    def test_a_lost_move_submits_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.cancel([first.document_id], who="ann", reason="no")
        moves = [harness.forward(first, effect=submits("lost")), harness.forward(second, effect=submits("kept"))]
        assert harness.commit(*moves)[0] == LOST
        assert harness.commit(*moves) == [LOST, LOST]
        assert _keys(harness.store) == ["kept"]

    def test_the_same_document_is_unchanged_and_another_payload_changes_it(self, harness: StoreHarness) -> None:
        results: list[SubmitResult] = []

        def effect(tx: Tx) -> None:
            results.extend(tx.submit(ARCHIVE, "a/1", payload) for payload in (1, 1, 2))

        claim = harness.advance(harness.submit_and_claim(), effect=effect)
        assert results == [NEW, SAME, CHANGED]
        harness.advance(claim, effect=lambda tx: results.append(tx.submit(ARCHIVE, "a/1", 2)))
        assert results[3:] == [SAME]
        (document,) = _archived(harness.store)
        assert (document.payload, document.checkpoint.generation) == (2, 1)
        assert harness.store.balance("archive", "march").expected == 1

    def test_a_document_may_submit_to_its_own_pipeline_and_batch(self, harness: StoreHarness) -> None:
        papers = _pipeline("papers", *PAPERS.names)

        def effect(tx: Tx) -> None:
            tx.submit(papers, "b")

        claim = harness.submit_and_claim()
        harness.commit(harness.forward(claim, effect=effect))
        assert harness.balance("march").expected == 2
        assert harness.document("b").state == "waiting"
        assert harness.document("a").checkpoint.step == "chunk"

    def test_a_document_that_submits_itself_changed_begins_again(self, harness: StoreHarness) -> None:
        papers = _pipeline("papers", *PAPERS.names)
        claim = harness.submit_and_claim()
        harness.commit(harness.forward(claim, effect=lambda tx: tx.submit(papers, "a", {"more": 1}) and None))
        document = harness.document("a")
        assert (document.state, document.checkpoint.generation, document.payload) == ("waiting", 1, {"more": 1})
        assert harness.balance("march").expected == 1

    def test_a_sealed_batch_refuses_the_document_and_the_effect_may_go_on(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        harness.advance(harness.submit_and_claim("a"), effect=submits("a/1"))
        harness.store.seal("archive", "march", who="ann", reason="full")
        seen: list[SubmitResult] = []

        def catches(tx: Tx) -> None:
            seen.append(tx.submit(ARCHIVE, "a/1"))
            with suppress(BatchSealed):
                tx.submit(ARCHIVE, "late")
            tx.submit(ARCHIVE, "late", batch="april")
            tx.execute("insert into notes (text) values ('kept')")

        harness.submit("b", "c")
        first, second = harness.claim()
        answers = harness.commit(
            harness.forward(first, effect=submits("late")), harness.forward(second, effect=catches)
        )
        assert _refused(answers) == [True, False]
        assert isinstance(answers[0], Refused)
        assert isinstance(answers[0].error, BatchSealed)
        assert seen[-1] == SAME
        assert [(document.batch, document.key) for document in _archived(harness.store)] == [
            ("march", "a/1"),
            ("april", "late"),
        ]
        assert notes() == ["kept"]

    def test_a_payload_that_cannot_be_kept_leaves_no_trace(self, harness: StoreHarness) -> None:
        def catches(tx: Tx) -> None:
            with suppress(CannotKeep):
                tx.submit(ARCHIVE, "a/1", {1, 2})
            with suppress(CannotKeep):
                tx.submit(ARCHIVE, "a/1", batch="a\0b")

        harness.advance(harness.submit_and_claim(), effect=catches)
        assert harness.store.pipelines() == ["papers"]

    def test_the_keys_are_in_the_manifest_of_the_batch(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        harness.commit(*(harness.forward(one, effect=submits(f"{one.key}/1")) for one in harness.claim()))
        assert harness.store.missing("archive", "march") == []
        if harness.store.url != "memory://":
            rows = harness.sql("select keys from hf_manifest")
            named = [key for (keys,) in rows for key in (decode_json(keys) if isinstance(keys, str) else keys)]
            assert sorted(named) == ["a", "a/1", "b", "b/1", "c", "c/1"]

    def test_a_transaction_submits_to_the_batch_that_is_named(self, harness: StoreHarness, notes: Notes) -> None:
        with harness.store.transaction() as tx:
            tx.execute("insert into notes (text) values ('mine')")
            assert tx.submit(ARCHIVE, "a/1", batch="april") == NEW
            with pytest.raises(BodyError, match="needs batch="):
                tx.submit(ARCHIVE, "a/2")
        assert _keys(harness.store) == ["a/1"]
        assert notes() == ["mine"]
        with pytest.raises(ZeroDivisionError), harness.store.transaction() as tx:
            _ = tx.submit(ARCHIVE, "a/3", batch="april").new / 0
        assert _keys(harness.store) == ["a/1"]

    def test_a_reading_transaction_submits_nothing(self, harness: StoreHarness) -> None:
        harness.store.declare(ARCHIVE.shape())
        with pytest.raises(StoreReadOnly), harness.store.reading() as tx:
            tx.submit(ARCHIVE, "a/1", batch="april")
        assert _keys(harness.store) == []
        assert harness.submit("a") == NEW

    def test_two_workers_that_submit_to_the_same_batches_submit_each_document_once(
        self, harness: StoreHarness, other: Store
    ) -> None:
        def effect(key: str, batches: str) -> Effect:
            def submit_to_all(tx: Tx) -> None:
                for batch in batches:
                    tx.submit(ARCHIVE, key, batch=batch)

            return submit_to_all

        harness.store.declare(ARCHIVE.shape())
        harness.submit(*"abcdefgh")
        claims = harness.claim()
        answers: list[CommitResult] = []

        def work(store: Store, mine: list[Any], batches: str) -> None:
            moves = [harness.forward(one, effect=effect(one.key, batches)) for one in mine]
            answers.extend(store.commit(harness.plan, moves))

        threads = [
            threading.Thread(target=work, args=(harness.store, claims[:4], "xy")),
            threading.Thread(target=work, args=(other, claims[4:], "xy")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _refused(answers) == [False] * 8
        assert {batch.name: batch.balance.expected for batch in harness.store.batches("archive")} == {"x": 8, "y": 8}


Connect = Callable[[], Any]


def _submit(harness: StoreHarness, connection: Any, *keys: str, payload: Any = None, batch: str = "march") -> Any:
    documents = [NewDocument(key, payload, str(payload)) for key in keys]
    return harness.store.submit_on_connection(connection, PAPERS, batch, [documents])


def _run(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()


class JoinedSubmitConformance(Conformance):
    """Tests of submit_on_connection. The test class of a store overrides `connect`."""

    @pytest.fixture
    def connect(self, harness: StoreHarness) -> Connect:
        """Return a function that opens a connection of the driver to the database of the store, without autocommit."""
        with pytest.raises(HoldfastError):
            _submit(harness, object(), "a")
        pytest.skip(f"nobody else can connect to the database of {harness.store.url}")

    def test_documents_are_there_if_their_caller_commits(
        self, harness: StoreHarness, notes: Notes, connect: Connect
    ) -> None:
        with closing(connect()) as connection:
            _run(connection, "insert into notes (text) values ('mine')")
            assert _submit(harness, connection, "a", "b") == SubmitResult(2, 0, 0)
            assert harness.store.batches("papers") == []
            connection.commit()
        assert notes() == ["mine"]
        assert harness.balance("march").expected == 2
        assert harness.keys_claimed() == ["a", "b"]

    def test_documents_are_not_there_if_their_caller_rolls_back(
        self, harness: StoreHarness, notes: Notes, connect: Connect
    ) -> None:
        with closing(connect()) as connection:
            _run(connection, "insert into notes (text) values ('mine')")
            _submit(harness, connection, "a")
            connection.rollback()
            assert notes() == []
            assert harness.store.batches("papers") == []
            _submit(harness, connection, "b")
            connection.commit()
        assert harness.keys_claimed() == ["b"]

    def test_a_caller_that_goes_away_has_submitted_nothing(self, harness: StoreHarness, connect: Connect) -> None:
        with closing(connect()) as connection:
            _submit(harness, connection, "a")
        harness.submit("b")
        assert harness.keys_claimed() == ["b"]

    def test_an_error_leaves_the_transaction_of_the_caller_as_it_was(
        self, harness: StoreHarness, notes: Notes, connect: Connect
    ) -> None:
        harness.submit("a")
        harness.store.seal("papers", "march", who="ann")
        with closing(connect()) as connection:
            _run(connection, "insert into notes (text) values ('mine')")
            with pytest.raises(BatchSealed):
                _submit(harness, connection, "b")
            with pytest.raises(DuplicateKey):
                _submit(harness, connection, "c", "c", batch="april")
            parts = [[NewDocument("d")], [NewDocument("e")], [NewDocument("d")]]
            with pytest.raises(DuplicateKey):
                harness.store.submit_on_connection(connection, PAPERS, "may", parts)
            connection.commit()
        assert notes() == ["mine"]
        assert [batch.name for batch in harness.store.batches("papers")] == ["march"]

    def test_a_document_that_is_there_is_unchanged_or_changed(self, harness: StoreHarness, connect: Connect) -> None:
        with closing(connect()) as connection:
            assert _submit(harness, connection, "a", payload=1) == SubmitResult(1, 0, 0)
            assert _submit(harness, connection, "a", payload=1) == SubmitResult(0, 0, 1)
            connection.commit()
            assert _submit(harness, connection, "a", payload=2) == SubmitResult(0, 1, 0)
            connection.commit()
        assert harness.document("a").payload == 2
        assert harness.document("a").checkpoint.generation == 1
        assert harness.balance("march").expected == 1

    def test_a_pipeline_is_declared_with_its_first_documents(self, harness: StoreHarness, connect: Connect) -> None:
        shape = Shape("letters", PAPERS.steps)
        with closing(connect()) as connection:
            for end in (connection.rollback, connection.commit):
                harness.store.submit_on_connection(connection, shape, "march", [[NewDocument("a")]])
                end()
        assert [one.key for one in harness.store.documents("letters", limit=10)] == ["a"]
