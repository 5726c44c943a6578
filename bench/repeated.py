"""Measure how much work a kill costs: bodies that had finished but were not committed, and have to run again.

    python bench/repeated.py                            SQLite, 20 kills for each duration of body
    python bench/repeated.py --store postgresql://...   your own database (it is filled)

A worker with two threads runs bodies that compute for a known time, and is killed with SIGKILL at a random moment.
Bodies count themselves in shared memory when they finish. The store knows how many were committed. For each duration it
prints the median and the maximum of lost work per kill, in bodies and in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from mmap import mmap
from pathlib import Path

DURATIONS = (0.0, 0.0001, 0.001, 0.005, 0.02)
THREADS = 2
DOCUMENTS, STEPS = 20_000, 3
DEADLINE = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(*args.work)
        return
    print("| body ms | kills | bodies lost: median, most | work lost ms: median, most |")
    print("|---|---|---|---|")
    for duration in DURATIONS:
        with tempfile.TemporaryDirectory() as folder:
            lost = kill_workers(args.store or f"sqlite:///{folder}/kills.db", Path(folder), duration, args.kills)
        bodies = f"{statistics.median(lost):.0f}, {max(lost)}"
        cost = [1000 * count * seconds_per_body(duration) for count in lost]
        print(
            f"| {1000 * duration:g} | {len(lost)} | {bodies} | {statistics.median(cost):.1f}, {max(cost):.1f} |",
            flush=True,
        )


def kill_workers(url: str, folder: Path, duration: float, count: int) -> list[int]:
    """Kill workers one after another. Return how many finished bodies each kill lost."""
    import holdfast

    pipeline = pipeline_of(duration, memory=None)
    finished = folder / "finished"
    lost: list[int] = []
    with holdfast.open(url) as store:
        before = 0
        for number in range(count):
            batch = f"{os.getpid()} {number}"
            holdfast.submit(pipeline, store, batch=batch, documents=((f"{n}", None) for n in range(DOCUMENTS)))
            finished.write_bytes(bytes(8 * THREADS))
            worker = subprocess.Popen([sys.executable, __file__, "--work", url, str(finished), str(duration)])
            deadline = time.monotonic() + DEADLINE
            while not any(finished.read_bytes()) and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(random.uniform(0.05, 0.3))
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            with store.transaction() as tx:
                ((committed,),) = tx.execute("select coalesce(sum(moves), 0) from hf_document").fetchall()
            lost.append(sum(struct.unpack(f"{THREADS}q", finished.read_bytes())) - (int(committed) - before))
            before = int(committed)
    return lost


def work(url: str, finished: str, duration: str) -> None:
    import holdfast

    with Path(finished).open("r+b") as file, mmap(file.fileno(), 0) as memory, holdfast.open(url) as store:
        holdfast.work(pipeline_of(float(duration), memory), store, threads=THREADS)


def pipeline_of(duration: float, memory: mmap | None):
    import threading

    import holdfast

    slots: dict[int, int] = {}

    def body(doc: holdfast.Document) -> int:
        deadline = time.thread_time() + duration
        while duration and time.thread_time() < deadline:
            pass
        assert memory is not None
        offset = 8 * slots.setdefault(threading.get_ident(), len(slots))
        memory[offset : offset + 8] = struct.pack("q", struct.unpack("q", memory[offset : offset + 8])[0] + 1)
        return 1

    pipeline = holdfast.Pipeline(f"repeated-{duration:g}")
    for number in range(STEPS):
        pipeline.step(name=f"step{number}")(body)
    return pipeline


def seconds_per_body(duration: float) -> float:
    """Return the seconds that a body takes: its computation, and the counting."""
    return duration + 0.000002


if __name__ == "__main__":
    main()
