"""Roles and databases may have other defaults than PostgreSQL. Nothing of ours depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import holdfast
from holdfast.core.errors import CannotKeep, StoreError, StoreReadOnly
from holdfast.core.model import Item
from holdfast.core.moves import ACCEPTED, Tx
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import PAPERS, StoreHarness, after
from tests.support.pgbouncer import find_pgbouncer, pgbouncer
from tests.support.postgres import Postgres

DAY = timedelta(days=1)
ODD = {
    "datestyle": ["SQL, DMY", "German", "Postgres, MDY", "ISO, DMY"],
    "intervalstyle": ["iso_8601", "sql_standard", "postgres_verbose"],
    "array_nulls": ["off"],
    "standard_conforming_strings": ["off"],
    "bytea_output": ["escape"],
    "timezone": ["Asia/Kathmandu", "<+0330>-03:30"],
    "client_encoding": ["LATIN1"],
    "default_transaction_isolation": ["serializable", "repeatable read"],
    "row_security": ["off"],
    "search_path": ["app"],
    "extra_float_digits": ["-15"],
    "statement_timeout": ["10s"],
    "session_replication_role": ["replica"],
}
"""Settings of a database or a role, with values that broke something or might."""
EACH = [(setting, value) for setting, values in ODD.items() for value in values]


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(sql)
        return cursor.fetchall() if cursor.description else []


def set_for_database(url: str, setting: str, value: str) -> None:
    ask(url, f"alter database {url.rpartition('/')[2]} set {setting} = '{value}'")


def open_harness(url: str) -> Iterator[StoreHarness]:
    store = PostgresStore(url)
    yield StoreHarness(store, ManualClock())
    store.close()


def work_through(harness: StoreHarness) -> None:
    """Use times, durations, arrays with and without null, bytes, text with backslashes, and an effect."""
    store = harness.store
    harness.submit("a", "b", "c", "it's \\ a ü")
    one, two, three, four = harness.claim()
    moves = [
        harness.within(one, 1, items=[Item("extract", 0, '"p\\\\ü"')]),
        harness.forward(two, items=[Item("extract", 0, b"\x00\xff\\'")]),
        harness.forward(three, effect=lambda tx: tx.execute("create table mine (n int)") and None),
    ]
    assert harness.commit(*moves) == [ACCEPTED] * 3
    assert [value for *_, value in harness.items(two)] == [b"\x00\xff\\'"]
    assert harness.release(four, delay=2 * DAY)
    due = harness.document(four.key).due_at
    assert due is not None
    assert due.tzinfo == UTC
    assert DAY < due - store.now() <= 2 * DAY
    assert store.workers()[0][0].lease == harness.worker.lease
    assert [cause.documents for cause in store.wait_causes("papers")]
    assert store.holders("papers")
    assert store.journal(four.document_id)[0].verb == "fail"
    harness.finish(after(two, moves[1]))
    assert (harness.balance().done, harness.balance().open) == (1, 3)


@pytest.mark.parametrize(("setting", "value"), EACH)
def test_a_store_works_with_any_default_of_its_database(postgres_url: str, setting: str, value: str) -> None:
    ask(postgres_url, "create schema app")
    set_for_database(postgres_url, setting, value)
    for harness in open_harness(postgres_url):
        work_through(harness)


def test_a_store_works_with_the_defaults_of_a_role(postgres_url: str, postgres_server: Postgres) -> None:
    role = f"odd_{uuid4().hex}"
    ask(postgres_url, f"create role {role} login superuser")
    for setting, values in ODD.items():
        if setting != "search_path":
            ask(postgres_url, f"alter role {role} set {setting} = '{values[0]}'")
    for harness in open_harness(postgres_url.replace("postgres@", f"{role}@")):
        work_through(harness)
    ask(postgres_url, f"reassign owned by {role} to postgres")
    ask(postgres_url, f"drop role {role}")


def test_the_order_of_day_and_month_stays_as_it_is_for_effects(postgres_url: str) -> None:
    set_for_database(postgres_url, "datestyle", "SQL, DMY")
    for harness in open_harness(postgres_url):
        assert harness.sql("select '02/03/2001'::date::text") == [("2001-03-02",)]
        assert harness.sql("show timezone") == ask(postgres_url, "show timezone")


def test_an_effect_runs_at_read_committed_whatever_the_default_is(postgres_url: str) -> None:
    set_for_database(postgres_url, "default_transaction_isolation", "serializable")
    seen: list[Any] = []

    def effect(tx: Tx) -> None:
        seen.append(tx.execute("show transaction_isolation").fetchone())

    for harness in open_harness(postgres_url):
        assert harness.commit(harness.forward(harness.submit_and_claim(), effect=effect)) == [ACCEPTED]
        assert harness.sql("show default_transaction_isolation") == [("read committed",)]
    assert seen == [("read committed",)]


def test_a_url_cannot_choose_an_encoding_that_lacks_characters(postgres_url: str) -> None:
    for harness in open_harness(f"{postgres_url}?client_encoding=latin1"):
        claim = harness.keep(harness.submit_and_claim(), '"日本"')
        assert [value for *_, value in harness.items(claim)] == ['"日本"']


def test_a_database_that_shall_only_be_read_says_why(postgres_url: str) -> None:
    PostgresStore(postgres_url).close()
    set_for_database(postgres_url, "default_transaction_read_only", "on")
    store = PostgresStore(postgres_url)
    with pytest.raises(StoreReadOnly, match="default_transaction_read_only"):
        store.declare(PAPERS)
    store.close()


# A database that does not have every character


@pytest.fixture
def latin1(postgres_server: Postgres) -> Iterator[StoreHarness]:
    name = f"latin_{uuid4().hex}"
    ask(postgres_server.dsn, f"create database {name} encoding 'LATIN1' template template0 locale 'C'")
    yield from open_harness(postgres_server.url(name))
    postgres_server.drop_database(name)


def test_a_latin1_database_keeps_what_it_has_characters_for(latin1: StoreHarness) -> None:
    work_through(latin1)


def test_a_key_without_characters_in_the_encoding_is_refused_with_a_sentence(latin1: StoreHarness) -> None:
    with pytest.raises(CannotKeep, match="Use a database with the encoding UTF8"):
        latin1.submit("日本")


def test_a_document_whose_text_cannot_be_stored_fails_alone(latin1: StoreHarness) -> None:
    pipeline = holdfast.Pipeline("texts")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if doc.key == "raises":
            raise ValueError("日本 \0")
        return "日本" if doc.key == "returns" else "ü"

    keys = ("fine", "raises", "returns")
    holdfast.submit(pipeline, latin1.store, batch="march", documents=[(key, None) for key in keys])
    report = holdfast.drain(pipeline, latin1.store)
    assert (report.done, report.dead) == (1, 2)
    reason = latin1.store.document("texts", "march", "raises").reason
    assert reason == "ValueError: \\u65e5\\u672c \\x00"
    assert 'no equivalent in encoding "LATIN1"' in latin1.store.document("texts", "march", "returns").reason


# Behind a pooler


@pytest.fixture
def pooler(postgres_server: Postgres) -> Iterator[int]:
    if find_pgbouncer() is None:
        pytest.skip("there is no pgbouncer on this machine")
    with pgbouncer(postgres_server) as port:
        yield port


def test_behind_a_pooler_settings_that_it_keeps_are_set(
    postgres_server: Postgres, postgres_url: str, pooler: int
) -> None:
    set_for_database(postgres_url, "datestyle", "German")
    set_for_database(postgres_url, "default_transaction_isolation", "serializable")
    for harness in open_harness(postgres_url.replace(str(postgres_server.port), str(pooler))):
        work_through(harness)


def test_behind_a_pooler_a_setting_that_it_does_not_keep_has_to_be_right(
    postgres_server: Postgres, postgres_url: str, pooler: int
) -> None:
    set_for_database(postgres_url, "array_nulls", "off")
    with pytest.raises(StoreError, match=r"alter role ... set array_nulls = 'on'"):
        PostgresStore(postgres_url.replace(str(postgres_server.port), str(pooler)))
