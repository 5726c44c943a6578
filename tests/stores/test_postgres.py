"""What only PostgreSQL can get wrong: query plans, HOT updates, poolers, errors, and values it cannot store."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from time import sleep
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import holdfast
from holdfast.core.errors import (
    BodyError,
    PlanRefused,
    SchemaNewer,
    SchemaOutdated,
    StoreError,
    StoreFull,
    StoreGone,
    StoreReadOnly,
)
from holdfast.core.future_times import CLOCK_TOLERANCE
from holdfast.core.model import Claim, Failure, Item, NewDocument
from holdfast.core.moves import ACCEPTED, Effect, Refused, Tx
from holdfast.stores.postgres import PostgresStore, connection
from holdfast.stores.postgres.dialect import SQL, PostgresDialect, bytes_, numbers, texts
from holdfast.stores.postgres.store import NEWEST
from holdfast.stores.sql.dialect import Rows
from holdfast.stores.sql.documents import PAGE
from holdfast.stores.sql.work import DUE, SUSPECT
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import PAPERS, StoreHarness, after
from tests.support.pgbouncer import find_pgbouncer, pgbouncer
from tests.support.postgres import Postgres

SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    store.close()


@pytest.fixture
def harness(store: PostgresStore, clock: ManualClock) -> StoreHarness:
    return StoreHarness(store, clock)


def ask(url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a statement on a connection of our own."""
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


# Array literals


@pytest.fixture(scope="module")
def db(postgres_server: Postgres) -> Iterator[Any]:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as db:
        yield db


def given_back(db: Any, kind: str, literal: str | None, count: int) -> list[Any]:
    """Read a column as our statements do: beside another one, whose length is the number of rows."""
    rows = f"select x from unnest(%s::int[], %s::{kind}[]) with ordinality as t(n, x, place) order by place"
    return [row[0] for row in db.execute(rows, (list(range(count)), literal)).fetchall()]


PLAIN = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
TRICKY = st.sampled_from(["", "NULL", "null", '"', "\\", '\\"', "{}", ",", "a,b", " ", "\n", '","', "\\\\x00", "None"])


@given(column=st.lists(st.none() | PLAIN | TRICKY))
@settings(max_examples=300, deadline=None)
def test_a_column_of_texts_comes_back_as_it_was(db: Any, column: list[str | None]) -> None:
    assert given_back(db, "text", texts(column), len(column)) == column


@given(column=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)) | st.lists(st.integers(0, 1)))
@settings(max_examples=100, deadline=None)
def test_a_column_of_numbers_comes_back_as_it_was(db: Any, column: list[int | None]) -> None:
    assert given_back(db, "bigint", numbers(column), len(column)) == column


@given(column=st.lists(st.none() | st.binary()))
@settings(max_examples=100, deadline=None)
def test_a_column_of_bytes_comes_back_as_it_was(db: Any, column: list[bytes | None]) -> None:
    assert given_back(db, "bytea", bytes_(column), len(column)) == column


@pytest.mark.parametrize("column", [["\0"], ["a", "b\0c"], ["a\0", None]])
def test_a_text_with_nul_is_refused_and_not_read_as_two(column: list[str | None]) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        texts(column)


# Plans: a statement on the hot path never reads the whole table of documents


@pytest.fixture(scope="module")
def crowd(postgres_server: Postgres) -> Iterator[StoreHarness]:
    """250,000 documents: most of them done, 20,000 waiting, 2,000 running. The database has no statistics of them."""
    store = PostgresStore(postgres_server.create_database("crowd"))
    harness = StoreHarness(store, ManualClock())
    harness.submit("first")
    ask(store.url, "alter table hf_document set (autovacuum_enabled = off)")
    ask(store.url, "alter table hf_document disable trigger all")  # its references are looked at one by one
    ask(
        store.url,
        """
        insert into hf_document (pipeline_id, batch_id, plan_id, key, payload, fingerprint, submission, part, state,
                                 step_id, worker_id, fence, due_at, claimed_at, submitted_at, moved_at)
        select pipeline_id, batch_id, plan_id, 'key ' || n, '{}', '', 1, 1,
               case when n % 125 = 0 then 'running' when n % 125 <= 10 then 'waiting' else 'done' end,
               case when n % 125 <= 10 then step_id end,
               case when n % 125 = 0 then %s end, 1,
               case when n % 125 between 1 and 10 then now() end, now(), now(), now()
          from hf_document, generate_series(1, 250000) as n
        """.replace("% 125", "%% 125"),
        harness.worker.id,
    )
    yield harness
    store.close()


@pytest.fixture(scope="module", params=["without statistics", "with statistics", "statistics of a quiet hour"])
def statistics(request: pytest.FixtureRequest, crowd: StoreHarness) -> str:
    if request.param == "with statistics":
        ask(crowd.store.url, "analyze")
    if request.param == "statistics of a quiet hour":  # when no worker held anything
        ask(crowd.store.url, "update hf_document set state = 'dead', worker_id = null where state = 'running'")
        ask(crowd.store.url, "analyze")
        ask(
            crowd.store.url,
            "update hf_document set state = 'running', worker_id = %s where state = 'dead'",
            crowd.worker.id,
        )
    return str(request.param)


