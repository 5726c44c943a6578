"""Effects that end the transaction they are given, or call the store: refused, and no other document is affected."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from holdfast.core.errors import BodyError, TransactionEnded
from holdfast.core.model import NewDocument
from holdfast.core.moves import ACCEPTED, CommitResult, Effect, Refused, Tx
from holdfast.stores import thread_lock
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import Conformance, StoreHarness, writes

Notes = Callable[[], list[str]]
End = Callable[[Any, Callable[[str], Any]], object]
"""Ends the transaction of the driver's connection. It also gets a function that runs several statements."""


def _with_block(connection: Any, _run: Callable[[str], Any]) -> None:
    if hasattr(connection, "executescript"):  # psycopg's block closes the connection at its end
        with connection:
            connection.execute("insert into notes (text) values ('in a block')")
    else:
        connection.commit()


ENDINGS: dict[str, End] = {
    "commit()": lambda connection, _run: connection.commit(),
    "rollback()": lambda connection, _run: connection.rollback(),
    "with connection": _with_block,
    "close()": lambda connection, _run: connection.close(),
    "execute commit": lambda connection, _run: connection.execute("commit"),
    "insert; commit": lambda _connection, run: run("insert into notes (text) values ('forced'); commit"),
    "commit; begin": lambda _connection, run: run("commit; begin"),
    "rollback; begin": lambda _connection, run: run("rollback; begin"),
    "rollback, begin": lambda connection, run: (connection.rollback(), run("begin")),
    "set isolation_level": lambda connection, _run: setattr(connection, "isolation_level", None),
}


def _ends(end: str, *, catches: bool) -> Effect:
    """Return an effect that writes a row and ends the transaction through the connection of the driver."""

    def ends_it(tx: Tx) -> None:
        connection = tx.execute("insert into notes (text) values ('half')").connection
        run = connection.executescript if tx.dialect == "sqlite" else connection.execute
        if catches:
            with suppress(Exception):  # the effect passes over whatever it gets
                ENDINGS[end](connection, run)
        else:
            ENDINGS[end](connection, run)

    return ends_it


def _runs(*statements: str) -> Effect:
    """Return an effect that runs statements, and passes over their errors."""

    def runs(tx: Tx) -> None:
        for statement in statements:
            with suppress(Exception):  # the effect passes over whatever it gets
                tx.execute(statement)

    return runs


def _kinds(answers: list[CommitResult]) -> list[str]:
    return [type(answer).__name__ for answer in answers]


