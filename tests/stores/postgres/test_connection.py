"""Lost connections: every verb survives them. What happened is asked of the database, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from holdfast.core.errors import StoreGone
from holdfast.core.model import Claim, Item, NewDocument, SubmitResult
from holdfast.core.moves import ACCEPTED, LOST, Tx
from holdfast.core.plan import StepShape
from holdfast.stores.postgres import PostgresStore, connection, connection_watchdog, thread_connections
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import PAPERS, StoreHarness, after, papers, waits
from holdfast.testing.conformance.batches import CLOSING, close, sealed
from tests.support.postgres import Postgres, running_postgres
from tests.support.tcp_proxy import Cut, Proxy, proxy

MOVE = "update hf_document d"
COMMIT = "commit"
CUTS: list[Cut] = ["before", "after", "stranded"]


def ask(url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a statement on a connection of our own."""
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def harness(postgres_url: str) -> Iterator[StoreHarness]:
    """A store with a direct connection."""
    store = PostgresStore(postgres_url)
    yield StoreHarness(store, ManualClock())
    store.close()


@pytest.fixture
def wire(postgres_server: Postgres) -> Iterator[Proxy]:
    with proxy(postgres_server.port) as wire:
        yield wire


@pytest.fixture
def far(postgres_url: str, wire: Proxy) -> Iterator[StoreHarness]:
    """The same database, behind a proxy that can cut the connection."""
    store = PostgresStore(wire.url(postgres_url.rpartition("/")[2]))
    yield StoreHarness(store, ManualClock())
    store.close()


# Between calls


def hang_up(url: str) -> None:
    """End every connection to a database, and wait until all are gone."""
    ask(
        url,
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()",
    )


VERBS: dict[str, Callable[[StoreHarness, Claim], Any]] = {
    "now": lambda harness, _: harness.store.now(),
    "transaction": lambda harness, _: harness.sql("select 1"),
    "declare": lambda harness, _: harness.store.declare(PAPERS),
    "submit": lambda harness, _: harness.submit("new"),
    "seal": lambda harness, _: harness.store.seal("papers", "march", who="cat"),
    "register_worker": lambda harness, _: harness.register_worker("bob"),
    "heartbeat": lambda harness, _: harness.store.heartbeat(harness.worker),
    "retire_worker": lambda harness, _: harness.store.retire_worker(harness.worker),
    "claim": lambda harness, _: harness.claim(),
    "claim_suspect": lambda harness, _: harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect"),
    "release_unknown": lambda harness, _: harness.store.release_unknown(harness.worker, keeping=[]),
    "commit": lambda harness, claim: harness.advance(claim),
    "commit with an effect": lambda harness, claim: harness.advance(claim, effect=lambda tx: tx.execute("select 1")),
    "release": lambda harness, claim: harness.make_dead(claim),
    "rewind": lambda harness, claim: harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason=""),
    "admit": lambda harness, claim: harness.store.admit(harness.plan, "extract", [claim], limit=1),
    "next_position": lambda harness, claim: harness.store.next_position(claim.document_id, 0, harness.plan.first),
    "read": lambda harness, claim: harness.store.read(claim.document_id, 0, harness.plan.first, 0, 9),
    "balance": lambda harness, _: harness.balance(),
    "batches": lambda harness, _: harness.store.batches("papers"),
    "next_due": lambda harness, _: harness.store.next_due(harness.plan),
    "document": lambda harness, _: harness.document(),
    "items": lambda harness, claim: harness.items(claim),
    "journal": lambda harness, claim: harness.store.journal(claim.document_id),
    "workers": lambda harness, _: harness.store.workers(),
    "reclaim": lambda harness, _: harness.reclaim(gone=[harness.worker.id]),
    "wake": lambda harness, _: harness.store.wake(harness.plan, who="bob"),
    "set_gate_deadline": lambda harness, _: harness.store.set_gate_deadline(
        harness.plan, "extract", within=timedelta(days=1)
    ),
    "gauges": lambda harness, _: harness.store.gauges("papers"),
    "add_step_times": lambda harness, _: harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)}),
    "step_times": lambda harness, _: harness.store.step_times("papers"),
    "suspects_due": lambda harness, _: harness.store.suspects_due(harness.plan),
    "resume": lambda harness, claim: harness.store.resume(harness.plan, [claim.document_id], who="ann", reason=""),
    "batch_counts": lambda harness, _: harness.store.batch_counts("papers"),
    "missing": lambda harness, _: harness.store.missing("papers", "march"),
    "report": lambda harness, _: harness.store.report("papers", "march"),
    "batch_journal": lambda harness, _: harness.store.batch_journal("papers", "march"),
    "cleanup_closed": lambda harness, _: harness.store.cleanup_closed("papers", "march", who="cat", limit=10),
    "cleanup_blobs": lambda harness, _: harness.store.cleanup_blobs(limit=10),
    "cleanup_workers": lambda harness, _: harness.store.cleanup_workers(older=timedelta(days=1)),
    "cancel": lambda harness, claim: harness.store.cancel([claim.document_id], who="ann", reason=""),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_survives_a_connection_that_died_before_it(
    harness: StoreHarness, postgres_url: str, verb: str
) -> None:
    claim = harness.submit_and_claim()
    hang_up(postgres_url)
    VERBS[verb](harness, claim)