def plan_of(harness: StoreHarness, query: str, asked: dict[str, Any], kind: Sequence[str] = DUE) -> str:
    assert isinstance(harness.store, PostgresStore)
    statement = SQL[query].with_conditions(kind)
    rows = harness.store._db.reading(lambda db: db.execute(f"explain {statement}", asked).fetchall())
    return "\n".join(re.sub(r"\{[^}]{80,}\}", "{...}", row[0]) for row in rows)


def asked_of(query: str, harness: StoreHarness) -> dict[str, Any]:
    """Return the parameters of a statement for a group of 500."""
    held = [row[0] for row in ask(harness.store.url, "select id from hf_document where state = 'running' limit 500")]
    plan, ids = harness.plan, {"ids": held}
    ones, zeros, empty = [1] * 500, [0] * 500, [""] * 500
    guards = ids | {"generations": zeros, "fences": ones, "moves": zeros}
    before = {"before_ids": [plan.first] * 500, "cursors_before": None}
    pipeline, step_ids = {"pipeline_id": plan.pipeline_id}, {"step_ids": [*plan.step_ids.values()]}
    asked: dict[str, dict[str, Any]] = {
        "move": guards
        | before
        | {"step_ids": [plan.step_ids["chunk"]] * 500}
        | {"cursors": None, "timeouts": None, "states": None, "reasons": None, "codes": None, "stalled": None}
        | {"effects": None, "extents": None, "totals": None}
        | {"item_ids": held, "item_step_ids": [plan.first] * 500, "positions": zeros, "items": ones}
        | {"values": ["{}"] * 500, "datas": None, "blob_hashes": None},
        "moved_documents": guards,
        "claim": pipeline
        | step_ids
        | {"worker_id": harness.worker.id, "plan_id": plan.plan_id, "timeouts": "{}", "batch": None, "limit": 500},
        "orphans_to_reclaim": pipeline | {"gone": []},
        "reclaim": {
            "orphans": Rows(
                id=held,
                fence=ones,
                state=["waiting"] * 500,
                delay=[timedelta(0)] * 500,
                at_once=ones,
                reason=empty,
                code=empty,
                error=empty,
                attempts=zeros,
                crashes=zeros,
                losses=zeros,
                recoverable=[None] * 500,
            )
        },
        "release": {
            "endings": Rows(
                id=held,
                generation=zeros,
                fence=ones,
                state=["waiting"] * 500,
                until=[None] * 500,
                delay=[timedelta(0)] * 500,
                at_once=ones,
                reason=empty,
                code=empty,
                error=empty,
                refund=zeros,
                crashed=zeros,
                lost=zeros,
                deferred=zeros,
                interrupted=zeros,
                recoverable=[None] * 500,
            )
        },
        "release_unknown": {"id": harness.worker.id, "keeping": held},
        "known_documents": {"batch_id": 1, "keys": [f"key {n}" for n in range(500)]},
        "find_documents": {"key": "key 7"},
        "wake": pipeline | {"bodies": [plan.first], "limit": 2000},
        "overdue_at_gate": pipeline | {"step_id": plan.first, "limit": 500},
        "lost_claims": {"claims": Rows(id=held, fence=ones)},
        "lock_pipelines": ids,
        "lock_batches": ids,
        "lock_documents": ids | {"states": ["waiting", "running"]},
        "journal_decisions": ids | {"verb": "pause", "who": "cat", "detail": "{}", "code": ""},
        "journal_rewinds": ids | {"who": "cat", "to": "extract", "reason": "why", "code": "", "then": "wait"},
        "write_journal": {
            "lines": Rows(id=held, verb=["wake"] * 500, who=empty, detail=["{}"] * 500, code=empty),
        },
        "pause": ids | {"until": None, "reason": "why"},
        "redrive": {"dead": Rows(id=held, nth=zeros), "every": timedelta(0), "after": timedelta(0)},
        "rename": {"documents": Rows(id=held, key=empty, payload=["{}"] * 500, fingerprint=empty)},
        "rewind_to": ids
        | {"then": "wait", "reason": "why", "code": "", "plan_id": None, "step_id": plan.first}
        | {"reuses": "{}", "serves": None},
        "delete_old_items": ids,
        "delete_old_failed_items": ids,
        "suspects_due": pipeline | step_ids | {"batch": None},
        "waiting_priorities": pipeline,
        "count_future_times": pipeline | {"priorities": [0, 1], "tolerance": CLOCK_TOLERANCE},
        "future_waits": pipeline | {"priority": 0, "limit": 2000, "tolerance": CLOCK_TOLERANCE},
        "future_running": pipeline | {"tolerance": CLOCK_TOLERANCE},
        "restart_waits": ids,
        "reset_running": ids | {"timeouts": Rows(step_id=[plan.first], timeout=[CLOCK_TOLERANCE])},
    }
    return PostgresDialect().encode({"now": None} | asked[query])


