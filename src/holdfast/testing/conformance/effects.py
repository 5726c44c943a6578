"""Effects: they commit with the move or not at all, and leave nothing behind in their session."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from sqlite3 import OperationalError
from typing import Any

import pytest

from holdfast.core.errors import BodyError, StoreError, StoreGone
from holdfast.core.model import Item
from holdfast.core.moves import ACCEPTED, LOST, Accepted, CommitResult, Effect, Refused, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import Conformance, StoreHarness, breaks, writes

Notes = Callable[[], list[str]]


def _refused(answers: list[CommitResult]) -> list[bool]:
    return [isinstance(answer, Refused) for answer in answers]


def writes_and_commits(tx: Tx) -> None:
    """An effect that commits the transaction by itself."""
    tx.execute("insert into notes (text) values ('half')")
    tx.execute("commit")


class EffectConformance(Conformance):
    """Tests of commit with effects, and of transaction and reading."""

    def test_an_effects_rows_commit_with_the_checkpoint(self, harness: StoreHarness, notes: Notes) -> None:
        harness.advance(harness.submit_and_claim(), effect=writes("a"))
        assert notes() == ["a"]

    def test_a_failing_effect_is_refused_and_nothing_of_its_move_is_written(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        claim = harness.submit_and_claim()
        (answer,) = harness.commit(harness.forward(claim, effect=breaks, items=[Item("extract", 0, "1")]))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, RuntimeError)
        assert str(answer.error) == "the effect is broken"
        assert notes() == []
        assert harness.items(claim) == []
        assert harness.document().checkpoint.moves == 0

    def test_an_effect_that_raises_system_exit_is_refused(self, harness: StoreHarness, notes: Notes) -> None:
        def leave(_tx: Tx) -> None:
            raise SystemExit(0)

        harness.submit("a", "b")
        a, b = harness.claim()
        answers = harness.commit(harness.forward(a, effect=leave), harness.forward(b, effect=writes("b")))
        assert _refused(answers) == [True, False]
        assert notes() == ["b"]

    def test_an_error_of_another_store_in_an_effect_is_that_documents_error(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        def look_elsewhere(_tx: Tx) -> None:
            raise StoreGone("sqlite:////nowhere/else.db cannot be opened")

        harness.submit("a", "b")
        a, b = harness.claim()
        answers = harness.commit(harness.forward(a, effect=look_elsewhere), harness.forward(b, effect=writes("b")))
        assert _refused(answers) == [True, False]
        assert isinstance(answers[0], Refused)
        assert "else.db" in str(answers[0].error)
        assert notes() == ["b"]

    def test_a_document_with_a_refused_effect_is_still_claimed(self, harness: StoreHarness, notes: Notes) -> None:
        claim = harness.submit_and_claim()
        harness.commit(harness.forward(claim, effect=breaks))
        assert harness.document().holder == "ann"
        harness.advance(claim, effect=writes("second try"))
        assert notes() == ["second try"]

    @pytest.mark.parametrize("bad", range(4))
    def test_a_group_with_one_failing_effect_refuses_that_one_and_commits_the_rest(
        self, harness: StoreHarness, notes: Notes, bad: int
    ) -> None:
        harness.submit(*"abcd")
        claims = harness.claim()
        effects = [breaks if place == bad else writes(claim.key) for place, claim in enumerate(claims)]
        answers = harness.commit(
            *(harness.forward(claim, effect=effect) for claim, effect in zip(claims, effects, strict=True))
        )
        assert _refused(answers) == [place == bad for place in range(4)]
        assert notes() == [key for place, key in enumerate("abcd") if place != bad]

    def test_a_group_with_many_failing_effects_refuses_each(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit(*"abcdefg")
        claims = harness.claim()
        moves = [harness.forward(one, effect=breaks if one.key in "bcg" else writes(one.key)) for one in claims]
        assert _refused(harness.commit(*moves)) == [key in "bcg" for key in "abcdefg"]
        assert notes() == ["a", "d", "e", "f"]

    def test_a_group_where_every_effect_fails_moves_nothing(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit(*"abc")
        answers = harness.commit(*(harness.forward(claim, effect=breaks) for claim in harness.claim()))
        assert _refused(answers) == [True, True, True]
        assert notes() == []
        assert harness.store.batches("papers")[0].at_step == {"extract": 3}

    def test_a_lost_move_runs_no_effect(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.cancel([first.document_id], who="ann", reason="no")
        moves = [harness.forward(first, effect=writes("lost")), harness.forward(second, effect=writes("kept"))]
        assert harness.commit(*moves) == [LOST, ACCEPTED]
        assert notes() == ["kept"]

    def test_a_group_may_have_lost_failing_and_accepted_moves(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit(*"abcde")
        claims = harness.claim()
        for lost in (0, 3):
            harness.store.cancel([claims[lost].document_id], who="ann", reason="no")
        moves = [harness.forward(one, effect=breaks if one.key == "c" else writes(one.key)) for one in claims]
        answers = harness.commit(*moves)
        assert [type(answer).__name__ for answer in answers] == ["Lost", "Accepted", "Refused", "Lost", "Accepted"]
        assert notes() == ["b", "e"]

    def test_the_same_move_runs_its_effect_once(self, harness: StoreHarness, notes: Notes) -> None:
        move = harness.forward(harness.submit_and_claim(), effect=writes("once"))
        assert harness.commit(move) == [ACCEPTED]
        assert harness.commit(move) == [LOST]
        assert notes() == ["once"]

    def test_an_effect_of_a_stale_claim_writes_nothing(self, harness: StoreHarness, notes: Notes) -> None:
        stale = harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(stale, effect=writes("stale"))) == [LOST]
        harness.worker = harness.register_worker("cat")
        assert notes() == []

    def test_an_effect_sees_what_it_wrote(self, harness: StoreHarness, notes: Notes) -> None:
        seen = []

        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('mine')")
            seen.extend(tx.execute("select text from notes").fetchall())

        harness.advance(harness.submit_and_claim(), effect=effect)
        assert [row[0] for row in seen] == ["mine"]
        assert notes() == ["mine"]

    def test_an_effect_may_create_its_own_table(self, harness: StoreHarness) -> None:
        harness.advance(harness.submit_and_claim(), effect=lambda tx: tx.execute("create table mine (id integer)"))
        assert harness.sql("select count(*) from mine") == [(0,)]

    def test_a_table_created_by_a_failing_effect_is_rolled_back(self, harness: StoreHarness) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("create table mine (id integer)")
            raise RuntimeError

        claim = harness.submit_and_claim()
        assert _refused(harness.commit(harness.forward(claim, effect=effect))) == [True]
        harness.advance(claim, effect=lambda tx: tx.execute("create table mine (id integer)"))

    def test_an_effect_may_write_many_rows(self, harness: StoreHarness, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.executemany("insert into notes (text) values (?)", (one for one in [("x",), ("y",)]))
            tx.executemany("insert into notes (text) values (:text)", [{"text": "z"}])
            tx.executemany("insert into notes (text) values (?)", [])

        harness.advance(harness.submit_and_claim(), effect=effect)
        assert notes() == ["x", "y", "z"]

    def test_placeholders_are_the_same_on_all_databases(self, harness: StoreHarness, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values (?)", ("a?b:c%s",))
            tx.execute("insert into notes (text) select ? where 'a%' like ? /* ? :no */", ["b", "_%"])
            tx.execute("insert into notes (text) values (:text || ':text?') -- :other", {"text": "c", "other": 1})

        harness.advance(harness.submit_and_claim(), effect=effect)
        assert notes() == ["a?b:c%s", "b", "c:text?"]

    def test_the_connection_of_the_driver_is_in_the_transaction_of_the_effect(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        def effect(tx: Tx) -> None:
            tx.connection.execute("insert into notes (text) values ('a')")
            if len(tx.execute("select text from notes").fetchall()) != 2:
                raise RuntimeError("it is another transaction")
            breaks(tx)

        harness.submit("a", "b")
        answers = harness.commit(
            *(harness.forward(one, effect=effect if one.key == "b" else writes("b")) for one in harness.claim())
        )
        assert _refused(answers) == [False, True]
        assert isinstance(answers[1], Refused)
        assert str(answers[1].error) == "the effect is broken"
        assert notes() == ["b"]

    def test_wrong_sql_in_an_effect_is_that_documents_error(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        wrong = harness.forward(first, effect=lambda tx: tx.execute("insert into nowhere values (1)"))
        assert _refused(harness.commit(wrong, harness.forward(second, effect=writes("b")))) == [True, False]
        assert notes() == ["b"]

    def test_a_broken_constraint_in_an_effect_is_that_documents_error(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        wrong = harness.forward(first, effect=lambda tx: tx.execute("insert into notes (text) values (null)"))
        answers = harness.commit(harness.forward(second, effect=writes("b")), wrong)
        assert _refused(answers) == [False, True]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, self.forbidden)
        assert notes() == ["b"]

    @pytest.mark.parametrize("error", [PermissionError(13, "no"), OSError(28, "full"), KeyError("x"), TimeoutError()])
    def test_an_error_of_any_kind_in_an_effect_is_that_documents_error(
        self, harness: StoreHarness, error: Exception
    ) -> None:
        def effect(_tx: Tx) -> None:
            raise error

        assert harness.commit(harness.forward(harness.submit_and_claim(), effect=effect)) == [Refused(error)]

    @pytest.mark.parametrize("how", ["commit", "COMMIT", " end", "rollback", "/* now */ commit;", "-- well\ncommit"])
    def test_an_effect_that_ends_the_transaction_is_refused(
        self, harness: StoreHarness, notes: Notes, how: str
    ) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('half')")
            tx.execute(how)

        claim = harness.submit_and_claim()
        (answer,) = harness.commit(harness.forward(claim, effect=effect))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, BodyError)
        assert notes() == []
        harness.advance(claim)

    def test_an_effect_that_ends_the_transaction_does_not_affect_its_group(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        harness.submit(*"abc")
        a, b, c = harness.claim()
        moves = [
            harness.forward(a, effect=writes("a")),
            harness.forward(b, effect=lambda tx: tx.execute("commit")),
            harness.forward(c, effect=writes("c")),
        ]
        assert _refused(harness.commit(*moves)) == [False, True, False]
        assert notes() == ["a", "c"]
        assert harness.document("b").checkpoint.moves == 0

    def test_an_effect_may_use_savepoints(self, harness: StoreHarness, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('before')")
            tx.execute("savepoint here")
            tx.execute("insert into notes (text) values ('undone')")
            tx.execute("rollback to savepoint here")
            tx.execute("release savepoint here")

        harness.advance(harness.submit_and_claim(), effect=effect)
        assert notes() == ["before"]

    def test_an_effect_that_violates_a_foreign_key_is_refused(self, harness: StoreHarness) -> None:
        harness.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer not null references authors (id))",
            "insert into authors values (1)",
        )
        harness.submit("a", "b")
        first, second = harness.claim()
        answers = harness.commit(
            harness.forward(first, effect=lambda tx: tx.execute("insert into books values (1)")),
            harness.forward(second, effect=lambda tx: tx.execute("insert into books values (7)")),
        )
        assert answers[0] == ACCEPTED
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, self.forbidden)
        assert harness.sql("select author from books") == [(1,)]

    def test_a_deferred_constraint_refuses_its_move_and_commits_the_rest(self, harness: StoreHarness) -> None:
        harness.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer references authors (id) deferrable initially deferred)",
        )
        harness.submit(*"abcd")
        claims = harness.claim()
        moves = [harness.forward(claim) for claim in claims]
        moves[1] = harness.forward(claims[1], effect=lambda tx: tx.execute("insert into books values (7)"))
        answers = harness.commit(*moves)
        assert _refused(answers) == [False, True, False, False]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, self.forbidden)
        assert [harness.document(key).checkpoint.moves for key in "abcd"] == [1, 0, 1, 1]
        assert harness.sql("select count(*) from books") == [(0,)]

    def test_a_transaction_is_committed_at_its_end(self, harness: StoreHarness, other: Store) -> None:
        with harness.store.transaction() as tx:
            tx.execute("create table mine (id integer)")
            tx.execute("insert into mine values (1)")
        with other.transaction() as tx:
            assert list(map(tuple, tx.execute("select id from mine").fetchall())) == [(1,)]

    def test_a_reading_transaction_sees_one_moment_and_waits_for_no_writer(
        self, harness: StoreHarness, other: Store, notes: Notes
    ) -> None:
        harness.sql("insert into notes (text) values ('before')")
        assert notes() == ["before"]
        with other.reading() as looking:
            question = "select text from notes"
            assert list(map(tuple, looking.execute(question).fetchall())) == [("before",)]
            if other is not harness.store:  # in memory all is behind one lock
                harness.sql("insert into notes (text) values ('meanwhile')")
            assert list(map(tuple, looking.execute(question).fetchall())) == [("before",)]

    def test_a_reading_transaction_cannot_write(self, harness: StoreHarness, notes: Notes) -> None:
        with pytest.raises((StoreError, OperationalError)), harness.store.reading() as tx:
            tx.execute("insert into notes (text) values ('a')")
        assert notes() == []
        harness.submit("a")

    def test_a_transaction_is_rolled_back_by_an_error(self, harness: StoreHarness, notes: Notes) -> None:
        with pytest.raises(RuntimeError), harness.store.transaction() as tx:
            breaks(tx)
        assert notes() == []

    def test_a_transaction_cannot_be_ended_from_inside(self, harness: StoreHarness, notes: Notes) -> None:
        with pytest.raises(BodyError), harness.store.transaction() as tx:
            writes_and_commits(tx)
        assert notes() == []

    def test_an_interruption_in_an_effect_rolls_back_the_group(self, harness: StoreHarness, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('half')")
            raise KeyboardInterrupt

        harness.submit("a", "b")
        first, second = harness.claim()
        with pytest.raises(KeyboardInterrupt):
            harness.commit(harness.forward(first, effect=writes("a")), harness.forward(second, effect=effect))
        assert notes() == []
        assert [harness.document(key).checkpoint.moves for key in "ab"] == [0, 0]
        harness.advance(first)


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
    "set_trace_callback": lambda connection: connection.set_trace_callback(print),
    "create_function": lambda connection: connection.create_function("JSON_EXTRACT", 2, lambda *_: "spoiled"),
    "create_aggregate": lambda connection: connection.create_aggregate("max", 1, _Spoiled),
    "create_window_function": lambda connection: connection.create_window_function("count", 0, _Spoiled),
    "create_collation": lambda connection: connection.create_collation("nocase", lambda *_: 0),
}
"""Methods of a connection of SQLite that change it for everybody."""


class _Spoiled:
    """An aggregate that returns nothing."""

    def step(self, *_values: Any) -> None: ...

    def finalize(self) -> None: ...


def leaves(left: str) -> Effect:
    """Return an effect that leaves something behind, by its name in LEFT_BEHIND."""

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
        effects = [writes("a"), leaves(left), writes("c"), leaves(left), writes("e"), writes("f")]
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
