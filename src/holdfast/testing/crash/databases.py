"""A new database for every run, with holdfast's tables and the user's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from holdfast.core.distribution import install_command
from holdfast.core.errors import StoreError


class Databases(Protocol):
    """Creates one database after another."""

    def fresh(self) -> str:
        """Create a database in which nothing has run yet, and return its URL. The previous one is deleted."""


@contextmanager
def databases(store: str, folder: Path, *, prepare: Callable[[str], None]) -> Iterator[Databases]:
    """Yield databases of a kind: `sqlite`, or the URL of a PostgreSQL database."""
    scheme = store.partition(":")[0].partition("+")[0]  # `postgresql+psycopg` names the driver, as in SQLAlchemy
    if scheme == "sqlite":
        yield SqliteFiles(folder, prepare)
    elif scheme in ("postgresql", "postgres"):
        fresh = PostgresDatabase(store, prepare)
        try:
            yield fresh
        finally:
            fresh.drop()
    else:
        raise StoreError(
            f"the crash test needs a store that outlives its process: sqlite or postgresql://, not {store!r}"
        )


class SqliteFiles:
    """Copies of one prepared SQLite file."""

    def __init__(self, folder: Path, prepare: Callable[[str], None]) -> None:
        self._run = folder / "run"
        self._prepared = folder / "prepared.db"
        prepare(_url(self._prepared))

    def fresh(self) -> str:
        shutil.rmtree(self._run, ignore_errors=True)
        self._run.mkdir()
        shutil.copyfile(self._prepared, self._run / "run.db")
        return _url(self._run / "run.db")


def _url(path: Path) -> str:
    return f"sqlite:///{quote(str(path))}?synchronous=normal"  # a kill loses no page; a power cut might


class PostgresDatabase:
    """One database that is emptied and prepared again for every run. To copy one would take longer."""

    def __init__(self, url: str, prepare: Callable[[str], None]) -> None:
        self._server = url
        self._name = f"crashtest_{token_hex(4)}"
        self._url = urlsplit(url)._replace(path=f"/{self._name}").geturl()
        self._prepare = prepare
        self._run(url, f"create database {self._name}")

    def fresh(self) -> str:
        self._run(self._url, EMPTY)
        self._prepare(self._url)
        return self._url

    def drop(self) -> None:
        """Drop the database."""
        self._run(self._server, f"drop database {self._name} with (force)")

    def _run(self, url: str, statement: Any) -> None:
        try:
            import psycopg

            from holdfast.stores.postgres.url import parse_url
        except ModuleNotFoundError as error:
            raise StoreError(f"PostgreSQL needs one more package: {install_command('postgres')}") from error
        try:
            with psycopg.connect(parse_url(url).conninfo, autocommit=True) as connection:
                connection.execute(statement)
        except psycopg.Error as error:
            raise StoreError(
                f"the crash test needs a database of its own, and it could not be created: {error}"
            ) from error


EMPTY = """
set client_min_messages = error;

-- what a killed run left behind
select pg_terminate_backend(pid)
  from pg_stat_activity
 where datname = current_database()
   and pid <> pg_backend_pid();

do $$
declare
  name text;
begin
  for name in
    select nspname
      from pg_namespace
     where nspname <> 'information_schema'
       and left(nspname, 3) <> 'pg_'
  loop
    execute format('drop schema %I cascade', name);
  end loop;
end
$$;

create schema public;
"""
