"""Many workers, each in a process that is forked from one process that has imported everything.

`python -m tests.faults.forked_workers URL NUMBER` forks NUMBER workers. Each works until no document is left. The exit
codes of the workers are printed with their counts. With `--replace-for SECONDS` it forks new workers for that time,
faster than they end, and kills the oldest when there are more than NUMBER.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import time
from collections import Counter
from datetime import timedelta

import holdfast
import holdfast.engine.worker  # imported once here, and not in every fork
import holdfast.stores.sqlite
from holdfast.core.errors import StoreError
from tests.faults import program

LEASE = timedelta(seconds=60)
"""Long, because on few cores this many workers do not all run within a few seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("number", type=int)
    parser.add_argument("--replace-for", type=float, metavar="SECONDS")
    args = parser.parse_args()
    if args.url.startswith("postgres"):
        import holdfast.stores.postgres  # noqa: F401
    gc.freeze()  # so that forked processes do not copy the memory that they share
    exit_codes = (
        fork_and_replace(args.url, args.number, args.replace_for)
        if args.replace_for
        else fork_all(args.url, args.number)
    )
    print(" ".join(f"{code}:{count}" for code, count in sorted(exit_codes.items())))
    return 0


def fork_all(url: str, number: int) -> Counter[int]:
    """Fork all workers, wait for all, and count their exit codes."""
    return _exit_codes([_fork(url) for _ in range(number)])


def fork_and_replace(url: str, most: int, seconds: float) -> Counter[int]:
    """Fork workers for some seconds, and kill the oldest whenever there are too many. Count the exit codes."""
    running: list[int] = []
    exit_codes: Counter[int] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        running.append(_fork(url))
        if len(running) > most:
            oldest = running.pop(0)
            os.kill(oldest, signal.SIGKILL)
            exit_codes += _exit_codes([oldest])
        time.sleep(0.02)  # the rate at which workers are started
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return exit_codes + _exit_codes(running)


def _fork(url: str) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        code = _work(url)
    finally:
        os._exit(code)


def _work(url: str) -> int:
    try:
        with holdfast.open(url) as store:
            holdfast.drain(program.tolerant, store, threads=1, lease=LEASE)
    except StoreError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        return 3
    return 0


def _exit_codes(pids: list[int]) -> Counter[int]:
    """Wait for processes and count their exit codes."""
    return Counter(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)


if __name__ == "__main__":
    sys.exit(main())
