"""Servers: commits that are cut in the middle, and databases that die, come back, or fail over to a standby."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import psycopg

from holdfast.testing.postgres import standby_of
from tests.faults import histories
from tests.faults.cases import case, require
from tests.faults.laboratory import Bench, Lab
from tests.soak.fleet import Fleet
from tests.support.proxy import proxy

NO_SERVER = "SQLite has no server to restart; see server-killed, where all its processes die at once"
READ_ONLY = "Check that it is the primary server"
BUSY = "select pid from pg_stat_activity where application_name like 'holdfast %' and state <> 'idle'"
COMMITTING = "select count(*) from pg_stat_activity where application_name like 'holdfast %' and xact_start is not null"
STEPS = ("read", "weigh", "risk", "add")
SOON = 10.0
"""Within so many seconds who was killed is gone."""


@case("commit-killed", "who is killed with kill -9 in the middle of a commit commits nothing: a worker, or a backend")
def commit_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        doomed: list[str] = []
        victims = ("worker",) if bench.kind == "sqlite" else ("worker", "backend")
        with lab.workers(3):
            for number in bench.times(12):
                lab.submit(10)
                doomed += lab.submit(1, dies_in=lab.chance.choice(STEPS), dies=victims[number % len(victims)])
                lab.wait(0.1, 0.5)
            lab.settle()
        _prove_cut(lab, doomed)
        return f"by the death of a {' or a '.join(victims)}; {lab.done()} documents done"


def _prove_cut(lab: Lab, doomed: Iterable[str]) -> None:
    """Requires of each of these documents that an effect of it was begun and never ended."""
    cut = {one.what["key"] for one in histories.cut_short(histories.read(lab.histories), "effect")}
    spared = [key for key in doomed if key not in cut]
    require(not spared, f"the commits of {spared} were not cut in the middle")
    lab.bench.prove("commits cut in the middle", len({*doomed}))


@case(
    "backends-killed",
    "backends of PostgreSQL that are killed with kill -9 while they work lose nothing that was answered",
    sqlite="SQLite has no backends; commit-killed kills the one process that is in the middle of a commit",
)
def backends_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        with lab.workers(3) as fleet:
            for _ in bench.times(12):
                lab.submit(25)
                lab.decide()
                lab.wait(0.1, 0.5)
                if backend := _busy_backend(lab):
                    os.kill(backend, signal.SIGKILL)
                    lab.until(lambda pid=backend: not _lives(pid), "a backend outlived its kill", patience=SOON)
                    bench.prove("backends killed at work")
            lab.settle()
        return f"{fleet.replaced} workers replaced, {lab.done()} documents done"


def _busy_backend(lab: Lab) -> int | None:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with suppress(psycopg.Error), psycopg.connect(lab.server.dsn, autocommit=True) as db:
            if pids := [int(pid) for (pid,) in db.execute(BUSY).fetchall()]:
                return lab.chance.choice(pids)
    return None


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@case("server-killed", "a server, or on SQLite all processes at once, killed in the middle of commits comes back whole")
def server_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        doomed: list[str] = []
        with lab.workers(3) as fleet:
            for _ in bench.times(6):
                lab.submit(40, takes=0.1)  # so that the others have something in hand
                lab.decide()
                lab.at_work(1)
                lab.wait(0.2, 1.0)
                with _in_the_middle_of_a_commit(lab) as key:
                    doomed.append(key)
                    if bench.kind == "sqlite":
                        _kill_all(lab, fleet)
                    else:
                        _kill_server(lab)
            lab.settle()
        _prove_cut(lab, doomed)
        return f"{fleet.replaced} workers replaced, {lab.done()} documents done"


@contextmanager
def _in_the_middle_of_a_commit(lab: Lab) -> Iterator[str]:
    """Waits until a worker is in the middle of a commit, and keeps it there. Gives the document that is committed."""
    (key,) = lab.submit(1, dies_in=lab.chance.choice(STEPS), dies="by another hand")
    flag = lab.histories / f"{key}.flag"
    lab.until(flag.exists, "nobody came to the middle of a commit")
    lab.wait(0.0, 0.2)  # the others do not stand still
    yield key
    flag.with_name(f"{flag.name}.over").touch()


def _kill_all(lab: Lab, fleet: Fleet) -> None:
    killed = fleet.ended_with[-9] + len(fleet.pids)
    fleet.kill_all()
    lab.until(lambda: fleet.ended_with[-9] >= killed, "workers outlived their kill", patience=SOON)
    lab.bench.prove("times all processes were killed at once")


def _kill_server(lab: Lab) -> None:
    with psycopg.connect(lab.server.dsn, autocommit=True) as db:
        ((committing,),) = db.execute(COMMITTING).fetchall()
    require(committing, "no worker was inside a transaction")
    _start_anew(lab, lab.server.kill)


def _start_anew(lab: Lab, end: Callable[[], None], *, pause: float = 0.0) -> None:
    """Ends the server and starts it again. Requires that it was gone, and that another one answers then."""
    before = _identity(lab)
    end()
    require(not lab.server.runs, "the server outlived its end")
    lab.wait(0.0, pause)
    lab.server.start()
    after = _identity(lab)
    require(before[0] != after[0] and before[1] < after[1], f"the same server answers: {after}")
    lab.bench.prove("servers gone, with another in their place")


def _identity(lab: Lab) -> tuple[int, datetime]:
    """The process of the server, and when it says that it was started."""
    with psycopg.connect(lab.server.dsn) as db:
        ((started,),) = db.execute("select pg_postmaster_start_time()").fetchall()
    return lab.server.pid, started


@case("server-restarted", "workers go on when their server was restarted", sqlite=NO_SERVER)
def server_restarted(bench: Bench) -> str:
    with bench.lab() as lab:
        with lab.workers(3) as fleet:
            lab.at_work(3)  # a server that never answered is not waited for
            for number in bench.times(6):
                lab.submit(25)
                lab.wait(0.5, 1.0)
                _start_anew(lab, lab.server.crash if number % 2 else lab.server.stop, pause=1.0)
            lab.settle()
        require(not fleet.replaced, f"{fleet.replaced} workers ended, though the server came back soon")
        return f"no worker ended, {lab.done()} documents done"


@case(
    "failover",
    "workers stop with a sentence at a standby that can only be read, and go on when it is promoted; nothing is lost",
    sqlite="a file has no standby; see read-only, where its file system becomes read-only",
)
def failover(bench: Bench) -> str:
    with bench.lab(settings={"synchronous_commit": "remote_apply"}) as lab, standby_of(lab.server) as standby:
        with psycopg.connect(lab.server.dsn, autocommit=True) as db:
            db.execute("alter system set synchronous_standby_names = '*'")
            db.execute("select pg_reload_conf()")
        with proxy(lab.server.port) as wire, lab.workers(3, url=wire.url("lab")) as fleet:
            for _ in bench.times(4):
                lab.submit(25)
                lab.decide()
                lab.wait(0.3, 0.8)
            lab.server.kill()
            require(not lab.server.runs, "the server outlived its end")
            bench.prove("servers gone, with a standby in their place")
            wire.turn_to(standby.port)
            lab.until(lambda: READ_ONLY in lab.said(), "no worker noticed that the standby can only be read")
            standby.promote()
            lab.become(standby.url("lab"))
            lab.submit(25)
            lab.settle()
        bench.check(lab)  # as long as the standby runs
        return (
            f"{fleet.ended_with[3]} workers stopped at the standby, and went on when it was promoted; {lab.done()} done"
        )
