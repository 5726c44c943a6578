"""The pipeline of the soak test: eight steps of all shapes, with effects that write what was done."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import random

import holdfast

PAGES = 3
MARKS = ("bow", "stern")
MANY_LOSSES = holdfast.Retry(attempts=2, losses=1000, base=timedelta(milliseconds=20))  # the test kills workers

soak = holdfast.Pipeline("soak")


def prepare(tx) -> None:
    """Create the table that effects write to."""
    number = "integer primary key" if tx.dialect == "sqlite" else "bigint generated always as identity primary key"
    tx.execute(
        f"create table if not exists soak_done (id {number}, key text, generation integer, step text, place integer)"
    )
    tx.execute("create index if not exists soak_done_key on soak_done (key)")


def write_rows(tx, doc, *places: int) -> None:
    """Write what was done for a generation of a document. Only holdfast prevents a second write."""
    statement = "insert into soak_done (key, generation, step, place) values (?, ?, ?, ?)"
    statement = statement if tx.dialect == "sqlite" else statement.replace("?", "%s")
    tx.executemany(statement, [(f"{doc.batch}/{doc.key}", doc.generation, doc.step, place) for place in places])


@soak.step(retry=MANY_LOSSES)
def unwrap(doc):
    return {"key": doc.key}


@soak.step(retry=MANY_LOSSES, commit_every=2)
def read(doc, cursor=0):
    yield from range(cursor, PAGES)


@read.effect
def reading(tx, doc, pages):
    write_rows(tx, doc, *pages)


@soak.step(over=read, size=2, parallel=2, retry=MANY_LOSSES)
def weigh(doc, pages):
    return [page * 100 for page in pages]


@soak.step(retry=MANY_LOSSES)
def add(doc):
    return sum(doc.output(weigh))


@add.effect
def adding(tx, doc, _):
    write_rows(tx, doc, 0)


@soak.step(retry=MANY_LOSSES)
def judge(doc):
    if random() < 0.003:
        raise holdfast.Reject("rejected at random")
    if random() < 0.01:
        raise ValueError("failed at random")
    return True


@soak.step(keep=False, retry=MANY_LOSSES)
async def send(doc):
    await asyncio.sleep(0.002 * random())  # an async body that takes a random time


@send.effect
def sending(tx, doc, _):
    write_rows(tx, doc, 0)


@soak.step(retry=MANY_LOSSES)
def mark(doc, cursor=None):
    for place in range(0 if cursor is None else MARKS.index(cursor) + 1, len(MARKS)):
        yield holdfast.At(MARKS[place], place)


@mark.effect
def marking(tx, doc, places):
    write_rows(tx, doc, *places)


@soak.step(retry=MANY_LOSSES)
def file(doc):
    return doc.output(add)


@file.effect
def filing(tx, doc, _):
    write_rows(tx, doc, 0)


EFFECTS = {"read": range(PAGES), "add": range(1), "send": range(1), "mark": range(len(MARKS)), "file": range(1)}
"""The places that each step must have written, once, when a document is done."""
