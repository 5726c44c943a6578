"""The program that is killed: `python program.py drain URL 4`. Its rows show afterwards what was done twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import holdfast
from holdfast.observe.events import WorkerStarted

BATCH = "all"
SOON = holdfast.Retry(base=timedelta(milliseconds=10))  # the test kills workers, and does not wait long
PAGES = 3

parcels = holdfast.Pipeline("parcels")
TABLES = (
    "create table unpacked (parcel text, page integer)",
    "create table weighed (parcel text, grams integer)",
    "create table sent (parcel text, pid integer)",
    "create table total (parcels integer)",
    "insert into total values (0)",
)


def sql(tx, statement):
    """Return a statement with the parameter marks of the database."""
    return statement if tx.dialect == "sqlite" else statement.replace("?", "%s")


@parcels.step(retry=SOON, commit_every=1)
def unpack(doc, cursor=0):
    for page in range(cursor, PAGES):
        time.sleep(0.001)
        yield page


@unpack.effect
def keep_pages(tx, doc, pages):
    tx.executemany(sql(tx, "insert into unpacked values (?, ?)"), [(doc.key, page) for page in pages])


@parcels.step(over=unpack, parallel=2, retry=SOON)
async def weigh(doc, page):
    return page * 100


@weigh.effect
def keep_weight(tx, doc, grams):
    tx.execute(sql(tx, "insert into weighed values (?, ?)"), (doc.key, grams))


@parcels.step(retry=SOON)
def send(doc):
    return {"grams": sum(doc.output(weigh))}


@send.effect
def keep_sent(tx, doc, _):
    tx.execute(sql(tx, "insert into sent values (?, ?)"), (doc.key, os.getpid()))
    tx.execute("update total set parcels = parcels + 1")


suspending = holdfast.Pipeline("suspending")


@suspending.step
def leave(doc):
    return os.getpid()


@leave.effect
def keep_leaving(tx, doc, pid):
    tx.execute(sql(tx, "insert into unpacked values (?, ?)"), (doc.key, pid))


@suspending.step
def arrive(doc):
    _suspend_once(doc, "body")
    return os.getpid()


@arrive.effect
def keep_arrival(tx, doc, pid):
    tx.execute(sql(tx, "insert into sent values (?, ?)"), (doc.key, pid))
    _suspend_once(doc, "effect")


def _suspend_once(doc, where: str) -> None:
    """Stop the first worker that comes here, as if its machine had been suspended."""
    if doc.payload["where"] == where:
        try:
            Path(doc.payload["flag"]).touch(exist_ok=False)
        except FileExistsError:
            return
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread, so that it stops right here


killed_in_first_step = holdfast.Pipeline("killed_in_first_step")


@killed_in_first_step.step
def begin(doc):
    flag = Path(doc.payload["flag"])
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@begin.effect
def keep_beginning(tx, doc, pid):
    tx.execute(sql(tx, "insert into sent values (?, ?)"), (doc.key, pid))


def _is_silent(cursor: int) -> bool:
    """Say where the body is. Return True if it has to be silent there."""
    os.write(1, f"silent after {cursor}\n".encode())
    return "HOLDFAST_SILENT" in os.environ


def three_items(doc, cursor=0):
    yield from range(cursor, 3)
    while _is_silent(cursor):
        time.sleep(60)
    yield from range(max(cursor, 3), 5)


async def three_items_async(doc, cursor=0):
    for number in range(cursor, 3):
        yield number
    while _is_silent(cursor):
        await asyncio.sleep(60)
    for number in range(max(cursor, 3), 5):
        yield number


def _silent_stream(name, body, where):
    pipeline = holdfast.Pipeline(name)
    every = (100, timedelta(milliseconds=10))
    pipeline.step(name="items", commit_every=every, retry=SOON, runs_in=where)(body).effect(keep_pages)
    return pipeline


SILENT = {
    "thread": _silent_stream("thread", three_items, "thread"),
    "loop": _silent_stream("loop", three_items_async, "thread"),
    "process": _silent_stream("process", three_items, "process"),
    "process_loop": _silent_stream("process_loop", three_items_async, "process"),
}
"""Streams that yield three items, and then none for as long as the environment says so."""


def parcel_documents(first: int, last: int) -> list[tuple[str, None]]:
    """Return documents to submit, by number."""
    return [(f"parcel-{number:05}", None) for number in range(first, last)]


def prepare(store) -> None:
    """Create the tables that effects write to."""
    with store.transaction() as tx:
        for statement in TABLES:
            tx.execute(statement)


def _drain(url: str, threads: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(parcels, store, threads=int(threads), listeners=(_print_ready,))


def _suspending(url: str, lease: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(suspending, store, threads=1, lease=timedelta(seconds=float(lease)))


def _drain_silent(url: str, where: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(SILENT[where], store, threads=1)


def _die_in_the_first_step(url: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(killed_in_first_step, store, threads=1)


def _submit_and_die(url: str, count: str, after: str) -> None:
    def documents():
        for number, document in enumerate(parcel_documents(0, int(count))):
            if number == int(after):
                os.kill(os.getpid(), signal.SIGKILL)
            yield document

    with holdfast.open(url) as store:
        holdfast.submit(parcels, store, batch=BATCH, documents=documents())


def _print_ready(event: object) -> None:
    if isinstance(event, WorkerStarted):
        print("ready", flush=True)


if __name__ == "__main__":
    _, verb, *arguments = sys.argv
    commands = {
        "drain": _drain,
        "suspend": _suspending,
        "die": _die_in_the_first_step,
        "submit": _submit_and_die,
        "silent": _drain_silent,
    }
    commands[verb](*arguments)
