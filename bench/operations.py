"""Measure how long commands on many documents take.

    python bench/operations.py rewind --documents 100000                     SQLite
    python bench/operations.py rewind --documents 100000 --store postgres    a temporary PostgreSQL
    python bench/operations.py rewind --store postgresql://...               your own database (it is filled)

A measurement is a function of `DoneDocuments` and has an entry in MEASUREMENTS. Each starts with documents that went
through four steps, each of which stored a value.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import holdfast
from holdfast.core.model import Plan
from holdfast.stores.protocol import Store

STEPS = ("extract", "chunk", "embed", "index")


class DoneDocuments(NamedTuple):
    """Documents that are done, in a store."""

    store: Store
    pipeline: holdfast.Pipeline
    plan: Plan
    documents: int


def rewind(done: DoneDocuments) -> None:
    """Rewind all documents to their third step, slice by slice, as the command does."""
    store, plan = done.store, done.plan
    decision = {"who": "bench", "reason": "a better model"}
    after, slices, rewound = 0, [], 0
    with print_time("rewind"):
        assert store.count(plan.pipeline, state="done") == done.documents
        while ids := store.select(plan.pipeline, after=after, state="done"):
            started = time.perf_counter()
            rewound += len(store.rewind_to(plan, ids, to="embed", **decision))
            slices.append(time.perf_counter() - started)
            after = ids[-1]
    assert rewound == store.balance(plan.pipeline).waiting == done.documents
    print(f"{len(slices)} slices, the longest {max(slices) * 1000:.0f} ms")


MEASUREMENTS: dict[str, Callable[[DoneDocuments], Any]] = {"rewind": rewind}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurement", choices=sorted(MEASUREMENTS))
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--store", default="sqlite", help="sqlite, postgres, or a URL")
    args = parser.parse_args()
    with store_url(args.store) as url, holdfast.open(url) as store:
        MEASUREMENTS[args.measurement](process_documents(store, args.documents))


@contextmanager
def print_time(what: str) -> Iterator[None]:
    """Print how long the block took."""
    started = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - started:.2f} s", flush=True)


@contextmanager
def store_url(store: str) -> Iterator[str]:
    """Yield the URL of a store: a temporary one, or the given one."""
    with ExitStack() as stack:
        if store == "sqlite":
            yield f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/operations.db"
        elif store == "postgres":
            from tests.support.postgres import durable_postgres

            yield stack.enter_context(durable_postgres()).create_database("operations")
        else:
            yield store


def process_documents(store: Store, documents: int) -> DoneDocuments:
    """Submit documents and take them through four steps."""
    pipeline = holdfast.Pipeline(f"operations-{os.getpid()}")
    for name in STEPS:
        pipeline.step(name=name)(lambda doc, name=name: {"step": name, "document": doc.key})
    with print_time(f"{documents:,} documents through {len(STEPS)} steps"):
        keys = ((f"folder/document-{number}.pdf", {"number": number}) for number in range(documents))
        holdfast.submit(pipeline, store, batch="operations", documents=keys)
        holdfast.drain(pipeline, store, threads=1)
    return DoneDocuments(store, pipeline, store.declare(pipeline.shape()), documents)


if __name__ == "__main__":
    main()
