"""Server faults: processes killed inside a commit, and servers that die, restart, or fail over to a standby."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

import psycopg
from psycopg import sql

from holdfast.stores import open_store
from tests.faults import histories
from tests.faults.cases import case, require
from tests.faults.environment import DATABASE, TIME_LIMIT, CaseRun, Environment
from tests.soak.fleet import Fleet
from tests.support.postgres import Postgres, standby_of
from tests.support.tcp_proxy import Proxy, proxy

NO_SERVER = "SQLite has no server to restart; see server-killed, where all processes are killed at once"
READ_ONLY = "Check that it is the primary server"
BUSY = "select pid from pg_stat_activity where application_name like 'holdfast %' and state <> 'idle'"
WAITING = """
select coalesce(sum((wait_event = 'SyncRep')::int), 0), coalesce(sum((wait_event_type = 'Lock')::int), 0)
  from pg_stat_activity
 where application_name like 'holdfast %'
"""
"""How many commits wait for a standby, and how many transactions wait for one of them."""
FOLLOWERS = "select count(*) from pg_stat_replication"
COMMITTING = "select count(*) from pg_stat_activity where application_name like 'holdfast %' and xact_start is not null"
STEPS = ("read", "weigh", "risk", "add")
KILL_TIME_LIMIT = 10.0
"""Seconds within which a killed process must be gone."""


@case("commit-killed", "a worker or a backend that is killed inside a commit commits nothing")
def commit_killed(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        targets: list[str] = []
        victims = ("worker",) if case_run.kind == "sqlite" else ("worker", "backend")
        with env.workers(3):
            for number in case_run.rounds(12):
                env.submit(10)
                targets += env.submit(1, dies_in=env.random.choice(STEPS), dies=victims[number % len(victims)])
                env.wait_randomly(0.1, 0.5)
            env.wait_until_finished()
        _record_interrupted_commits(env, targets)
        return f"by the death of a {' or a '.join(victims)}; {env.done_documents()} documents done"


def _record_interrupted_commits(env: Environment, keys: Iterable[str]) -> None:
    """Require that an effect of each document was started and never completed, and record these faults."""
    interrupted = {call.what["key"] for call in histories.not_completed(histories.read(env.histories), "effect")}
    completed = [key for key in keys if key not in interrupted]
    require(not completed, f"the commits of {completed} were not interrupted")
    env.case_run.record_fault("commits interrupted", len({*keys}))


@case(
    "backends-killed",
    "PostgreSQL backends that are killed while they work lose nothing that was acknowledged",
    sqlite="SQLite has no backends; commit-killed kills the one process that is inside a commit",
)
def backends_killed(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        with env.workers(3) as fleet:
            for _ in case_run.rounds(12):
                env.submit(25)
                env.decide_at_random()
                env.wait_randomly(0.1, 0.5)
                if backend := _busy_backend(env):
                    os.kill(backend, signal.SIGKILL)
                    env.wait_until(
                        lambda pid=backend: not _is_running(pid),
                        "a killed backend still runs",
                        time_limit=KILL_TIME_LIMIT,
                    )
                    case_run.record_fault("backends killed at work")
            env.wait_until_finished()
        return f"{fleet.replaced} workers replaced, {env.done_documents()} documents done"


def _busy_backend(env: Environment) -> int | None:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with suppress(psycopg.Error), psycopg.connect(env.server.dsn, autocommit=True) as db:
            if pids := [int(pid) for (pid,) in db.execute(BUSY).fetchall()]:
                return env.random.choice(pids)
    return None


def _is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@case("server-killed", "a server, or on SQLite all processes at once, killed inside commits loses nothing")
def server_killed(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        targets: list[str] = []
        with env.workers(3) as fleet:
            for _ in case_run.rounds(6):
                env.submit(40, takes=0.1)  # slow, so that the other workers have running documents
                env.decide_at_random()
                env.wait_for_workers(1)
                env.wait_randomly(0.2, 1.0)
                with _inside_a_commit(env) as key:
                    targets.append(key)
                    if case_run.kind == "sqlite":
                        _kill_all(env, fleet)
                    else:
                        _kill_server(env)
            env.wait_until_finished()
        _record_interrupted_commits(env, targets)
        return f"{fleet.replaced} workers replaced, {env.done_documents()} documents done"


@contextmanager
def _inside_a_commit(env: Environment) -> Iterator[str]:
    """Wait until a worker is inside a commit, and keep it there. Yield the key of the document."""
    (key,) = env.submit(1, dies_in=env.random.choice(STEPS), dies="by the test")
    flag = env.histories / f"{key}.flag"
    env.wait_until(flag.exists, "no worker came to the commit")
    env.wait_randomly(0.0, 0.2)  # the other workers continue
    yield key
    flag.with_name(f"{flag.name}.over").touch()


def _kill_all(env: Environment, fleet: Fleet) -> None:
    killed = fleet.ended_with[-9] + len(fleet.pids)
    fleet.kill_all()
    env.wait_until(lambda: fleet.ended_with[-9] >= killed, "killed workers still run", time_limit=KILL_TIME_LIMIT)
    env.case_run.record_fault("times all processes were killed at once")


def _kill_server(env: Environment) -> None:
    with psycopg.connect(env.server.dsn, autocommit=True) as db:
        ((committing,),) = db.execute(COMMITTING).fetchall()
    require(committing, "no worker was inside a transaction")
    _restart(env, env.server.kill)


def _restart(env: Environment, end: Callable[[], None], *, pause: float = 0.0) -> None:
    """End the server and start it again. Require that it was gone, and that a new process answers."""
    before = _identity(env)
    end()
    require(not env.server.runs, "the server still runs after its end")
    env.wait_randomly(0.0, pause)
    env.server.start()
    after = _identity(env)
    require(before[0] != after[0] and before[1] < after[1], f"the same server answers: {after}")
    env.case_run.record_fault("servers replaced by a new process")


def _identity(env: Environment) -> tuple[int, datetime]:
    """Return the pid of the server, and the start time that it reports."""
    with psycopg.connect(env.server.dsn) as db:
        ((started,),) = db.execute("select pg_postmaster_start_time()").fetchall()
    return env.server.pid, started


@case("server-restarted", "workers continue after their server was restarted", sqlite=NO_SERVER)
def server_restarted(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        with env.workers(3) as fleet:
            env.wait_for_workers(3)  # a worker does not wait for a server that never answered
            for number in case_run.rounds(6):
                env.submit(25)
                env.wait_randomly(0.5, 1.0)
                _restart(env, env.server.crash if number % 2 else env.server.stop, pause=1.0)
            env.wait_until_finished()
        require(not fleet.replaced, f"{fleet.replaced} workers ended, though the server came back soon")
        return f"no worker ended, {env.done_documents()} documents done"


@case(
    "failover",
    "workers stop with an error at a read-only standby, and continue when it is promoted; nothing is lost",
    sqlite="a file has no standby; see read-only, where its file system becomes read-only",
)
def failover(case_run: CaseRun) -> str:
    with (
        case_run.environment(settings={"synchronous_commit": "remote_apply"}) as env,
        standby_of(env.server) as standby,
    ):
        _set(env.server, "synchronous_standby_names", "*")
        with proxy(env.server.port) as wire, env.workers(3, url=wire.url(DATABASE)) as fleet:
            for _ in case_run.rounds(4):
                env.submit(25)
                env.decide_at_random()
                env.wait_randomly(0.3, 0.8)
            env.server.kill()
            require(not env.server.runs, "the server still runs after its end")
            case_run.record_fault("servers replaced by a standby")
            wire.switch_server(standby.port)
            env.wait_until(lambda: READ_ONLY in env.worker_log(), "no worker noticed that the standby is read-only")
            standby.promote()
            env.switch_to(standby.url(DATABASE))
            env.submit(25)
            env.wait_until_finished()
        case_run.check(env)  # now, while the standby still runs
        stopped = f"{fleet.ended_with[3]} workers stopped at the standby and continued when it was promoted"
        return f"{stopped}; {env.done_documents()} done"


def _setting(server: Postgres, setting: str) -> str:
    with psycopg.connect(server.dsn) as db:
        ((value,),) = db.execute("select current_setting(%s)", (setting,)).fetchall()
    return str(value)


def _set(server: Postgres, setting: str, value: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as db:
        db.execute(sql.SQL("alter system set {} = {}").format(sql.Identifier(setting), value))
        db.execute("select pg_reload_conf()")


@case(
    "standby-lost",
    "a commit that waits for a standby is not acknowledged when its connection is cut; after a failover no "
    "acknowledged document is missing",
    sqlite="a file has no standby",
)
def standby_lost(case_run: CaseRun) -> str:
    with (
        case_run.environment() as env,
        standby_of(env.server) as standby,
        proxy(env.server.port) as wire,
        closing(open_store(wire.url(DATABASE))) as far,
        ThreadPoolExecutor(1) as submitter,
    ):

        def submit() -> Future[list[str]]:
            return submitter.submit(env.submit, 15, store=far)

        follow = _setting(standby, "primary_conninfo")
        _set(env.server, "synchronous_standby_names", "*")
        with env.workers(3, url=wire.url(DATABASE)) as fleet:
            env.wait_for_workers(3)
            for _ in case_run.rounds(4):
                env.submit(15)
                answer = _cut_while_waiting(env, standby, wire, submit)
                _set(standby, "primary_conninfo", follow)
                answer.result(TIME_LIMIT)
            env.submit(15)
            answer = _cut_while_waiting(env, standby, wire, submit)
            _fail_over(env, standby, wire)
            answer.result(TIME_LIMIT)
            env.switch_to(standby.url(DATABASE))
            env.submit(15)
            env.wait_until_finished()
        case_run.check(env)  # now, while the standby still runs
        return f"{fleet.replaced} workers replaced, {env.done_documents()} documents done"


def _cut_while_waiting(
    env: Environment, standby: Postgres, wire: Proxy, submit: Callable[[], Future[list[str]]]
) -> Future[list[str]]:
    """Part the standby from its server, submit, and cut all connections when the commits wait."""
    _set(standby, "primary_conninfo", "")
    env.wait_until(lambda: _rows(env.server, FOLLOWERS) == [(0,)], "the standby still follows")
    answer = submit()
    env.wait_until(lambda: _rows(env.server, WAITING)[0][0], "no commit waits for the standby")
    ((waited, _),) = _rows(env.server, WAITING)
    wire.switch_server(env.server.port)
    env.wait_until(lambda: answer.done() or _rows(env.server, WAITING)[0][1], "nobody asks what became of the commits")
    require(not answer.done(), "a submit was acknowledged that no standby has")
    env.case_run.record_fault("commits cut while they waited for a standby", waited)
    return answer


def _rows(server: Postgres, query: str) -> list[tuple[int, ...]]:
    with psycopg.connect(server.dsn) as db:
        return db.execute(query).fetchall()


def _fail_over(env: Environment, standby: Postgres, wire: Proxy) -> None:
    """Replace the server by its standby, which lacks the last part of its log."""
    with psycopg.connect(env.server.dsn) as db, psycopg.connect(standby.dsn) as other:
        ((written,),) = db.execute("select pg_current_wal_flush_lsn()").fetchall()
        ((lost,),) = other.execute(
            "select pg_wal_lsn_diff(%s, coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()))::bigint",
            (written,),
        ).fetchall()
    env.server.kill()
    require(not env.server.runs, "the server still runs after its end")
    standby.promote()
    env.case_run.record_fault("bytes of the log that only the old server had", lost)
    wire.switch_server(standby.port)
