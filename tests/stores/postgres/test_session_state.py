"""What an effect does to its session, or to its commit, concerns its own document only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import holdfast
from holdfast.core.errors import BodyError
from holdfast.core.moves import ACCEPTED, Effect, Refused, Tx
from holdfast.stores.postgres import PostgresStore, connection
from holdfast.stores.postgres.session_state import is_suspicious
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import StoreHarness


@pytest.fixture
def harness(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreHarness]:
    monkeypatch.setattr(connection, "PAUSES", (0.0,))
    store = PostgresStore(postgres_url)
    harness = StoreHarness(store, ManualClock())
    zone = "zone text default current_setting('timezone')"
    harness.sql(f"create table mine (word text, place text default current_schema(), {zone})")
    yield harness
    store.close()


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(sql)
        return cursor.fetchall() if cursor.description else []


def writes(word: str) -> Effect:
    return lambda tx: tx.execute("insert into mine (word) values (%s)", (word,)) and None


def says(*statements: str) -> Effect:
    """Return an effect that runs these statements, and writes nothing."""

    def effect(tx: Tx) -> None:
        for statement in statements:
            tx.execute(statement)

    return effect


def add_trigger(harness: StoreHarness, body: str, when: str = "before insert") -> None:
    """From now on a row with the word `bad` runs this in PL/pgSQL."""
    harness.sql(f"create function odd() returns trigger language plpgsql as $$ begin {body}; return new; end $$")
    harness.sql(
        f"create {'constraint ' if 'after' in when else ''}trigger odd {when} on mine "
        f"{'deferrable initially deferred' if 'after' in when else ''} "
        "for each row when (new.word = 'bad') execute function odd()"
    )


# What is left behind in a session


def set_row_factory(tx: Tx) -> None:
    tx.execute("select 1").connection.row_factory = dict_row


LEFT_BEHIND: dict[str, Effect] = {
    "a role": says("set role pg_read_all_data"),
    "a role of this transaction": says("set local role pg_read_all_data"),
    "another user": says("set session authorization pg_read_all_data"),
    "a search path": says("create schema if not exists elsewhere", "set search_path = elsewhere"),
    "a search path of this transaction": says(
        "create schema if not exists elsewhere",
        "create table if not exists elsewhere.mine (word text)",
        "set local search_path = elsewhere",
    ),
    "a search path by a function": says("select set_config('search_path', 'pg_catalog', false)"),
    "a search path by a block": says("do $$ begin perform set_config('search_path', 'pg_catalog', false); end $$"),
    "a session that only reads": says("set session characteristics as transaction read only"),
    "transactions that only read": says("/* a note */ set default_transaction_read_only = on"),
    "a transaction that only reads": says("set transaction read only"),
    "another isolation": says("set default_transaction_isolation = 'serializable'"),
    "a time zone": says("set time zone 'Asia/Kathmandu'"),
    "a date style": says("set datestyle = german"),
    "no nulls in arrays": says("set array_nulls = off"),
    "a short timeout": says("set statement_timeout = '1ms'"),
    "a short idle timeout": says("set idle_in_transaction_session_timeout = '9s'"),
    "a temporary table": says("create temp table mine (word text)"),
    "a temporary table of this transaction": says("create temporary table mine (word text) on commit drop"),
    "a prepared statement": says("prepare hello as select 1"),
    "a cursor": says("declare hello cursor with hold for select 1"),
    "a lock": says("select pg_advisory_lock(7)"),
    "our mark": says("set application_name = 'somebody else'"),
    "no warnings": says("set client_min_messages = error"),
    "a row factory of the driver": set_row_factory,
}


@pytest.mark.parametrize("left", LEFT_BEHIND)
def test_what_an_effect_leaves_in_its_session_reaches_no_other_document(
    harness: StoreHarness, postgres_url: str, left: str
) -> None:
    harness.submit(*"abcdef")
    claims = harness.claim()
    effects = [writes("a"), LEFT_BEHIND[left], writes("c"), LEFT_BEHIND[left], writes("e"), writes("f")]
    moves = [harness.forward(claim, effect=effect) for claim, effect in zip(claims, effects, strict=True)]
    assert harness.commit(*moves) == [ACCEPTED] * 6
    rows = ask(postgres_url, "select word, place, zone from public.mine order by word")
    ((zone,),) = ask(postgres_url, "show timezone")
    assert rows == [(word, "public", zone) for word in "acef"]
    assert ask(postgres_url, "select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]
    harness.submit("g")
    (claim,) = harness.claim()
    harness.finish(claim)
    assert harness.balance().done == 1


BY_TRIGGER = {
    "a role": "perform set_config('role', 'pg_read_all_data', false)",
    "a search path": "perform set_config('search_path', 'pg_catalog', false)",
    "transactions that only read": "perform set_config('default_transaction_read_only', 'on', false)",
    "a short timeout": "perform set_config('statement_timeout', '1ms', false)",
    "another isolation": "perform set_config('default_transaction_isolation', 'serializable', false)",
}


@pytest.mark.parametrize("when", ["before insert", "after insert"])
@pytest.mark.parametrize("left", BY_TRIGGER)
def test_what_a_trigger_leaves_in_a_session_stops_no_worker(
    harness: StoreHarness, postgres_url: str, left: str, when: str
) -> None:
    add_trigger(harness, BY_TRIGGER[left], when)
    for words in (["a", "bad", "c"], ["d", "bad", "f"]):
        harness.submit(*(f"{word} {words[0]}" for word in words))
        moves = [
            harness.forward(claim, effect=writes(word)) for claim, word in zip(harness.claim(), words, strict=True)
        ]
        answers = harness.commit(*moves)
        assert (answers[0], answers[2]) == (ACCEPTED, ACCEPTED)
    rows = ask(postgres_url, "select word from public.mine where word <> 'bad' order by word")
    assert rows == [("a",), ("c",), ("d",), ("f",)]


def test_a_session_that_was_not_changed_keeps_its_connection(harness: StoreHarness) -> None:
    marks = [harness.sql("show application_name")]
    for key in "ab":
        claim = harness.submit_and_claim(key)
        effect = says("select pg_advisory_xact_lock(1)", "set local work_mem = '1MB'", "select count(*) from mine")
        assert harness.commit(harness.forward(claim, effect=effect)) == [ACCEPTED]
        marks.append(harness.sql("show application_name"))
    assert marks[0] == marks[1] == marks[2]


def test_usual_statements_are_not_suspicious() -> None:
    usual = [
        "insert into mine values (%s) on conflict (word) do update set word = excluded.word",
        "update mine set word = 'set role'",
        "delete from mine where word = %s",
        "select word from mine where word = %s",
        "with new as (insert into mine values (1) returning word) select word from new",
        "create table if not exists mine (word text)",
        "-- set\ninsert into settings values (1)",
    ]
    assert [statement for statement in usual if is_suspicious(statement)] == []
    assert is_suspicious(psycopg.sql.SQL("insert"))
    assert is_suspicious(b"select 1; SET role x")


# What fails only at the commit


STATES = ("P0001", "45000", "22012", "34000", "XX000", "25006", "40001", "53100", "57014", "57P01", "08006")
"""Codes of errors: of users, of data, of a missing cursor, and those that usually are troubles of the database."""


def raise_at_commit(harness: StoreHarness, state: str) -> None:
    """From now on a commit fails if a row of it has the word `bad`."""
    harness.sql(
        f"""
        create or replace function refuse() returns trigger language plpgsql as
        $$ begin raise 'not this one' using errcode = '{state}'; end $$
        """
    )
    harness.sql(
        """
        create constraint trigger refuse after insert on mine deferrable initially deferred
        for each row when (new.word = 'bad') execute function refuse()
        """
    )


@pytest.mark.parametrize("state", STATES)
def test_a_commit_that_a_deferred_trigger_refuses_fails_the_document_of_its_effect(
    harness: StoreHarness, postgres_url: str, state: str
) -> None:
    raise_at_commit(harness, state)
    harness.submit(*"abcde")
    words = ["a", "bad", "c", "d", "e"]
    moves = [harness.forward(claim, effect=writes(word)) for claim, word in zip(harness.claim(), words, strict=True)]
    answers = harness.commit(*moves)
    assert [answer == ACCEPTED for answer in answers] == [word != "bad" for word in words]
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[1].error, psycopg.Error)
    assert answers[1].error.sqlstate == state
    assert ask(postgres_url, "select word from mine order by word") == [("a",), ("c",), ("d",), ("e",)]
    assert harness.document("b").checkpoint.step == "extract"


def test_a_worker_lives_on_when_a_trigger_refuses_a_commit(harness: StoreHarness) -> None:
    raise_at_commit(harness, "XX000")
    pipeline = holdfast.Pipeline("words")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        return doc.key

    @read.effect
    def write(tx: Tx, doc: holdfast.Document, value: str) -> None:
        writes(value)(tx)

    keys = [*(f"key {n}" for n in range(20)), "bad"]
    holdfast.submit(pipeline, harness.store, batch="march", documents=[(key, None) for key in keys])
    report = holdfast.drain(pipeline, harness.store)
    assert (report.done, report.dead) == (20, 1)
    assert "not this one" in harness.store.document("words", "march", "bad").reason


def test_a_commit_that_ends_its_own_backend_fails_the_document_of_its_effect(
    harness: StoreHarness, postgres_url: str
) -> None:
    add_trigger(harness, "perform pg_terminate_backend(pg_backend_pid())", "after insert")
    harness.submit("a", "b", "c")
    moves = [
        harness.forward(claim, effect=writes(word))
        for claim, word in zip(harness.claim(), ["a", "bad", "c"], strict=True)
    ]
    answers = harness.commit(*moves)
    assert [answer == ACCEPTED for answer in answers] == [True, False, True]
    assert ask(postgres_url, "select word from mine order by word") == [("a",), ("c",)]


# What never works, however often it is repeated


def raises(state: str) -> Effect:
    return says(f"do $$ begin raise 'again' using errcode = '{state}'; end $$")


NEVER: dict[str, tuple[Effect, type[Exception]]] = {
    "a collision": (raises("40001"), psycopg.errors.SerializationFailure),
    "a deadlock": (raises("40P01"), psycopg.errors.DeadlockDetected),
    "a backend that ends itself": (says("select pg_terminate_backend(pg_backend_pid())"), psycopg.OperationalError),
    "a transaction that only reads": (
        says("set transaction read only", "insert into mine values ('bad')"),
        BodyError,
    ),
}


@pytest.mark.parametrize("trouble", NEVER)
def test_an_effect_that_fails_however_often_it_is_repeated_fails_its_document_alone(
    harness: StoreHarness, postgres_url: str, trouble: str
) -> None:
    effect, kind = NEVER[trouble]
    harness.submit("a", "b", "c")
    effects = [writes("a"), effect, writes("c")]
    moves = [harness.forward(claim, effect=each) for claim, each in zip(harness.claim(), effects, strict=True)]
    answers = harness.commit(*moves)
    assert answers[0] == answers[2] == ACCEPTED
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[1].error, kind)
    assert ask(postgres_url, "select word from mine order by word") == [("a",), ("c",)]


def test_a_usual_effect_costs_no_more_statements(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    execute: Callable[..., Any] = psycopg.Cursor.execute

    def overheard(cursor: Any, query: Any, *how: Any, **more: Any) -> Any:
        said.append(str(query))
        return execute(cursor, query, *how, **more)

    claim = harness.submit_and_claim()
    harness.commit(harness.forward(harness.submit_and_claim("b"), effect=writes("b")))
    monkeypatch.setattr(psycopg.Cursor, "execute", overheard)
    harness.commit(harness.forward(claim, effect=writes("a")))
    assert [query.split()[0] for query in said] == ["begin", "--", "insert", "close"]
