"""Disks: full ones, and ones that can only be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from holdfast.testing.postgres import NoPostgres
from tests.faults.cases import CannotRun, case, require
from tests.faults.laboratory import Bench, Lab
from tests.support.mounts import Disk, NoMount, small_disk

SQLITE_ROOM = 48 << 20
"""Room for what is kept, and for a log of 16 MB."""
POSTGRES_ROOM = 320 << 20
SMALL = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_recycle": "off"}


@case("disk-full", "on a full disk workers stop with a sentence; when there is room again everything ends")
def disk_full(bench: Bench) -> str:
    size = SQLITE_ROOM if bench.kind == "sqlite" else POSTGRES_ROOM
    with _disk(size) as disk, bench.lab(place=disk.folder, settings=SMALL) as lab:
        times, panics = bench.times(3), 0
        with lab.workers(3) as fleet:
            lab.at_work(3)
            for number in times:
                before = fleet.ended_with[3]
                lab.submit(60, pages=6, takes=0.03)
                lab.wait(0.1, 0.4)
                disk.fill()
                if bench.kind == "postgres" and number % 2:
                    panics += _use_up_the_log(lab)
                lab.until(lambda before=before: fleet.ended_with[3] > before, "no worker noticed the full disk")
                lab.submit(10)  # in vain, most likely
                disk.make_room()
                if bench.kind == "postgres":
                    lab.until(lambda: _runs_again(lab), "the server did not come back when there was room")
            lab.settle()
        require("is full" in lab.said(), f"workers said: {lab.said()[-600:]}")
        bench.prove("times a worker said that the disk is full", lab.said().count("is full"))
        fell = f", {panics} times so that the server fell" if panics else ""
        return f"full {len(times)} times{fell}; {fleet.ended_with[3]} workers stopped; {lab.done()} done"


def _use_up_the_log(lab: Lab) -> int:
    """Writes to the write-ahead log until there is no room for it: then PostgreSQL gives up at once. Answers 1 then."""
    with suppress(psycopg.Error), psycopg.connect(lab.url, autocommit=True) as db:
        for _ in range(100):
            with suppress(psycopg.Error):
                db.execute("select pg_logical_emit_message(false, 'lab', repeat('x', 1000000))")
            if db.broken:
                return 1
    return 0


def _runs_again(lab: Lab) -> bool:
    try:
        if not lab.server.runs:
            lab.server.start()
        psycopg.connect(lab.url).close()
    except (psycopg.Error, NoPostgres):
        return False
    return True


@case(
    "read-only", "workers refuse a file system that can only be read, with a sentence, and go on when it can be written"
)
def read_only(bench: Bench) -> str:
    return _read_only_file(bench) if bench.kind == "sqlite" else _read_only_server(bench)


def _read_only_file(bench: Bench) -> str:
    """A file that somebody has open to write keeps its file system from becoming read-only, so all are killed first."""
    with _disk(64 << 20) as disk, bench.lab(place=disk.folder) as lab:
        refused = 0
        for _ in bench.times(3):
            lab.submit(40)
            with lab.workers(3):
                lab.wait(0.8, 1.2)
            lab.store.rest()
            disk.forbid_writing()
            with lab.workers(2) as fleet:
                lab.until(lambda fleet=fleet: fleet.ended_with[3] >= 2, "no worker noticed that nothing can be written")
                refused += fleet.ended_with[3]
            disk.allow_writing()
        with lab.workers(3):
            lab.settle()
        require("cannot be written" in lab.said(), f"workers said: {lab.said()[-600:]}")
        bench.prove("workers that could not write the file", refused)
        return f"they told why; {lab.done()} documents done"


def _read_only_server(bench: Bench) -> str:
    with bench.lab() as lab:
        with lab.workers(3) as fleet:
            lab.at_work(3)
            for _ in bench.times(3):
                before = fleet.ended_with[3]
                lab.submit(40)
                _say(lab, "alter system set default_transaction_read_only = on")
                lab.until(
                    lambda before=before: fleet.ended_with[3] > before, "no worker noticed that nothing can be written"
                )
                _say(lab, "alter system reset default_transaction_read_only")
                lab.wait(0.3, 0.6)
            lab.settle()
        require("Check that it is the primary server" in lab.said(), f"workers said: {lab.said()[-600:]}")
        bench.prove("workers stopped at a server that could only be read", fleet.ended_with[3])
        return f"they told why; {lab.done()} documents done"


def _say(lab: Lab, statement: str) -> None:
    with psycopg.connect(lab.server.dsn, autocommit=True) as db:
        db.execute("set default_transaction_read_only = off")
        db.execute(statement)
        db.execute("select pg_reload_conf()")


@contextmanager
def _disk(size: int) -> Iterator[Disk]:
    try:
        with small_disk(size) as disk:
            yield disk
    except NoMount as reason:
        raise CannotRun(str(reason)) from reason
