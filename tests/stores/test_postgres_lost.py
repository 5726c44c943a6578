"""Lost connections: every verb survives them, and what was lost is settled by asking, never by guessing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from holdfast.core.errors import StoreGone
from holdfast.core.model import Claim, Item, NewDocument, Receipt
from holdfast.core.moves import ACCEPTED, LOST, Tx
from holdfast.stores.postgres import PostgresStore, connection, listening
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import PAPERS, Desk, after, waits
from holdfast.testing.conformance.batches import CLOSING, close, sealed
from holdfast.testing.postgres import Postgres, running_postgres
from tests.support.proxy import Cut, Proxy, proxy

MOVE = "update hf_document d"
COMMIT = "commit"
CUTS: list[Cut] = ["before", "after", "stranded"]


def ask(url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Asks the database by a connection of our own."""
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def desk(postgres_url: str) -> Iterator[Desk]:
    """A store that is connected without detours."""
    store = PostgresStore(postgres_url)
    yield Desk(store, ManualClock())
    store.close()


@pytest.fixture
def wire(postgres_server: Postgres) -> Iterator[Proxy]:
    with proxy(postgres_server.port) as wire:
        yield wire


@pytest.fixture
def far(postgres_url: str, wire: Proxy) -> Iterator[Desk]:
    """The same database, by a wire that can be cut."""
    store = PostgresStore(wire.url(postgres_url.rpartition("/")[2]))
    yield Desk(store, ManualClock())
    store.close()


# Between calls


def hang_up(url: str) -> None:
    """Ends every connection to a database, and waits until it is gone."""
    ask(
        url,
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()",
    )


VERBS: dict[str, Callable[[Desk, Claim], Any]] = {
    "now": lambda desk, _: desk.store.now(),
    "transaction": lambda desk, _: desk.sql("select 1"),
    "declare": lambda desk, _: desk.store.declare(PAPERS),
    "submit": lambda desk, _: desk.submit("new"),
    "seal": lambda desk, _: desk.store.seal("papers", "march", who="cat"),
    "enlist": lambda desk, _: desk.enlist("bob"),
    "beat": lambda desk, _: desk.store.beat(desk.worker),
    "retire": lambda desk, _: desk.store.retire(desk.worker),
    "claim": lambda desk, _: desk.claim(),
    "claim_suspect": lambda desk, _: desk.store.claim_suspect(desk.plan, desk.worker),
    "surrender": lambda desk, _: desk.store.surrender(desk.worker, keeping=[]),
    "commit": lambda desk, claim: desk.advance(claim),
    "commit with an effect": lambda desk, claim: desk.advance(claim, effect=lambda tx: tx.execute("select 1")),
    "give_back": lambda desk, claim: desk.bury(claim),
    "rewind": lambda desk, claim: desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason=""),
    "admit": lambda desk, claim: desk.store.admit(desk.plan, "extract", [claim], limit=1),
    "extent": lambda desk, claim: desk.store.extent(claim.document_id, 0, desk.plan.first),
    "read": lambda desk, claim: desk.store.read(claim.document_id, 0, desk.plan.first, 0, 9),
    "balance": lambda desk, _: desk.balance(),
    "batches": lambda desk, _: desk.store.batches("papers"),
    "next_due": lambda desk, _: desk.store.next_due(desk.plan),
    "standing": lambda desk, _: desk.standing(),
    "items": lambda desk, claim: desk.items(claim),
    "journal": lambda desk, claim: desk.store.journal(claim.document_id),
    "workers": lambda desk, _: desk.store.workers(),
    "reclaim": lambda desk, _: desk.reclaim(gone=[desk.worker.id]),
    "wake": lambda desk, _: desk.store.wake(desk.plan, who="bob"),
    "set_time": lambda desk, _: desk.store.set_time(desk.plan, "extract", within=timedelta(days=1)),
    "survey": lambda desk, _: desk.store.survey("papers"),
    "pace": lambda desk, _: desk.store.pace(desk.plan, {"extract": (1, 0.5)}),
    "paces": lambda desk, _: desk.store.paces("papers"),
    "suspects_due": lambda desk, _: desk.store.suspects_due(desk.plan),
    "resume": lambda desk, claim: desk.store.resume(desk.plan, [claim.document_id], who="ann", reason=""),
    "census": lambda desk, _: desk.store.census("papers"),
    "missing": lambda desk, _: desk.store.missing("papers", "march"),
    "report": lambda desk, _: desk.store.report("papers", "march"),
    "batch_journal": lambda desk, _: desk.store.batch_journal("papers", "march"),
    "cleanup_closed": lambda desk, _: desk.store.cleanup_closed("papers", "march", who="cat", limit=10),
    "cleanup_blobs": lambda desk, _: desk.store.cleanup_blobs(limit=10),
    "cleanup_workers": lambda desk, _: desk.store.cleanup_workers(older=timedelta(days=1)),
    "cancel": lambda desk, claim: desk.store.cancel([claim.document_id], who="ann", reason=""),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_survives_a_connection_that_died_before_it(desk: Desk, postgres_url: str, verb: str) -> None:
    claim = desk.take_in()
    hang_up(postgres_url)
    VERBS[verb](desk, claim)