@pytest.mark.parametrize(
    "query",
    [
        *("move", "moved_documents", "claim", "orphans_to_reclaim", "reclaim", "release", "release_unknown"),
        *("known_documents", "find_documents", "wake", "suspects_due", "overdue_at_gate", "lost_claims"),
        *("delete_old_items", "delete_old_failed_items", "lock_pipelines", "lock_batches", "lock_documents"),
        *("journal_decisions", "journal_rewinds", "write_journal", "pause", "redrive", "rename", "rewind_to"),
        *("waiting_priorities", "count_future_times", "future_running", "restart_waits", "reset_running"),
    ],
)
@pytest.mark.usefixtures("statistics")
def test_no_statement_reads_the_whole_table_of_documents(crowd: StoreHarness, query: str) -> None:
    plan = plan_of(crowd, query, asked_of(query, crowd))
    assert "Seq Scan on hf_document" not in plan, plan


@pytest.mark.parametrize(("kind", "index"), [("waiting", "hf_document_waiting"), ("paused", "hf_document_paused")])
@pytest.mark.usefixtures("statistics")
def test_waits_that_are_too_long_are_found_by_the_index_of_due_times(
    crowd: StoreHarness, kind: str, index: str
) -> None:
    plan = plan_of(crowd, "future_waits", asked_of("future_waits", crowd), [kind])
    assert index in plan, plan
    assert "Sort" not in plan.replace("Incremental Sort", "").replace("Sort Key", ""), plan


@pytest.mark.parametrize("query", ["suspects_due", "claim"])
@pytest.mark.usefixtures("statistics")
def test_suspects_are_found_by_their_index(crowd: StoreHarness, query: str) -> None:
    assert "hf_document_suspect" in plan_of(crowd, query, asked_of(query, crowd), SUSPECT)


@pytest.mark.parametrize("query", ["documents", "select_documents", "count_documents"])
@pytest.mark.usefixtures("statistics")
def test_dead_letters_are_found_by_their_index(crowd: StoreHarness, query: str) -> None:
    asked = {"pipeline": "papers", "after": 0, "limit": 500}
    assert isinstance(crowd.store, PostgresStore)
    question = SQL[query].with_conditions(["dead"])
    rows = crowd.store._db.reading(lambda db: db.execute(f"explain {question}", asked).fetchall())
    plan = "\n".join(row[0] for row in rows)
    assert "hf_document_dead" in plan, plan


@pytest.mark.parametrize("names", [["state"], ["batch"], ["batch", "state"], ["waiting"], []])
@pytest.mark.usefixtures("statistics")
def test_a_slice_is_found_by_walking_on_without_a_sort(crowd: StoreHarness, names: list[str]) -> None:
    asked = {"pipeline": "papers", "after": 100_000, "limit": 2000, "state": "done", "batch": "march"}
    assert isinstance(crowd.store, PostgresStore)
    question = f"explain {SQL['select_documents'].with_conditions(names)}"
    rows = crowd.store._db.reading_one_moment(
        lambda db: (db.execute(SQL["walk_by_id"]), db.execute(question, asked).fetchall())[1]
    )
    plan = "\n".join(row[0] for row in rows)
    assert "Sort" not in plan, plan


@pytest.mark.parametrize("query", ["move", "moved_documents", "reclaim", "release", "lost_claims", "redrive", "rename"])
@pytest.mark.usefixtures("statistics")
def test_no_statement_compares_every_document_of_a_group_with_every_other(crowd: StoreHarness, query: str) -> None:
    plan = plan_of(crowd, query, asked_of(query, crowd))
    assert not re.search(r"Join Filter: .*\.id = ", plan), plan


def test_moves_that_go_on_change_no_index(harness: StoreHarness, postgres_url: str) -> None:
    harness.submit(*(f"key {n}" for n in range(500)))
    claims = harness.claim(limit=500)
    before = updates(harness, postgres_url)
    for cursor in range(10):
        moves = [harness.within(claim, cursor, items=[Item("extract", cursor, "{}")]) for claim in claims]
        assert harness.commit(*moves) == [ACCEPTED] * 500
        claims = [after(claim, move) for claim, move in zip(claims, moves, strict=True)]
    made, hot = (now - then for now, then in zip(updates(harness, postgres_url), before, strict=True))
    assert made == 5000
    assert hot >= 4950  # a few rows outgrow their page when they are claimed, and settle in the next


def updates(harness: StoreHarness, url: str) -> tuple[int, int]:
    """Return the number of updates of documents, and of those that changed no index."""
    assert isinstance(harness.store, PostgresStore)
    harness.store._db.reading(lambda db: db.execute("select pg_stat_force_next_flush()").fetchall())
    harness.store.pipelines()
    (counts,) = ask(url, "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'hf_document'")
    return counts[0], counts[1]


