"""The PostgreSQL store: all roles on one database, and its schema."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from psycopg.errors import InsufficientPrivilege, InvalidSchemaName
from psycopg.sql import SQL, Identifier

from holdfast.core.codec import encode_json
from holdfast.core.errors import CannotKeep, StoreError, StoreReadOnly
from holdfast.core.moves import Release
from holdfast.core.plan import Shape
from holdfast.stores.postgres.commit import Commit
from holdfast.stores.postgres.connection import BEGIN_TO_MIGRATE, Connections, Db
from holdfast.stores.postgres.connection_watchdog import WatchedConnection
from holdfast.stores.postgres.url import quoted
from holdfast.stores.protocol import Clock
from holdfast.stores.sql.query_files import migrations
from holdfast.stores.sql.store import SqlStore, refuse_other_schema

MIGRATIONS = migrations(Path(__file__).parent / "migrations")
NEWEST = MIGRATIONS[-1][0]

ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtext('holdfast schema'))"
KNOWN_MIGRATIONS = """
create table if not exists hf_schema (version integer primary key, migrated_at timestamptz not null)
"""


class PostgresStore(Commit, SqlStore):
    """A store in a PostgreSQL database (14 or later), for any number of processes on any number of machines."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        try:
            version = self.schema_version()
            if version == 0:
                self.migrate()
            else:
                refuse_other_schema(self._db.name, version, NEWEST)
        except BaseException:  # re-raised; a store that cannot be opened leaves no connections
            self.close()
            raise
        self._db.newest = NEWEST

    @classmethod
    def is_fresh(cls, url: str) -> bool:
        """Return True if the database has nothing of holdfast in it. Nothing is created."""
        with closing(Connections(url)) as connections:
            return connections.reading(lambda db: _version(db, connections)) == 0

    @classmethod
    def migrate_url(cls, url: str) -> list[int]:
        """Bring a schema up to date, even if it is too old to be opened. Return the migrations that were run."""
        with closing(Connections(url)) as connections:
            numbers = _migrated(connections)
        cls(url).close()  # raises SchemaNewer if the schema is newer than this holdfast
        return numbers

    def _declare_before_joining(self, connection: Any, shape: Shape) -> None:
        """Declare a pipeline in a transaction of its own: in the caller's, others that declare it would wait for it."""
        name = encode_json(shape)
        if name not in self._chained and not isinstance(connection, WatchedConnection):
            self._chained[name] = self.declare(shape)

    def release(self, releases: Sequence[Release]) -> list[bool]:
        try:
            return super().release(releases)
        except CannotKeep:  # the encoding of the database lacks a character of an error: nothing else is a free text
            return super().release([_in_ascii(release) for release in releases])

    def schema_version(self) -> int:
        """Return the number of the last migration; 0 for a fresh database."""
        return self._db.reading(lambda db: _version(db, self._db))

    def migrate(self) -> list[int]:
        """Bring the schema up to date. Return the numbers of the migrations that were run."""
        return _migrated(self._db)


def _in_ascii(release: Release) -> Release:
    """Return a release with escapes for all characters of its texts that are not in every encoding."""

    def escaped(text: str) -> str:
        return text.replace("\0", "\\x00").encode("ascii", "backslashreplace").decode()

    failure = release.failure
    if failure is not None:
        texts = map(escaped, (failure.kind, failure.message, failure.traceback))
        failure = replace(failure, **dict(zip(("kind", "message", "traceback"), texts, strict=True)))
    return replace(release, reason=escaped(release.reason), failure=failure)


def _migrated(connections: Connections) -> list[int]:
    try:
        return connections.repeating(lambda db: _migrate(db, connections), BEGIN_TO_MIGRATE)
    except InsufficientPrivilege as error:
        raise StoreReadOnly(
            f"{connections.name}: this user may not create tables: {error}. Let the owner of the database say "
            f"`grant create on schema {connections.schema or 'public'} to ...`, or run `holdfast store migrate` as the "
            "owner. To create the schema itself, a user needs `grant create on database`"
        ) from error
    except InvalidSchemaName as error:
        raise StoreError(
            f"{connections.name}: there is no schema for the tables: the search_path of this user names none that "
            "exists. Name one in the URL, such as `?schema=jobs`, or say `alter role ... set search_path = public`"
        ) from error


def _migrate(db: Db, connections: Connections) -> list[int]:
    db.execute(ONE_AT_A_TIME)
    if connections.schema:
        _begin_schema(db, connections.schema)
    db.execute(KNOWN_MIGRATIONS)
    version = _version(db, connections)
    missing = [(number, sql) for number, sql in MIGRATIONS if number > version]
    for number, sql in missing:
        db.execute(sql)
        db.execute("insert into hf_schema (version, migrated_at) values (%s, now())", (number,))
    return [number for number, _ in missing]


def _begin_schema(db: Db, schema: str) -> None:
    """Create a schema, unless it exists, and let all names of the migrations mean it until the transaction ends."""
    if db.execute("select 1 from pg_namespace where nspname = %s", (schema,)).fetchone() is None:
        db.execute(SQL("create schema {}").format(Identifier(schema)))
    db.execute("select set_config('search_path', %s, true)", (quoted(schema),))


def _version(db: Db, connections: Connections) -> int:
    if db.execute("select to_regclass(%s)", (connections.sql("hf_schema"),)).fetchone() == (None,):
        return 0
    ((version,),) = db.execute(connections.sql("select coalesce(max(version), 0) from hf_schema")).fetchall()
    return int(version)
