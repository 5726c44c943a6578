"""Storms: too many workers at once, and locks that others hold."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from time import monotonic_ns

import psycopg

from tests.faults import histories
from tests.faults.cases import NotAsExpected, case, require
from tests.faults.laboratory import Bench, Lab
from tests.support import pgbouncer

CROWD = 500
FORKS = 60
POOLED = 20
IN_HAND = "select count(*) from hf_document where state = 'running'"
PATIENCE = 300.0
"""How many seconds so many workers may take to begin, and to end."""
ROOMY = {"max_connections": "1700", "shared_buffers": "128MB"}
"""A worker with one thread has three connections: its own, its thread's and its heart's."""


@case("crowd", "500 workers on one store share the work: each document is done once, and every worker leaves in peace")
def crowd(bench: Bench) -> str:
    with bench.lab(settings=ROOMY) as lab, ExitStack() as around:
        url, through = lab.url, ""
        if bench.kind == "postgres" and pgbouncer.program():
            port = around.enter_context(pgbouncer.pgbouncer(lab.server, connections=POOLED))
            url, through = f"postgresql://postgres@127.0.0.1:{port}/lab", f" through a pooler with {POOLED} connections"
        number = len(bench.times(CROWD))
        all_here = bench.folder / "all-here"
        lab.submit(1, pages=1, until=str(all_here))  # as long as it is not done, nobody leaves

        def begin() -> None:
            lab.at_work(number, patience=PATIENCE)
            bench.prove("workers at once", len(lab.store.workers()))
            lab.submit(number, pages=1, takes=0.02)
            all_here.touch()

        ended = _swarm(lab, url, str(number), meanwhile=begin)
        lab.settle()
        require(ended == {0: number}, f"workers ended with {dict(ended)}: {lab.said()[-600:]}")
        hands = lab.rows("select count(distinct worked_by) from hf_document")
        return f"{number} processes{through}, {hands} of which ended documents; {lab.done()} done, all left"


@case("fork-storm", "workers that are started faster than they end, and killed as fast, lose nothing")
def fork_storm(bench: Bench) -> str:
    with bench.lab(settings=ROOMY) as lab:
        seconds = max(len(bench.times(10)), 4)
        lab.submit(300)

        def submit_more() -> None:
            for _ in range(seconds):
                lab.submit(20)
                lab.wait(0.5, 0.9)

        ended = _swarm(lab, lab.url, str(FORKS), "--for-ever", str(seconds), meanwhile=submit_more)
        with lab.workers(2):
            lab.settle()
        require(ended[-9] > FORKS, f"workers ended with {dict(ended)}")
        bench.prove("workers ended by SIGKILL", ended[-9])
        bench.prove("bodies cut in the middle", len(histories.cut_short(histories.read(lab.histories), "body")))
        return f"{ended.total()} workers started in {seconds} s, at most {FORKS} at once; {lab.done()} done"


@case("locked", "a stranger who holds locks for seconds makes workers wait, and 'database is locked' reaches nobody")
def locked(bench: Bench) -> str:
    with bench.lab() as lab:
        with lab.workers(4) as fleet:
            lab.at_work(4)
            holds = []
            for _ in bench.times(5):
                lab.submit(40, takes=0.2)  # so that something is in hand when all is locked
                lab.decide()
                lab.until(lambda: lab.rows(IN_HAND), "nobody took anything in hand")
                holds.append(_hold_everything(lab, seconds=lab.chance.uniform(0.5, 3.0)))
            lab.settle()
        require(not fleet.replaced, f"{fleet.replaced} workers ended: {lab.said()[-600:]}")
        bench.prove("results that waited for a lock", sum(_waited(lab, *hold) for hold in holds))
        return f"all locked {len(holds)} times for up to 3 s, no worker ended; {lab.done()} documents done"


def _hold_everything(lab: Lab, *, seconds: float) -> tuple[int, int]:
    """Locks the database as a shell or a migration would. Gives the time from which and until which it was locked."""
    if lab.bench.kind == "sqlite":
        with closing(sqlite3.connect(lab.url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)) as db:
            db.execute("begin exclusive")
            held = _wait(lab, seconds)
            db.execute("rollback")
            return held
    with psycopg.connect(lab.url) as connection:
        connection.execute("lock table hf_document in access exclusive mode")
        return _wait(lab, seconds)


def _wait(lab: Lab, seconds: float) -> tuple[int, int]:
    since = monotonic_ns()
    lab.wait(seconds, seconds)
    return since, monotonic_ns()


def _waited(lab: Lab, since: int, until: int) -> int:
    """Counts the bodies that ended while all was locked, and were written afterwards. Nothing was written meanwhile."""
    operations = histories.read(lab.histories)
    effects = [one for one in operations.values() if one.kind == "effect"]
    require(not any(since < one.invoked < until for one in effects), "something was written while all was locked")
    later = {made for one in effects if one.invoked > until for made in one.what["made"]}
    return sum(since < (operations[made].completed or 0) < until for made in later)


def _swarm(lab: Lab, *words: str, meanwhile: Callable[[], object]) -> Counter[int]:
    """Runs a swarm to its end, and something else meanwhile. Answers how many workers ended with which code."""
    with lab.log.open("ab") as log:
        swarm = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.swarm", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | lab.environment,
            start_new_session=True,
        )
    try:
        meanwhile()
        told, _ = swarm.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise NotAsExpected(f"the swarm did not end; {lab.store.balance('lab')}") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(swarm.pid, signal.SIGKILL)  # and all that it forked
        swarm.wait()
    return Counter({int(code): int(count) for code, _, count in (one.partition(":") for one in told.split())})