def test_a_group_without_effects_is_one_statement(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.submit("a", "b", "c")
    moves = [harness.forward(claim, items=[Item("extract", 0, "{}")]) for claim in harness.claim()]
    said: list[str] = []
    execute = psycopg.Connection.execute

    def overheard(db: Any, query: str, *asked: Any, **more: Any) -> Any:
        said.append(query)
        return execute(db, query, *asked, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", overheard)
    assert harness.commit(*moves) == [ACCEPTED] * 3
    assert said == [SQL["move"]]


# A pooler that gives every transaction another session


@pytest.fixture
def pooled(postgres_server: Postgres, postgres_url: str) -> Iterator[StoreHarness]:
    """A store behind a pgbouncer with two sessions."""
    if find_pgbouncer() is None:
        pytest.skip("there is no pgbouncer on this machine")
    with pgbouncer(postgres_server) as port:
        store = PostgresStore(postgres_url.replace(str(postgres_server.port), str(port)))
        yield StoreHarness(store, ManualClock())
        store.close()


def test_everything_works_behind_a_pooler_of_transactions(pooled: StoreHarness, postgres_url: str) -> None:
    pooled.submit(*(f"key {n}" for n in range(40)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: work_alone(pooled, f"worker {n}"), range(4)))
    assert pooled.balance().done == 40
    assert ask(postgres_url, "select count(*) from rows_of_ours") == [(40,)]


def test_a_store_survives_a_pooler_that_loses_its_sessions(pooled: StoreHarness, postgres_url: str) -> None:
    claim = pooled.submit_and_claim()
    sessions = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

    def lose_all(tx: Tx) -> None:
        if not lost:
            lost.extend(ask(postgres_url, f"select pg_terminate_backend(pid, 5000) {sessions}"))
        tx.execute("select 1")

    lost: list[Any] = []
    claim = pooled.advance(claim, effect=lose_all)
    assert lost
    ask(postgres_url, f"select pg_terminate_backend(pid, 5000) {sessions}")
    pooled.finish(claim)
    assert pooled.balance().done == 1


def work_alone(harness: StoreHarness, name: str) -> None:
    worker = harness.register_worker(name)
    harness.store.heartbeat(worker)
    while claims := harness.claim(limit=7, worker=worker):
        for step in ("extract", "chunk", "embed"):
            effect = writes_a_row if step == "embed" else None
            moves = [harness.forward(claim, items=[Item(step, 0, '{"n": 1}')], effect=effect) for claim in claims]
            assert harness.commit(*moves) == [ACCEPTED] * len(moves)
            claims = [after(claim, move) for claim, move in zip(claims, moves, strict=True)]
        harness.balance()
        assert list(harness.store.items(claims[0].document_id))
    harness.store.retire_worker(worker)


def writes_a_row(tx: Tx) -> None:
    tx.execute("select pg_advisory_xact_lock(1)")
    tx.execute("create table if not exists rows_of_ours (n int)")
    tx.execute("insert into rows_of_ours values (%s)", (1,))


# Effects


def test_the_transaction_speaks_postgresql(harness: StoreHarness) -> None:
    seen: list[Any] = []

    def effect(tx: Tx) -> None:
        tx.execute("create table mine (n int, word text)")
        tx.executemany("insert into mine values (%s, %s)", [(n, "word") for n in range(5)])
        seen.append((tx.dialect, tx.execute("select count(*) from mine where word like 'w%'").fetchone()))

    assert harness.commit(harness.forward(harness.submit_and_claim(), effect=effect)) == [ACCEPTED]
    assert seen == [("postgresql", (5,))]


def passes_over_an_error(tx: Tx) -> None:
    with suppress(psycopg.Error):
        tx.execute("select * from nowhere")


def ends_the_transaction(tx: Tx) -> None:
    tx.execute("commit")


def ends_it_slyly(tx: Tx) -> None:
    tx.execute("select 1; commit")


@pytest.mark.parametrize("effect", [passes_over_an_error, ends_the_transaction])
def test_an_effect_that_breaks_the_transaction_is_refused_and_the_others_commit(
    harness: StoreHarness, effect: Effect
) -> None:
    harness.submit("a", "b", "c")
    first, bad, last = (harness.forward(claim) for claim in harness.claim())
    bad = harness.forward(bad.claim, effect=effect)
    answers = harness.commit(first, bad, last)
    assert answers[0] == answers[2] == ACCEPTED
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[1].error, BodyError)
    assert harness.document("b").checkpoint.step == "extract"


def test_an_effect_that_ends_the_transaction_is_noticed(harness: StoreHarness) -> None:
    (answer,) = harness.commit(harness.forward(harness.submit_and_claim(), effect=ends_it_slyly))
    assert isinstance(answer, Refused)
    assert "leave commit and rollback alone" in str(answer.error)


STORE_LIKE = {
    "a deadlock": psycopg.errors.DeadlockDetected,
    "a collision": psycopg.errors.SerializationFailure,
    "a full disk": psycopg.errors.DiskFull,
    "a server that only reads": psycopg.errors.ReadOnlySqlTransaction,
}


@pytest.mark.parametrize("trouble", STORE_LIKE)
def test_an_error_of_another_database_in_an_effect_is_the_error_of_that_document(
    harness: StoreHarness, postgres_server: Postgres, trouble: str
) -> None:
    error, calls = STORE_LIKE[trouble], []

    def effect(_tx: Tx) -> None:
        calls.append(trouble)
        ask(postgres_server.dsn, f"do $$ begin raise '{trouble}' using errcode = '{error.sqlstate}'; end $$")

    harness.submit("a", "b", "c")
    first, second, third = harness.claim()
    answers = harness.commit(harness.forward(first), harness.forward(second, effect=effect), harness.forward(third))
    assert answers[0] == answers[2] == ACCEPTED
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[1].error, error)
    assert len(calls) == 2  # with the others, and alone


def test_an_error_of_another_database_in_a_transaction_of_the_caller_is_not_changed(
    harness: StoreHarness, postgres_server: Postgres
) -> None:
    with pytest.raises(psycopg.errors.SerializationFailure), harness.store.transaction():
        ask(postgres_server.dsn, "do $$ begin raise 'elsewhere' using errcode = '40001'; end $$")


