"""Every store passes the same conformance suite."""

from __future__ import annotations

import atexit
import itertools
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from holdfast.stores import Store, open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock, conformance
from holdfast.testing.conformance import OpenStore, StoreConformance
from holdfast.testing.conformance.lockstep import lockstep
from holdfast.testing.conformance.submit_in_transaction import Connect


class TestMemory(StoreConformance):
    @pytest.fixture
    def open_store(self, clock: ManualClock) -> OpenStore:
        store = MemoryStore(clock=clock)
        return lambda: store

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        assert isinstance(store, MemoryStore)
        documents = store._tables.documents
        documents[document_id] = replace(documents[document_id], **columns)


class TestSqlite(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: ManualClock) -> OpenStore:
        return lambda: SqliteStore(f"sqlite:///{tmp_path}/store.db?synchronous=normal", clock=clock)

    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return lambda: sqlite3.connect(tmp_path / "store.db")

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        path = store.url.removeprefix("sqlite:///").partition("?")[0]
        with closing(sqlite3.connect(path)) as db, db:  # a shell does not look after foreign keys either
            for column, value in columns.items():
                db.execute(f"update hf_document set {column} = ? where id = ?", (value, document_id))


@pytest.fixture(scope="module")
def shared_postgres(request: pytest.FixtureRequest) -> str:
    """One database for all tests of this file: to create one takes ten times as long as to empty it."""
    try:
        server = request.getfixturevalue("postgres_server")
    except pytest.FixtureLookupError:
        pytest.skip("there is no fixture postgres_server, so there is no PostgreSQL to test with")
    url: str = server.create_database(f"conformance_{uuid4().hex}")
    return url


SHAPE = """
select md5(string_agg(concat_ws(' ', c.relname, c.relkind, a.attname, a.atttypid, g.tgname), ','
                      order by c.relname, a.attnum, g.tgname))
  from pg_class c
  left join pg_attribute a on a.attrelid = c.oid
  left join pg_trigger g on g.tgrelid = c.oid
 where c.relnamespace = 'public'::regnamespace
"""
EMPTY = """
do $$ declare one text; begin
  set local session_replication_role = replica;
  for one in select tablename from pg_tables where schemaname = 'public' and tablename <> 'hf_schema' loop
    execute format('delete from %I', one);
  end loop;
  perform setval(format('%I', sequencename)::regclass, 1, false) from pg_sequences where schemaname = 'public';
end $$
"""
SHAPES: dict[str, str] = {}
"""What the tables of a database look like after the migrations, by its URL."""


def _empty(url: str) -> str:
    """Delete everything in a database. The tables stay if no test changed them: to make them takes long."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        if SHAPES.get(url) and db.execute(SHAPE).fetchall() == [(SHAPES[url],)]:
            db.execute(EMPTY)
            return url
        db.execute("set client_min_messages = warning")
        db.execute("drop schema public cascade")
        db.execute("create schema public")
        open_store(url).close()
        ((SHAPES[url],),) = db.execute(SHAPE).fetchall()
    return url


class TestPostgres(StoreConformance):
    """Runs if there is a PostgreSQL. Otherwise it is skipped with the reason."""

    @pytest.fixture
    def open_store(self, shared_postgres: str, clock: ManualClock) -> OpenStore:
        from psycopg import DataError, IntegrityError

        from holdfast.stores.postgres import PostgresStore

        self.forbidden = (IntegrityError, DataError)
        url = _empty(shared_postgres)
        return lambda: PostgresStore(url, clock=clock)

    @pytest.fixture
    def connect(self, shared_postgres: str) -> Connect:
        import psycopg

        return lambda: psycopg.connect(shared_postgres)

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        import psycopg

        with psycopg.connect(store.url) as db:
            db.execute("set session_replication_role = replica")  # past foreign keys, as a restore goes
            for column, value in columns.items():
                db.execute(f"update hf_document set {column} = %s where id = %s", (value, document_id))


ODD_DEFAULTS = {
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "timezone": "Asia/Kathmandu",
    "default_transaction_isolation": "serializable",
}


@pytest.fixture(scope="module")
def odd_postgres(request: pytest.FixtureRequest) -> str:
    """A database with other defaults than PostgreSQL."""
    import psycopg

    name = f"odd_{uuid4().hex}"
    url: str = request.getfixturevalue("postgres_server").create_database(name)
    with psycopg.connect(url, autocommit=True) as db:
        for setting, value in ODD_DEFAULTS.items():
            db.execute(f"alter database {name} set {setting} = '{value}'")
    return url


class TestPostgresWithOddDefaults(conformance.CommitConformance, conformance.ReleaseConformance):
    """Two parts of the suite that use all types of columns."""

    @pytest.fixture
    def open_store(self, odd_postgres: str, clock: ManualClock) -> OpenStore:
        from holdfast.stores.postgres import PostgresStore

        url = _empty(odd_postgres)
        return lambda: PostgresStore(url, clock=clock)


class TestPostgresInLockstep:
    def test_it_does_the_same_as_the_memory_store(self, shared_postgres: str) -> None:
        from holdfast.stores.postgres import PostgresStore

        def opens(clock: ManualClock) -> list[Store]:
            return [MemoryStore(clock=clock), PostgresStore(_empty(shared_postgres), clock=clock)]

        lockstep(opens, examples=8)("runTest").runTest()


FOLDER = tempfile.TemporaryDirectory(prefix="holdfast-lockstep-")
atexit.register(FOLDER.cleanup)
NUMBERS = itertools.count()


def _memory_and_sqlite(clock: ManualClock) -> list[Store]:
    url = f"sqlite:///{FOLDER.name}/{next(NUMBERS)}.db?synchronous=normal"
    return [MemoryStore(clock=clock), SqliteStore(url, clock=clock)]


TestLockstep = lockstep(_memory_and_sqlite)


def test_the_suite_is_not_imported_by_the_library() -> None:
    """`import holdfast.testing` is for users' tests. Only the suite imports pytest."""
    light = "import sys, holdfast, holdfast.testing, holdfast.stores; print('pytest' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", light], text=True).strip() == "False"


def test_every_verb_of_the_protocol_is_called_by_the_suite() -> None:
    from holdfast.stores import protocol

    suite = "".join(path.read_text() for path in Path(conformance.__file__).parent.rglob("*.py"))
    verbs = set(itertools.chain.from_iterable(vars(role) for role in protocol.Store.__mro__ if role is not object))
    missing = [verb for verb in sorted(verbs) if not verb.startswith("_") and f".{verb}(" not in suite]
    assert missing == []


def test_no_two_parts_of_the_suite_define_the_same_test() -> None:
    names = [name for part in StoreConformance.__bases__ for name in vars(part) if name.startswith("test_")]
    assert len(names) == len(set(names)) > 500


def test_each_part_of_the_suite_can_be_imported_by_its_name() -> None:
    assert [part for part in StoreConformance.__bases__ if getattr(conformance, part.__name__) is not part] == []
