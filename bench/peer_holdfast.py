"""Run holdfast under the shared harness, with the same command line and counters as every peer.

Each step stores a small JSON value (with the variant `nokeep`: nothing). Claims, fences, heartbeats and events are on,
as for a user. `conc` is the number of documents a worker may hold. W4 counts a checkpoint when it is durable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

PERF = Path(os.environ.get("HOLDFAST_PERF", Path(__file__).resolve().parents[2] / "shared" / "perf"))
sys.path.insert(0, str(PERF))

import common as C  # noqa: E402, N812

import holdfast  # noqa: E402
from holdfast.observe.events import Committed  # noqa: E402
from holdfast.stores import open_store  # noqa: E402

LEASE = timedelta(seconds=10)


def url(ctx: Any) -> str:
    return f"sqlite:///{ctx.dir}/holdfast.db" if ctx.backend == "sqlite" else ctx.dsn


def pipeline(ctx: Any) -> holdfast.Pipeline:
    bench = holdfast.Pipeline("bench")
    if ctx.workload in ("W1", "W3"):
        for number in range(C.STEPS):
            _add_step(bench, ctx, number)
    elif ctx.workload == "W2":
        bench.step(name="job")(lambda doc: ctx.slots.tick())
    else:
        bench.step(name="items", commit_every=C.CHUNK)(items)
    return bench


def _add_step(pipeline: holdfast.Pipeline, ctx: Any, number: int) -> None:
    keeps = "nokeep" not in ctx.variant

    def body(doc: holdfast.Document) -> int | None:
        ctx.step(doc.payload, number)
        return number if keeps else None

    async def coroutine(doc: holdfast.Document) -> int | None:
        return body(doc)

    pipeline.step(name=f"step{number}")(coroutine if "async" in ctx.variant else body)


def items(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
    yield from range(cursor, C.ITEMS)


def setup(ctx: Any) -> None:
    open_store(url(ctx)).close()


def enqueue(ctx: Any) -> None:
    with holdfast.open(url(ctx)) as store:
        holdfast.submit(pipeline(ctx), store, batch="bench", documents=((f"doc{i}", i) for i in range(ctx.n)))


def worker(ctx: Any) -> None:
    listeners = []
    if ctx.workload == "W4":
        listeners.append(lambda event: ctx.slots.tick(_checkpoints(event)) if isinstance(event, Committed) else None)
    threads = 16 if "threads" in ctx.variant else 1
    with holdfast.open(url(ctx)) as store:
        holdfast.work(
            pipeline(ctx), store, threads=threads, concurrency=ctx.conc or 1000, lease=LEASE, listeners=listeners
        )


def _checkpoints(event: Committed) -> int:
    return sum(bool(move.items) for move in event.moves)


if __name__ == "__main__":
    C.drive(
        "holdfast",
        holdfast.__version__,
        str(Path(__file__).resolve()),
        setup,
        enqueue,
        worker,
        db_path=lambda ctx: ctx.dir / "holdfast.db",
        lease=LEASE.total_seconds(),
    )