@pytest.mark.parametrize("effect", ["execute", "executemany"])
def test_an_effect_that_finds_the_disk_full_stops_the_commit_not_the_document(
    harness: StoreHarness, effect: str
) -> None:
    full = "do $$ begin raise 'could not extend file' using errcode = 'disk_full'; end $$"
    run = {"execute": lambda tx: tx.execute(full), "executemany": lambda tx: tx.executemany(full, [()])}
    claim = harness.submit_and_claim()
    with pytest.raises(StoreFull, match="Make room"):
        harness.commit(harness.forward(claim, effect=run[effect]))
    harness.advance(claim)


@pytest.fixture
def impatient(postgres_url: str, clock: ManualClock) -> Iterator[StoreHarness]:
    """A harness whose server ends transactions that are idle for half a second."""
    store = PostgresStore(f"{postgres_url}?options=-c%20idle_in_transaction_session_timeout%3D500ms")
    yield StoreHarness(store, clock)
    store.close()


def dawdles(_tx: Tx) -> None:
    sleep(0.8)


def dawdles_and_writes(tx: Tx) -> None:
    sleep(0.8)
    tx.execute("select 1")


def dawdles_and_makes_little_of_it(tx: Tx) -> None:
    with suppress(StoreError):
        dawdles_and_writes(tx)
    raise ValueError("something went wrong")


@pytest.mark.parametrize("effect", [dawdles, dawdles_and_writes, dawdles_and_makes_little_of_it])
def test_an_effect_that_the_server_does_not_wait_for_fails_its_document_alone(
    impatient: StoreHarness, effect: Effect
) -> None:
    impatient.submit("a", "b", "c")
    first, slow, last = impatient.claim()
    answers = impatient.commit(
        impatient.forward(first, effect=writes_a_row),
        impatient.forward(slow, effect=effect),
        impatient.forward(last, effect=writes_a_row),
    )
    assert answers[0] == answers[2] == ACCEPTED
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[1].error, BodyError)
    assert "idle for 0.5 s at most (idle_in_transaction_session_timeout)" in str(answers[1].error)
    assert "Effects must be short" in str(answers[1].error)
    assert impatient.sql("select count(*) from rows_of_ours") == [(2,)]
    impatient.advance(slow)


def test_effects_that_only_together_are_too_slow_all_commit(impatient: StoreHarness) -> None:
    impatient.submit(*"abcdefg")
    moves = [impatient.forward(claim, effect=lambda _: sleep(0.2)) for claim in impatient.claim()]
    assert impatient.commit(*moves) == [ACCEPTED] * 7


def test_a_worker_goes_on_when_the_server_did_not_wait_for_an_effect(impatient: StoreHarness) -> None:
    pipeline = holdfast.Pipeline("slow")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def send(_doc: holdfast.Document) -> int:
        return 1

    @send.effect
    def sent(tx: Tx, doc: holdfast.Document, _value: int) -> None:
        if doc.key == "b":
            dawdles(tx)

    holdfast.submit(pipeline, impatient.store, batch="march", documents=[(key, None) for key in "abc"])
    report = holdfast.drain(pipeline, impatient.store)
    assert (report.done, report.dead) == (2, 1)
    assert "Effects must be short" in impatient.store.document("slow", "march", "b").reason


def test_a_deferred_constraint_refuses_only_the_document_that_broke_it(harness: StoreHarness) -> None:
    with harness.store.transaction() as tx:
        tx.execute("create table mine (word text unique deferrable initially deferred)")
    harness.submit("a", "b", "c", "d")
    words = {"a": "one", "b": "two", "c": "one", "d": "four"}

    def effect(word: str) -> Effect:
        return lambda tx: tx.execute("insert into mine values (%s)", (word,)) and None

    answers = harness.commit(*(harness.forward(claim, effect=effect(words[claim.key])) for claim in harness.claim()))
    assert [answer == ACCEPTED for answer in answers] == [True, True, False, True]
    assert harness.document("c").checkpoint.step == "extract"


def test_two_groups_that_deadlock_both_commit(harness: StoreHarness, postgres_url: str) -> None:
    with harness.store.transaction() as tx:
        tx.execute("create table mine (id int primary key, n int default 0)")
        tx.execute("insert into mine values (1), (2)")
    harness.submit("a", "b")
    met = threading.Barrier(2)

    def effect(first: int, second: int) -> Effect:
        tries: list[int] = []

        def run(tx: Tx) -> None:
            tx.execute("update mine set n = n + 1 where id = %s", (first,))
            tries.append(1)
            if len(tries) == 1:
                met.wait(10)
            tx.execute("update mine set n = n + 1 where id = %s", (second,))

        return run

    one, two = harness.claim()
    moves = [harness.forward(one, effect=effect(1, 2)), harness.forward(two, effect=effect(2, 1))]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(harness.commit, moves)) == [[ACCEPTED], [ACCEPTED]]
    assert ask(postgres_url, "select n from mine") == [(2,), (2,)]


# What PostgreSQL cannot keep, and what it keeps as it is


