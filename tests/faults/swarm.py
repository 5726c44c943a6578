"""A swarm: many workers, each a process of its own, forked from one that has imported everything.

`python -m tests.faults.swarm URL NUMBER` forks so many; each works until nothing is left, and tells how it ended by its
exit code. With `--for-ever SECONDS` it forks new ones all the time, faster than they end, at most NUMBER at once.
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
import holdfast.engine.worker  # here, not in every fork
import holdfast.stores.sqlite
from holdfast.core.errors import StoreError
from tests.faults import program

LEASE = timedelta(seconds=60)
"""Long: on few cores so many workers do not all come to their turn within a few seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("number", type=int)
    parser.add_argument("--for-ever", type=float, metavar="SECONDS")
    asked = parser.parse_args()
    if asked.url.startswith("postgres"):
        import holdfast.stores.postgres  # noqa: F401
    gc.freeze()  # what is shared stays shared
    ended = storm(asked.url, asked.number, asked.for_ever) if asked.for_ever else swarm(asked.url, asked.number)
    print(" ".join(f"{code}:{count}" for code, count in sorted(ended.items())))
    return 0


def swarm(url: str, number: int) -> Counter[int]:
    """Forks all, and waits for all."""
    return _buried([_fork(url) for _ in range(number)])


def storm(url: str, most: int, seconds: float) -> Counter[int]:
    """Forks for so long, and kills the oldest whenever there are too many."""
    living: list[int] = []
    ended: Counter[int] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        living.append(_fork(url))
        if len(living) > most:
            oldest = living.pop(0)
            os.kill(oldest, signal.SIGKILL)
            ended += _buried([oldest])
        time.sleep(0.02)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    return ended + _buried(living)


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
            holdfast.drain(program.lab, store, threads=1, lease=LEASE)
    except StoreError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        return 3
    return 0


def _buried(pids: list[int]) -> Counter[int]:
    return Counter(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)


if __name__ == "__main__":
    sys.exit(main())
