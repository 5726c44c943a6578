"""Every store of ours passes the one suite."""

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

from holdfast.stores import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import OpenStore, StoreConformance
from holdfast.testing.conformance.lockstep import lockstep


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

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        path = store.url.removeprefix("sqlite:///").partition("?")[0]
        with closing(sqlite3.connect(path)) as db, db:  # a shell does not look after foreign keys either
            for column, value in columns.items():
                db.execute(f"update hf_document set {column} = ? where id = ?", (value, document_id))


@pytest.fixture(scope="module")
def shared_postgres(request: pytest.FixtureRequest) -> str:
    """One database for all tests of this file: making one takes ten times as long as emptying it."""
    try:
        server = request.getfixturevalue("postgres_server")
    except pytest.FixtureLookupError:
        pytest.skip("there is no fixture postgres_server, so there is no PostgreSQL to test with")
    url: str = server.create_database(f"conformance_{uuid4().hex}")
    return url


def _empty(url: str) -> str:
    """Takes everything out of a database."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("set client_min_messages = warning")
        db.execute("drop schema public cascade")
        db.execute("create schema public")
    return url


class TestPostgres(StoreConformance):
    """Runs wherever there is a PostgreSQL to run on; is skipped with the reason elsewhere."""

    @pytest.fixture
    def open_store(self, shared_postgres: str, clock: ManualClock) -> OpenStore:
        from psycopg import DataError, IntegrityError

        from holdfast.stores.postgres import PostgresStore

        self.forbidden = (IntegrityError, DataError)
        url = _empty(shared_postgres)
        return lambda: PostgresStore(url, clock=clock)

    def corrupt(self, store: Store, document_id: int, **columns: Any) -> None:
        import psycopg

        with psycopg.connect(store.url) as db:
            db.execute("set session_replication_role = replica")  # past foreign keys, as a restore goes
            for column, value in columns.items():
                db.execute(f"update hf_document set {column} = %s where id = %s", (value, document_id))


class TestPostgresInLockstep:
    def test_it_keeps_the_same_books_as_the_memory_store(self, shared_postgres: str) -> None:
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
    """`import holdfast.testing` is for users' tests; pytest comes in with the suite only."""
    light = "import sys, holdfast, holdfast.testing, holdfast.stores; print('pytest' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", light], text=True).strip() == "False"


def test_every_verb_of_the_protocol_is_called_by_the_suite() -> None:
    from holdfast.stores import protocol
    from holdfast.testing import conformance

    suite = "".join(path.read_text() for path in Path(conformance.__file__).parent.glob("*.py"))
    verbs = set(itertools.chain.from_iterable(vars(role) for role in protocol.Store.__mro__ if role is not object))
    missing = [verb for verb in sorted(verbs) if not verb.startswith("_") and f".{verb}(" not in suite]
    assert missing == []