def test_json_is_stored_unchanged(harness: StoreHarness) -> None:
    kept = ['{"b": 1.0,  "a": "\\u0000", "a": 2}', '"\\ud83d\\ude00"', "1e400", "[ ]"]
    claim = harness.keep(harness.submit_and_claim(), *kept)
    assert [value for _, _, value in harness.items(claim)] == kept


def test_a_document_can_fail_with_a_message_that_has_nul(harness: StoreHarness, postgres_url: str) -> None:
    claim = harness.submit_and_claim()
    assert harness.release(claim, state="dead", failure=Failure("ParseError", "bad byte \0 at 7", "File \0"))
    assert harness.document().reason == "ParseError: bad byte \ufffd at 7"
    assert harness.store.journal(claim.document_id)[0].detail["error"]["message"] == "bad byte \0 at 7"


def test_more_items_than_a_page_are_walked_in_order(harness: StoreHarness) -> None:
    claim = harness.keep(harness.submit_and_claim(), *map(str, range(PAGE + 1)))
    assert [int(value) for _, _, value in harness.items(claim)] == list(range(PAGE + 1))


# The clock


def test_the_clock_is_that_of_the_database_unless_one_is_given(postgres_url: str, store: PostgresStore) -> None:
    (before,), (after_,) = ask(postgres_url, "select clock_timestamp()")[0], [store.now()]
    assert timedelta(0) < after_ - before < SECOND
    by_hand = ManualClock()
    other = PostgresStore(postgres_url, clock=by_hand)
    assert other.now() == by_hand()
    other.close()


# Threads and processes


def test_every_thread_has_a_connection_and_those_of_ended_threads_are_closed(
    harness: StoreHarness, postgres_url: str
) -> None:
    for _ in range(5):
        thread = threading.Thread(target=harness.store.pipelines)
        thread.start()
        thread.join()
    ours = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    assert ask(postgres_url, ours)[0][0] <= 2
    harness.store.close()
    with pytest.raises(StoreGone, match="was closed"):
        harness.store.pipelines()


def test_a_connection_that_opens_while_the_store_is_closed_does_not_stay_open(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres_url)
    store.disconnect()
    opened = []

    def connected(options: dict[str, Any]) -> Any:
        opened.append(connect(options))
        store.close()  # as another thread would, just now
        return opened[-1]

    connect = connection.WatchedConnection.connected
    monkeypatch.setattr(connection.WatchedConnection, "connected", connected)
    with pytest.raises(StoreGone, match="was closed"):
        store.pipelines()
    assert [one.closed for one in opened] == [True]


def test_a_forked_child_opens_a_connection_of_its_own(harness: StoreHarness) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if harness.submit("from the child").new == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert harness.submit("from the parent").new == 1
    assert harness.balance().waiting == 2


# Schema


def test_a_fresh_database_may_be_opened_many_times_at_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(PostgresStore, [postgres_url] * 8))
    assert {store.schema_version() for store in stores} == {NEWEST}
    assert stores[0].migrate() == []
    for store in stores:
        store.close()


def test_an_older_schema_has_to_be_migrated_first(store: PostgresStore, postgres_url: str) -> None:
    ask(postgres_url, "update hf_schema set version = -version")
    with pytest.raises(SchemaOutdated, match="holdfast store migrate"):
        PostgresStore(postgres_url)


def test_a_statement_that_fails_after_an_upgrade_of_the_schema_says_so(store: PostgresStore) -> None:
    with store.transaction() as tx:
        tx.execute("insert into hf_schema values (999, now())")
        tx.execute("alter table hf_step_time rename to hf_tempo")
        tx.execute("alter table hf_worker rename column lease to term")
    with pytest.raises(SchemaNewer, match="was upgraded to schema 999 meanwhile"):
        store.step_times("papers")
    with pytest.raises(SchemaNewer, match="was upgraded to schema 999 meanwhile"):
        store.register_worker(name="ann", host="h", pid=1, born="", lease=timedelta(seconds=30))


def test_a_newer_schema_is_refused_and_not_changed(store: PostgresStore, postgres_url: str) -> None:
    ask(postgres_url, "update hf_schema set version = version + 99")
    with pytest.raises(SchemaNewer, match="upgrade holdfast"):
        PostgresStore(postgres_url)


# Errors in our own words


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: re.sub(r":\d+/", ":1/", url), "check that PostgreSQL runs"),
        (lambda url: re.sub(r"/[^/]*$", "/nowhere", url), "create the database first"),
        (lambda url: url.replace("//postgres@", "//nobody:secret@"), "create the role first"),
    ],
)
def test_a_database_that_cannot_be_reached_says_what_to_check(postgres_url: str, change: Any, says: str) -> None:
    with pytest.raises(StoreGone, match=says):
        PostgresStore(change(postgres_url))


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?user=me&password=secret"]
)
def test_no_message_shows_the_password(url: str) -> None:
    with pytest.raises(StoreGone) as caught:
        PostgresStore(url)
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
    assert "127.0.0.1:1/x" in str(caught.value)


def test_the_error_for_an_invalid_url_does_not_show_its_password() -> None:
    with pytest.raises(StoreError) as caught:
        PostgresStore("postgresql://me:sec ret@host/x")
    assert "ret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_read_only_database_says_so(harness: StoreHarness, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    ask(postgres_url, f"alter database {name} set default_transaction_read_only = on")
    other = PostgresStore(postgres_url)
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        other.declare(PAPERS)
    other.close()


