"""Effects that end their transaction on PostgreSQL, also past the cursors and methods that holdfast watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL

from holdfast.core.errors import BodyError, TransactionEnded
from holdfast.core.moves import ACCEPTED, Effect, Refused, Tx
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import StoreHarness


@pytest.fixture
def harness(postgres_url: str) -> Iterator[StoreHarness]:
    store = PostgresStore(postgres_url)
    harness = StoreHarness(store, ManualClock())
    harness.sql("create table notes (text text)")
    yield harness
    store.close()


def notes(harness: StoreHarness) -> list[str]:
    return [text for (text,) in harness.sql("select text from notes order by text")]


def writes(text: str) -> Effect:
    return lambda tx: tx.execute("insert into notes values (%s)", (text,)) and None


def by_connection(statement: Any) -> Effect:
    """Return an effect that runs a statement by the connection of the driver, and passes over its error."""

    def effect(tx: Tx) -> None:
        connection = tx.execute("insert into notes values ('ended')").connection
        with suppress(Exception):  # the effect passes over whatever it gets
            connection.execute(statement)

    return effect


def commit_with(harness: StoreHarness, **effects: Effect) -> dict[str, Any]:
    """Commit documents with these effects in one group. Return the answers by key."""
    harness.submit(*effects)
    moves = [harness.forward(claim, effect=effects[claim.key]) for claim in harness.claim()]
    return dict(zip(effects, harness.commit(*moves), strict=True))


ENDS: list[Any] = [
    "rollback and chain",
    "rollback; begin",
    "/* a note */ abort; start transaction",
    SQL("rollback; begin"),
    b"rollback; begin",
]


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_effects_that_together_begin_and_commit_another_transaction_repeat_no_rows_of_others(
    harness: StoreHarness, end: Any
) -> None:
    answers = commit_with(
        harness, a=writes("a"), b=by_connection(end), c=writes("c"), d=by_connection("commit; begin"), e=writes("e")
    )
    assert [key for key, answer in answers.items() if answer == ACCEPTED] == ["a", "c", "e"]
    assert isinstance(answers["b"], Refused)
    assert isinstance(answers["b"].error, TransactionEnded)
    assert notes(harness) == ["a", "c", "e"]


def test_an_effect_that_closes_all_cursors_and_commits_leaves_no_document_without_rows(harness: StoreHarness) -> None:
    answers = commit_with(harness, a=writes("a"), b=by_connection("close all; commit; begin"), c=writes("c"))
    assert [key for key, answer in answers.items() if answer == ACCEPTED] == ["a", "c"]
    assert notes(harness) == ["a", "c"]


@pytest.mark.parametrize("statement", ["commit; begin", "commit and chain", "rollback; begin", "rollback", "commit"])
def test_the_server_refuses_a_commit_that_is_sent_past_our_cursors(harness: StoreHarness, statement: str) -> None:
    def ends(tx: Tx) -> None:
        cursor = psycopg.ClientCursor(tx.execute("insert into notes values ('ended')").connection)
        with suppress(Exception):  # the effect passes over whatever it gets
            cursor.execute(statement)

    answers = commit_with(harness, a=writes("a"), b=ends, c=writes("c"))
    assert [key for key, answer in answers.items() if answer == ACCEPTED] == ["a", "c"]
    assert isinstance(answers["b"], Refused)
    assert isinstance(answers["b"].error, TransactionEnded)
    assert notes(harness) == ["a", "c"]


@pytest.mark.parametrize("how", ["stream", "copy"])
def test_an_effect_that_leaves_rows_unread_fails_its_document_alone(harness: StoreHarness, how: str) -> None:
    kept: list[Any] = []

    def leaves_rows_unread(tx: Tx) -> None:
        cursor = tx.execute("insert into notes values ('unread')").connection.cursor()
        if how == "stream":
            kept.append(cursor.stream("select generate_series(1, 1000)"))
            next(kept[-1])
        else:
            kept.append(cursor.copy("copy (select generate_series(1, 1000)) to stdout"))
            kept[-1].__enter__()

    answers = commit_with(harness, a=writes("a"), b=leaves_rows_unread, c=writes("c"))
    assert [key for key, answer in answers.items() if answer == ACCEPTED] == ["a", "c"]
    assert isinstance(answers["b"], Refused)
    assert isinstance(answers["b"].error, BodyError)
    assert "unread" in str(answers["b"].error)
    assert notes(harness) == ["a", "c"]


NESTED: dict[str, Callable[[Any], Any]] = {
    "a block": lambda connection: connection.transaction(),
    "a block that is undone": lambda connection: connection.transaction(force_rollback=True),
}


@pytest.mark.parametrize("nested", NESTED)
def test_nested_transactions_of_the_driver_are_part_of_their_own_document(harness: StoreHarness, nested: str) -> None:
    def effect(text: str) -> Effect:
        def writes_nested(tx: Tx) -> None:
            connection = tx.execute("insert into notes values (%s)", (text,)).connection
            with NESTED[nested](connection):
                connection.execute("insert into notes values ('nested')")

        return writes_nested

    for keys in ("abc", "def"):
        answers = commit_with(harness, **{key: effect(key) for key in keys})
        assert set(answers.values()) == {ACCEPTED}
    assert notes(harness) == [*"abcdef", *["nested"] * (6 if nested == "a block" else 0)]