def test_a_store_goes_on_when_its_server_was_restarted() -> None:
    with running_postgres() as server:
        store = PostgresStore(server.create_database("holdfast"))
        harness = StoreHarness(store, ManualClock())
        claim = harness.submit_and_claim()
        server.restart()
        claim = harness.advance(claim)
        server.crash()
        server.start()
        assert harness.document().checkpoint == claim.checkpoint
        store.close()


def test_a_server_that_stays_away_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_connections, "PATIENCE", 0.2)
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
def test_a_silent_connection_is_given_up(
    far: StoreHarness, wire: Proxy, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_watchdog, "SILENCE", 0.2)
    claim = far.submit_and_claim()
    wire.cut("silent", word)
    far.advance(claim, effect=lambda tx: tx.execute("select 1"))
    assert wire.cuts == 1
    assert far.document().checkpoint.moves == claim.checkpoint.moves + 1


def test_an_effect_does_not_fail_because_of_a_silent_connection(
    postgres_url: str, wire: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_watchdog, "SILENCE", 0.6)
    name = postgres_url.rpartition("/")[2]
    store = PostgresStore(f"{wire.url(name)}?options=-c%20idle_in_transaction_session_timeout%3D500ms")
    far = StoreHarness(store, ManualClock())
    claim = far.submit_and_claim()
    wire.cut("silent", "select 'into the void'")
    far.advance(claim, effect=lambda tx: tx.execute("select 'into the void'"))
    assert wire.cuts == 1
    store.close()


