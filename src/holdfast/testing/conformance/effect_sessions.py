"""What an effect leaves behind in the session or the connection that it is given reaches no other document."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.moves import ACCEPTED, Accepted, Effect, Refused, Tx
from holdfast.testing.conformance.base import Conformance, StoreHarness, writes

Notes = Callable[[], list[str]]

LEFT_BEHIND: dict[str, dict[str, tuple[str, ...]]] = {
    "a temporary table": {
        "sqlite": ("create temporary table notes (text text)", "insert into notes (text) values ('elsewhere')"),
        "postgresql": ("create temporary table notes (text text)", "insert into notes (text) values ('elsewhere')"),
    },
    "a temporary view": {
        "sqlite": ("create temporary view notes as select 1 as text",),
        "postgresql": ("create temporary view notes as select 1 as text",),
    },
    "a trigger": {
        "sqlite": ("create temporary trigger stop before insert on notes begin select raise(abort, 'stopped'); end",),
        "postgresql": ("set session_replication_role = replica",),
    },
    "a session that only reads": {
        "sqlite": ("pragma query_only = on",),
        "postgresql": ("set default_transaction_read_only = on", "set transaction read only"),
    },
    "other settings": {
        "sqlite": ("PRAGMA ignore_check_constraints(on)", "pragma locking_mode = exclusive"),
        "postgresql": ("set search_path = pg_catalog", "set array_nulls = off", "set statement_timeout = '1ms'"),
    },
    "another database": {
        "sqlite": ("attach ':memory:' as other",),
        "postgresql": ("set role pg_read_all_data",),
    },
}
"""By what is left behind and by dialect: the statements of an effect."""


CHANGES: dict[str, Callable[[Any], object]] = {
    "set_authorizer": lambda connection: connection.set_authorizer(None),
    "set_progress_handler": lambda connection: connection.set_progress_handler(lambda: 1, 1),
    "setlimit": lambda connection: connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 30),
}
"""Methods of a connection of SQLite that change it for everybody."""


def _leaves(left: str) -> Effect:
    def effect(tx: Tx) -> None:
        for statement in LEFT_BEHIND[left][tx.dialect]:
            tx.execute(statement)

    return effect


def _set_row_factory(tx: Tx) -> None:
    cursor = tx.execute("select 1")
    factory = (lambda _cursor, _row: None) if tx.dialect == "sqlite" else (lambda _cursor: lambda _values: None)
    cursor.connection.row_factory = factory


class EffectSessionConformance(Conformance):
    """Tests of effects that change the session or the connection that they are given."""

    @pytest.mark.parametrize("left", LEFT_BEHIND)
    def test_what_an_effect_leaves_in_its_session_reaches_no_other_document(
        self, harness: StoreHarness, notes: Notes, left: str
    ) -> None:
        harness.submit(*"abcdef")
        effects = [writes("a"), _leaves(left), writes("c"), _leaves(left), writes("e"), writes("f")]
        claims = harness.claim()
        moves = [harness.forward(claim, effect=effect) for claim, effect in zip(claims, effects, strict=True)]
        answers = harness.commit(*moves)
        assert [answers[place] for place in (0, 2, 4, 5)] == [ACCEPTED] * 4
        assert {type(answers[place]) for place in (1, 3)} <= {Accepted, Refused}
        assert sorted(notes()) == ["a", "c", "e", "f"]
        harness.finish(harness.submit_and_claim("g"))
        assert harness.document("g").state == "done"

    @pytest.mark.parametrize("method", CHANGES)
    def test_an_effect_cannot_change_the_connection_of_others(
        self, harness: StoreHarness, notes: Notes, method: str
    ) -> None:
        def changes(tx: Tx) -> None:
            CHANGES[method](tx.execute("insert into notes (text) values ('b')").connection)

        with harness.store.reading() as tx:
            if tx.dialect != "sqlite":
                pytest.skip("connections of psycopg have no such methods")
        harness.submit(*"abc")
        effects = [writes("a"), changes, writes("c")]
        moves = [harness.forward(claim, effect=each) for claim, each in zip(harness.claim(), effects, strict=True)]
        answers = harness.commit(*moves)
        assert [type(answer) for answer in answers] == [Accepted, Refused, Accepted]
        assert notes() == ["a", "c"]
        harness.finish(harness.submit_and_claim("d"))
        assert harness.document("d").state == "done"

    def test_a_row_factory_that_an_effect_sets_reaches_nobody_else(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit("a", "b")
        one, two = harness.claim()
        moves = [harness.forward(one, effect=_set_row_factory), harness.forward(two, effect=writes("b"))]
        assert harness.commit(*moves) == [ACCEPTED] * 2
        assert notes() == ["b"]
        harness.finish(harness.submit_and_claim("c"))
        assert harness.document("c").state == "done"