def test_a_store_goes_on_when_its_server_was_restarted() -> None:
    with running_postgres() as server:
        store = PostgresStore(server.create_database("holdfast"))
        desk = Desk(store, ManualClock())
        claim = desk.take_in()
        server.restart()
        claim = desk.advance(claim)
        server.crash()
        server.start()
        assert desk.standing().checkpoint == claim.checkpoint
        store.close()


def test_a_server_that_stays_away_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    with running_postgres() as server:
        store = PostgresStore(server.create_database("holdfast"))
        server.stop()
        with pytest.raises(StoreGone, match="check that PostgreSQL runs"):
            store.pipelines()
        server.start()
        assert store.pipelines() == []
        store.close()


# During a commit


@pytest.mark.parametrize("word", ["begin", MOVE, COMMIT])
def test_a_connection_that_has_gone_silent_is_not_waited_for_in_vain(
    far: Desk, wire: Proxy, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SILENCE", 0.2)
    claim = far.take_in()
    wire.cut("silent", word)
    far.advance(claim, effect=lambda tx: tx.execute("select 1"))
    assert wire.cuts == 1
    assert far.standing().checkpoint.moves == claim.checkpoint.moves + 1


def test_an_effect_is_not_blamed_for_an_answer_that_does_not_come(
    postgres_url: str, wire: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SILENCE", 0.6)
    name = postgres_url.rpartition("/")[2]
    store = PostgresStore(f"{wire.url(name)}?options=-c%20idle_in_transaction_session_timeout%3D500ms")
    far = Desk(store, ManualClock())
    claim = far.take_in()
    wire.cut("silent", "select 'into the void'")
    far.advance(claim, effect=lambda tx: tx.execute("select 'into the void'"))
    assert wire.cuts == 1
    store.close()


def test_a_statement_that_waits_for_a_lock_is_waited_for(
    desk: Desk, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(listening, "SILENCE", 0.1)
    give_up = listening.Listening._give_up_unless_at_work
    claim = desk.take_in()
    with psycopg.connect(postgres_url) as other:
        other.execute("select 1 from hf_document for update")

        def ask_and_let_go(db: listening.Listening) -> None:
            give_up(db)
            asked.append(db)
            other.rollback()

        monkeypatch.setattr(listening.Listening, "_give_up_unless_at_work", ask_and_let_go)
        desk.advance(claim)
    assert asked
    assert not asked[0].closed


@pytest.mark.parametrize("how", CUTS)
def test_moves_are_made_once_whenever_their_answer_is_lost(far: Desk, wire: Proxy, how: Cut) -> None:
    far.submit("a", "b", "c")
    claims = far.claim()
    wire.cut(how, MOVE)
    moves = [far.within(claim, 1, items=[Item("extract", 0, '"page"')]) for claim in claims]
    assert far.commit(*moves) == [ACCEPTED] * 3
    assert wire.cuts == 1
    for move in moves:
        assert far.standing(move.claim.key).checkpoint == move.after
        assert far.items(move.claim) == [("extract", 0, '"page"')]


@pytest.mark.parametrize("how", CUTS)
def test_a_pace_is_added_once_whenever_its_commit_is_lost(far: Desk, wire: Proxy, how: Cut) -> None:
    wire.cut(how, COMMIT)
    far.store.pace(far.plan, {"extract": (3, 1.5), "chunk": (1, 0.5)})
    assert wire.cuts == 1
    assert far.store.paces("papers") == {"extract": (3, 1.5), "chunk": (1, 0.5)}


def test_a_document_that_was_taken_away_while_the_answer_was_lost_is_lost_and_the_others_are_not(
    far: Desk, desk: Desk, wire: Proxy
) -> None:
    far.submit("a", "b", "c")
    claims = far.claim()
    wire.cut("before", MOVE, meanwhile=lambda: desk.store.cancel([claims[1].document_id], who="bob", reason="no"))
    assert far.commit(*map(far.forward, claims)) == [ACCEPTED, LOST, ACCEPTED]


def test_an_accepted_move_stays_accepted_when_its_document_was_resumed_before_we_could_ask(
    far: Desk, desk: Desk, wire: Proxy
) -> None:
    claim = far.take_in()

    def resume() -> None:
        assert desk.store.resume(desk.plan, [claim.document_id], who="bob", reason="go on")

    wire.cut("after", MOVE, meanwhile=resume)
    assert far.commit(far.within(claim, 1, state="paused", reason="wait")) == [ACCEPTED]
    assert far.standing().state == "waiting"


def test_nothing_is_resent_for_ever(far: Desk, wire: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSES", (0.001, 0.001))
    claim = far.take_in()
    cut_again = lambda: wire.cut("before", MOVE, meanwhile=cut_again)  # noqa: E731
    cut_again()
    with pytest.raises(StoreGone):
        far.commit(far.forward(claim))
    assert wire.cuts == 3


@pytest.mark.parametrize("how", CUTS)
def test_an_effect_counts_once_whenever_its_commit_is_lost(far: Desk, desk: Desk, wire: Proxy, how: Cut) -> None:
    desk.sql("create table notes (text text)")
    claim, calls = far.take_in(), 0

    def effect(tx: Tx) -> None:
        nonlocal calls
        calls += 1
        tx.execute("insert into notes values ('note')")
        if calls == 1:
            wire.cut(how, COMMIT)

    assert far.commit(far.forward(claim, effect=effect)) == [ACCEPTED]
    assert wire.cuts == 1
    assert calls == (1 if how == "after" else 2)
    assert desk.sql("select text from notes") == [("note",)]
    assert far.standing().checkpoint.moves == 1


@pytest.mark.parametrize("how", CUTS)
def test_a_connection_lost_within_an_effect_costs_the_document_nothing(
    far: Desk, desk: Desk, wire: Proxy, how: Cut
) -> None:
    desk.sql("create table notes (text text)")
    claim = far.take_in()
    wire.cut(how, "insert into notes")
    assert far.commit(far.forward(claim, effect=lambda tx: tx.execute("insert into notes values ('note')"))) == [
        ACCEPTED
    ]
    assert desk.sql("select text from notes") == [("note",)]


@pytest.mark.parametrize("how", CUTS)
def test_a_lost_connection_costs_the_document_nothing_whatever_the_effect_makes_of_it(
    far: Desk, desk: Desk, wire: Proxy, how: Cut
) -> None:
    desk.sql("create table notes (text text)")

    def effect(tx: Tx) -> None:
        try:
            tx.execute("insert into notes values ('note')")
        except Exception as error:
            raise ValueError("cannot note it") from error

    claim = far.take_in()
    wire.cut(how, "insert into notes")
    assert far.commit(far.forward(claim, effect=effect)) == [ACCEPTED]
    assert desk.sql("select text from notes") == [("note",)]


@pytest.mark.parametrize("how", CUTS)
def test_nobody_holds_what_a_claim_did_not_hand_out(far: Desk, wire: Proxy, how: Cut) -> None:
    far.submit("a", "b", "c", "d")
    wire.cut(how, COMMIT)
    claims = far.claim(limit=2)
    assert wire.cuts == 1
    assert sorted(claim.key for claim in claims) == ["a", "b"]
    assert (far.balance().running, far.balance().waiting) == (2, 2)
    assert {claim.attempts for claim in claims} == {1}


@pytest.mark.parametrize("how", CUTS)
def test_a_document_is_given_back_once(far: Desk, wire: Proxy, how: Cut) -> None:
    claim = far.take_in()
    wire.cut(how, COMMIT)
    assert far.give_back(claim, costs="crash", delay=timedelta(hours=1))
    assert far.standing().crashes == 1
    assert far.verbs(claim) == ["fail"]


@pytest.mark.parametrize("how", CUTS)
def test_a_part_is_submitted_once(far: Desk, wire: Proxy, how: Cut) -> None:
    wire.cut(how, COMMIT)
    documents = [NewDocument("a"), NewDocument("b")]
    assert far.store.submit(far.plan, "march", documents, submission=uuid4().int >> 65, part=0) == Receipt(new=2)
    assert far.balance().expected == 2


@pytest.mark.parametrize("how", CUTS)
def test_a_rewind_whose_answer_was_lost_is_done_and_says_so(far: Desk, wire: Proxy, how: Cut) -> None:
    claim = far.advance(far.take_in())
    wire.cut(how, COMMIT)
    assert far.store.rewind(far.plan, claim, to="extract", who="ann", reason="again")
    assert far.standing().checkpoint.generation == 1


@pytest.mark.parametrize("how", CUTS)
def test_orphans_are_reclaimed_once_and_all_of_them_are_told(far: Desk, wire: Proxy, how: Cut) -> None:
    claim = far.take_in()
    wire.cut(how, COMMIT)
    assert [one.key for one in far.store.reclaim(far.plan, who="bob", verdict=waits, gone=[far.worker.id])] == ["a"]
    assert far.standing().crashes == 1
    assert far.verbs(claim) == ["reclaim"]


def test_a_transaction_of_the_caller_s_own_that_was_committed_is_known_to_be(far: Desk, wire: Proxy) -> None:
    with far.store.transaction() as tx:
        tx.execute("create table notes (text text)")
        wire.cut("after", COMMIT)
    assert wire.cuts == 1
    assert far.sql("select count(*) from notes") == [(0,)]


def test_a_transaction_of_the_caller_s_own_that_was_not_committed_says_so(far: Desk, wire: Proxy) -> None:
    def write() -> None:
        with far.store.transaction() as tx:
            tx.execute("create table notes (text text)")
            wire.cut("before", COMMIT)

    with pytest.raises(StoreGone):
        write()
    assert far.sql("select to_regclass('notes')") == [(None,)]


def test_what_a_lost_connection_left_hanging_on_the_server_is_ended(far: Desk, wire: Proxy, postgres_url: str) -> None:
    claim = far.advance(far.take_in())
    wire.cut("stranded", COMMIT)
    assert far.give_back(claim)
    hanging = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%%'"
    assert ask(postgres_url, hanging) == [(0,)]


def test_a_claim_goes_on_after_a_move_whose_answer_was_lost(far: Desk, wire: Proxy) -> None:
    claim = far.take_in()
    wire.cut("after", MOVE)
    move = far.forward(claim)
    assert far.commit(move) == [ACCEPTED]
    far.finish(after(claim, move))
    assert far.balance().done == 1


# Closing and cleaning up


@pytest.mark.parametrize("how", CUTS)
def test_a_batch_is_closed_once_whenever_the_answer_is_lost(far: Desk, wire: Proxy, how: Cut) -> None:
    closing = far.store.declare(CLOSING)
    sealed(far, done="ab", dead="c")
    wire.cut(how, COMMIT)
    closed = far.store.close_batch(far.plan, "march", who="cat", reason="", tolerate=1.0, closing=closing)
    assert wire.cuts == 1
    assert closed.is_new
    assert [line.verb for line in far.store.batch_journal("papers", "march")] == ["seal", "close"]
    assert far.store.balance("papers.closing").expected == 1
    assert far.store.report("papers", "march") == closed.report


@pytest.mark.parametrize("how", CUTS)
def test_a_slice_is_counted_once_whenever_the_answer_is_lost(far: Desk, wire: Proxy, how: Cut) -> None:
    sealed(far, done="abc")
    close(far)
    far.store.cleanup_closed("papers", "march", who="cat", limit=10)
    wire.cut(how, COMMIT)
    cleaned = far.store.cleanup_closed("papers", "march", who="cat", limit=10)
    assert wire.cuts == 1
    assert cleaned.documents == 3
    assert far.balance("march").done == far.balance("march").expected == 3
    assert far.store.batch_journal("papers", "march")[-1].detail["documents"] == 3
