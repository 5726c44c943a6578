"""Submits that join the transaction of a caller: the documents are there if the caller commits, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from holdfast.core.errors import BatchSealed, DuplicateKey, HoldfastError
from holdfast.core.model import NewDocument, SubmitResult
from holdfast.core.plan import Shape
from holdfast.testing.conformance.base import PAPERS, Conformance, StoreHarness

Connect = Callable[[], Any]
Notes = Callable[[], list[str]]


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
