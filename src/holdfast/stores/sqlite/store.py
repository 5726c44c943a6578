"""The SQLite store: all roles on one file, and its schema."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from holdfast.stores.protocol import Clock
from holdfast.stores.sql.query_files import migrations
from holdfast.stores.sql.store import SqlStore, refuse_other_schema
from holdfast.stores.sqlite.capsule_import import CapsuleImport
from holdfast.stores.sqlite.commit import Commit
from holdfast.stores.sqlite.connection import Connections

MIGRATIONS = migrations(Path(__file__).parent / "migrations")
NEWEST = MIGRATIONS[-1][0]

KNOWN_MIGRATIONS = "create table if not exists hf_schema (version integer primary key, migrated_at integer not null)"
MIGRATED = "insert into hf_schema (version, migrated_at) values (?, unixepoch() * 1000000)"


class SqliteStore(Commit, CapsuleImport, SqlStore):
    """A store in one SQLite file, for any number of processes on one machine."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        version = self.schema_version()
        if version == 0:
            self.migrate()
        else:
            refuse_other_schema(url, version, NEWEST)
        self._db.newest = NEWEST

    @classmethod
    def is_fresh(cls, url: str) -> bool:
        """Return True if the file has nothing of holdfast in it, or does not exist. Nothing is created."""
        with Connections(url).only_looking() as db:
            return db is None or _version(db) == 0

    @classmethod
    def migrate_url(cls, url: str) -> list[int]:
        """Bring a schema up to date, even if it is too old to be opened. Return the migrations that were run."""
        with closing(Connections(url)) as connections:
            numbers = _migrate(connections)
        cls(url).close()  # raises SchemaNewer if the schema is newer than this holdfast
        return numbers

    def schema_version(self) -> int:
        """Return the number of the last migration; 0 for a fresh database."""
        with self._db.reading() as db:
            return _version(db)

    def migrate(self) -> list[int]:
        """Bring the schema up to date. Return the numbers of the migrations that were run."""
        return _migrate(self._db)


def _migrate(connections: Connections) -> list[int]:
    with connections.writing() as db:
        db.execute(KNOWN_MIGRATIONS)
        version = _version(db)
        missing = [(number, sql) for number, sql in MIGRATIONS if number > version]
        for number, sql in missing:
            for statement in sql.split(";\n"):
                db.execute(statement)
            db.execute(MIGRATED, (number,))
    return [number for number, _ in missing]


def _version(db: Connection) -> int:
    if not db.execute("select 1 from sqlite_master where name = 'hf_schema'").fetchone():
        return 0
    return int(db.execute("select coalesce(max(version), 0) from hf_schema").fetchone()[0])