def test_a_full_disk_says_so_and_keeps_nothing(harness: StoreHarness) -> None:
    with harness.store.transaction() as tx:
        tx.execute(
            """
            create function full_() returns trigger language plpgsql as
            $$ begin raise 'could not extend file' using errcode = 'disk_full'; end $$;
            create trigger full_ before insert on hf_item for each row execute function full_();
            """
        )
    claim = harness.submit_and_claim()
    with pytest.raises(StoreFull, match="Make room"):
        harness.commit(harness.forward(claim, items=[Item("extract", 0, "1")]))
    assert harness.document().checkpoint == claim.checkpoint


LIMITS = {"statement_timeout": psycopg.errors.QueryCanceled, "lock_timeout": psycopg.errors.LockNotAvailable}


@pytest.fixture(params=LIMITS)
def limited(request: pytest.FixtureRequest, postgres_url: str, clock: ManualClock) -> Iterator[StoreHarness]:
    """A harness whose role waits for 200 ms at most."""
    store = PostgresStore(f"{postgres_url}?options=-c%20{request.param}%3D200ms")
    yield StoreHarness(store, clock)
    store.close()


HOLD = "lock table hf_document in access exclusive mode"


def in_one_statement(harness: StoreHarness, claim: Claim) -> object:
    return harness.commit(harness.forward(claim))


def in_a_transaction(harness: StoreHarness, claim: Claim) -> object:
    return harness.commit(harness.forward(claim, effect=lambda _: None))


def in_a_read(harness: StoreHarness, _claim: Claim) -> object:
    return harness.document()


@pytest.mark.parametrize("verb", [in_one_statement, in_a_transaction, in_a_read])
def test_a_timeout_of_the_role_raises_our_own_error_and_loses_nothing(
    limited: StoreHarness,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    verb: Callable[[StoreHarness, Claim], object],
) -> None:
    monkeypatch.setattr(connection, "PAUSES", (0.0,))
    claim = limited.submit_and_claim()
    with psycopg.connect(postgres_url) as other:
        other.execute(HOLD)
        with pytest.raises(StoreError, match=r"ended a statement of holdfast: canceling .* timeout\. Nothing was lost"):
            verb(limited, claim)
    limited.advance(claim)


def test_a_commit_that_a_timeout_ended_is_tried_again(limited: StoreHarness, postgres_url: str) -> None:
    claim = limited.submit_and_claim()
    with psycopg.connect(postgres_url) as other:
        other.execute(HOLD)
        freed = threading.Timer(0.3, other.rollback)
        freed.start()
        limited.advance(claim)
        freed.join()


def test_a_transaction_that_a_timeout_ended_at_its_start_is_tried_again(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "begin; set local statement_timeout = '1ms'; select pg_sleep(1)"
    db, begins = harness.store._db, iter([slow])  # type: ignore[attr-defined]
    begin = db._begin
    monkeypatch.setattr(db, "_begin", lambda sql, guard: begin(next(begins, sql), guard))
    harness.submit("a")


def test_a_timeout_in_an_effect_is_the_error_of_that_document(limited: StoreHarness, postgres_url: str) -> None:
    limited.sql("create table mine (n int)")
    limited.submit("a", "b")
    first, second = limited.claim()
    with psycopg.connect(postgres_url) as other:
        other.execute("lock table mine in access exclusive mode")
        wait = limited.forward(second, effect=lambda tx: tx.execute("select n from mine") and None)
        answers = limited.commit(limited.forward(first), wait)
    assert answers[0] == ACCEPTED
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[1].error, tuple(LIMITS.values()))


def test_a_user_who_may_not_create_tables_is_told_how(postgres_server: Postgres, postgres_url: str) -> None:
    ask(postgres_server.dsn, "drop role if exists guest")
    ask(postgres_server.dsn, "create role guest login")
    with pytest.raises(StoreReadOnly, match="grant create on schema"):
        PostgresStore(postgres_url.replace("postgres@", "guest@"))


def test_a_search_path_without_a_schema_is_told(postgres_url: str) -> None:
    database = postgres_url.rpartition("/")[2]
    ask(postgres_url, f"alter database {database} set search_path = nowhere")
    with pytest.raises(StoreError, match=r"search_path of this user names none.*\?schema="):
        PostgresStore(postgres_url)
    PostgresStore(f"{postgres_url}?schema=jobs").close()


@pytest.mark.parametrize("host", ["%2e%0a", "a..b", "x" * 70 + ".example"])
def test_an_invalid_host_name_does_not_answer(host: str) -> None:
    with pytest.raises(StoreGone, match=r"no host can be called|does not answer"):
        PostgresStore(f"postgresql://{host}/x")


def test_a_document_named_twice_in_a_group_moves_once(harness: StoreHarness) -> None:
    claim = harness.submit_and_claim()
    stale = harness.forward(after(claim, harness.within(claim, 7)))
    answers = harness.commit(stale, harness.within(claim, 1), harness.within(claim, 2))
    assert [answer == ACCEPTED for answer in answers] == [False, True, False]
    assert harness.document().checkpoint.cursor == 1


