"""The same documents are delivered at once to many processes, which all submit and work: each is one document."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import holdfast

PROCESSES = 4
DOCUMENTS = 60
PROGRAM = """
import random
import sys

import holdfast

orders = holdfast.Pipeline("orders")


@orders.step
def book(doc):
    return doc.payload["number"]


@book.effect
def keep(tx, doc, number):
    mark = "?" if tx.dialect == "sqlite" else "%s"
    tx.execute(f"insert into booking values ({mark})", (number,))


documents = [(f"order-{number}", {"number": number}) for number in range(int(sys.argv[2]))]
random.shuffle(documents)
with holdfast.open(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    new = 0
    for document in documents:
        new += holdfast.submit(orders, store, batch="march", documents=[document]).new
    report = holdfast.drain(orders, store)
    print(new, report.done, flush=True)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'orders.db'}"
    return str(request.getfixturevalue("postgres_url"))


def test_a_document_that_many_processes_submit_at_once_is_one_document(url: str) -> None:
    with holdfast.open(url) as store, store.transaction() as tx:
        tx.execute("create table booking (number integer)")
    command = [sys.executable, "-c", PROGRAM, url, str(DOCUMENTS)]
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)) for _ in range(PROCESSES)
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:  # all have started, so all of them submit at the same time
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        counts = [[int(word) for word in process.communicate(timeout=120)[0].split()] for process in started]
    assert sum(new for new, _ in counts) == DOCUMENTS
    assert sum(done for _, done in counts) == DOCUMENTS
    with holdfast.open(url) as store:
        assert store.balance("orders") == holdfast.Balance(DOCUMENTS, done=DOCUMENTS)
        assert store.missing("orders", "march") == []
        with store.reading() as tx:
            rows = tx.execute("select number from booking order by number").fetchall()
    assert rows == [(number,) for number in range(DOCUMENTS)]
