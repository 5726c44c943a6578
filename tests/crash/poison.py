"""The program with documents that end their process: `python poison.py URL poison`. `holdfast work` runs it too.

The key of a document says what its body does. Every body that ends writes a row.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import holdfast

BATCH = "all"
SOON = holdfast.Retry(base=timedelta(milliseconds=10))
"""As the default, but with short waits."""
SLOW_BODY = 0.15

poison = holdfast.Pipeline("poison")
isolated = holdfast.Pipeline("isolated")
slow = holdfast.Pipeline("slow")


def _eat_memory() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(8 << 20))


def _exit_in_a_thread() -> None:
    thread = threading.Thread(target=os._exit, args=(3,))
    thread.start()
    thread.join()


ENDS = {
    "exit in a thread": _exit_in_a_thread,
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "abort": os.abort,
    "native exit": lambda: ctypes.CDLL(None).exit(4),
    "native exit 0": lambda: ctypes.CDLL(None).exit(0),
    "native exit 2": lambda: ctypes.CDLL(None).exit(2),
    "memory": _eat_memory,
}
"""How a document ends its process, by its key."""


def _run(doc: holdfast.Document) -> str:
    ENDS.get(doc.key, lambda: time.sleep(0.001))()
    return doc.key


@poison.step(retry=SOON)
def swallow(doc):
    return _run(doc)


@isolated.step(retry=SOON, runs_in="process")
def swallow_in_a_child(doc):
    return _run(doc)


@slow.step(retry=SOON if len(sys.argv) < 4 else holdfast.Retry())
def copy(doc):
    os.write(1, b"began\n")
    time.sleep(SLOW_BODY)
    return doc.key


def write(tx, doc, value):
    mark = "?" if tx.dialect == "sqlite" else "%s"
    tx.execute(f"insert into swallowed values ({mark})", (value,))


for _step in (swallow, swallow_in_a_child, copy):
    _step.effect(write)


def prepare(store) -> None:
    """Create the table that effects write to."""
    with store.transaction() as tx:
        tx.execute("create table swallowed (key text)")


def _drain(url: str, name: str) -> None:
    if group := os.environ.get("HOLDFAST_TEST_CGROUP"):
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    pipeline = {"poison": poison, "isolated": isolated, "slow": slow}[name]
    with holdfast.open(url) as store:
        holdfast.drain(pipeline, store)


if __name__ == "__main__":
    _drain(*sys.argv[1:3])
