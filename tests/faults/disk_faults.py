"""Disk faults: full disks and read-only file systems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from tests.faults.cases import CannotRun, case, require
from tests.faults.environment import CaseRun, Environment
from tests.support.file_systems import MountedDisk, NoMount, small_disk
from tests.support.postgres import NoPostgres

SQLITE_DISK_BYTES = 48 << 20
"""Enough for the database and a write-ahead log of 16 MB."""
POSTGRES_DISK_BYTES = 320 << 20
SMALL_SERVER = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_recycle": "off"}


@case("disk-full", "on a full disk workers stop with an error; when there is space again all documents are finished")
def disk_full(case_run: CaseRun) -> str:
    size = SQLITE_DISK_BYTES if case_run.kind == "sqlite" else POSTGRES_DISK_BYTES
    with _disk(size) as disk, case_run.environment(place=disk.folder, settings=SMALL_SERVER) as env:
        times, panics = case_run.rounds(3), 0
        with env.workers(3) as fleet:
            env.wait_for_workers(3)
            for number in times:
                before = fleet.ended_with[3]
                env.submit(60, pages=6, takes=0.03)
                env.wait_randomly(0.1, 0.4)
                disk.fill()
                if case_run.kind == "postgres" and number % 2:
                    panics += _fill_write_ahead_log(env)
                env.wait_until(lambda before=before: fleet.ended_with[3] > before, "no worker noticed the full disk")
                env.submit(10)  # this fails, most likely
                disk.free_space()
                if case_run.kind == "postgres":
                    env.wait_until(lambda: _runs_again(env), "the server did not restart when there was space again")
            env.wait_until_finished()
        require("is full" in env.worker_log(), f"log of the workers: {env.worker_log()[-600:]}")
        case_run.record_fault("messages of workers about a full disk", env.worker_log().count("is full"))
        stopped = f", {panics} times with a stop of the server" if panics else ""
        return f"full {len(times)} times{stopped}; {fleet.ended_with[3]} workers stopped; {env.done_documents()} done"


def _fill_write_ahead_log(env: Environment) -> int:
    """Write to the write-ahead log until the disk is full. Return 1 if PostgreSQL stopped because of it."""
    with suppress(psycopg.Error), psycopg.connect(env.url, autocommit=True) as db:
        for _ in range(100):
            with suppress(psycopg.Error):
                db.execute("select pg_logical_emit_message(false, 'faults', repeat('x', 1000000))")
            if db.broken:
                return 1
    return 0


def _runs_again(env: Environment) -> bool:
    try:
        if not env.server.runs:
            env.server.start()
        psycopg.connect(env.url).close()
    except (psycopg.Error, NoPostgres):
        return False
    return True


@case("read-only", "workers stop with an error at a read-only file system or server, and continue when it is writable")
def read_only(case_run: CaseRun) -> str:
    return _read_only_file(case_run) if case_run.kind == "sqlite" else _read_only_server(case_run)


def _read_only_file(case_run: CaseRun) -> str:
    """Run the case on SQLite. Workers are killed first: an open file keeps its file system from becoming read-only."""
    with _disk(64 << 20) as disk, case_run.environment(place=disk.folder) as env:
        refused = 0
        for _ in case_run.rounds(3):
            env.submit(40)
            with env.workers(3):
                env.wait_randomly(0.8, 1.2)
            env.store.disconnect()
            disk.make_read_only()
            with env.workers(2) as fleet:
                env.wait_until(
                    lambda fleet=fleet: fleet.ended_with[3] >= 2, "no worker noticed the read-only file system"
                )
                refused += fleet.ended_with[3]
            disk.make_writable()
        with env.workers(3):
            env.wait_until_finished()
        require("cannot be written" in env.worker_log(), f"log of the workers: {env.worker_log()[-600:]}")
        case_run.record_fault("workers that could not write the file", refused)
        return f"workers stopped with an error; {env.done_documents()} documents done"


def _read_only_server(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        with env.workers(3) as fleet:
            env.wait_for_workers(3)
            for _ in case_run.rounds(3):
                before = fleet.ended_with[3]
                env.submit(40)
                _change_setting(env, "alter system set default_transaction_read_only = on")
                env.wait_until(
                    lambda before=before: fleet.ended_with[3] > before, "no worker noticed the read-only server"
                )
                _change_setting(env, "alter system reset default_transaction_read_only")
                env.wait_randomly(0.3, 0.6)
            env.wait_until_finished()
        require(
            "default_transaction_read_only is on" in env.worker_log(), f"log of the workers: {env.worker_log()[-600:]}"
        )
        case_run.record_fault("workers stopped at a read-only server", fleet.ended_with[3])
        return f"workers stopped with an error; {env.done_documents()} documents done"


def _change_setting(env: Environment, statement: str) -> None:
    with psycopg.connect(env.server.dsn, autocommit=True) as db:
        db.execute("set default_transaction_read_only = off")
        db.execute(statement)
        db.execute("select pg_reload_conf()")


@contextmanager
def _disk(size: int) -> Iterator[MountedDisk]:
    try:
        with small_disk(size) as disk:
            yield disk
    except NoMount as reason:
        raise CannotRun(str(reason)) from reason
