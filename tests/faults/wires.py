"""Wires: connections that are cut, torn, slow, silent, or too few."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg

from tests.faults.cases import CannotRun, case, require
from tests.faults.laboratory import Bench, Lab
from tests.support import pgbouncer
from tests.support.proxy import Cut, proxy

NO_WIRE = "SQLite is a file, and nothing lies between it and its processes"
WORDS = ("commit", "begin", "update hf_document d", "insert into lab_effect", "select")
CONNECTIONS = 30
DESCRIPTORS = 24
LATE = 0.02
"""By so many seconds a word is late on a slow wire, and its answer again."""
CONNECTED = "select count(*) from pg_stat_activity where datname = 'lab' and backend_type = 'client backend'"


@case("cut", "connections that are cut before, in or after any word lose nothing and repeat nothing", sqlite=NO_WIRE)
def cut(bench: Bench) -> str:
    hows: tuple[Cut, ...] = ("before", "after", "stranded", "truncated", "torn")
    with bench.lab() as lab, proxy(lab.server.port) as wire:
        with lab.workers(3, url=wire.url("lab")) as fleet:
            for number in bench.times(40):
                lab.submit(8)
                wire.cut(hows[number % len(hows)], lab.chance.choice(WORDS))
                lab.wait(0.05, 0.2)
            lab.settle()
        bench.prove("connections cut", wire.cuts)
        return f"{fleet.replaced} workers replaced, {lab.done()} documents done"


@case("slow", "a wire on which every answer is late costs time, and nothing else", sqlite=NO_WIRE)
def slow(bench: Bench) -> str:
    with bench.lab() as lab, proxy(lab.server.port) as wire:
        wire.delay = LATE
        with lab.workers(2, url=wire.url("lab")) as fleet:
            for _ in bench.times(4):
                lab.submit(10)
                lab.wait(0.2, 0.5)
                taken = _round_trip(wire.url("lab"))
                require(taken >= 2 * LATE, f"a word and its answer took {taken * 1000:.1f} ms")
                bench.prove("times that every word was found late")
            lab.settle()
        require(not fleet.replaced, f"{fleet.replaced} workers ended")
        return f"every word {LATE * 1000:.0f} ms late; no worker ended, {lab.done()} documents done"


def _round_trip(url: str) -> float:
    """Measures how many seconds an answer takes at least."""
    with psycopg.connect(url, autocommit=True) as db:
        return min(timeit.repeat(lambda: db.execute("select 1"), number=1, repeat=5))


@case("half-open", "a worker whose connection has gone silent does not hold its documents for ever", sqlite=NO_WIRE)
def half_open(bench: Bench) -> str:
    with bench.lab() as lab, proxy(lab.server.port) as wire:
        with lab.workers(2, url=wire.url("lab")) as fleet:
            for _ in bench.times(4):
                lab.submit(20)
                wire.cut("silent", lab.chance.choice(WORDS))
                lab.wait(0.5, 1.0)
            lab.settle()
        bench.prove("connections that went silent", wire.cuts)
        return f"{fleet.replaced} workers replaced, {lab.done()} documents done"


@case("exhausted", "workers without a connection, or a descriptor, wait or stop with a sentence; others go on")
def exhausted(bench: Bench) -> str:
    return _without_descriptors(bench) if bench.kind == "sqlite" else _without_connections(bench)


def _without_connections(bench: Bench) -> str:
    with bench.lab(settings={"max_connections": str(CONNECTIONS), "superuser_reserved_connections": "0"}) as lab:
        stopped = 0
        with lab.workers(2):
            lab.at_work(2)
            for _ in bench.times(3):
                lab.submit(40)
                with _all_taken(lab) as taken, lab.workers(1) as late:
                    lab.until(lambda late=late: late.ended_with[3], "a worker without a connection did not say so")
                    stopped += late.ended_with[3]
                lab.wait(0.2, 0.5)
            lab.settle()
        require("max_connections" in lab.said(), f"workers said: {lab.said()[-600:]}")
        bench.prove("workers without a connection", stopped)
        return f"{CONNECTIONS} connections, {taken} taken by others; late workers told why, {lab.done()} done"


@contextmanager
def _all_taken(lab: Lab) -> Iterator[int]:
    """Takes every connection that the server has left, and takes what becomes free."""
    with ExitStack() as hoard:
        taken = 0
        with suppress(psycopg.OperationalError):
            for _ in range(CONNECTIONS * 2):
                hoard.enter_context(psycopg.connect(lab.url))
                taken += 1
        yield taken


def _without_descriptors(bench: Bench) -> str:
    with bench.lab() as lab:
        lab.submit(50)
        with lab.workers(1), lab.workers(1, descriptors=DESCRIPTORS) as poor:
            for _ in bench.times(3):
                lab.submit(20)
                lab.wait(0.5, 1.0)
            lab.settle()
        require(poor.ended_with.keys() == {3}, f"workers with {DESCRIPTORS} descriptors ended {dict(poor.ended_with)}")
        bench.prove(f"workers stopped with {DESCRIPTORS} descriptors", poor.ended_with[3])
        return f"the other finished all {lab.done()}"


@case("pooler", "many workers behind a pooler with two connections take turns", sqlite=NO_WIRE)
def pooler(bench: Bench) -> str:
    if not pgbouncer.program():
        raise CannotRun("there is no pgbouncer on this machine")
    with bench.lab() as lab, pgbouncer.pgbouncer(lab.server) as port:
        our_own = lab.rows(CONNECTED)
        with lab.workers(6, url=f"postgresql://postgres@127.0.0.1:{port}/lab") as fleet:
            lab.at_work(6)
            for _ in bench.times(6):
                lab.submit(25, takes=0.2)  # so that those who are killed have some in hand
                lab.wait(0.3, 0.8)
                connected = lab.rows(CONNECTED) - our_own
                require(connected < 6, f"workers had {connected} connections, and the pooler should have two")
                bench.prove("times that workers had fewer connections than they were")
                fleet.kill_one(lab.chance)
            lab.settle()
        bench.prove("workers ended by SIGKILL", fleet.ended_with[-9])
        return f"{lab.done()} documents done"