def test_a_statement_that_waits_for_a_lock_is_waited_for(
    harness: StoreHarness, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(connection_watchdog, "SILENCE", 0.1)
    give_up = connection_watchdog.WatchedConnection._give_up_unless_at_work
    claim = harness.submit_and_claim()
    with psycopg.connect(postgres_url) as other:
        other.execute("select 1 from hf_document for update")

        def ask_and_let_go(db: connection_watchdog.WatchedConnection) -> None:
            give_up(db)
            asked.append(db)
            other.rollback()

        monkeypatch.setattr(connection_watchdog.WatchedConnection, "_give_up_unless_at_work", ask_and_let_go)
        harness.advance(claim)
    assert asked
    assert not asked[0].closed


@pytest.mark.parametrize("how", CUTS)
def test_moves_are_made_once_whenever_their_answer_is_lost(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    far.submit("a", "b", "c")
    claims = far.claim()
    wire.cut(how, MOVE)
    moves = [far.within(claim, 1, items=[Item("extract", 0, '"page"')]) for claim in claims]
    assert far.commit(*moves) == [ACCEPTED] * 3
    assert wire.cuts == 1
    for move in moves:
        assert far.document(move.claim.key).checkpoint == move.after
        assert far.items(move.claim) == [("extract", 0, '"page"')]


@pytest.mark.parametrize("how", CUTS)
def test_step_times_are_added_once_whenever_the_answer_of_a_commit_is_lost(
    far: StoreHarness, wire: Proxy, how: Cut
) -> None:
    wire.cut(how, COMMIT)
    far.store.add_step_times(far.plan, {"extract": (3, 1.5), "chunk": (1, 0.5)})
    assert wire.cuts == 1
    assert far.store.step_times("papers") == {"extract": (3, 1.5), "chunk": (1, 0.5)}


def test_a_document_that_was_taken_away_while_the_answer_was_lost_is_lost_and_the_others_are_not(
    far: StoreHarness, harness: StoreHarness, wire: Proxy
) -> None:
    far.submit("a", "b", "c")
    claims = far.claim()
    wire.cut("before", MOVE, meanwhile=lambda: harness.store.cancel([claims[1].document_id], who="bob", reason="no"))
    assert far.commit(*map(far.forward, claims)) == [ACCEPTED, LOST, ACCEPTED]


def test_an_accepted_move_stays_accepted_when_its_document_was_resumed_before_we_could_ask(
    far: StoreHarness, harness: StoreHarness, wire: Proxy
) -> None:
    far.plan = far.store.declare(papers("extract", StepShape("review", "gate"), "embed"))
    claim = far.submit_and_claim()

    def resume() -> None:
        assert harness.store.resume(far.plan, [claim.document_id], who="bob", reason="go on")

    wire.cut("after", MOVE, meanwhile=resume)
    assert far.commit(far.forward(claim, state="paused", reason="wait")) == [ACCEPTED]
    assert far.document().state == "waiting"


def test_a_lost_transaction_is_repeated_only_a_few_times(
    far: StoreHarness, wire: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PAUSES", (0.001, 0.001))
    claim = far.submit_and_claim()
    cut_again = lambda: wire.cut("before", MOVE, meanwhile=cut_again)  # noqa: E731
    cut_again()
    with pytest.raises(StoreGone):
        far.commit(far.forward(claim))
    assert wire.cuts == 3


@pytest.mark.parametrize("how", CUTS)
def test_an_effect_counts_once_whenever_its_commit_is_lost(
    far: StoreHarness, harness: StoreHarness, wire: Proxy, how: Cut
) -> None:
    harness.sql("create table notes (text text)")
    claim, calls = far.submit_and_claim(), 0

    def effect(tx: Tx) -> None:
        nonlocal calls
        calls += 1
        tx.execute("insert into notes values ('note')")
        if calls == 1:
            wire.cut(how, COMMIT)

    assert far.commit(far.forward(claim, effect=effect)) == [ACCEPTED]
    assert wire.cuts == 1
    assert calls == (1 if how == "after" else 2)
    assert harness.sql("select text from notes") == [("note",)]
    assert far.document().checkpoint.moves == 1


@pytest.mark.parametrize("how", CUTS)
def test_a_connection_lost_within_an_effect_costs_the_document_nothing(
    far: StoreHarness, harness: StoreHarness, wire: Proxy, how: Cut
) -> None:
    harness.sql("create table notes (text text)")
    claim = far.submit_and_claim()
    wire.cut(how, "insert into notes")
    assert far.commit(far.forward(claim, effect=lambda tx: tx.execute("insert into notes values ('note')"))) == [
        ACCEPTED
    ]
    assert harness.sql("select text from notes") == [("note",)]


@pytest.mark.parametrize("how", CUTS)
def test_a_lost_connection_costs_the_document_nothing_whatever_the_effect_makes_of_it(
    far: StoreHarness, harness: StoreHarness, wire: Proxy, how: Cut
) -> None:
    harness.sql("create table notes (text text)")

    def effect(tx: Tx) -> None:
        try:
            tx.execute("insert into notes values ('note')")
        except Exception as error:
            raise ValueError("cannot note it") from error

    claim = far.submit_and_claim()
    wire.cut(how, "insert into notes")
    assert far.commit(far.forward(claim, effect=effect)) == [ACCEPTED]
    assert harness.sql("select text from notes") == [("note",)]


@pytest.mark.parametrize("how", CUTS)
def test_a_document_whose_claim_was_lost_is_held_by_nobody(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    far.submit("a", "b", "c", "d")
    wire.cut(how, COMMIT)
    claims = far.claim(limit=2)
    assert wire.cuts == 1
    assert sorted(claim.key for claim in claims) == ["a", "b"]
    assert (far.balance().running, far.balance().waiting) == (2, 2)
    assert {claim.attempts for claim in claims} == {1}


@pytest.mark.parametrize("how", CUTS)
def test_a_document_is_released_once(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    claim = far.submit_and_claim()
    wire.cut(how, COMMIT)
    assert far.release(claim, costs="crash", delay=timedelta(hours=1))
    assert far.document().crashes == 1
    assert far.verbs(claim) == ["fail"]


@pytest.mark.parametrize("how", CUTS)
def test_a_part_is_submitted_once(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    wire.cut(how, COMMIT)
    documents = [NewDocument("a"), NewDocument("b")]
    assert far.store.submit(far.plan, "march", documents, submission=uuid4().int >> 65, part=0) == SubmitResult(new=2)
    assert far.balance().expected == 2


@pytest.mark.parametrize("how", CUTS)
def test_a_rewind_whose_answer_was_lost_is_done_and_returns_true(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    claim = far.advance(far.submit_and_claim())
    wire.cut(how, COMMIT)
    assert far.store.rewind(far.plan, claim, to="extract", who="ann", reason="again")
    assert far.document().checkpoint.generation == 1


@pytest.mark.parametrize("how", CUTS)
def test_orphans_are_reclaimed_once_and_all_are_returned(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    claim = far.submit_and_claim()
    wire.cut(how, COMMIT)
    assert [one.key for one in far.store.reclaim(far.plan, who="bob", decide=waits, gone=[far.worker.id])] == ["a"]
    assert (far.document().losses, far.document().crashes) == (1, 0)
    assert far.verbs(claim) == ["reclaim"]


def test_a_lost_transaction_of_the_caller_that_was_committed_raises_nothing(far: StoreHarness, wire: Proxy) -> None:
    with far.store.transaction() as tx:
        tx.execute("create table notes (text text)")
        wire.cut("after", COMMIT)
    assert wire.cuts == 1
    assert far.sql("select count(*) from notes") == [(0,)]


def test_a_lost_transaction_of_the_caller_that_was_not_committed_raises_an_error(
    far: StoreHarness, wire: Proxy
) -> None:
    def write() -> None:
        with far.store.transaction() as tx:
            tx.execute("create table notes (text text)")
            wire.cut("before", COMMIT)

    with pytest.raises(StoreGone):
        write()
    assert far.sql("select to_regclass('notes')") == [(None,)]


def test_the_servers_side_of_a_lost_connection_is_ended(far: StoreHarness, wire: Proxy, postgres_url: str) -> None:
    claim = far.advance(far.submit_and_claim())
    wire.cut("stranded", COMMIT)
    assert far.release(claim)
    hanging = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%%'"
    assert ask(postgres_url, hanging) == [(0,)]


def test_a_claim_goes_on_after_a_move_whose_answer_was_lost(far: StoreHarness, wire: Proxy) -> None:
    claim = far.submit_and_claim()
    wire.cut("after", MOVE)
    move = far.forward(claim)
    assert far.commit(move) == [ACCEPTED]
    far.finish(after(claim, move))
    assert far.balance().done == 1


# Closing and cleaning up


@pytest.mark.parametrize("how", CUTS)
def test_a_batch_is_closed_once_whenever_the_answer_is_lost(far: StoreHarness, wire: Proxy, how: Cut) -> None:
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
def test_a_slice_is_counted_once_whenever_the_answer_is_lost(far: StoreHarness, wire: Proxy, how: Cut) -> None:
    sealed(far, done="abc")
    close(far)
    far.store.cleanup_closed("papers", "march", who="cat", limit=10)
    wire.cut(how, COMMIT)
    cleaned = far.store.cleanup_closed("papers", "march", who="cat", limit=10)
    assert wire.cuts == 1
    assert cleaned.documents == 3
    assert far.balance("march").done == far.balance("march").expected == 3
    assert far.store.batch_journal("papers", "march")[-1].detail["documents"] == 3
