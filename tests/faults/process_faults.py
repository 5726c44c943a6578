"""Process faults: workers that are killed or suspended, and bodies that use all memory or crash in native code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

from tests.faults import final_state, histories, submit_loop
from tests.faults.cases import case, require
from tests.faults.contention_faults import RUNNING
from tests.faults.environment import CaseRun, Environment
from tests.faults.histories import Operation
from tests.faults.program import CRASHES, LOSSES
from tests.soak.fleet import Fleet

MAX_ROUNDS = 40
"""How many workers are killed or suspended at most, until another worker took over a document."""
MEMORY_LIMIT = 200 << 20
"""A worker that uses more bytes is killed, as a watchdog does."""
PAGE_SIZE = 4096
DIED_OF = {"memory": "MemoryError", "segfault": "SIGSEGV"}
"""What the reason of a document contains if its body ran in a child process."""
KILLED_BY = {"memory": signal.SIGKILL, "segfault": signal.SIGSEGV}
"""The signal that ends a worker if such a body runs in its thread."""
DEATHS = {"memory": LOSSES, "segfault": CRASHES}
"""How many workers die until the document is dead. A kill without a count of the kernel is a loss, not a crash."""
DEAD_BECAUSE = {"memory": f"its worker was lost {LOSSES} times", "segfault": "crashed at risk: SIGSEGV"}
"""What the reason of the document contains then."""
LEASE = 2_000_000_000
"""The lease of the fleet in nanoseconds. A worker that is suspended for longer counts as gone."""


@case("kill", "workers that are killed at any moment, while people decide, lose nothing and repeat nothing")
def kill(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        kills = 0
        with env.workers(3) as fleet:
            while kills < len(case_run.rounds(16)) or (not _taken_over(env) and kills < MAX_ROUNDS):
                env.submit(25, takes=0.05)  # slow, so that killed workers have running documents
                env.decide_at_random()
                env.wait_until(lambda: env.number(RUNNING), "no worker runs a document")  # a slow machine starts slowly
                env.wait_randomly(0.2, 0.9)
                fleet.kill_one(env.random)
                kills += 1
            env.wait_until_finished()
        case_run.record_fault("workers ended by SIGKILL", fleet.ended_with[-9])
        case_run.record_fault("documents taken over", _taken_over(env))
        return f"{env.done_documents()} documents done"


@case("submit-killed", "of a submit whose process is killed, all documents are stored or none")
def submit_killed(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        env.submit(1)
        for _ in case_run.rounds(10):
            command = [sys.executable, "-m", "tests.faults.submit_loop", env.url]
            before = env.number("select count(*) from hf_document")
            with subprocess.Popen(command, env=os.environ | env.variables, stderr=subprocess.PIPE) as process:
                env.wait_until(
                    lambda before=before: env.number("select count(*) from hf_document") > before,
                    "nothing was submitted",
                )
                env.wait_randomly(0.0, 0.05)
                process.kill()
            require(process.returncode == -9, f"a process that was killed ended with {process.returncode}")
            case_run.record_fault("processes ended by SIGKILL")
        case_run.record_fault("submits interrupted", _interrupted_submits(env))
        with env.workers(2):
            env.wait_until_finished()
        return f"{env.done_documents()} documents were submitted, all are done"


def _interrupted_submits(env: Environment) -> int:
    """Count the submits that were started and never answered. Require that no process came to its last submit."""
    operations = histories.read(env.histories)
    submits = histories.count_by_process(operations, "submit")
    require(max(submits.values()) < submit_loop.MAX_SUBMITS, "a process ended its loop before it was killed")
    return len(histories.not_completed(operations, "submit"))


@case("stop", "workers that are suspended past their lease cannot write what others took over")
def stop(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        suspensions: list[Suspension] = []
        with env.workers(4) as fleet:
            while len(suspensions) < len(case_run.rounds(8)) or (
                not _late_results(env, suspensions) and len(suspensions) < MAX_ROUNDS
            ):
                env.submit(40, takes=0.15)  # slow, so that suspended workers have running documents
                env.decide_at_random()
                env.wait_randomly(0.5, 2.0)
                suspensions.append(_suspend(env, fleet))
            env.wait_until_finished()
        case_run.record_fault("workers seen suspended", len(suspensions))
        case_run.record_fault("documents taken over", _taken_over(env))
        case_run.record_fault("late results that were not stored", _late_results(env, suspensions))
        return f"{env.done_documents()} documents done"


def _taken_over(env: Environment) -> int:
    return env.number("select count(*) from hf_journal where verb = 'reclaim'")


class Suspension(NamedTuple):
    """A worker that was suspended, and the time."""

    pid: int
    since: int


def _suspend(env: Environment, fleet: Fleet) -> Suspension:
    pid = fleet.suspend_one(env.random, seconds=env.random.choice((0.5, 3.0, 5.0)))
    suspension = Suspension(pid, monotonic_ns())
    env.wait_until(lambda: _process_state(pid) == "T", "no worker was suspended", time_limit=0.5)
    return suspension


def _process_state(pid: int) -> str:
    """Return the state of a process as the kernel shows it. T is a stopped process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""  # the process has ended


