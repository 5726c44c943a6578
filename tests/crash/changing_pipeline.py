"""A pipeline with a given version. It kills its own process after a given number of body calls."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

import holdfast

STEPS = ("read", "cut", "file", "print")


def pipeline(version: int, *, bodies: int) -> holdfast.Pipeline:
    """Return the pipeline in one version. Each step keeps the version in which it was done."""
    changing, ran = holdfast.Pipeline("changing"), count(1)

    def body(_doc: holdfast.Document) -> int:
        if next(ran) > bodies:
            os.kill(os.getpid(), signal.SIGKILL)
        return version

    for name in STEPS:
        changing.step(name=name, version=version)(body)
    return changing


if __name__ == "__main__":
    _, url, version, bodies = sys.argv
    with holdfast.open(url) as store:
        holdfast.drain(pipeline(int(version), bodies=int(bodies)), store, threads=1, concurrency=7)
