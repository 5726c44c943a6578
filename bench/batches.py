"""Measure reconcile with a million documents, and the commits of a worker while a million documents are cleaned up.

    python bench/batches.py reconcile                          a temporary PostgreSQL, 1,000,000 documents
    python bench/batches.py cleanup --store sqlite             a temporary SQLite file
    python bench/batches.py cleanup --store postgresql://...   your own database, which is filled

The documents are written with SQL, in the order of their keys, as when a folder is walked. They are done, with two
items each; one in a hundred is dead and accepted. During the cleanup, a worker in its own process takes other documents
through three steps. The result that matters is its longest commit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.observe.events import Committed
from holdfast.ops.cleanup import Retention, cleanup
from holdfast.stores.protocol import Store

old = holdfast.Pipeline("old")


@old.step
def read(doc: holdfast.Document) -> str:
    return doc.key


@old.step
def write(doc: holdfast.Document) -> str:
    return doc.key


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reconcile", "cleanup", "worker"])
    parser.add_argument("--store", default="postgresql")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--until", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.what == "worker":
        run_worker(args.store, args.until)
        return
    with _url(args.store) as url, holdfast.open(url) as store:
        fill(store, args.documents)
        {"reconcile": reconcile, "cleanup": clean}[args.what](store, url)


@contextmanager
def _url(store: str) -> Iterator[str]:
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/bench.db"
    elif store == "postgresql":
        from tests.support.postgres import durable_postgres

        with durable_postgres() as server:
            yield server.create_database("bench")
    else:
        yield store


def fill(store: Store, documents: int) -> None:
    started = time.perf_counter()
    plan = store.declare(old.shape())
    store.submit(plan, "march", [], submission=1, part=0)
    with store.transaction() as tx:
        ((batch_id,),) = tx.execute("select id from hf_batch where name = 'march'").fetchall()
        is_sqlite = tx.dialect == "sqlite"
        now = "0" if is_sqlite else "now()"
        numbers = (
            f"(with recursive n(n) as (select 1 union all select n + 1 from n where n < {documents}) select n from n)"
            if is_sqlite
            else f"(select generate_series(1, {documents}) as n)"
        )
        first, second = plan.step_ids.values()
        text = "'folder/document-' || " + ("printf('%08d', n)" if is_sqlite else "lpad(n::text, 8, '0')") + " || '.pdf'"
        tx.execute(
            "insert into hf_document (pipeline_id, batch_id, plan_id, key, payload, fingerprint, submission, part,"
            " state, step_id, moves, fence, submitted_at, moved_at, accepted_by, error)"
            f" select {plan.pipeline_id}, {batch_id}, {plan.plan_id}, {text}, '{{\"number\": 1}}', 'f1', 1, 0,"
            f" case when n % 100 = 0 then 'dead' else 'done' end, case when n % 100 = 0 then {second} end, 2, 1, {now},"
            f" {now}, case when n % 100 = 0 then 'me' end, case when n % 100 = 0 then 'ValueError' else '' end"
            f" from {numbers} numbers"
        )
        for step_id in (first, second):
            tx.execute(
                "insert into hf_item (document_id, generation, step_id, position, items, value, kept_at)"
                f" select id, 0, {step_id}, 0, 1, '\"some text that a step kept for this document\"', {now}"
                " from hf_document"
            )
        tx.execute(f"update hf_batch set expected = {documents} where id = {batch_id}")
    if not store.url.startswith("sqlite"):
        import psycopg

        with psycopg.connect(store.url, autocommit=True) as db:
            db.execute("vacuum analyze")
    store.seal("old", "march", who="bench")
    print(f"filled with {documents:,} documents in {time.perf_counter() - started:.0f} s", flush=True)


def reconcile(store: Store, url: str) -> None:
    for _ in range(3):
        started = time.perf_counter()
        (found,) = store.batch_counts("old", "march")
        print(f"counts of {found.found:,} documents: {time.perf_counter() - started:.2f} s", flush=True)
        assert found.balances
    for _ in range(3):
        started = time.perf_counter()
        command = [sys.executable, "-m", "holdfast", "batch", "reconcile", "old", "--store", url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"holdfast batch reconcile, the whole command: {time.perf_counter() - started:.2f} s", flush=True)
    started = time.perf_counter()
    store.report("old", "march")
    print(f"a report with its hashes: {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    holdfast.close(old, store, batch="march", who="bench")
    print(f"close: {time.perf_counter() - started:.1f} s")


def clean(store: Store, url: str) -> None:
    holdfast.close(old, store, batch="march", who="bench")
    with tempfile.TemporaryDirectory() as folder:
        until = Path(folder) / "stop"
        command = [sys.executable, __file__, "worker", "--store", url, "--until", str(until)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            print("without a cleanup:", worker.stdout.readline().strip(), flush=True)
            started = time.perf_counter()
            try:
                report = cleanup(store, Retention(pipeline="old"), who="bench")
            finally:
                until.touch()
            took = time.perf_counter() - started
            print("during a cleanup: ", worker.stdout.readline().strip())
    print(
        f"cleaned up {report.documents:,} documents in {took:.0f} s, {report.documents / took:,.0f}/s: "
        f"{report.slices:,} slices, the longest {report.longest * 1000:.0f} ms"
    )
    assert store.batch_counts("old", "march")[0].balances


def run_worker(url: str, until: Path) -> None:
    """Run a worker that always has something to do, and measure its commits."""
    waits: list[float] = []
    new = holdfast.Pipeline("new")
    for number in range(3):
        new.step(name=f"step{number}")(lambda doc, number=number: {"step": number, "document": doc.key})

    def listen(event: Any) -> None:
        if isinstance(event, Committed):
            waits.append(event.seconds)

    def print_waits() -> None:
        waits.sort()
        print(
            f"{len(waits):,} commits, longest {waits[-1] * 1000:.0f} ms, 99.9% under "
            f"{waits[int(len(waits) * 0.999)] * 1000:.0f} ms, median {waits[len(waits) // 2] * 1000:.1f} ms",
            flush=True,
        )
        waits.clear()

    with holdfast.open(url) as store:
        number = 0
        started = time.monotonic()
        printed = False
        while not until.exists():
            holdfast.submit(new, store, batch=f"b{number}", documents=[(f"d{n}", {"n": n}) for n in range(300)])
            holdfast.drain(new, store, threads=2, listeners=[listen])
            number += 1
            if not printed and time.monotonic() - started > 8:
                print_waits()
                printed = True
        print_waits()


if __name__ == "__main__":
    main()
