"""Deaths: workers that are killed or stopped, and bodies that take all memory or die of a fault in native code."""

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

from tests.faults import books, histories, submitting
from tests.faults.cases import case, require
from tests.faults.histories import Operation
from tests.faults.laboratory import Bench, Lab
from tests.faults.program import CRASHES
from tests.soak.fleet import Fleet

MOST_TIMES = 40
"""So often workers are killed or stopped at most, until something was taken over from one."""
GREEDY = 200 << 20
"""Who takes more than this is killed, as the kernel does when memory runs out."""
PAGE_SIZE = 4096
DIED_OF = {"memory": "MemoryError", "segfault": "SIGSEGV"}
"""What the reasons of documents say whose body ran in a process of its own."""
KILLED_BY = {"memory": signal.SIGKILL, "segfault": signal.SIGSEGV}
"""How workers end whose thread runs such a body."""
LEASE = 2_000_000_000
"""That of the fleet, in nanoseconds: who sleeps for longer is taken for gone."""


@case("kill", "workers that are killed at any moment, while people decide, lose nothing and repeat nothing")
def kill(bench: Bench) -> str:
    with bench.lab() as lab:
        kills = 0
        with lab.workers(3) as fleet:
            while kills < len(bench.times(16)) or (not _taken_over(lab) and kills < MOST_TIMES):
                lab.submit(25, takes=0.05)  # so that those who are killed have some in hand
                lab.decide()
                lab.wait(0.2, 0.9)
                fleet.kill_one(lab.chance)
                kills += 1
            lab.settle()
        bench.prove("workers ended by SIGKILL", fleet.ended_with[-9])
        bench.prove("documents taken over", _taken_over(lab))
        return f"{lab.done()} documents done"


@case("submit-killed", "of a submit whose process is killed all documents are there, or none")
def submit_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        lab.submit(1)
        for _ in bench.times(10):
            command = [sys.executable, "-m", "tests.faults.submitting", lab.url]
            before = lab.rows("select count(*) from hf_document")
            with subprocess.Popen(command, env=os.environ | lab.environment, stderr=subprocess.PIPE) as process:
                lab.until(lambda before=before: lab.rows("select count(*) from hf_document") > before, "nothing came")
                lab.wait(0.0, 0.05)
                process.kill()
            require(process.returncode == -9, f"a process that was killed ended with {process.returncode}")
            bench.prove("processes ended by SIGKILL")
        bench.prove("submits cut in the middle", _cut_submits(lab))
        with lab.workers(2):
            lab.settle()
        return f"{lab.done()} documents came in, all are done"


def _cut_submits(lab: Lab) -> int:
    """Counts submits that were begun and never answered. Nobody had come to the last one."""
    operations = histories.read(lab.histories)
    begun = histories.of_each_process(operations, "submit")
    require(max(begun.values()) < submitting.MOST, "a process had submitted everything before it was killed")
    return len(histories.cut_short(operations, "submit"))


@case("stop", "workers that sleep past their lease and wake up write nothing of what others took over")
def stop(bench: Bench) -> str:
    with bench.lab() as lab:
        sleeps: list[Sleep] = []
        with lab.workers(4) as fleet:
            while len(sleeps) < len(bench.times(8)) or (not _late(lab, sleeps) and len(sleeps) < MOST_TIMES):
                lab.submit(40, takes=0.15)  # so that those who are stopped have some in hand
                lab.decide()
                lab.wait(0.5, 2.0)
                sleeps.append(_put_to_sleep(lab, fleet))
            lab.settle()
        bench.prove("workers seen stopped", len(sleeps))
        bench.prove("documents taken over", _taken_over(lab))
        bench.prove("results that came too late and were not kept", _late(lab, sleeps))
        return f"{lab.done()} documents done"


def _taken_over(lab: Lab) -> int:
    return lab.rows("select count(*) from hf_journal where verb = 'reclaim'")


class Sleep(NamedTuple):
    """A worker that was stopped, and since when."""

    pid: int
    since: int


def _put_to_sleep(lab: Lab, fleet: Fleet) -> Sleep:
    asleep = Sleep(fleet.stop_one(lab.chance, seconds=lab.chance.choice((0.5, 3.0, 5.0))), monotonic_ns())
    lab.until(lambda: _state(asleep.pid) == "T", "no worker was stopped", patience=0.5)
    return asleep


