"""Migrations: a store with an older schema is upgraded, and its data stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast.stores import migrate_store, postgres, sqlite
from holdfast.stores.sql.query_files import migrations

PLACES = """
insert into hf_pipeline (name) values ('papers');
insert into hf_step (pipeline_id, name) values (1, 'read');
insert into hf_step (pipeline_id, name) values (1, 'look');
insert into hf_plan (pipeline_id, digest, shape, step_ids, declared_at) values
  (1, 'd', '{"pipeline":"papers","steps":[{"name":"read","kind":"value"},{"name":"look","kind":"gate"}]}', '[1,2]',
   TIME);
insert into hf_batch (pipeline_id, name, expected, created_at) values (1, 'march', 10, TIME);
"""
DOCUMENT = """
insert into hf_document (pipeline_id, batch_id, plan_id, key, payload, fingerprint, submission, part, state, step_id,
                         reason, error, submitted_at, moved_at)
values (1, 1, 1, '{key}', '1', '', 1, 1, '{state}', {step}, '{reason}', '{error}', TIME, TIME);
"""
LINE = """
insert into hf_journal (document_id, at, verb, who, generation, step, detail)
values ({document}, TIME, '{verb}', 'ann', 1, 'read', '{detail}');
"""
DAMAGED = (
    "its checkpoint is damaged: it is torn. Nothing was guessed: look at it, then rewind it to {}, or submit it again"
)
ROWS = [
    ("hold", "paused", 1, "legal hold", "OnHold", "on_hold"),
    ("gate", "paused", 2, "gate look: a person has to decide", "", "at_gate"),
    ("asked", "paused", 1, "which line?", "", ""),
    ("torn", "paused", 2, DAMAGED.format("look"), "", "damaged_step"),
    ("worse", "paused", 2, DAMAGED.format("read"), "", "damaged"),
    (
        "gone",
        "paused",
        1,
        "the work of read is gone again, after it was done anew: a person has to decide",
        "",
        "work_gone_again",
    ),
    ("deleted", "cancelled", 1, "its file was deleted", "", "file_deleted"),
    ("cancelled", "cancelled", 1, "a mistake", "", ""),
    ("off topic", "dead", 1, "off topic", "Rejected", "rejected"),
    ("no paper", "dead", 1, "Rejected: no paper", "Rejected", ""),
]
LINES = [
    ("rewind", '{"reason":"the work of read is gone","from":"look","cursor":null,"to":"read"}', "work_gone"),
    ("rewind", '{"reason":"please do it again","was":"done","to":"read"}', ""),
    ("pause", '{"reason":"which line?","asks":true}', "question"),
    ("pause", '{"reason":"legal hold"}', ""),
    ("rewind", '{"reason":"the cursor of read is old","from":"read","cursor":7,"to":"read"}', "cursor_expired"),
    ("redrive", "null", ""),
]


def statements(time: str) -> str:
    documents = [
        DOCUMENT.format(key=key, state=state, step=step, reason=reason, error=error)
        for key, state, step, reason, error, _ in ROWS
    ]
    lines = [LINE.format(document=1, verb=verb, detail=detail) for verb, detail, _ in LINES]
    lines.append(LINE.format(document=len(ROWS) - 1, verb="reject", detail='{"reason":"off topic"}'))
    moved = "update hf_document set moves = 1 where key = 'asked';"
    return "".join([PLACES, *documents, *lines, moved]).replace("TIME", time)


def first_schema(module: Any) -> str:
    return migrations(Path(module.__file__).parent / "migrations")[0][1]


def old_sqlite(url: str) -> None:
    db = sqlite3.connect(url.removeprefix("sqlite:///"))
    db.executescript(first_schema(sqlite))
    db.executescript("create table hf_schema (version integer primary key, migrated_at integer not null);")
    db.execute("insert into hf_schema values (1, 0)")
    db.executescript(statements("0"))
    db.commit()
    db.close()


def old_postgres(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute(first_schema(postgres))  # type: ignore[arg-type]
        db.execute("create table hf_schema (version integer primary key, migrated_at timestamptz not null)")
        db.execute("insert into hf_schema values (1, now())")
        db.execute(statements("now()"))  # type: ignore[arg-type]


def edit(url: str, *statements: str) -> None:
    """Run statements on the database of a store."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:
            for statement in statements:
                db.execute(statement)
    else:
        with psycopg.connect(url) as server:
            for statement in statements:
                server.execute(statement)  # type: ignore[arg-type]


@pytest.fixture(params=["sqlite", "postgres"])
def old_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store with the first schema and some rows."""
    make: Callable[[str], None]
    if request.param == "sqlite":
        url, make = f"sqlite:///{tmp_path / 'old.db'}", old_sqlite
    else:
        url, make = request.getfixturevalue("postgres_url"), old_postgres
    make(url)
    return url


def test_reasons_that_were_stored_as_sentences_get_their_codes(old_store: str) -> None:
    assert migrate_store(old_store)[0] == 2
    with holdfast.open(old_store) as store:
        found = {one.key: (one.code, one.error) for one in store.documents("papers")}
        assert found == {key: (code, "Rejected" if state == "dead" else "") for key, state, *_, code in ROWS}
        assert [line.code for line in store.journal(1)] == [code for *_, code in LINES]


def test_what_steps_kept_before_the_migration_is_not_known_of_documents_that_moved(old_store: str) -> None:
    migrate_store(old_store)
    with holdfast.open(old_store) as store:
        plan = store.plan("papers")
        assert plan is not None
        store.resume(plan, [one.id for one in store.documents("papers", state="paused")], who="ann", reason="go on")
        worker = store.register_worker(name="ann", host="h", pid=1, born="now", lease=timedelta(seconds=30))
        claims = {claim.key: claim.extents for claim in store.claim(plan, worker, limit=10)}
    assert (claims["asked"], claims["hold"]) == ({"0": 1}, None)


def test_batches_of_an_older_store_have_no_deadline(old_store: str) -> None:
    migrate_store(old_store)
    with holdfast.open(old_store) as store:
        (found,) = store.batch_counts("papers")
        assert (found.deadline_at, found.deadline_action, found.expired_at) == (None, "fail", None)
        assert store.set_deadline("papers", "march", at=store.now(), who="ann")


def test_older_documents_that_were_due_as_soon_as_they_moved_have_waited_since_then(old_store: str) -> None:
    later = "60000000" if old_store.startswith("sqlite") else "interval '1 minute'"
    waiting = "update hf_document set state = 'waiting', due_at = moved_at"
    edit(old_store, f"{waiting} where key = 'hold'", f"{waiting} + {later} where key = 'asked'")
    migrate_store(old_store)
    with holdfast.open(old_store) as store:
        waits = {one.key: (one.waits_since, one.moved_at) for one in store.documents("papers", state="waiting")}
    assert waits["hold"][0] == waits["hold"][1]
    assert waits["asked"][0] is None


def test_documents_of_an_older_store_have_no_totals(old_store: str) -> None:
    migrate_store(old_store)
    with holdfast.open(old_store) as store:
        assert {one.items_total for one in store.documents("papers")} == {None}
