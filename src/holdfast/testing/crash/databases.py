"""Fresh databases, one for every run: copies of one that was prepared once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Protocol
from urllib.parse import quote, urlsplit

from holdfast.core.errors import StoreError


class Databases(Protocol):
    """Makes databases and takes them away again."""

    template: str
    """The URL of the one that is prepared, and then copied."""

    def fresh(self) -> str:
        """Copies the prepared one and gives the URL of the copy."""

    def drop(self, url: str) -> None:
        """Takes a copy away."""


@contextmanager
def databases(store: str, folder: Path) -> Iterator[Databases]:
    """Gives fresh databases of the kind that a URL names: `sqlite`, or the URL of a PostgreSQL database."""
    scheme = store.partition(":")[0]
    if scheme == "sqlite":
        yield SqliteFiles(folder)
    elif scheme in ("postgresql", "postgres"):
        fresh = PostgresDatabases(store)
        try:
            yield fresh
        finally:
            fresh.drop_all()
    else:
        raise StoreError(
            f"the crash test needs a store that outlives its process: sqlite or postgresql://..., not {store!r}"
        )


class SqliteFiles:
    """SQLite files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self._prepared = folder / "prepared.db"
        self.template = _url(self._prepared)

    def fresh(self) -> str:
        self._made += 1
        path = self._folder / f"run{self._made}" / "run.db"
        path.parent.mkdir()
        shutil.copyfile(self._prepared, path)
        return _url(path)

    def drop(self, url: str) -> None:
        shutil.rmtree(Path(urlsplit(url).path[1:]).parent, ignore_errors=True)


def _url(path: Path) -> str:
    return f"sqlite:///{quote(str(path))}?synchronous=normal"  # a kill loses no page that was written; power might


class PostgresDatabases:
    """Databases on a server, made and dropped through a connection to the one that the URL names."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = f"hf_crash_{token_hex(4)}"
        self._made: list[str] = []
        self.template = self._create(self._name, "")

    def fresh(self) -> str:
        return self._create(f"{self._name}_{len(self._made)}", f"template {self._name}")

    def drop(self, url: str) -> None:
        self._run(f"drop database if exists {_database(url)} with (force)")

    def drop_all(self) -> None:
        """Takes the prepared one away too."""
        for url in reversed(self._made):
            self.drop(url)

    def _create(self, name: str, source: str) -> str:
        self._run(f"create database {name} {source}")
        url = urlsplit(self._url)._replace(path=f"/{name}").geturl()
        self._made.append(url)
        return url

    def _run(self, statement: str) -> None:
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise StoreError("PostgreSQL needs one more package: pip install 'holdfast[postgres]'") from error
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(statement)
        except psycopg.Error as error:
            raise StoreError(
                f"the crash test makes a database for every run, but could not {statement!r}: {error}"
            ) from error


def _database(url: str) -> str:
    return urlsplit(url).path[1:]