def _late_results(env: Environment, suspensions: list[Suspension]) -> int:
    """Count the bodies of suspended workers that ended after the lease, and whose place another worker wrote."""
    written = final_state.effects(env.url)  # before the histories: these have at least what the table has
    operations = histories.read(env.histories)
    written_by = {effect.place: operations[effect.value["made"]].process for effect in written}
    return sum(
        written_by.get((*body.place, body.what["item"]), body.process) != body.process
        for body in operations.values()
        if body.kind == "body" and any(_ended_late(body, suspension) for suspension in suspensions)
    )


def _ended_late(body: Operation, suspension: Suspension) -> bool:
    same_process = body.process.startswith(f"{suspension.pid}-")
    return same_process and body.completed is not None and body.invoked < suspension.since < body.completed - LEASE


@case("memory-process", "a body that uses too much memory in a child process fails alone; the worker continues")
def memory_in_a_process(case_run: CaseRun) -> str:
    return _in_a_process(case_run, "memory")


@case("memory-thread", "a body that uses all memory kills its worker; others take over, and the document becomes dead")
def memory_in_a_thread(case_run: CaseRun) -> str:
    return _in_a_thread(case_run, "memory")


@case("segfault-process", "a segfault in a child process counts as a crash of its document; the worker continues")
def segfault_in_a_process(case_run: CaseRun) -> str:
    return _in_a_process(case_run, "segfault")


@case("segfault-thread", "a segfault in a thread kills the worker; others take over, and the document becomes dead")
def segfault_in_a_thread(case_run: CaseRun) -> str:
    return _in_a_thread(case_run, "segfault")


def _in_a_process(case_run: CaseRun, risk: str) -> str:
    with case_run.environment() as env:
        env.submit(20, pipeline="isolated")
        env.submit(2, pipeline="isolated", risk=risk)
        with env.workers(2, pipeline="isolated") as fleet:
            env.submit(20, pipeline="isolated")
            env.wait_until_finished(pipeline="isolated")
        balance = env.store.balance("isolated")
        require(
            (balance.done, balance.dead) == (40, 2), f"other documents than the two dangerous ones are dead: {balance}"
        )
        reasons = {document.reason for document in env.store.documents("isolated", state="dead")}
        require(all(DIED_OF[risk] in reason for reason in reasons), f"they are dead for another reason: {reasons}")
        require(not fleet.replaced, f"{fleet.replaced} workers died")
        case_run.record_fault(f"bodies that died of {DIED_OF[risk]}", balance.dead)
        return "40 documents done, no worker died"


def _in_a_thread(case_run: CaseRun, risk: str) -> str:
    with case_run.environment() as env:
        env.submit(20, pipeline="crash_limited")
        env.submit(1, pipeline="crash_limited", risk=risk)
        with env.workers(2, pipeline="crash_limited") as fleet, _memory_killer(fleet):
            env.submit(20, pipeline="crash_limited")
            env.wait_until_finished(pipeline="crash_limited")
            env.wait_until(lambda: fleet.replaced >= DEATHS[risk], f"fewer than {DEATHS[risk]} workers died")
        balance = env.store.balance("crash_limited")
        (dead,) = env.store.documents("crash_limited", state="dead")
        require((balance.done, balance.dead) == (40, 1), f"other documents than the dangerous one are dead: {balance}")
        require(fleet.replaced == DEATHS[risk], f"{fleet.replaced} workers died, and {DEATHS[risk]} are allowed")
        require(DEAD_BECAUSE[risk] in dead.reason, f"the document is dead for another reason: {dead.reason}")
        case_run.record_fault(f"workers ended by {KILLED_BY[risk].name}", fleet.ended_with[-KILLED_BY[risk]])
        return f"{fleet.replaced} workers died, then the document became dead; 40 done"


@contextmanager
def _memory_killer(fleet: Fleet) -> Iterator[None]:
    """Kill workers that use too much memory, as a watchdog does. The kernel counts no such kill."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for pid in fleet.pids:
                if _resident_bytes(pid) > MEMORY_LIMIT:
                    fleet.kill(pid)

    killer = threading.Thread(target=watch)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_SIZE
    except (OSError, IndexError):
        return 0  # the process has ended meanwhile
