"""Contention: very many workers at once, and locks that other programs hold."""

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
from tests.faults.environment import DATABASE, PIPELINE, CaseRun, Environment
from tests.support import pgbouncer

WORKERS = 500
FORKS = 60
POOLED_CONNECTIONS = 20
RUNNING = "select count(*) from hf_document where state = 'running'"
TIME_LIMIT = 300.0
"""Seconds that this many workers may take to start, and to end."""
MANY_CONNECTIONS = {"max_connections": "1700", "shared_buffers": "128MB"}
"""A worker with one thread has three connections: its own, its thread's and its heartbeat's."""


@case("crowd", "500 workers on one store share the work: each document is done once, and every worker ends normally")
def crowd(case_run: CaseRun) -> str:
    with case_run.environment(settings=MANY_CONNECTIONS) as env, ExitStack() as stack:
        url, through = env.url, ""
        if case_run.kind == "postgres" and pgbouncer.find_pgbouncer():
            port = stack.enter_context(pgbouncer.pgbouncer(env.server, connections=POOLED_CONNECTIONS))
            url = f"postgresql://postgres@127.0.0.1:{port}/{DATABASE}"
            through = f" through a pooler with {POOLED_CONNECTIONS} connections"
        number = len(case_run.rounds(WORKERS))
        all_started = case_run.folder / "all-started"
        env.submit(1, pages=1, until=str(all_started))  # no worker ends while this document is not done

        def submit_when_started() -> None:
            env.wait_for_workers(number, time_limit=TIME_LIMIT)
            case_run.record_fault("workers at once", len(env.store.workers()))
            env.submit(number, pages=1, takes=0.02)
            all_started.touch()

        ended = _run_forked_workers(env, url, str(number), meanwhile=submit_when_started)
        env.wait_until_finished()
        require(ended == {0: number}, f"workers ended with {dict(ended)}: {env.worker_log()[-600:]}")
        finishers = env.number("select count(distinct worked_by) from hf_document")
        return f"{number} processes{through}, {finishers} of which finished documents; {env.done_documents()} done"


@case("fork-storm", "workers that are started faster than they end, and killed as fast, lose nothing")
def fork_storm(case_run: CaseRun) -> str:
    with case_run.environment(settings=MANY_CONNECTIONS) as env:
        seconds = max(len(case_run.rounds(10)), 4)
        env.submit(300)

        def submit_more() -> None:
            for _ in range(seconds):
                env.submit(20)
                env.wait_randomly(0.5, 0.9)

        ended = _run_forked_workers(env, env.url, str(FORKS), "--replace-for", str(seconds), meanwhile=submit_more)
        with env.workers(2):
            env.wait_until_finished()
        require(ended[-9] > FORKS, f"workers ended with {dict(ended)}")
        case_run.record_fault("workers ended by SIGKILL", ended[-9])
        interrupted = histories.not_completed(histories.read(env.histories), "body")
        case_run.record_fault("bodies interrupted", len(interrupted))
        return f"{ended.total()} workers started in {seconds} s, at most {FORKS} at once; {env.done_documents()} done"


@case("locked", "workers wait when another program holds locks for seconds; none fails with 'database is locked'")
def locked(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        with env.workers(4) as fleet:
            env.wait_for_workers(4)
            holds = []
            for _ in case_run.rounds(5):
                env.submit(40, takes=0.2)  # slow, so that documents are running when the lock is taken
                env.decide_at_random()
                env.wait_until(lambda: env.number(RUNNING), "no document was claimed")
                holds.append(_hold_everything(env, seconds=env.random.uniform(0.5, 3.0)))
            env.wait_until_finished()
        require(not fleet.replaced, f"{fleet.replaced} workers ended: {env.worker_log()[-600:]}")
        case_run.record_fault("results that waited for a lock", sum(_waited(env, *hold) for hold in holds))
        return f"locked {len(holds)} times for up to 3 s, no worker ended; {env.done_documents()} documents done"


def _hold_everything(env: Environment, *, seconds: float) -> tuple[int, int]:
    """Lock the whole database, as a shell or a migration would. Return the start and the end of the lock."""
    if env.case_run.kind == "sqlite":
        with closing(sqlite3.connect(env.url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)) as db:
            db.execute("begin exclusive")
            held = _wait(env, seconds)
            db.execute("rollback")
            return held
    with psycopg.connect(env.url) as connection:
        connection.execute("lock table hf_document in access exclusive mode")
        return _wait(env, seconds)


def _wait(env: Environment, seconds: float) -> tuple[int, int]:
    since = monotonic_ns()
    env.wait_randomly(seconds, seconds)
    return since, monotonic_ns()


def _waited(env: Environment, since: int, until: int) -> int:
    """Count the bodies that ended during the lock and were committed later. Require that none was committed in it."""
    operations = histories.read(env.histories)
    effects = [operation for operation in operations.values() if operation.kind == "effect"]
    in_lock = any(since < effect.invoked < until for effect in effects)
    require(not in_lock, "something was written while the database was locked")
    later = {made for effect in effects if effect.invoked > until for made in effect.what["made"]}
    return sum(since < (operations[made].completed or 0) < until for made in later)


def _run_forked_workers(env: Environment, *arguments: str, meanwhile: Callable[[], object]) -> Counter[int]:
    """Run many forked workers to their end, and a function meanwhile. Count the exit codes of the workers."""
    with env.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forked_workers", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | env.variables,
            start_new_session=True,
        )
    try:
        meanwhile()
        output, _ = process.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise NotAsExpected(f"the forked workers did not end; {env.store.balance(PIPELINE)}") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the process and all workers that it forked
        process.wait()
    return Counter({int(code): int(count) for code, _, count in (pair.partition(":") for pair in output.split())})