class EffectGuardConformance(Conformance):
    """Tests of effects that end the transaction, or that call the store."""

    @pytest.mark.parametrize("then", ["raises", "catches"])
    @pytest.mark.parametrize("end", ENDINGS)
    def test_an_effect_that_ends_the_transaction_by_the_drivers_connection_is_refused(
        self, harness: StoreHarness, notes: Notes, end: str, then: str
    ) -> None:
        if end == "set isolation_level" and "postgres" in harness.store.url:
            pytest.skip("psycopg refuses it, and changes nothing")
        harness.submit(*"abcd")
        claims = harness.claim()
        moves = [harness.forward(one, effect=writes(one.key)) for one in claims]
        moves[1] = harness.forward(claims[1], effect=_ends(end, catches=then == "catches"))
        answers = harness.commit(*moves)
        assert _kinds(answers) == ["Accepted", "Refused", "Accepted", "Accepted"]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, TransactionEnded)
        assert "'ends_it' of step 'extract'" in str(answers[1].error)
        assert notes() == ["a", "c", "d"]
        assert [harness.document(key).checkpoint.moves for key in "abcd"] == [1, 0, 1, 1]
        harness.advance(claims[1], effect=writes("b"))  # it is still claimed, and the store works on
        assert notes() == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("end", ["commit()", "commit; begin", "rollback; begin", "insert; commit"])
    def test_a_group_in_which_every_effect_ends_the_transaction_moves_nothing(
        self, harness: StoreHarness, notes: Notes, end: str
    ) -> None:
        harness.submit(*"abcde")
        answers = harness.commit(*(harness.forward(one, effect=_ends(end, catches=True)) for one in harness.claim()))
        assert _kinds(answers) == ["Refused"] * 5
        assert notes() == []
        assert harness.store.batches("papers")[0].at_step == {"extract": 5}

    def test_what_an_effect_commits_by_force_does_not_repeat_the_rows_of_others(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        def forces(tx: Tx) -> None:
            connection = tx.execute("select 1").connection
            run = connection.executescript if tx.dialect == "sqlite" else connection.execute
            with suppress(Exception):  # the effect passes over whatever it gets
                connection.rollback()
            for statement in ("begin", "insert into notes (text) values ('forced')", "commit", "begin"):
                with suppress(Exception):  # the effect passes over whatever it gets
                    run(statement)

        harness.submit(*"abcdef")
        claims = harness.claim()
        moves = [harness.forward(one, effect=forces if one.key in "be" else writes(one.key)) for one in claims]
        answers = harness.commit(*moves)
        assert _kinds(answers) == ["Accepted", "Refused", "Accepted", "Accepted", "Refused", "Accepted"]
        assert [text for text in notes() if text != "forced"] == ["a", "c", "d", "f"]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, TransactionEnded)

    def test_a_statement_that_rolls_back_the_transaction_ends_the_effect(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        seen: list[BaseException] = []

        def rolls_back(tx: Tx) -> None:
            with suppress(Exception):  # the effect passes over whatever it gets
                tx.execute("insert or rollback into notes (text) values (null)")
            for number in range(3):
                try:
                    tx.execute(f"insert into notes (text) values ('after {number}')")  # noqa: S608
                except BodyError as error:
                    seen.append(error)
            with suppress(BodyError):
                tx.executemany("insert into notes (text) values (?)", [("many",)])

        harness.submit(*"abc")
        a, b, c = harness.claim()
        with harness.store.reading() as tx:
            if tx.dialect != "sqlite":
                pytest.skip("only SQLite has statements that roll back the transaction")
        moves = [harness.forward(a, effect=writes("a")), harness.forward(b, effect=rolls_back)]
        answers = harness.commit(*moves, harness.forward(c, effect=writes("c")))
        assert _kinds(answers) == ["Accepted", "Refused", "Accepted"]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, TransactionEnded)
        assert notes() == ["a", "c"]
        assert len(seen) == 6  # three in the group, three alone

    def test_a_trigger_that_rolls_back_the_transaction_refuses_its_document(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        with harness.store.reading() as tx:
            if tx.dialect != "sqlite":
                pytest.skip("only SQLite has triggers that roll back the transaction")
        harness.sql(
            "create trigger no_bad before insert on notes when new.text = 'bad' "
            "begin select raise(rollback, 'bad rows are not allowed'); end"
        )

        def catches(tx: Tx) -> None:
            with suppress(Exception):  # the effect passes over whatever it gets
                tx.execute("insert into notes (text) values ('bad')")

        harness.submit(*"abc")
        a, b, c = harness.claim()
        moves = [harness.forward(a, effect=writes("a")), harness.forward(b, effect=catches)]
        answers = harness.commit(*moves, harness.forward(c, effect=writes("bad")))
        assert _kinds(answers) == ["Accepted", "Refused", "Refused"]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, TransactionEnded)
        assert notes() == ["a"]

    @pytest.mark.parametrize("group", ["the first", "a later one"])
    def test_an_effect_cannot_roll_back_to_a_savepoint_of_another_document(
        self, harness: StoreHarness, notes: Notes, group: str
    ) -> None:
        if group == "a later one":  # drivers keep compiled statements
            harness.advance(harness.submit_and_claim("z"), effect=_runs("savepoint s"))
        harness.submit(*"abcde")
        effects = [writes("a"), _runs("savepoint s"), writes("c"), _runs("rollback to s"), writes("e")]
        moves = [harness.forward(one, effect=each) for one, each in zip(harness.claim(), effects, strict=True)]
        answers = harness.commit(*moves)
        kept = [one for one, answer in zip("abcde", answers, strict=True) if answer == ACCEPTED]
        assert notes() == [one for one in "ace" if one in kept]
        assert {"a", "b", "c", "e"} <= set(kept)

    @pytest.mark.parametrize("by", ["connection", "tx"])
    def test_effects_use_savepoints_of_the_same_name_each_for_itself(
        self, harness: StoreHarness, notes: Notes, by: str
    ) -> None:
        def effect(key: str) -> Effect:
            def undoes_a_part(tx: Tx) -> None:
                run = tx.execute if by == "tx" else tx.execute("select 1").connection.execute
                run(f"insert into notes (text) values ('{key}')")  # noqa: S608
                run("savepoint s")
                run("insert into notes (text) values ('undone')")
                run("rollback to s")
                if key not in "bd":  # these leave it open
                    run("release savepoint s")

            return undoes_a_part

        for keys in ("abc", "def"):
            harness.submit(*keys)
            answers = harness.commit(*(harness.forward(one, effect=effect(one.key)) for one in harness.claim()))
            assert answers == [ACCEPTED] * 3
        assert notes() == [*"abcdef"]

    @pytest.mark.parametrize("verb", ["close", "disconnect"])
    def test_an_effect_cannot_close_the_store(self, harness: StoreHarness, notes: Notes, verb: str) -> None:
        refused: list[str] = []

        def closes(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('b')")
            try:
                getattr(harness.store, verb)()
            except BodyError as error:
                refused.append(str(error))

        harness.submit(*"abc")
        effects = [writes("a"), closes, writes("c")]
        moves = [harness.forward(one, effect=each) for one, each in zip(harness.claim(), effects, strict=True)]
        assert harness.commit(*moves) == [ACCEPTED] * 3
        assert notes() == ["a", "b", "c"]
        assert refused or not harness.store.url.startswith(("sqlite", "postgres"))

    @pytest.mark.parametrize("whose", ["store", "other"])
    @pytest.mark.parametrize("verb", ["submit", "claim", "transaction"])
    def test_an_effect_that_calls_the_store_is_told_so_and_its_transaction_goes_on(
        self, harness: StoreHarness, notes: Notes, other: Store, verb: str, whose: str
    ) -> None:
        store = harness.store if whose == "store" else other
        refused: list[str] = []

        def calls(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('before')")
            try:
                _call(store, verb, harness)
            except BodyError as error:
                refused.append(str(error))
            tx.execute("insert into notes (text) values ('after')")

        harness.submit(*"abc")
        a, b, c = harness.claim()
        moves = [harness.forward(a, effect=writes("a")), harness.forward(b, effect=calls)]
        answers = harness.commit(*moves, harness.forward(c, effect=writes("c")))
        assert _kinds(answers) == ["Accepted"] * 3
        assert len(refused) == 1
        assert "tx.submit" in refused[0]
        assert notes() == ["a", "after", "before", "c"]
        assert sorted(one.key for one in harness.store.documents("papers", limit=10)) == ["a", "b", "c"]

    def test_a_thread_that_an_effect_waits_for_does_not_wait_for_ever(
        self, harness: StoreHarness, notes: Notes, other: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(thread_lock, "EFFECT_LIMIT", 0.0)
        monkeypatch.setattr(thread_lock, "POLL_SECONDS", 0.01)
        harness.submit(*"abc")
        a, b, c = harness.claim()

        def waits_for_a_thread(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('waits')")
            with ThreadPoolExecutor(1) as threads:
                threads.submit(other.submit, harness.plan, "april", [NewDocument("d")], submission=78, part=0).result()

        moves = [harness.forward(a, effect=writes("a")), harness.forward(b, effect=waits_for_a_thread)]
        answers = harness.commit(*moves, harness.forward(c, effect=writes("c")))
        if harness.store.url.startswith("postgres"):  # it has many writers, so the thread has nothing to wait for
            assert _kinds(answers) == ["Accepted"] * 3
            return
        assert _kinds(answers) == ["Accepted", "Refused", "Accepted"]
        assert isinstance(answers[1], Refused)
        assert isinstance(answers[1].error, BodyError)
        assert notes() == ["a", "c"]

    def test_an_effect_may_read_with_the_store(self, harness: StoreHarness, notes: Notes) -> None:
        harness.submit("a", "b")
        claims = harness.claim()
        claims[0] = harness.keep(claims[0], '"page"')
        seen: list[Any] = []

        def reads(tx: Tx) -> None:
            tx.execute("insert into notes (text) values ('reads')")
            claim = claims[0]
            step_id = harness.plan.step_ids["extract"]
            seen.extend(harness.store.read(claim.document_id, 0, step_id, 0, 10))

        harness.advance(claims[1], effect=reads)
        assert seen == [(0, '"page"')]
        assert notes() == ["reads"]

    def test_a_write_inside_a_transaction_is_refused_and_the_transaction_goes_on(
        self, harness: StoreHarness, notes: Notes
    ) -> None:
        with harness.store.transaction() as tx:
            tx.execute("insert into notes (text) values ('kept')")
            with pytest.raises(BodyError, match="inside a transaction"):
                harness.submit("a")
        assert notes() == ["kept"]

    @pytest.mark.parametrize("end", ["commit()", "commit; begin", "rollback; begin"])
    def test_user_code_in_a_rename_or_a_withdrawal_cannot_end_the_transaction(
        self, harness: StoreHarness, notes: Notes, end: str
    ) -> None:
        harness.submit("a")
        ends = _ends(end, catches=True)
        by_ann: Any = {"who": "ann", "reason": "moved"}
        with pytest.raises(TransactionEnded):
            harness.store.rename("papers", "march", {"a": NewDocument("b")}, effect=lambda tx, _: ends(tx), **by_ann)
        document = harness.document("a")
        with pytest.raises(TransactionEnded):
            harness.store.withdraw(harness.plan, [document.id], undo=lambda tx, _: ends(tx), **by_ann)
        assert harness.document("a").state == "waiting"
        assert harness.store.rename("papers", "march", {"a": NewDocument("b")}, **by_ann) == ["a"]
        assert notes() == []


def _call(store: Store, verb: str, harness: StoreHarness) -> None:
    if verb == "submit":
        store.submit(harness.plan, "march", [NewDocument("d")], submission=77, part=0)
    elif verb == "claim":
        store.claim(harness.plan, harness.worker, limit=1)
    else:
        with store.transaction() as tx:
            tx.execute("insert into notes (text) values ('elsewhere')")
