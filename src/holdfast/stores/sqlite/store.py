"""The SQLite store: nine roles on one file, and its schema."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Connection

from holdfast.core.errors import SchemaNewer, SchemaOutdated
from holdfast.stores.protocol import Clock
from holdfast.stores.queries import migrations
from holdfast.stores.sqlite.batches import Batches
from holdfast.stores.sqlite.capsules import Capsules
from holdfast.stores.sqlite.causes import Causes
from holdfast.stores.sqlite.cleanup import Cleanup
from holdfast.stores.sqlite.connection import Connections
from holdfast.stores.sqlite.decisions import Decisions
from holdfast.stores.sqlite.intake import Intake
from holdfast.stores.sqlite.ledger import Ledger
from holdfast.stores.sqlite.stories import Stories
from holdfast.stores.sqlite.upkeep import Upkeep
from holdfast.stores.sqlite.work import Work

MIGRATIONS = migrations(Path(__file__).parent / "migrations")
NEWEST = MIGRATIONS[-1][0]


class SqliteStore(Intake, Work, Ledger, Stories, Causes, Upkeep, Cleanup, Decisions, Batches, Capsules):
    """A store in one SQLite file, for any number of processes on one machine."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        version = self.schema_version()
        if version == 0:
            self.migrate()
        elif version < NEWEST:
            raise SchemaOutdated(f"{url} has schema {version} and this holdfast needs {NEWEST}: run `holdfast migrate`")
        elif version > NEWEST:
            raise SchemaNewer(f"{url} has schema {version}, newer than the {NEWEST} of this holdfast: upgrade holdfast")
        self._db.newest = NEWEST

    def schema_version(self) -> int:
        """Answers the number of the last migration; 0 for a fresh database."""
        with self._db.reading() as db:
            return _version(db)

    def migrate(self) -> list[int]:
        """Brings the schema up to date. Answers the numbers of the migrations that were run."""
        with self._db.writing() as db:
            db.execute(
                "create table if not exists hf_schema (version integer primary key, migrated_at integer not null)"
            )
            version = _version(db)
            missing = [(number, sql) for number, sql in MIGRATIONS if number > version]
            for number, sql in missing:
                for statement in sql.split(";\n"):
                    db.execute(statement)
                db.execute("insert into hf_schema (version, migrated_at) values (?, ?)", (number, self._now()))
        return [number for number, _ in missing]


def is_fresh_file(url: str) -> bool:
    """Answers whether a file has nothing of holdfast in it, or is not there."""
    with Connections(url).only_looking() as db:
        return db is None or _version(db) == 0


def _version(db: Connection) -> int:
    if not db.execute("select 1 from sqlite_master where name = 'hf_schema'").fetchone():
        return 0
    return int(db.execute("select coalesce(max(version), 0) from hf_schema").fetchone()[0])
