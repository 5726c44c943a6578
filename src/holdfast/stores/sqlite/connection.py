"""Connections to one SQLite file: one per thread. Writers take turns, and errors get our messages."""

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
from holdfast.core.passwords import hide_password
from holdfast.core.private_files import create_private
from holdfast.stores.sqlite.database_files import LogFiles, file_identity
from holdfast.stores.sqlite.writer_lock import WriterLock
from holdfast.stores.sqlite_guard import (
    BEGIN,
    BEGIN_TO_READ,
    COMMIT,
    ROLLBACK,
    GuardedConnection,
    refuse_inside_effect,
    refuse_inside_transaction,
    require_transaction,
)
from holdfast.stores.submission import SubmittingTx, SubmitWithin
from holdfast.stores.thread_lock import RunningEffect

PATIENCE = 60.0
"""How many seconds to wait for a writer that does not use our lock, such as a shell."""

OLDEST = (3, 38, 0)
"""The oldest SQLite that has all we use: strict tables, `returning`, JSON and `unixepoch`."""

LOG = 4000
"""How many pages are in SQLite's log before it copies them into the file, each page once. SQLite looks up 4062 pages in
one table, and needs more tables for more."""


class Tx(SubmittingTx):
    """The transaction that effects write through."""

    dialect: Literal["sqlite", "postgresql"] = "sqlite"

    __slots__ = ("_connection", "_url", "store_error")

    def __init__(self, connection: GuardedConnection, url: str, submit_within: SubmitWithin) -> None:
        super().__init__(submit_within)
        self._connection = connection
        self._url = url
        self.store_error: StoreError | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of the driver."""
        return self._connection

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement and return its cursor."""
        refuse_to_end(sql)
        require_transaction(self._connection)
        try:
            return self._connection.execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._raise_store_error(error)
            raise

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement for each of many parameters."""
        require_transaction(self._connection)
        try:
            return self._connection.executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._raise_store_error(error)
            raise

    @contextmanager
    def _statements(self) -> Iterator[None]:
        require_transaction(self._connection)
        try:
            yield
        except sqlite3.DatabaseError as error:
            self._raise_store_error(error)
            raise

    def _raise_store_error(self, error: sqlite3.DatabaseError) -> None:
        if ours := store_error(self._url, error):
            self.store_error = ours
            raise ours from error


class Connections:
    """The connections of this process to one database file."""

    def __init__(self, url: str) -> None:
        _refuse_old()
        self.url = url
        self._given, self._synchronous = _parse(url)
        self.path = self._given.absolute()  # a body may change the working folder
        self._file: tuple[int, int] | None = None
        self._local = threading.local()
        self._opened: list[tuple[int, threading.Thread, GuardedConnection, WriterLock, LogFiles]] = []
        self._closed = False
        self.newest: int | None = None
        """The newest schema that this holdfast knows."""

    @contextmanager
    def only_looking(self) -> Iterator[sqlite3.Connection | None]:
        """Return a connection that can change nothing; None if there is no file. No file is created."""
        if file_identity(self.path) is None:
            yield None
            return
        with own_errors(self.url), closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[GuardedConnection]:
        """Run one write transaction: committed at the end, rolled back on any error."""
        connection, lock = self._mine()
        refuse_inside_transaction(connection)
        with own_errors(self.url), lock, self._refusing_newer(connection):
            try:
                connection.execute(BEGIN)
                self._local.log_files.note_opened()
                yield connection
                self._require_the_same_file()
                connection.execute(COMMIT)
                self._local.log_files.require_same(self.url)
            except BaseException:  # re-raised; any error ends the transaction
                with suppress(sqlite3.Error):
                    connection.execute(ROLLBACK)
                raise
            finally:
                connection.reset_isolation()

    @property
    def running_effect(self) -> RunningEffect:
        """Where the thread that writes says which effect it runs."""
        return self._mine()[1].threads.running

    @contextmanager
    def reading(self) -> Iterator[GuardedConnection]:
        """Return a connection for statements that only read."""
        with own_errors(self.url):
            connection = self._mine()[0]
            with self._refusing_newer(connection):
                yield connection

    @contextmanager
    def reading_one_moment(self) -> Iterator[GuardedConnection]:
        """Return a connection for several statements that only read, all of the same moment."""
        with self.reading() as connection:
            refuse_inside_transaction(connection)
            connection.execute("pragma query_only = on")
            try:
                connection.execute(BEGIN_TO_READ)
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute(ROLLBACK)
                connection.execute("pragma query_only = off")
                connection.reset_isolation()

    def disconnect(self) -> None:
        """Close every connection of this process. The next use opens a new one."""
        self._refuse_in_effect()
        self._close_where(lambda _: True)
        self._local = threading.local()

    def close(self) -> None:
        """Close every connection of this process."""
        self._refuse_in_effect()
        self._closed = True
        self._close_where(lambda _: True)

    def _refuse_in_effect(self) -> None:
        mine: tuple[int, GuardedConnection, WriterLock] | None = getattr(self._local, "mine", None)
        if mine is not None and mine[0] == os.getpid():
            refuse_inside_effect(mine[1])

    def _close_where(self, wanted: Callable[[threading.Thread], bool]) -> None:
        for link in list(self._opened):
            pid, thread, connection, lock, _ = link
            if pid == os.getpid() and wanted(thread):  # a forked child must not even close those of its parent
                with suppress(ValueError):  # another thread was quicker
                    self._opened.remove(link)
                    connection.close()
                    lock.close()

    def _mine(self) -> tuple[GuardedConnection, WriterLock]:
        self._refuse_closed()
        mine: tuple[int, GuardedConnection, WriterLock] | None = getattr(self._local, "mine", None)
        if mine is None or mine[0] != os.getpid():  # a forked child must not use those of its parent
            self._close_where(lambda thread: not thread.is_alive())
            with own_errors(self.url):
                mine = (os.getpid(), *self._open())
            self._local.mine = mine
            self._opened.append((mine[0], threading.current_thread(), *mine[1:], self._local.log_files))
            self._refuse_closed()  # another thread may have closed the store, and did not know this connection
        return mine[1:]

    def _refuse_closed(self) -> None:
        if self._closed:
            self._close_where(lambda _: True)
            raise StoreGone(f"the store {self.url} was closed")

    def _open(self) -> tuple[GuardedConnection, WriterLock]:
        if not os.path.isdir(self.path.parent):  # noqa: PTH112 - a name that is too long names no folder
            raise StoreGone(f"{self.url}: there is no folder {self._given.parent}; create it first")
        self._require_the_same_file()  # SQLite would make a new one, which is empty
        self._require_the_same_log()  # it would make a new one too, and mix it with what other connections know
        with suppress(OSError):  # SQLite reports better why there can be no file
            create_private(self.path)  # SQLite gives the files beside it the same rights
        connection = sqlite3.connect(
            self.path,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=GuardedConnection,
        )
        (mode,) = connection.execute("pragma journal_mode").fetchone()
        lock = self._writer_lock()
        if mode != "wal":
            with lock:  # if two change the mode at once, SQLite lets one fail without waiting
                connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {self._synchronous}")
        connection.execute(f"pragma wal_autocheckpoint = {LOG}")
        connection.execute("pragma cache_size = -16000")
        connection.execute("pragma temp_store = memory")  # an UPDATE with a join makes a temporary table every time
        connection.execute("pragma foreign_keys = on")  # an effect cannot set it: within a transaction it has no effect
        self._file = self._file or file_identity(self.path)
        self._local.log_files = LogFiles(self.path)
        return connection, lock

    def _require_the_same_file(self) -> None:
        """Raise StoreGone if the file was removed or replaced: SQLite would go on, and all writes would be lost."""
        if self._file and self._file != file_identity(self.path):
            raise StoreGone(f"{self.url} was removed or replaced while it was in use; nothing was written")

    def _require_the_same_log(self) -> None:
        """Raise StoreGone if a file beside the database was removed that another thread has open."""
        for link in list(self._opened):
            try:
                if link[0] == os.getpid():
                    link[-1].require_unchanged(self.url)
            except StoreGone:
                if link in self._opened:  # else it was closed meanwhile, and SQLite removed the files of the last one
                    raise

    @contextmanager
    def _refusing_newer(self, connection: GuardedConnection) -> Iterator[None]:
        """Raise SchemaNewer if a statement fails because the schema was upgraded meanwhile."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_ERROR" and self.newest is not None:
                (version,) = connection.execute("select max(version) from hf_schema").fetchone()
                if version > self.newest:
                    raise upgraded(self.url, version, self.newest) from error
            raise

    def _writer_lock(self) -> WriterLock:
        try:
            return WriterLock(self.path)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise StoreGone(_too_many_files(self.url)) from error
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
    shown = hide_password(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StoreError(f"{shown!r} is no URL: {error}; write sqlite:///papers.db") from error
    if set(url) & set("#\t\r\n"):  # the character, or what follows it, would silently be left out of the name
        raise StoreError(f"{shown!r}: in the name of the file write # as %23, and a line's end or a tab as %0A or %09")
    name = unquote(parts.path)
    if why := unkept(name):
        raise StoreError(f"{shown!r}: the name of the file {why}")
    if parts.netloc or not name.startswith("/") or len(name) < 2:
        raise StoreError(f"{shown!r} names no file; write sqlite:///papers.db (relative) or sqlite:////var/papers.db")
    options = parse_qs(parts.query)
    synchronous = options.pop("synchronous", ["full"])[0].lower()
    if options or synchronous not in ("full", "normal", "extra"):
        raise StoreError(
            f"{shown!r}: the one option is synchronous=full, normal (may forget the last commits) or extra"
        )
    return Path(name[1:]), synchronous


@contextmanager
def own_errors(url: str) -> Iterator[None]:
    """Raise StoreError with our own message for the errors of the database that we know."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if ours := store_error(url, error):
            raise ours from error
        raise


def store_error(url: str, error: sqlite3.DatabaseError) -> StoreError | None:
    """Return our own error for an error of the database; None if we have none."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return StoreFull(f"the disk under {url} is full; nothing of the last write was kept. Make room and go on")
    if name.startswith("SQLITE_READONLY") or (name.startswith("SQLITE_CANTOPEN") and _is_read_only(url)):
        return StoreReadOnly(f"{url} cannot be written; check the rights of the file and of its folder")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR")) and _no_file_is_left():
        return StoreGone(_too_many_files(url))
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreGone(f"{url} cannot be opened; check that the folder exists and may be read and written")
    if name.startswith("SQLITE_IOERR"):
        return StoreGone(f"{url} does not answer: {error} ({name})")
    if name.startswith("SQLITE_BUSY"):
        return StoreGone(f"{url} was locked by another program for more than {PATIENCE:.0f} seconds")
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return StoreError(f"{url} is not a SQLite database, or is damaged: {error}")
    return None


def _is_read_only(url: str) -> bool:
    """Return True if the file exists, but SQLite cannot create the files beside it that it needs."""
    path = _parse(url)[0].absolute()
    try:
        return path.is_file() and not os.access(path.parent, os.W_OK)
    except OSError:  # no file can have such a name
        return False


def _no_file_is_left() -> bool:
    """Return True if this process can open no more files. SQLite does not say why it could not open one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


def _too_many_files(url: str) -> str:
    return f"{url} cannot be opened: too many files are open. Raise the limit (ulimit -n), or use fewer threads"
