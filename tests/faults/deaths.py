"""Deaths: workers that are killed or stopped, and bodies that take all memory or die of a fault in native code."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.cases import case, require
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
        taken = _taken_over(lab)
        require(taken, "nobody who was killed had anything in hand")
        return f"{fleet.ended_with[-9]} workers killed, {taken} documents taken over, {lab.done()} done"


@case("submit-killed", "of a submit whose process is killed all documents are there, or none")
def submit_killed(bench: Bench) -> str:
    with bench.lab() as lab:
        lab.submit(1)
        kills = bench.times(10)
        for _ in kills:
            command = [sys.executable, "-m", "tests.faults.submitting", lab.url]
            before = lab.rows("select count(*) from hf_document")
            with subprocess.Popen(command, env=os.environ | lab.environment, stderr=subprocess.PIPE) as submitting:
                lab.until(lambda before=before: lab.rows("select count(*) from hf_document") > before, "nothing came")
                lab.wait(0.0, 0.05)
                submitting.kill()
        with lab.workers(2):
            lab.settle()
        return f"{len(kills)} processes killed while they submitted; {lab.done()} documents came in, all are done"


@case("stop", "workers that sleep past their lease and wake up write nothing of what others took over")
def stop(bench: Bench) -> str:
    with bench.lab() as lab:
        stops = 0
        with lab.workers(4) as fleet:
            while stops < len(bench.times(8)) or (not _taken_over(lab) and stops < MOST_TIMES):
                lab.submit(40, takes=0.15)  # so that those who are stopped have some in hand
                lab.decide()
                lab.wait(0.5, 2.0)
                fleet.stop_one(lab.chance, seconds=lab.chance.choice((0.5, 3.0, 5.0)))
                stops += 1
            lab.settle()
        taken = _taken_over(lab)
        require(taken or bench.kind == "sqlite", "nothing was taken over from those that slept")  # SQLite: with the pen
        return f"workers stopped {stops} times, {taken} documents taken over, {lab.done()} done"


def _taken_over(lab: Lab) -> int:
    return lab.rows("select count(*) from hf_journal where verb = 'reclaim'")


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
        return "the two dangerous documents are dead, 40 done, no worker died"


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