def _state(pid: int) -> str:
    """Says what the kernel says of a process: T is one that is stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""  # there is none


def _late(lab: Lab, sleeps: list[Sleep]) -> int:
    """Counts what sleepers had begun and ended past their lease, where the effect of another stands in the books."""
    written = books.effects(lab.url)  # before the histories, which are ahead of it
    operations = histories.read(lab.histories)
    kept_from = {one.place: operations[one.value["made"]].process for one in written}
    return sum(
        kept_from.get((*one.place, one.what["item"]), one.process) != one.process
        for one in operations.values()
        if one.kind == "body" and any(_overslept(one, sleep) for sleep in sleeps)
    )


def _overslept(body: Operation, sleep: Sleep) -> bool:
    its_own = body.process.startswith(f"{sleep.pid}-")
    return its_own and body.completed is not None and body.invoked < sleep.since < body.completed - LEASE


@case("memory-process", "a body that takes too much memory in a process of its own fails alone, and the worker goes on")
def memory_in_a_process(bench: Bench) -> str:
    return _in_a_process(bench, "memory")


@case("memory-thread", "a body that takes all memory kills its worker; others take over, and the document ends dead")
def memory_in_a_thread(bench: Bench) -> str:
    return _in_a_thread(bench, "memory")


@case("segfault-process", "a segfault in a process of its own is its document's crash, and the worker goes on")
def segfault_in_a_process(bench: Bench) -> str:
    return _in_a_process(bench, "segfault")


@case("segfault-thread", "a segfault in a thread kills the worker; others take over, and the document ends dead")
def segfault_in_a_thread(bench: Bench) -> str:
    return _in_a_thread(bench, "segfault")


def _in_a_process(bench: Bench, risk: str) -> str:
    with bench.lab() as lab:
        lab.submit(20, pipeline="guarded")
        lab.submit(2, pipeline="guarded", risk=risk)
        with lab.workers(2, pipeline="guarded") as fleet:
            lab.submit(20, pipeline="guarded")
            lab.settle(pipeline="guarded")
        balance = lab.store.balance("guarded")
        require((balance.done, balance.dead) == (40, 2), f"not the two dangerous ones alone are dead: {balance}")
        died_of = {one.reason for one in lab.store.standings("guarded", state="dead")}
        require(all(DIED_OF[risk] in reason for reason in died_of), f"they are dead for another reason: {died_of}")
        require(not fleet.replaced, f"{fleet.replaced} workers died")
        bench.prove(f"bodies that died of {DIED_OF[risk]}", balance.dead)
        return "40 documents done, no worker died"


def _in_a_thread(bench: Bench, risk: str) -> str:
    with bench.lab() as lab:
        lab.submit(20, pipeline="judged")
        lab.submit(1, pipeline="judged", risk=risk)
        with lab.workers(2, pipeline="judged") as fleet, _killing_the_greedy(fleet):
            lab.submit(20, pipeline="judged")
            lab.settle(pipeline="judged")
            lab.until(lambda: fleet.replaced >= CRASHES, f"fewer than {CRASHES} workers died, which convict")
        balance = lab.store.balance("judged")
        (dead,) = lab.store.standings("judged", state="dead")
        require((balance.done, balance.dead) == (40, 1), f"not the dangerous one alone is dead: {balance}")
        require(fleet.replaced == CRASHES, f"{fleet.replaced} workers died, and {CRASHES} crashes convict")
        require("is gone" in dead.reason, f"the document is dead for another reason: {dead.reason}")
        bench.prove(f"workers ended by {KILLED_BY[risk].name}", fleet.ended_with[-KILLED_BY[risk]])
        return f"{fleet.replaced} workers died, then the document was dead; 40 done"


@contextmanager
def _killing_the_greedy(fleet: Fleet) -> Iterator[None]:
    """Does what the kernel does when memory runs out, to workers that take too much."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for pid in fleet.pids:
                if _resident(pid) > GREEDY:
                    fleet.kill(pid)

    killer = threading.Thread(target=watch)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_SIZE
    except (OSError, IndexError):
        return 0  # it has ended meanwhile
