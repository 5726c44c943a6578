"""What the workers of the laboratory run: all shapes of steps, whose bodies and effects write down what they do.

Some documents are dangerous: their payload says what happens to whoever works on them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from random import uniform

import holdfast
from tests.faults.histories import FOLDER, Recorder

CRASHES = 3
MEMORY = 64 << 20
"""What the body of a dangerous document may take in a process of its own."""
BALLOON = 400 << 20
"""What it takes where nobody forbids it."""

LONGEST = 400.0

STURDY = holdfast.Retry(attempts=5, crashes=1000, base=timedelta(milliseconds=20))  # crashes are our doing here
JUDGED = holdfast.Retry(attempts=2, crashes=CRASHES, base=timedelta(milliseconds=20))

recorder = Recorder()


def prepare(tx) -> None:
    number = "integer primary key" if tx.dialect == "sqlite" else "bigint generated always as identity primary key"
    tx.execute(
        f"create table if not exists lab_effect (id {number}, batch text, key text, generation integer, step text,"
        " item integer, value text)"
    )


class Work:
    """One operation of a body: begun, and ended with the value that it computed."""

    def __init__(self, doc, item: int = 0, of=None) -> None:
        self._about = {"item": item, "of": of}
        self._operation = recorder.invoke("body", **place_of(doc), item=item)
        time.sleep(uniform(0, doc.payload.get("takes", 0.01)))
        wait_for(doc.payload.get("until"))

    def value(self) -> dict:
        value = {"made": self._operation} | self._about
        recorder.complete(self._operation, value=value)
        return value


def wait_for(file: str | None) -> None:
    """Waits until somebody has made a file, but not for ever."""
    until = time.monotonic() + LONGEST
    while file and not Path(file).exists() and time.monotonic() < until:
        time.sleep(0.05)


def place_of(doc) -> dict:
    return {"batch": doc.batch, "key": doc.key, "generation": doc.generation, "step": doc.step}


def write_down(tx, doc, values) -> None:
    """Writes the rows of an effect. Only holdfast keeps them from being written twice."""
    made = [value["made"] for value in values]
    operation = recorder.invoke("effect", **place_of(doc), made=made)
    statement = "insert into lab_effect (batch, key, generation, step, item, value) values (?, ?, ?, ?, ?, ?)"
    statement = statement if tx.dialect == "sqlite" else statement.replace("?", "%s")
    rows = [(*place_of(doc).values(), value["item"], json.dumps(value)) for value in values]
    tx.executemany(statement, rows)
    if doc.step == doc.payload.get("dies_in"):
        die_in_the_middle(tx, doc)
    recorder.complete(operation)


def die_in_the_middle(tx, doc) -> None:
    """Ends, once for each document, who is in the middle of this commit: this process, or the server's backend.

    What dies by another hand stays in the middle until that hand is done.
    """
    flag = Path(os.environ[FOLDER]) / f"{doc.key}.flag"
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return
    if doc.payload["dies"] == "by another hand":
        wait_for(f"{flag}.over")
    elif doc.payload["dies"] == "backend":
        ((backend,),) = tx.execute("select pg_backend_pid()").fetchall()
        os.kill(backend, signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    tx.execute("select 1")  # whose database is gone learns it here, so that the history has no end of this effect


def dangerous(doc) -> None:
    risk = doc.payload.get("risk")
    if risk == "segfault":
        ctypes.string_at(0)
    elif risk == "memory":
        hoard = bytearray(BALLOON)
        hoard[::4096] = b"x" * len(hoard[::4096])  # taken, not only asked for
        time.sleep(30)  # whoever kills those that take too much has seen it by then


def declare(name: str, **risk_options) -> holdfast.Pipeline:
    """Declares the four steps that the checker knows."""
    pipeline = holdfast.Pipeline(name)

    @pipeline.step(retry=STURDY, commit_every=2)
    def read(doc, cursor=0):
        for page in range(cursor, doc.payload["pages"]):
            yield Work(doc, page).value()

    @pipeline.step(over=read, size=2, parallel=2, retry=STURDY)
    def weigh(doc, pages):
        return [Work(doc, page["item"], of=page["made"]).value() for page in pages]

    @pipeline.step(retry=JUDGED if risk_options else STURDY, **risk_options)
    def risk(doc):
        work = Work(doc)
        dangerous(doc)
        return work.value()

    @pipeline.step(retry=STURDY)
    def add(doc):
        return Work(doc, of=[one["made"] for one in doc.output(weigh)]).value()

    read.effect(write_down)
    weigh.effect(write_down)
    risk.effect(lambda tx, doc, value: write_down(tx, doc, [value]))
    add.effect(lambda tx, doc, value: write_down(tx, doc, [value]))
    return pipeline


lab = declare("lab")
judged = declare("judged", runs_in="thread")
guarded = declare("guarded", runs_in="process", memory=MEMORY)
PIPELINES = {one.name: one for one in (lab, judged, guarded)}
