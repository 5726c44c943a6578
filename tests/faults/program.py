"""The pipelines that workers run in fault cases: all shapes of steps, with bodies and effects that record what they do.

Some documents are dangerous: their payload says which fault happens to the process that works on them.
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

CRASHES, LOSSES = 3, 6
MEMORY_LIMIT = 64 << 20
"""Bytes that the body of a dangerous document may use in a child process."""
MEMORY_USED = 400 << 20
"""Bytes that the body of a dangerous document uses if there is no limit."""

MAX_WAIT = 400.0
"""Seconds that a body waits for a file at most."""

SOON = timedelta(milliseconds=20)
MANY_CRASHES = holdfast.Retry(attempts=5, crashes=1000, losses=1000, base=SOON)  # the tests kill workers
FEW_CRASHES = holdfast.Retry(attempts=2, crashes=CRASHES, losses=LOSSES, base=SOON)

recorder = Recorder()


def prepare(tx) -> None:
    """Create the table that effects write to."""
    number = "integer primary key" if tx.dialect == "sqlite" else "bigint generated always as identity primary key"
    tx.execute(
        f"create table if not exists fault_effect (id {number}, batch text, key text, generation integer, step text,"
        " item integer, value text)"
    )


class RecordedBody:
    """One call of a body: its start and its end are recorded, with the value that it computed."""

    def __init__(self, doc, item: int = 0, of=None) -> None:
        self._about = {"item": item, "of": of}
        self._operation = recorder.invoke("body", **place_of(doc), item=item)
        time.sleep(uniform(0, doc.payload.get("takes", 0.01)))  # a body that takes a random time
        wait_for(doc.payload.get("until"))

    def value(self) -> dict:
        value = {"made": self._operation} | self._about
        recorder.complete(self._operation, value=value)
        return value


def wait_for(file: str | None) -> None:
    """Wait until a file exists, but not longer than MAX_WAIT."""
    until = time.monotonic() + MAX_WAIT
    while file and not Path(file).exists() and time.monotonic() < until:
        time.sleep(0.05)


def place_of(doc) -> dict:
    """Return the batch, key, generation and step of a document."""
    return {"batch": doc.batch, "key": doc.key, "generation": doc.generation, "step": doc.step}


def write_rows(tx, doc, values) -> None:
    """Write the rows of an effect. The table has no constraint: only holdfast prevents a second write."""
    made = [value["made"] for value in values]
    operation = recorder.invoke("effect", **place_of(doc), made=made)
    statement = "insert into fault_effect (batch, key, generation, step, item, value) values (?, ?, ?, ?, ?, ?)"
    statement = statement if tx.dialect == "sqlite" else statement.replace("?", "%s")
    rows = [(*place_of(doc).values(), value["item"], json.dumps(value)) for value in values]
    tx.executemany(statement, rows)
    if doc.step == doc.payload.get("dies_in"):
        die_inside_commit(tx, doc)
    recorder.complete(operation)


def die_inside_commit(tx, doc) -> None:
    """Kill this process or the server's backend inside the commit, once for each document.

    With `dies="by the test"`, wait inside the commit until the test has killed it.
    """
    flag = Path(os.environ[FOLDER]) / f"{doc.key}.flag"
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return
    if doc.payload["dies"] == "by the test":
        wait_for(f"{flag}.over")
    elif doc.payload["dies"] == "backend":
        ((backend,),) = tx.execute("select pg_backend_pid()").fetchall()
        os.kill(backend, signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    tx.execute("select 1")  # fails if the database is gone, so that the history has no end of this effect


def run_risk(doc) -> None:
    """Crash or use too much memory, if the payload says so."""
    risk = doc.payload.get("risk")
    if risk == "segfault":
        ctypes.string_at(0)
    elif risk == "memory":
        memory = bytearray(MEMORY_USED)
        memory[::4096] = b"x" * len(memory[::4096])  # write to each page, so that the kernel allocates it
        time.sleep(30)  # long enough for the test to see the memory and kill the process


def declare(name: str, **risk_options) -> holdfast.Pipeline:
    """Return a pipeline with the four steps that the checker knows."""
    pipeline = holdfast.Pipeline(name)

    @pipeline.step(retry=MANY_CRASHES, commit_every=2)
    def read(doc, cursor=0):
        for page in range(cursor, doc.payload["pages"]):
            yield RecordedBody(doc, page).value()

    @pipeline.step(over=read, size=2, parallel=2, retry=MANY_CRASHES)
    def weigh(doc, pages):
        return [RecordedBody(doc, page["item"], of=page["made"]).value() for page in pages]

    @pipeline.step(retry=FEW_CRASHES if risk_options else MANY_CRASHES, **risk_options)
    def risk(doc):
        body = RecordedBody(doc)
        run_risk(doc)
        return body.value()

    @pipeline.step(retry=MANY_CRASHES)
    def add(doc):
        return RecordedBody(doc, of=[item["made"] for item in doc.output(weigh)]).value()

    read.effect(write_rows)
    weigh.effect(write_rows)
    risk.effect(lambda tx, doc, value: write_rows(tx, doc, [value]))
    add.effect(lambda tx, doc, value: write_rows(tx, doc, [value]))
    return pipeline


tolerant = declare("tolerant")
crash_limited = declare("crash_limited", runs_in="thread")
isolated = declare("isolated", runs_in="process", memory=MEMORY_LIMIT)
PIPELINES = {pipeline.name: pipeline for pipeline in (tolerant, crash_limited, isolated)}
