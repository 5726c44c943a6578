"""What the killed processes run: `python program.py drain URL 4`. Its rows tell afterwards what was done twice."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import holdfast
from holdfast.engine.events import Enlisted

BATCH = "all"
STURDY = holdfast.Retry(crashes=1000)  # here it is never the document's fault
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
    return statement if tx.dialect == "sqlite" else statement.replace("?", "%s")


@parcels.step(retry=STURDY, commit_every=1)
def unpack(doc, cursor=0):
    for page in range(cursor, PAGES):
        time.sleep(0.001)
        yield page


@unpack.effect
def keep_pages(tx, doc, pages):
    tx.executemany(sql(tx, "insert into unpacked values (?, ?)"), [(doc.key, page) for page in pages])


@parcels.step(over=unpack, parallel=2, retry=STURDY)
async def weigh(doc, page):
    return page * 100


@weigh.effect
def keep_weight(tx, doc, grams):
    tx.execute(sql(tx, "insert into weighed values (?, ?)"), (doc.key, grams))


@parcels.step(retry=STURDY)
def send(doc):
    return {"grams": sum(doc.output(weigh))}


@send.effect
def keep_sent(tx, doc, _):
    tx.execute(sql(tx, "insert into sent values (?, ?)"), (doc.key, os.getpid()))
    tx.execute("update total set parcels = parcels + 1")


sleepwalk = holdfast.Pipeline("sleepwalk")


@sleepwalk.step
def leave(doc):
    return os.getpid()


@leave.effect
def keep_leaving(tx, doc, pid):
    tx.execute(sql(tx, "insert into unpacked values (?, ?)"), (doc.key, pid))


@sleepwalk.step
def arrive(doc):
    _fall_asleep(doc, "body")
    return os.getpid()


@arrive.effect
def keep_arrival(tx, doc, pid):
    tx.execute(sql(tx, "insert into sent values (?, ?)"), (doc.key, pid))
    _fall_asleep(doc, "effect")


def _fall_asleep(doc, where: str) -> None:
    """Stops the first worker that comes here, as if its machine had been suspended."""
    if doc.payload["where"] == where:
        try:
            Path(doc.payload["flag"]).touch(exist_ok=False)
        except FileExistsError:
            return
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread first: it must not get any further


stillborn = holdfast.Pipeline("stillborn")


@stillborn.step
def begin(doc):
    flag = Path(doc.payload["flag"])
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@begin.effect
def keep_beginning(tx, doc, pid):
    tx.execute(sql(tx, "insert into sent values (?, ?)"), (doc.key, pid))


def names(first: int, last: int) -> list[tuple[str, None]]:
    return [(f"parcel-{number:05}", None) for number in range(first, last)]


def prepare(store) -> None:
    with store.transaction() as tx:
        for statement in TABLES:
            tx.execute(statement)


def _drain(url: str, threads: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(parcels, store, threads=int(threads), listeners=(_say_ready,))


def _sleepwalk(url: str, lease: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(sleepwalk, store, threads=1, lease=timedelta(seconds=float(lease)))


def _die_in_the_first_step(url: str) -> None:
    with holdfast.open(url) as store:
        holdfast.drain(stillborn, store, threads=1)


def _submit_and_die(url: str, count: str, after: str) -> None:
    def documents():
        for number, document in enumerate(names(0, int(count))):
            if number == int(after):
                os.kill(os.getpid(), signal.SIGKILL)
            yield document

    with holdfast.open(url) as store:
        holdfast.submit(parcels, store, batch=BATCH, documents=documents())


def _say_ready(event: object) -> None:
    if isinstance(event, Enlisted):
        print("ready", flush=True)


if __name__ == "__main__":
    _, verb, *arguments = sys.argv
    {"drain": _drain, "sleepwalk": _sleepwalk, "stillborn": _die_in_the_first_step, "submit": _submit_and_die}[verb](
        *arguments
    )
