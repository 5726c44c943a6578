"""Effects: your rows and the checkpoint commit together, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import OperationalError

import pytest

from holdfast.core.errors import BodyError, StoreError, StoreGone
from holdfast.core.model import Item
from holdfast.core.moves import ACCEPTED, LOST, Answer, Refused, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import Conformance, Desk, breaks, writes

Notes = Callable[[], list[str]]


def _refused(answers: list[Answer]) -> list[bool]:
    return [isinstance(answer, Refused) for answer in answers]


def writes_and_commits(tx: Tx) -> None:
    """The effect that ends its transaction."""
    tx.execute("insert into notes (text) values ('half')")
    tx.execute("commit")


class EffectConformance(Conformance):
    """What commit promises for effects."""

    def test_an_effects_rows_commit_with_the_checkpoint(self, desk: Desk, notes: Notes) -> None:
        desk.advance(desk.take_in(), effect=writes("a"))
        assert notes() == ["a"]

    def test_a_failing_effect_is_refused_and_nothing_of_its_move_is_written(self, desk: Desk, notes: Notes) -> None:
        claim = desk.take_in()
        (answer,) = desk.commit(desk.forward(claim, effect=breaks, items=[Item("extract", 0, "1")]))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, RuntimeError)
        assert str(answer.error) == "the effect is broken"
        assert notes() == []
        assert desk.items(claim) == []
        assert desk.standing().checkpoint.moves == 0

    def test_an_effect_that_would_leave_the_program_is_refused_like_any_other(self, desk: Desk, notes: Notes) -> None:
        def leave(_tx: Tx) -> None:
            raise SystemExit(0)

        desk.submit("a", "b")
        a, b = desk.claim()
        answers = desk.commit(desk.forward(a, effect=leave), desk.forward(b, effect=writes("b")))
        assert _refused(answers) == [True, False]
        assert notes() == ["b"]

    def test_the_trouble_of_another_store_is_the_effects_own(self, desk: Desk, notes: Notes) -> None:
        def look_elsewhere(_tx: Tx) -> None:
            raise StoreGone("sqlite:////nowhere/else.db cannot be opened")

        desk.submit("a", "b")
        a, b = desk.claim()
        answers = desk.commit(desk.forward(a, effect=look_elsewhere), desk.forward(b, effect=writes("b")))
        assert _refused(answers) == [True, False]
        assert isinstance(answers[0], Refused)
        assert "else.db" in str(answers[0].error)
        assert notes() == ["b"]

    def test_a_refused_document_is_still_held(self, desk: Desk, notes: Notes) -> None:
        claim = desk.take_in()
        desk.commit(desk.forward(claim, effect=breaks))
        assert desk.standing().holder == "ann"
        desk.advance(claim, effect=writes("second try"))
        assert notes() == ["second try"]

    @pytest.mark.parametrize("bad", range(4))
    def test_a_group_with_one_failing_effect_refuses_that_one_and_commits_the_rest(
        self, desk: Desk, notes: Notes, bad: int
    ) -> None:
        desk.submit(*"abcd")
        claims = desk.claim()
        effects = [breaks if place == bad else writes(claim.key) for place, claim in enumerate(claims)]
        answers = desk.commit(
            *(desk.forward(claim, effect=effect) for claim, effect in zip(claims, effects, strict=True))
        )
        assert _refused(answers) == [place == bad for place in range(4)]
        assert notes() == [key for place, key in enumerate("abcd") if place != bad]

    def test_a_group_with_many_failing_effects_refuses_each(self, desk: Desk, notes: Notes) -> None:
        desk.submit(*"abcdefg")
        claims = desk.claim()
        moves = [desk.forward(one, effect=breaks if one.key in "bcg" else writes(one.key)) for one in claims]
        assert _refused(desk.commit(*moves)) == [key in "bcg" for key in "abcdefg"]
        assert notes() == ["a", "d", "e", "f"]

    def test_a_group_where_every_effect_fails_moves_nothing(self, desk: Desk, notes: Notes) -> None:
        desk.submit(*"abc")
        answers = desk.commit(*(desk.forward(claim, effect=breaks) for claim in desk.claim()))
        assert _refused(answers) == [True, True, True]
        assert notes() == []
        assert desk.store.batches("papers")[0].at_step == {"extract": 3}

    def test_a_lost_move_runs_no_effect(self, desk: Desk, notes: Notes) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.cancel([first.document_id], who="ann", reason="no")
        moves = [desk.forward(first, effect=writes("lost")), desk.forward(second, effect=writes("kept"))]
        assert desk.commit(*moves) == [LOST, ACCEPTED]
        assert notes() == ["kept"]

    def test_a_group_may_have_lost_failing_and_good_moves(self, desk: Desk, notes: Notes) -> None:
        desk.submit(*"abcde")
        claims = desk.claim()
        for lost in (0, 3):
            desk.store.cancel([claims[lost].document_id], who="ann", reason="no")
        moves = [desk.forward(one, effect=breaks if one.key == "c" else writes(one.key)) for one in claims]
        answers = desk.commit(*moves)
        assert [type(answer).__name__ for answer in answers] == ["Lost", "Accepted", "Refused", "Lost", "Accepted"]
        assert notes() == ["b", "e"]

    def test_the_same_move_runs_its_effect_once(self, desk: Desk, notes: Notes) -> None:
        move = desk.forward(desk.take_in(), effect=writes("once"))
        assert desk.commit(move) == [ACCEPTED]
        assert desk.commit(move) == [LOST]
        assert notes() == ["once"]

    def test_an_effect_of_a_stale_claim_writes_nothing(self, desk: Desk, notes: Notes) -> None:
        stale = desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(stale, effect=writes("stale"))) == [LOST]
        desk.worker = desk.enlist("cat")
        assert notes() == []

    def test_an_effect_sees_what_it_wrote(self, desk: Desk, notes: Notes) -> None:
        seen = []

        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('mine')")
            seen.extend(tx.execute("select text from notes").fetchall())

        desk.advance(desk.take_in(), effect=effect)
        assert [row[0] for row in seen] == ["mine"]
        assert notes() == ["mine"]

    def test_an_effect_may_make_its_own_table(self, desk: Desk) -> None:
        desk.advance(desk.take_in(), effect=lambda tx: tx.execute("create table mine (id integer)"))
        assert desk.sql("select count(*) from mine") == [(0,)]

    def test_a_table_made_by_a_failing_effect_is_gone(self, desk: Desk) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("create table mine (id integer)")
            raise RuntimeError

        claim = desk.take_in()
        assert _refused(desk.commit(desk.forward(claim, effect=effect))) == [True]
        desk.advance(claim, effect=lambda tx: tx.execute("create table mine (id integer)"))

    def test_an_effect_may_write_many_rows(self, desk: Desk, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            mark = "?" if tx.dialect == "sqlite" else "%s"
            tx.executemany(f"insert into notes (text) values ({mark})", [("x",), ("y",)])  # noqa: S608

        desk.advance(desk.take_in(), effect=effect)
        assert notes() == ["x", "y"]

    def test_wrong_sql_in_an_effect_is_that_documents_error(self, desk: Desk, notes: Notes) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        wrong = desk.forward(first, effect=lambda tx: tx.execute("insert into nowhere values (1)"))
        assert _refused(desk.commit(wrong, desk.forward(second, effect=writes("b")))) == [True, False]
        assert notes() == ["b"]

    def test_a_broken_constraint_in_an_effect_is_that_documents_error(self, desk: Desk, notes: Notes) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        wrong = desk.forward(first, effect=lambda tx: tx.execute("insert into notes (text) values (null)"))
        answers = desk.commit(desk.forward(second, effect=writes("b")), wrong)
        assert _refused(answers) == [False, True]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, self.forbidden)
        assert notes() == ["b"]

    @pytest.mark.parametrize("error", [PermissionError(13, "no"), OSError(28, "full"), KeyError("x"), TimeoutError()])
    def test_an_error_of_any_kind_in_an_effect_is_that_documents_error(self, desk: Desk, error: Exception) -> None:
        def effect(_tx: Tx) -> None:
            raise error

        assert desk.commit(desk.forward(desk.take_in(), effect=effect)) == [Refused(error)]

    @pytest.mark.parametrize("how", ["commit", "COMMIT", " end", "rollback", "/* now */ commit;", "-- well\ncommit"])
    def test_an_effect_that_ends_the_transaction_is_refused(self, desk: Desk, notes: Notes, how: str) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('half')")
            tx.execute(how)

        claim = desk.take_in()
        (answer,) = desk.commit(desk.forward(claim, effect=effect))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, BodyError)
        assert notes() == []
        desk.advance(claim)

    def test_an_effect_that_ends_the_transaction_harms_nobody_in_its_group(self, desk: Desk, notes: Notes) -> None:
        desk.submit(*"abc")
        a, b, c = desk.claim()
        moves = [
            desk.forward(a, effect=writes("a")),
            desk.forward(b, effect=lambda tx: tx.execute("commit")),
            desk.forward(c, effect=writes("c")),
        ]
        assert _refused(desk.commit(*moves)) == [False, True, False]
        assert notes() == ["a", "c"]
        assert desk.standing("b").checkpoint.moves == 0

    def test_an_effect_may_use_savepoints(self, desk: Desk, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('before')")
            tx.execute("savepoint here")
            tx.execute("insert into notes (text) values ('undone')")
            tx.execute("rollback to savepoint here")
            tx.execute("release savepoint here")

        desk.advance(desk.take_in(), effect=effect)
        assert notes() == ["before"]

    def test_an_effect_cannot_refer_to_what_is_not_there(self, desk: Desk) -> None:
        desk.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer not null references authors (id))",
            "insert into authors values (1)",
        )
        desk.submit("a", "b")
        first, second = desk.claim()
        answers = desk.commit(
            desk.forward(first, effect=lambda tx: tx.execute("insert into books values (1)")),
            desk.forward(second, effect=lambda tx: tx.execute("insert into books values (7)")),
        )
        assert answers[0] == ACCEPTED
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, self.forbidden)
        assert desk.sql("select author from books") == [(1,)]

    def test_a_constraint_that_is_deferred_refuses_its_move_and_commits_the_rest(self, desk: Desk) -> None:
        desk.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer references authors (id) deferrable initially deferred)",
        )
        desk.submit(*"abcd")
        claims = desk.claim()
        moves = [desk.forward(claim) for claim in claims]
        moves[1] = desk.forward(claims[1], effect=lambda tx: tx.execute("insert into books values (7)"))
        answers = desk.commit(*moves)
        assert _refused(answers) == [False, True, False, False]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, self.forbidden)
        assert [desk.standing(key).checkpoint.moves for key in "abcd"] == [1, 0, 1, 1]
        assert desk.sql("select count(*) from books") == [(0,)]

    def test_a_transaction_of_ones_own_is_committed_at_its_end(self, desk: Desk, other: Store) -> None:
        with desk.store.transaction() as tx:
            tx.execute("create table mine (id integer)")
            tx.execute("insert into mine values (1)")
        with other.transaction() as tx:
            assert list(map(tuple, tx.execute("select id from mine").fetchall())) == [(1,)]

    def test_who_only_reads_sees_one_moment_and_waits_for_no_writer(
        self, desk: Desk, other: Store, notes: Notes
    ) -> None:
        desk.sql("insert into notes (text) values ('before')")
        assert notes() == ["before"]
        with other.reading() as looking:
            question = "select text from notes"
            assert list(map(tuple, looking.execute(question).fetchall())) == [("before",)]
            if other is not desk.store:  # in memory all is behind one lock
                desk.sql("insert into notes (text) values ('meanwhile')")
            assert list(map(tuple, looking.execute(question).fetchall())) == [("before",)]

    def test_who_only_reads_cannot_write(self, desk: Desk, notes: Notes) -> None:
        with pytest.raises((StoreError, OperationalError)), desk.store.reading() as tx:
            tx.execute("insert into notes (text) values ('a')")
        assert notes() == []
        desk.submit("a")

    def test_a_transaction_of_ones_own_is_undone_by_an_error(self, desk: Desk, notes: Notes) -> None:
        with pytest.raises(RuntimeError), desk.store.transaction() as tx:
            breaks(tx)
        assert notes() == []

    def test_a_transaction_of_ones_own_cannot_be_ended_from_within(self, desk: Desk, notes: Notes) -> None:
        with pytest.raises(BodyError), desk.store.transaction() as tx:
            writes_and_commits(tx)
        assert notes() == []

    def test_an_interruption_in_an_effect_takes_the_group_back(self, desk: Desk, notes: Notes) -> None:
        def effect(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('half')")
            raise KeyboardInterrupt

        desk.submit("a", "b")
        first, second = desk.claim()
        with pytest.raises(KeyboardInterrupt):
            desk.commit(desk.forward(first, effect=writes("a")), desk.forward(second, effect=effect))
        assert notes() == []
        assert [desk.standing(key).checkpoint.moves for key in "ab"] == [0, 0]
        desk.advance(first)
