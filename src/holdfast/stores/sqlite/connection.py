"""Connections to one SQLite file: one per thread, writers taking turns, errors in our own words."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.core.codec import unkept
from holdfast.core.errors import StoreError, StoreFull, StoreGone, StoreReadOnly, upgraded
from holdfast.core.moves import refuse_to_end
from holdfast.stores.sqlite.turnstile import Turnstile

PATIENCE = 60.0
"""How many seconds to wait for a writer that does not know our turnstile, such as a shell."""

OLDEST = (3, 38, 0)
"""The oldest SQLite that has all that is used: strict tables, `returning`, JSON and `unixepoch`."""

LOG = 4000
"""How many pages are written to SQLite's log before they are brought into the file, once each however often they were
written. SQLite looks them up in one table of 4062, and in more tables beyond that."""


class Tx:
    """The transaction that effects write through."""

    dialect: Literal["sqlite", "postgresql"] = "sqlite"

    __slots__ = ("_connection", "_url", "trouble")

    def __init__(self, connection: sqlite3.Connection, url: str) -> None:
        self._connection = connection
        self._url = url
        self.trouble: StoreError | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Runs one statement and answers its cursor."""
        refuse_to_end(sql)
        try:
            return self._connection.execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._tell(error)
            raise

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Runs one statement for each of many parameters."""
        try:
            return self._connection.executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._tell(error)
            raise

    def _tell(self, error: sqlite3.DatabaseError) -> None:
        if ours := translated(self._url, error):
            self.trouble = ours
            raise ours from error


class Connections:
    """The connections of this process to one database file."""

    def __init__(self, url: str) -> None:
        _refuse_old()
        self.url = url
        self._given, self._synchronous = _parse(url)
        self.path = self._given.absolute()  # a body may change to another folder
        self._file: tuple[int, int] | None = None
        self._local = threading.local()
        self._opened: list[tuple[int, threading.Thread, sqlite3.Connection, Turnstile]] = []
        self._closed = False
        self.newest: int | None = None
        """The newest schema that is known here."""

    @contextmanager
    def only_looking(self) -> Iterator[sqlite3.Connection | None]:
        """A connection that can change nothing; None when there is no file, and none is made."""
        if _identity(self.path) is None:
            yield None
            return
        with own_words(self.url), closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: committed at the end, rolled back on any error."""
        connection, turnstile = self._mine()
        with own_words(self.url), turnstile, self._refusing_newer(connection):
            try:
                connection.execute("begin immediate")
                yield connection
                self._require_the_same_file()
                connection.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("rollback")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One statement that only reads."""
        with own_words(self.url):
            connection = self._mine()[0]
            with self._refusing_newer(connection):
                yield connection

    @contextmanager
    def reading_one_moment(self) -> Iterator[sqlite3.Connection]:
        """Several statements that only read, all of the same moment."""
        with self.reading() as connection:
            connection.execute("pragma query_only = on")
            try:
                connection.execute("begin")
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("rollback")
                connection.execute("pragma query_only = off")

    def rest(self) -> None:
        """Closes every connection of this process; the next use opens one anew."""
        self._close_those(lambda _: True)
        self._local = threading.local()

    def close(self) -> None:
        """Closes every connection of this process."""
        self._closed = True
        self._close_those(lambda _: True)

    def _close_those(self, wanted: Callable[[threading.Thread], bool]) -> None:
        for one in list(self._opened):
            pid, thread, connection, turnstile = one
            if pid == os.getpid() and wanted(thread):  # a forked child must not even close its parent's
                with suppress(ValueError):  # another thread was quicker
                    self._opened.remove(one)
                    connection.close()
                    turnstile.close()

    def _mine(self) -> tuple[sqlite3.Connection, Turnstile]:
        self._refuse_closed()
        mine: tuple[int, sqlite3.Connection, Turnstile] | None = getattr(self._local, "mine", None)
        if mine is None or mine[0] != os.getpid():  # a forked child must not use its parent's
            self._close_those(lambda thread: not thread.is_alive())
            with own_words(self.url):
                mine = (os.getpid(), *self._open())
            self._local.mine = mine
            self._opened.append((mine[0], threading.current_thread(), *mine[1:]))
            self._refuse_closed()  # by another thread, which did not know of this one yet
        return mine[1:]

    def _refuse_closed(self) -> None:
        if self._closed:
            self._close_those(lambda _: True)
            raise StoreGone(f"the store {self.url} was closed")

    def _open(self) -> tuple[sqlite3.Connection, Turnstile]:
        if not os.path.isdir(self.path.parent):  # noqa: PTH112 - a name that is too long names no folder
            raise StoreGone(f"{self.url}: there is no folder {self._given.parent}; create it first")
        self._require_the_same_file()  # SQLite would make a new one, which is empty
        connection = sqlite3.connect(
            self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        (mode,) = connection.execute("pragma journal_mode").fetchone()
        turnstile = self._turnstile()
        if mode != "wal":
            with turnstile:  # of two that change the mode at once, SQLite lets one fail without waiting
                connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {self._synchronous}")
        connection.execute(f"pragma wal_autocheckpoint = {LOG}")
        connection.execute("pragma cache_size = -16000")
        connection.execute("pragma temp_store = memory")  # an UPDATE that joins makes a table of its own, every time
        connection.execute("pragma foreign_keys = on")  # an effect could not: within a transaction it does nothing
        self._file = self._file or _identity(self.path)
        return connection, turnstile

    def _require_the_same_file(self) -> None:
        """Refuses to write to a file that lost its name: SQLite goes on with it, and all of it is gone in the end."""
        if self._file and self._file != _identity(self.path):
            raise StoreGone(f"{self.url} was removed or replaced while it was in use; nothing was written")

    @contextmanager
    def _refusing_newer(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Tells of a schema that was upgraded meanwhile, when a statement does not suit it any more."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_ERROR" and self.newest is not None:
                (version,) = connection.execute("select max(version) from hf_schema").fetchone()
                if version > self.newest:
                    raise upgraded(self.url, version, self.newest) from error
            raise

    def _turnstile(self) -> Turnstile:
        try:
            return Turnstile(self.path)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise (StoreFull if full else StoreReadOnly)(f"{self.url} cannot be written: {error}") from error


def _refuse_old() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise StoreError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and {wanted} or newer is needed; use a newer Python or "
            "system, or PostgreSQL"
        )


def _parse(url: str) -> tuple[Path, str]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StoreError(f"{url!r} is no URL: {error}; write sqlite:///papers.db") from error
    if set(url) & set("#\t\r\n"):  # what follows, or the character itself, would silently be left out of the name
        raise StoreError(f"{url!r}: in the name of the file write # as %23, and a line's end or a tab as %0A or %09")
    name = unquote(parts.path)
    if why := unkept(name):
        raise StoreError(f"{url!r}: the name of the file {why}")
    if parts.netloc or not name.startswith("/") or len(name) < 2:
        raise StoreError(f"{url!r} names no file; write sqlite:///papers.db (relative) or sqlite:////var/papers.db")
    options = parse_qs(parts.query)
    synchronous = options.pop("synchronous", ["full"])[0].lower()
    if options or synchronous not in ("full", "normal", "extra"):
        raise StoreError(f"{url!r}: the one option is synchronous=full, normal (may forget the last commits) or extra")
    return Path(name[1:]), synchronous


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def own_words(url: str) -> Iterator[None]:
    """Says what the database complains about in our own words, where we have some."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if ours := translated(url, error):
            raise ours from error
        raise


def translated(url: str, error: sqlite3.DatabaseError) -> StoreError | None:
    """Gives what the database complains about in our own words; None where we have none."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return StoreFull(f"the disk under {url} is full; nothing of the last write was kept. Make room and go on")
    if name.startswith("SQLITE_READONLY") or (name.startswith("SQLITE_CANTOPEN") and _only_reading_is_allowed(url)):
        return StoreReadOnly(f"{url} cannot be written; check the rights of the file and of its folder")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreGone(f"{url} cannot be opened; check that the folder exists and may be read and written")
    if name.startswith("SQLITE_IOERR"):
        return StoreGone(f"{url} does not answer: {error} ({name})")
    if name.startswith("SQLITE_BUSY"):
        return StoreGone(f"{url} was locked by another program for more than {PATIENCE:.0f} seconds")
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return StoreError(f"{url} is not a SQLite database, or is damaged: {error}")
    return None


def _only_reading_is_allowed(url: str) -> bool:
    """Whether a file is there, and none can be made beside it: SQLite needs to, and only says that it cannot open."""
    path = _parse(url)[0].absolute()
    try:
        return path.is_file() and not os.access(path.parent, os.W_OK)
    except OSError:  # no file can have such a name
        return False
