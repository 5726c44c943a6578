"""Effects that end their transaction, in a worker with many documents: nobody else is done without rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast.stores.protocol import Store

COUNT = 40


@pytest.fixture
def store(any_store: Store) -> Store:
    with any_store.transaction() as tx:
        tx.execute("create table kept (key text)")
    return any_store


def _commit(connection: Any, _run: Callable[[str], Any]) -> None:
    connection.commit()


def _commit_and_begin(_connection: Any, run: Callable[[str], Any]) -> None:
    run("commit; begin")


def _roll_back_and_begin(_connection: Any, run: Callable[[str], Any]) -> None:
    run("rollback; begin")


def _pipeline(end: Callable[[Any, Callable[[str], Any]], None], *, good: bool) -> holdfast.Pipeline:
    """Return a pipeline whose effect ends its transaction, for every third document or for all."""
    papers = holdfast.Pipeline("papers")

    @papers.step
    def read(doc: holdfast.Document) -> int:
        return int(doc.payload)

    @read.effect
    def keep(tx: holdfast.Tx, doc: holdfast.Document, number: int) -> None:
        mark = "?" if tx.dialect == "sqlite" else "%s"
        cursor = tx.execute(f"insert into kept values ({mark})", (doc.key,))
        if good and number % 3:
            return
        connection = cursor.connection
        with suppress(Exception):
            end(connection, connection.executescript if tx.dialect == "sqlite" else connection.execute)

    return papers


@pytest.mark.parametrize("end", [_commit, _commit_and_begin, _roll_back_and_begin])
@pytest.mark.parametrize("good", [True, False], ids=["some", "all"])
def test_no_document_is_done_without_its_rows(store: Store, end: Any, good: bool) -> None:
    papers = _pipeline(end, good=good)
    documents = [(f"{number:02}", number) for number in range(COUNT)]
    holdfast.submit(papers, store, batch="b", documents=documents)
    report = holdfast.drain(papers, store)
    fine = [key for key, number in documents if good and number % 3]
    assert (report.done, report.dead) == (len(fine), COUNT - len(fine))
    with store.reading() as tx:
        assert [row[0] for row in tx.execute("select key from kept order by key").fetchall()] == fine
    dead = store.documents("papers", state="dead", limit=COUNT)
    assert {document.error for document in dead} == {"TransactionEnded"}
    assert all("the effect 'keep' of step 'read'" in document.reason for document in dead)
    assert {document.attempts for document in dead} == {1}
