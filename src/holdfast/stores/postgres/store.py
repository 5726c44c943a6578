"""The PostgreSQL store: nine roles on one database, and its schema."""

from __future__ import annotations

from pathlib import Path

from psycopg.errors import InsufficientPrivilege

from holdfast.core.errors import SchemaNewer, SchemaOutdated, StoreReadOnly
from holdfast.stores.postgres.batches import Batches
from holdfast.stores.postgres.causes import Causes
from holdfast.stores.postgres.cleanup import Cleanup
from holdfast.stores.postgres.connection import Db
from holdfast.stores.postgres.decisions import Decisions
from holdfast.stores.postgres.intake import Intake
from holdfast.stores.postgres.ledger import Ledger
from holdfast.stores.postgres.stories import Stories
from holdfast.stores.postgres.upkeep import Upkeep
from holdfast.stores.postgres.work import Work
from holdfast.stores.protocol import Clock
from holdfast.stores.queries import migrations

MIGRATIONS = migrations(Path(__file__).parent / "migrations")
NEWEST = MIGRATIONS[-1][0]

ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtext('holdfast schema'))"
KNOWN_MIGRATIONS = """
create table if not exists hf_schema (version integer primary key, migrated_at timestamptz not null)
"""


class PostgresStore(Intake, Work, Ledger, Stories, Causes, Upkeep, Cleanup, Decisions, Batches):
    """A store in a PostgreSQL database (14 or later), for any number of processes on any number of machines."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        try:
            self._make_ready()
        except BaseException:
            self.close()
            raise

    def _make_ready(self) -> None:
        name, version = self._db.name, self.schema_version()
        if version == 0:
            self.migrate()
        elif version < NEWEST:
            raise SchemaOutdated(
                f"{name} has schema {version} and this holdfast needs {NEWEST}: run `holdfast migrate`"
            )
        elif version > NEWEST:
            raise SchemaNewer(
                f"{name} has schema {version}, newer than the {NEWEST} of this holdfast: upgrade holdfast"
            )
        self._db.newest = NEWEST

    def schema_version(self) -> int:
        """Answers the number of the last migration; 0 for a fresh database."""
        return self._db.reading(_version)

    def migrate(self) -> list[int]:
        """Brings the schema up to date. Answers the numbers of the migrations that were run."""
        try:
            return self._db.writing(_migrate)
        except InsufficientPrivilege as error:
            raise StoreReadOnly(
                f"{self._db.name}: this user may not create tables: {error}. Let the owner of the database say "
                "`grant create on schema public to ...`, or run `holdfast migrate` as the owner"
            ) from error


def _migrate(db: Db) -> list[int]:
    db.execute(ONE_AT_A_TIME)
    db.execute(KNOWN_MIGRATIONS)
    version = _version(db)
    missing = [(number, sql) for number, sql in MIGRATIONS if number > version]
    for number, sql in missing:
        db.execute(sql)
        db.execute("insert into hf_schema (version, migrated_at) values (%s, now())", (number,))
    return [number for number, _ in missing]


def _version(db: Db) -> int:
    if db.execute("select to_regclass('hf_schema')").fetchone() == (None,):
        return 0
    ((version,),) = db.execute("select coalesce(max(version), 0) from hf_schema").fetchall()
    return int(version)
