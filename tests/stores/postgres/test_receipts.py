"""Commits that wait for a standby: an answer that is lost is settled by receipts, never by what one server believes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from holdfast.core.errors import StoreError, StoreGone
from holdfast.core.model import Claim
from holdfast.core.moves import ACCEPTED, Tx
from holdfast.stores.postgres import PostgresStore, connection
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import StoreHarness
from tests.support.polling import wait_for
from tests.support.postgres import NoPostgres, Postgres, running_postgres, standby_of
from tests.support.tcp_proxy import Proxy, proxy

NAME = "holdfast"
WAITING = """
select coalesce(sum((wait_event = 'SyncRep')::int), 0), count(*)
  from pg_stat_activity
 where application_name like 'holdfast %'
   and wait_event_type in ('IPC', 'Lock')
"""
"""How many of our commits wait for a standby, and how many wait for a standby or for one another."""


def ask(server: Postgres, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
    """Run a statement that waits for no standby."""
    with psycopg.connect(
        f"{server.url(database)}?options=-c%20synchronous_commit%3Dlocal", autocommit=True, connect_timeout=10
    ) as db:
        cursor = db.execute(sql)
        return cursor.fetchall() if cursor.description else []


def require_standby(server: Postgres, name: str) -> None:
    """From now on each commit waits until a standby of this name has it. Without a name, none waits."""
    ask(server, f"alter system set synchronous_standby_names = '{name}'")
    ask(server, "select pg_reload_conf()")
    wait_for(lambda: ask(server, "show synchronous_standby_names") == [(name,)])


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    try:
        with running_postgres() as server:
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))


@pytest.fixture
def wire(server: Postgres) -> Iterator[Proxy]:
    with proxy(server.port) as wire:
        yield wire


@pytest.fixture
def far(server: Postgres, wire: Proxy) -> Iterator[StoreHarness]:
    """A store behind a proxy. At the end, no commit has to wait."""
    server.create_database(NAME)
    store = PostgresStore(wire.url(NAME))
    harness = StoreHarness(store, ManualClock())
    harness.sql("create table notes (text text)")
    yield harness
    require_standby(server, "")
    store.close()
    server.drop_database(NAME)


def write_note(tx: Tx) -> None:
    tx.execute("insert into notes values ('note')")


VERBS: dict[str, Callable[[StoreHarness, Claim], object]] = {
    "a submit": lambda harness, _: harness.submit("b", "c").new == 2,
    "moves": lambda harness, claim: harness.commit(harness.forward(claim)) == [ACCEPTED],
    "moves with an effect": lambda harness, claim: (
        harness.commit(harness.forward(claim, effect=write_note)) == [ACCEPTED]
    ),
    "a release": lambda harness, claim: harness.release(claim),
}


def cut_while_waiting(server: Postgres, wire: Proxy, answer: Future[object]) -> None:
    """Cut the connection of a commit that waits for a standby. Wait until the store asks what became of it."""
    wait_for(lambda: ask(server, WAITING)[0][0] == 1)
    wire.switch_server(server.port)
    wait_for(lambda: answer.done() or ask(server, WAITING)[0][1] == 2)


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_that_waits_for_a_standby_is_not_acknowledged_when_its_connection_is_lost(
    server: Postgres, wire: Proxy, far: StoreHarness, verb: str
) -> None:
    claim = far.submit_and_claim()
    require_standby(server, "nobody")
    with ThreadPoolExecutor(1) as pool:
        answer: Future[object] = pool.submit(VERBS[verb], far, claim)
        cut_while_waiting(server, wire, answer)
        assert not answer.done()
        assert ask(server, WAITING)[0][0] >= 1, "the commit that waited was ended"
        require_standby(server, "")
        assert answer.result(30) is True
    assert ask(server, "select count(*) from notes", NAME) == [(1 if "effect" in verb else 0,)]
    assert far.balance().balances


CANCEL = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_that_the_server_stopped_waiting_for_is_not_acknowledged(
    server: Postgres, far: StoreHarness, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PAUSES", (0.0,))
    claim = far.submit_and_claim()
    require_standby(server, "nobody")
    with ThreadPoolExecutor(1) as pool:
        answer: Future[object] = pool.submit(VERBS[verb], far, claim)
        wait_for(lambda: ask(server, CANCEL) == [] and answer.done())
    with pytest.raises(StoreGone, match="not known whether it was kept"):
        answer.result()


def test_a_commit_that_only_the_old_server_has_is_done_again_after_a_failover(wire: Proxy, server: Postgres) -> None:
    with running_postgres() as primary, standby_of(primary) as standby:
        wire.switch_server(primary.port)
        primary.create_database(NAME)
        store = PostgresStore(wire.url(NAME))
        harness = StoreHarness(store, ManualClock())
        harness.submit("a")
        require_standby(primary, "*")
        harness.submit("b")
        ask(standby, "alter system set primary_conninfo = ''")
        ask(standby, "select pg_reload_conf()")
        wait_for(lambda: not ask(primary, "select 1 from pg_stat_replication"))
        with ThreadPoolExecutor(1) as pool:
            answer: Future[object] = pool.submit(lambda: harness.submit("c", "d"))
            cut_while_waiting(primary, wire, answer)
            assert not answer.done()
            primary.crash()
            assert ask(standby, "select count(*) from hf_document", NAME) == [(2,)]
            standby.promote()
            wire.switch_server(standby.port)
            assert answer.result(60).new == 2  # type: ignore[attr-defined]
        assert ask(standby, "select key from hf_document order by key", NAME) == [("a",), ("b",), ("c",), ("d",)]
        store.close()


def test_a_number_is_written_once_for_each_transaction_and_old_receipts_are_deleted(
    server: Postgres, far: StoreHarness
) -> None:
    ask(server, "insert into hf_receipt values ('closed long ago', 7, now() - interval '8 days')", NAME)
    before = ask(server, "select connection, number from hf_receipt", NAME)
    far.submit("a")
    far.submit("b")
    far.store.disconnect()
    far.submit("c")
    after = dict(ask(server, "select connection, number from hf_receipt", NAME))
    assert "closed long ago" not in after
    ((ours, number),) = [row for row in before if row[0] != "closed long ago"]
    assert after[ours] == number + 2
    assert sorted(after.values()) == sorted([1, number + 2])


def test_a_role_without_rights_on_receipts_is_told_what_to_grant(server: Postgres, far: StoreHarness) -> None:
    ask(server, "drop role if exists guest")
    ask(server, "create role guest login")
    ask(server, "grant select on all tables in schema public to guest", NAME)
    store = PostgresStore(server.url(NAME).replace("postgres@", "guest@"))
    with pytest.raises(StoreError, match="grant"):
        store.register_worker(name="ann", host="h", pid=1, born="", lease=far.worker.lease)
    store.close()
    ask(server, "drop owned by guest", NAME)
    ask(server, "drop role guest")
