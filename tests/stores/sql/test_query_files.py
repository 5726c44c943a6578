"""Shared statements are translated for each database, and only where they are SQL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.stores.sql.query_files import SHARED, load_queries, load_translated, to_postgres, to_sqlite

OWN = {name: SHARED.parent.parent / name / "queries" for name in ("sqlite", "postgres")}


@pytest.mark.parametrize(
    ("shared", "sqlite", "postgres"),
    [
        ("id = :id", "id = :id", "id = %(id)s"),
        ("at <= :now", "at <= :now", "at <= coalesce(%(now)s::timestamptz, now())"),
        ("(:batch::text is null)", "(:batch is null)", "(%(batch)s::text is null)"),
        ("sum(items)::bigint", "sum(items)", "sum(items)::bigint"),
        ("id in :ids::bigint[]", "id in (select value from json_each(:ids))", "id = any(%(ids)s::bigint[])"),
        ("key not in :keys::text[]", "key not in (select value from json_each(:keys))", "key <> all(%(keys)s::text[])"),
        (
            "from rows(:new) as n (key text, at timestamptz)",
            "from (select value ->> 0 as key, value ->> 1 as at from json_each(:new)) as n",
            "from unnest(%(new_key)s::text[], %(new_at)s::timestamptz[]) as n (key, at)",
        ),
        (
            "json_int(d.reuses, s.id)",
            "json_extract(d.reuses, '$.\"' || s.id || '\"')",
            "(d.reuses ->> s.id::text)::int",
        ),
        ("greatest(a, b)", "max(a, b)", "greatest(a, b)"),
        ("least(a, b)", "min(a, b)", "least(a, b)"),
        ("json_build_object('a', 1)", "json_object('a', 1)", "json_build_object('a', 1)"),
        ("a % b like 'x%'", "a % b like 'x%'", "a %% b like 'x%%'"),
    ],
)
def test_a_statement_is_translated_for_each_database(shared: str, sqlite: str, postgres: str) -> None:
    assert (to_sqlite(shared), to_postgres(shared)) == (sqlite, postgres)


@pytest.mark.parametrize("text", ["'{\"was\":\"' || ':name'", "-- who's greatest(:name)::text\nselect 1"])
def test_nothing_is_translated_in_texts_and_comments(text: str) -> None:
    assert to_sqlite(text) == to_postgres(text) == text


def test_a_line_for_one_database_is_left_out_for_the_other() -> None:
    statement = (
        "select 1\n  from a\n  indexed by b -- on sqlite\n   for update -- on postgresql\n where c -- if c -- on sqlite"
    )
    assert to_sqlite(statement) == "select 1\n  from a\n  indexed by b\n where c -- if c"
    assert to_postgres(statement) == "select 1\n  from a\n   for update"


def test_a_statement_of_one_store_replaces_the_shared_one(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "heartbeat.sql").write_text("select :mine")
    statements = load_translated(tmp_path, to_postgres)
    assert statements["heartbeat"] == "select %(mine)s"
    assert statements.keys() == load_queries(SHARED).keys()


@pytest.mark.parametrize("folder", [SHARED, *OWN.values()], ids=["shared", *OWN])
def test_every_statement_begins_with_its_intent(folder: Path) -> None:
    assert [name for name, text in load_queries(folder).items() if not text.startswith("-- ")] == []


def test_no_statement_is_the_same_in_both_stores() -> None:
    sqlite, postgres = (load_queries(folder) for folder in OWN.values())
    assert [name for name in sqlite.keys() & postgres.keys() if sqlite[name] == postgres[name]] == []


def test_every_statement_is_used() -> None:
    sources = "".join(path.read_text() for path in SHARED.parent.parent.rglob("*.py"))
    names = {name for folder in (SHARED, *OWN.values()) for name in load_queries(folder)}
    assert sorted(name for name in names if f'"{name}"' not in sources) == []


@pytest.mark.parametrize("store", OWN)
def test_each_statement_that_puts_a_document_off_says_since_when_it_waits(store: str) -> None:
    """Otherwise the wait would be put right wrongly, or never, after a clock was set back."""
    statements = load_queries(SHARED) | load_queries(OWN[store])
    putting_off = {
        name
        for name, text in statements.items()
        if re.search(r"\bdue_at = (?!null)", text) or re.search(r"insert into hf_document\n[^)]*\bdue_at\b", text)
    }
    assert {"insert_documents", "release", "reclaim", "resume", "redrive"} <= putting_off
    without = {name for name in putting_off if "waits_since" not in statements[name]}
    assert without <= {"import_document"}  # the document comes from the clock of another machine
