"""Network faults: connections that are cut, truncated, slow, silent, or too few."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg

from tests.faults.cases import CannotRun, case, require
from tests.faults.environment import DATABASE, CaseRun, Environment
from tests.support import pgbouncer
from tests.support.tcp_proxy import Cut, proxy

NO_NETWORK = "SQLite is a file: there is no network between it and its processes"
STATEMENTS = ("commit", "begin", "update hf_document d", "insert into fault_effect", "select")
CONNECTIONS = 30
DESCRIPTORS = 24
DELAY = 0.02
"""Seconds by which a slow network delays each message and each answer."""
CONNECTED = "select count(*) from pg_stat_activity where datname = 'faults' and backend_type = 'client backend'"


@case("cut", "connections cut before, inside or after any statement lose nothing and repeat nothing", sqlite=NO_NETWORK)
def cut(case_run: CaseRun) -> str:
    hows: tuple[Cut, ...] = ("before", "after", "stranded", "truncated", "torn")
    with case_run.environment() as env, proxy(env.server.port) as wire:
        with env.workers(3, url=wire.url(DATABASE)) as fleet:
            for number in case_run.rounds(40):
                env.submit(8)
                wire.cut(hows[number % len(hows)], env.random.choice(STATEMENTS))
                env.wait_randomly(0.05, 0.2)
            env.wait_until_finished()
        case_run.record_fault("connections cut", wire.cuts)
        return f"{fleet.replaced} workers replaced, {env.done_documents()} documents done"


@case("slow", "a slow network costs time, and nothing else", sqlite=NO_NETWORK)
def slow(case_run: CaseRun) -> str:
    with case_run.environment() as env, proxy(env.server.port) as wire:
        wire.delay = DELAY
        with env.workers(2, url=wire.url(DATABASE)) as fleet:
            for _ in case_run.rounds(4):
                env.submit(10)
                env.wait_randomly(0.2, 0.5)
                taken = _round_trip(wire.url(DATABASE))
                require(taken >= 2 * DELAY, f"a statement and its answer took {taken * 1000:.1f} ms")
                case_run.record_fault("times that the delay was measured")
            env.wait_until_finished()
        require(not fleet.replaced, f"{fleet.replaced} workers ended")
        return f"each message {DELAY * 1000:.0f} ms late; no worker ended, {env.done_documents()} documents done"


def _round_trip(url: str) -> float:
    """Return the shortest of some round trips, in seconds."""
    with psycopg.connect(url, autocommit=True) as db:
        return min(timeit.repeat(lambda: db.execute("select 1"), number=1, repeat=5))


@case("half-open", "a worker whose connection became silent loses its documents to others", sqlite=NO_NETWORK)
def half_open(case_run: CaseRun) -> str:
    with case_run.environment() as env, proxy(env.server.port) as wire:
        with env.workers(2, url=wire.url(DATABASE)) as fleet:
            for _ in case_run.rounds(4):
                env.submit(20)
                wire.cut("silent", env.random.choice(STATEMENTS))
                env.wait_randomly(0.5, 1.0)
            env.wait_until_finished()
        case_run.record_fault("connections that became silent", wire.cuts)
        return f"{fleet.replaced} workers replaced, {env.done_documents()} documents done"


@case("exhausted", "workers without a connection or a file descriptor wait or stop with an error; others continue")
def exhausted(case_run: CaseRun) -> str:
    return _without_descriptors(case_run) if case_run.kind == "sqlite" else _without_connections(case_run)


def _without_connections(case_run: CaseRun) -> str:
    with case_run.environment(
        settings={"max_connections": str(CONNECTIONS), "superuser_reserved_connections": "0"}
    ) as env:
        stopped = 0
        with env.workers(2):
            env.wait_for_workers(2)
            for _ in case_run.rounds(3):
                env.submit(40)
                with _all_taken(env) as taken, env.workers(1) as late:
                    env.wait_until(lambda late=late: late.ended_with[3], "a worker without a connection did not say so")
                    stopped += late.ended_with[3]
                env.wait_randomly(0.2, 0.5)
            env.wait_until_finished()
        require("max_connections" in env.worker_log(), f"log of the workers: {env.worker_log()[-600:]}")
        case_run.record_fault("workers without a connection", stopped)
        taken_by_others = f"{CONNECTIONS} connections, {taken} taken by others"
        return f"{taken_by_others}; late workers stopped with an error, {env.done_documents()} done"


@contextmanager
def _all_taken(env: Environment) -> Iterator[int]:
    """Take every connection that the server has left. Yield how many were taken."""
    with ExitStack() as connections:
        taken = 0
        with suppress(psycopg.OperationalError):
            for _ in range(CONNECTIONS * 2):
                connections.enter_context(psycopg.connect(env.url))
                taken += 1
        yield taken


def _without_descriptors(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        env.submit(50)
        with env.workers(1), env.workers(1, descriptors=DESCRIPTORS) as limited:
            for _ in case_run.rounds(3):
                env.submit(20)
                env.wait_randomly(0.5, 1.0)
            env.wait_until_finished()
        exit_codes = dict(limited.ended_with)
        require(exit_codes.keys() == {3}, f"workers with {DESCRIPTORS} descriptors ended with {exit_codes}")
        case_run.record_fault(f"workers stopped with {DESCRIPTORS} descriptors", limited.ended_with[3])
        return f"the other finished all {env.done_documents()}"


@case("pooler", "many workers behind a pooler with two connections take turns", sqlite=NO_NETWORK)
def pooler(case_run: CaseRun) -> str:
    if not pgbouncer.find_pgbouncer():
        raise CannotRun("there is no pgbouncer on this machine")
    with case_run.environment() as env, pgbouncer.pgbouncer(env.server) as port:
        our_own = env.number(CONNECTED)
        with env.workers(6, url=f"postgresql://postgres@127.0.0.1:{port}/{DATABASE}") as fleet:
            env.wait_for_workers(6)
            for _ in case_run.rounds(6):
                env.submit(25, takes=0.2)  # slow, so that killed workers have running documents
                env.wait_randomly(0.3, 0.8)
                connected = env.number(CONNECTED) - our_own
                require(connected < 6, f"workers had {connected} connections, and the pooler should have two")
                case_run.record_fault("times that there were fewer connections than workers")
                fleet.kill_one(env.random)
            env.wait_until_finished()
        case_run.record_fault("workers ended by SIGKILL", fleet.ended_with[-9])
        return f"{env.done_documents()} documents done"