def test_a_payload_is_stored_unchanged(harness: StoreHarness) -> None:
    payload = {"name": 'a "quoted" \\ name', "nul": "\0", "none": None, "deep": [{"x": [1.5, True]}], "text": "é\n😀"}
    harness.store.submit(harness.plan, "march", [NewDocument('k,{}"\\', payload, "f")], submission=9, part=0)
    (claim,) = harness.claim()
    assert (claim.key, claim.payload) == ('k,{}"\\', payload)


# Decisions beside the closing of a batch


WAITING = """
select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
"""
CLOSE = "update hf_batch set state = 'closed', closed_at = now(), report = '{}'"


def test_a_decision_waits_for_a_batch_that_is_being_closed_and_finds_it_closed(
    harness: StoreHarness, postgres_url: str
) -> None:
    claim = harness.submit_and_claim()
    harness.make_dead(claim)
    with psycopg.connect(postgres_url) as closing, ThreadPoolExecutor(1) as pool:
        closing.execute("select id from hf_batch for update")
        redriven = pool.submit(harness.store.redrive, [claim.document_id], who="cat", reason="why")
        while not redriven.done() and ask(postgres_url, WAITING) == [(0,)]:
            pass
        assert not redriven.done()
        closing.execute(CLOSE)
        closing.commit()
        assert redriven.result(30) == []
    assert harness.document().state == "dead"


def test_a_decision_waits_for_a_plan_that_is_being_declared_and_finds_the_step_gone(
    harness: StoreHarness, postgres_url: str
) -> None:
    claim = harness.advance(harness.submit_and_claim())
    harness.make_dead(claim)
    beside = PostgresStore(postgres_url)
    with ThreadPoolExecutor(1) as pool:
        with beside._db.transaction() as db:
            beside._declare(beside._session(db), replace(PAPERS, steps=(PAPERS.steps[0],)))
            redriven = pool.submit(harness.store.redrive, [claim.document_id], who="cat", reason="why")
            while not redriven.done() and ask(postgres_url, WAITING) == [(0,)]:
                pass
            assert not redriven.done()
        assert redriven.result(30) == []
    assert harness.document().state == "dead"
    beside.close()


def test_a_plan_waits_for_a_decision_that_is_being_made_and_is_refused_for_what_was_decided(
    harness: StoreHarness, postgres_url: str
) -> None:
    """Otherwise a document would do a step twice that comes before its own in the new order."""
    claim = harness.advance(harness.advance(harness.submit_and_claim()))
    harness.make_dead(claim)
    beside = PostgresStore(postgres_url)
    asked = {"ids": numbers([claim.document_id]), "states": texts(["dead"])}
    assert isinstance(harness.store, PostgresStore)
    with ThreadPoolExecutor(1) as pool:
        with harness.store._db.transaction() as db:
            db.execute(SQL["lock_pipelines"], asked)
            extract, chunk, embed = PAPERS.steps
            declared = pool.submit(beside.declare, replace(PAPERS, steps=(extract, embed, chunk)))
            while not declared.done() and ask(postgres_url, WAITING) == [(0,)]:
                pass
            assert not declared.done()
            db.execute("update hf_document set state = 'waiting', due_at = now()")
        with pytest.raises(PlanRefused, match="in another order"):
            declared.result(30)
    assert [line.verb for line in harness.store.journal(claim.document_id)][-1] == "fail"
    beside.close()


def test_closing_a_batch_waits_for_a_decision_that_is_being_made(harness: StoreHarness, postgres_url: str) -> None:
    claim = harness.submit_and_claim()
    harness.make_dead(claim)
    asked = {"ids": numbers([claim.document_id]), "states": texts(["dead"])}
    assert isinstance(harness.store, PostgresStore)
    with psycopg.connect(postgres_url, autocommit=True) as closing, ThreadPoolExecutor(1) as pool:
        with harness.store._db.transaction() as db:
            db.execute(SQL["lock_batches"], asked)
            assert len(db.execute(SQL["lock_documents"], asked).fetchall()) == 1
            closed = pool.submit(closing.execute, "select id from hf_batch for update")
            while not closed.done() and ask(postgres_url, WAITING) == [(0,)]:
                pass
            assert not closed.done()
        closed.result(30)


def test_documents_can_be_submitted_while_a_decision_is_made(harness: StoreHarness, postgres_url: str) -> None:
    claim = harness.submit_and_claim()
    asked = {"ids": numbers([claim.document_id]), "states": texts(["running"])}
    assert isinstance(harness.store, PostgresStore)
    beside = PostgresStore(postgres_url)
    with harness.store._db.transaction() as db, ThreadPoolExecutor(1) as pool:
        db.execute(SQL["lock_batches"], asked)
        documents = [NewDocument("b", None, "")]
        submitted = pool.submit(beside.submit, harness.plan, "march", documents, submission=99, part=0)
        assert submitted.result(30).new == 1
    beside.close()


@pytest.mark.parametrize("name", ["\ud800", "%aa"])
def test_the_error_for_a_url_with_lone_surrogates_does_not_show_its_password(name: str) -> None:
    with pytest.raises(StoreError, match="not the URL of a PostgreSQL database") as refused:
        PostgresStore(f"postgresql://me:secret@127.0.0.1:1/{name}")
    assert "secret" not in str(refused.value)
