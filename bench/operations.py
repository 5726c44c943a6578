"""How long operations on many documents take: what a person waits for at the command line.

    python bench/operations.py rewind --documents 100000                     SQLite
    python bench/operations.py rewind --documents 100000 --store postgres    a PostgreSQL that is brought up for it
    python bench/operations.py rewind --store postgresql://...               a database of yours (it is filled)

A measurement is a function of a `Crowd` and has a line in MEASUREMENTS. Each starts with documents that went through
four steps, each of which kept a value.
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


class Crowd(NamedTuple):
    """Documents that are done, in a store."""

    store: Store
    pipeline: holdfast.Pipeline
    plan: Plan
    documents: int


def rewind(crowd: Crowd) -> None:
    """Sets all documents back to their third step, slice after slice, as the command does."""
    store, plan = crowd.store, crowd.plan
    said = {"who": "bench", "reason": "a better model"}
    after, slices, found = 0, [], 0
    with took("rewind"):
        assert store.count(plan.pipeline, state="done") == crowd.documents
        while ids := store.select(plan.pipeline, after=after, state="done"):
            began = time.perf_counter()
            found += len(store.rewind_to(plan, ids, to="embed", **said))
            slices.append(time.perf_counter() - began)
            after = ids[-1]
    assert found == store.balance(plan.pipeline).waiting == crowd.documents
    print(f"{len(slices)} slices, the longest {max(slices) * 1000:.0f} ms")


MEASUREMENTS: dict[str, Callable[[Crowd], Any]] = {"rewind": rewind}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurement", choices=sorted(MEASUREMENTS))
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--store", default="sqlite", help="sqlite, postgres, or a URL")
    asked = parser.parse_args()
    with at(asked.store) as url, holdfast.open(url) as store:
        MEASUREMENTS[asked.measurement](gathered(store, asked.documents))


@contextmanager
def took(what: str) -> Iterator[None]:
    """Prints how long the block took."""
    began = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - began:.2f} s", flush=True)


@contextmanager
def at(store: str) -> Iterator[str]:
    """Gives the URL of a store: one that is made for this measurement, or yours."""
    with ExitStack() as stack:
        if store == "sqlite":
            yield f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/operations.db"
        elif store == "postgres":
            from holdfast.testing.postgres import durable_postgres

            yield stack.enter_context(durable_postgres()).create_database("operations")
        else:
            yield store


def gathered(store: Store, documents: int) -> Crowd:
    """Submits documents and takes them through four steps."""
    pipeline = holdfast.Pipeline(f"operations-{os.getpid()}")
    for name in STEPS:
        pipeline.step(name=name)(lambda doc, name=name: {"step": name, "document": doc.key})
    with took(f"{documents:,} documents through {len(STEPS)} steps"):
        keys = ((f"folder/document-{number}.pdf", {"number": number}) for number in range(documents))
        holdfast.submit(pipeline, store, batch="operations", documents=keys)
        holdfast.drain(pipeline, store, threads=1)
    return Crowd(store, pipeline, store.declare(pipeline.shape()), documents)


if __name__ == "__main__":
    main()
