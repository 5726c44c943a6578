"""URLs of stores on PostgreSQL: the spellings of SQLAlchemy, and a schema for our tables."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

import holdfast
from holdfast.core.errors import SchemaNewer, StoreError
from holdfast.stores import is_fresh, migrate_store, open_store
from holdfast.stores.postgres import thread_connections
from holdfast.stores.postgres.url import in_schema, parse_url
from holdfast.stores.protocol import Store


@pytest.mark.parametrize(
    ("url", "conninfo", "schema"),
    [
        ("postgresql://a@b/c", "postgresql://a@b/c", ""),
        ("postgresql+psycopg://a@b/c", "postgresql://a@b/c", ""),
        ("postgresql+psycopg2://a@b/c?schema=x", "postgresql://a@b/c", "x"),
        ("postgres://a@b/c?schema=x&sslmode=disable", "postgres://a@b/c?sslmode=disable", "x"),
        ("postgresql+asyncpg:///c?host=/tmp&schema=Jobs", "postgresql:///c?host=/tmp", "Jobs"),
        ("postgresql://a@b/c?host=h&schema=x&port=1", "postgresql://a@b/c?host=h&port=1", "x"),
        ("postgresql://a:p?schema=y@b/c?schema=%78", "postgresql://a:p?schema=y@b/c", "x"),
        ("postgresql://a:p?schema=y@b/c", "postgresql://a:p?schema=y@b/c", ""),
    ],
)
def test_a_url_is_read(url: str, conninfo: str, schema: str) -> None:
    assert parse_url(url) == (conninfo, schema)


@pytest.mark.parametrize("schema", ["", "pg_mine", "a%22b", "a%00b", "a b", "a.b", "1", "x" * 64, "a%25b"])
def test_a_schema_that_cannot_be_one_is_refused(schema: str) -> None:
    with pytest.raises(StoreError, match="cannot be the schema"):
        parse_url(f"postgresql://a@b/c?schema={schema}")


def test_a_url_whose_password_is_hidden_is_refused() -> None:
    url = make_url("postgresql+psycopg://a:secret@b/c")
    with pytest.raises(StoreError, match="render_as_string") as refusal:
        open_store(str(url))
    assert "secret" not in str(refusal.value)
    assert parse_url(url.render_as_string(hide_password=False)).conninfo == "postgresql://a:secret@b/c"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:hun@ter2@b:1/c",
        "postgresql://a:@ter2@b:1/c",
        "postgresql://a:hun/ter2@b/c",
        "postgresql+psycopg://a:123/ter2@b/c?schema=x",
        "postgresql://a:hun@ter2/x@b/c",
    ],
)
def test_a_password_that_is_not_escaped_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(StoreError, match="Write %40 for @ and %2F for /") as refusal:
        open_store(url)
    assert "ter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:p%40w%2Fx@b:1/c",
        "postgresql://b:5432/c?user=a@d",
        "postgresql://a:p?w@b/c",
        "postgresql://a@b/c@d",
        "postgresql://a:p@/c?host=/tmp/x@y",
        "postgresql://[::1]:5432/c",
    ],
)
def test_other_urls_with_these_characters_are_read(url: str) -> None:
    assert parse_url(url).conninfo == url


def test_only_tables_get_the_schema() -> None:
    sql = (
        "select hf_step.id, 'hf_step', x.hf_step -- hf_step\n from hf_step join hf_document_status d on hf_step.id = 1"
    )
    assert in_schema(sql, "s") == (
        "select \"s\".hf_step.id, 'hf_step', x.hf_step -- hf_step\n"
        ' from "s".hf_step join "s".hf_document_status d on "s".hf_step.id = 1'
    )


@pytest.mark.parametrize("driver", ["+psycopg", "+psycopg2", "+asyncpg", ""])
def test_the_spellings_of_sqlalchemy_open_the_store(postgres_url: str, driver: str) -> None:
    url = postgres_url.replace("postgresql:", f"postgresql{driver}:")
    assert is_fresh(url)
    with holdfast.open(url) as store:
        assert store.pipelines() == []
    assert not is_fresh(url)
    assert migrate_store(url) == []


def test_the_spellings_of_sqlalchemy_open_a_file(tmp_path: Path) -> None:
    for scheme in ("sqlite+pysqlite", "sqlite+aiosqlite", "sqlite"):
        with holdfast.open(f"{scheme}:///{tmp_path}/a.db") as store:
            assert store.url == f"sqlite:///{tmp_path}/a.db"


def _drain(store: Store, *, keys: str = "ab") -> None:
    papers = holdfast.Pipeline("papers")

    @papers.step
    def read(doc: holdfast.Document, cursor: int = 0):  # type: ignore[no-untyped-def]
        yield from range(cursor, 3)

    @papers.step(over=read, size=2)
    def double(doc: holdfast.Document, numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    @double.rows("kept")
    def keep(doc: holdfast.Document, numbers: list[int]) -> list[dict[str, int]]:
        return [{"number": number} for number in numbers]

    holdfast.submit(papers, store, batch="b", documents=[(key, None) for key in keys])
    report = holdfast.drain(papers, store)
    assert report.done == len(keys)
    holdfast.submit(papers, store, batch="b", documents=[(keys[0], "changed")])
    assert holdfast.drain(papers, store).done == 1
    assert holdfast.explain_batch(store, "papers", "b") is not None
    store.seal("papers", "b", who="ann")
    assert holdfast.close(papers, store, batch="b", who="ann") is not None


def test_stores_in_different_schemas_are_side_by_side(postgres_url: str) -> None:
    urls = [postgres_url, f"{postgres_url}?schema=jobs", f"{postgres_url}?schema=Jobs"]
    assert [is_fresh(url) for url in urls] == [True] * 3
    for count, url in enumerate(urls, 1):
        with holdfast.open(url) as store:
            with store.transaction() as tx:
                tx.execute("create table kept (document_id bigint, number int)")
            _drain(store, keys="abc"[:count])
    with psycopg.connect(postgres_url, autocommit=True) as db:
        places = db.execute("select schemaname from pg_tables where tablename = 'hf_document' order by 1").fetchall()
        assert places == [("Jobs",), ("jobs",), ("public",)]
        assert db.execute("select count(*) from pg_namespace where nspname = 'jobs'").fetchone() == (1,)
        for count, schema in enumerate(("public", "jobs", '"Jobs"'), 1):
            for table, rows in (("hf_document", count), ("kept", 3 * count)):
                assert db.execute(f"select count(*) from {schema}.{table}").fetchone() == (rows,)
    with holdfast.open(urls[1]) as store:
        assert store.url.endswith("?schema=jobs")
        assert [document.key for document in store.documents("papers", limit=10)] == ["a", "b"]


def test_tables_of_the_app_are_found_after_those_of_the_schema(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("create table kept (document_id bigint, number int)")
    with holdfast.open(f"{postgres_url}?schema=jobs") as store:
        with store.reading() as tx:
            assert tx.execute("select current_setting('search_path')").fetchone() == ('"jobs", "$user", public',)
        _drain(store)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        assert db.execute("select count(*) from public.kept").fetchone() == (6,)


def test_a_newer_schema_is_refused_only_where_it_is(postgres_url: str) -> None:
    for schema in "ab":
        open_store(f"{postgres_url}?schema={schema}").close()
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("insert into b.hf_schema (version, migrated_at) values (9999, now())")
    with holdfast.open(f"{postgres_url}?schema=a"):
        pass
    with pytest.raises(SchemaNewer, match="schema=b"):
        open_store(f"{postgres_url}?schema=b")


def test_behind_a_pooler_the_search_path_ends_with_the_transaction(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_connections, "_is_pooled", lambda _db, _pid: True)
    with holdfast.open(f"{postgres_url}?schema=jobs") as store:
        with store.transaction() as tx:
            tx.execute("create table kept (document_id bigint, number int)")
            tx.connection.execute("select 1")
        with store.reading() as tx:
            assert tx.execute("select current_setting('search_path')").fetchone() == ('"jobs", "$user", public',)
        _drain(store)
        connection = store._db._idle()  # type: ignore[attr-defined]
        assert connection.execute("show search_path").fetchone() == ('"$user", public',)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        assert db.execute("select count(*) from jobs.kept").fetchone() == (6,)


def test_a_user_who_may_not_create_the_schema_is_told_what_to_do(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("drop role if exists weak")
        db.execute("create role weak login")
    try:
        with pytest.raises(StoreError, match="grant create on"):
            open_store(postgres_url.replace("postgres@", "weak@") + "?schema=jobs")
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as db:
            db.execute("drop role weak")
