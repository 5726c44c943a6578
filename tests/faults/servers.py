"""Servers: commits that are cut in the middle, and databases that die, come back, or fail over to a standby."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psycopg

from holdfast.testing.postgres import standby_of
from tests.faults.cases import case, require
from tests.faults.laboratory import Bench, Lab
from tests.support.proxy import proxy

NO_SERVER = "SQLite has no server to restart; see server-killed, where all its processes die at once"
READ_ONLY = "Check that it is the primary server"
BUSY = "select pid from pg_stat_activity where application_name like 'holdfast %' and state <> 'idle'"


@case("commit-killed", "who is killed with kill -9 in the middle of a commit commits nothing: a worker, or a backend")
def commit_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        deaths = bench.times(12)
        victims = ("worker",) if bench.kind == "sqlite" else ("worker", "backend")
        with lab.workers(3):
            for number in deaths:
                lab.submit(10)
                step = lab.chance.choice(("read", "weigh", "risk", "add"))
                lab.submit(1, dies_in=step, dies=victims[number % len(victims)])
                lab.wait(0.1, 0.5)
            lab.settle()
        died = len(list(lab.histories.glob("*.flag")))
        require(died == len(deaths), f"{died} commits were cut in the middle, and {len(deaths)} should have been")
        return f"{died} commits cut inside their transaction, by the death of a {' or a '.join(victims)}"


@case(
    "backends-killed",
    "backends of PostgreSQL that are killed with kill -9 while they work lose nothing that was answered",
    sqlite="SQLite has no backends; commit-killed kills the one process that is in the middle of a commit",
)
def backends_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        killed = 0
        with lab.workers(3) as fleet:
            for _ in bench.times(12):
                lab.submit(25)
                lab.decide()
                lab.wait(0.1, 0.5)
                killed += _kill_a_busy_backend(lab)
            lab.settle()
        require(killed, "no backend was found at work")
        return f"{killed} backends killed at work; {fleet.replaced} workers replaced"


def _kill_a_busy_backend(lab: Lab) -> int:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with suppress(psycopg.Error), psycopg.connect(lab.server.dsn, autocommit=True) as db:
            if pids := [pid for (pid,) in db.execute(BUSY).fetchall()]:
                os.kill(lab.chance.choice(pids), signal.SIGKILL)
                return 1
    return 0


@case("server-killed", "a server, or on SQLite all processes at once, killed in the middle of commits comes back whole")
def server_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        deaths = bench.times(6)
        with lab.workers(3) as fleet:
            for _ in deaths:
                lab.submit(40)
                lab.decide()
                lab.at_work(1)
                lab.wait(0.2, 1.0)
                if bench.kind == "sqlite":
                    fleet.kill_all()
                else:
                    lab.server.kill()
                    lab.server.start()
            lab.settle()
        require(fleet.ended_with[-9] or bench.kind == "postgres", "no worker was killed")
        return f"killed and started {len(deaths)} times, {fleet.replaced} workers replaced, {lab.done()} documents done"


@case("server-restarted", "workers go on when their server was restarted", sqlite=NO_SERVER)
def server_restarted(bench: Bench) -> str:
    with bench.lab() as lab:
        stops = bench.times(6)
        with lab.workers(3) as fleet:
            lab.at_work(3)  # a server that never answered is not waited for
            for number in stops:
                lab.submit(25)
                lab.wait(0.5, 1.0)
                lab.server.crash() if number % 2 else lab.server.stop()
                lab.wait(0.0, 1.0)
                lab.server.start()
            lab.settle()
        require(not fleet.replaced, f"{fleet.replaced} workers ended, though the server came back soon")
        return f"restarted {len(stops)} times, no worker ended, {lab.done()} documents done"


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
