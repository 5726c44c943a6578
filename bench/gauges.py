"""Measure how long a store takes to count its gauges, with many documents: python bench/gauges.py --documents 1000000.

The documents are made by SQL, 90 % of them done. A PostgreSQL is started for the measurement; --store names another.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from tests.support.postgres import running_postgres

import holdfast
from holdfast.stores.protocol import Store

INSERT_DOCUMENTS = """
insert into hf_document (pipeline_id, batch_id, plan_id, key, payload, fingerprint, submission, part, step_id,
                         state, due_at, error, submitted_at, moved_at)
select {pipeline}, {batch}, {plan}, 'docs/' || n || '.pdf', '{{"path": "docs/a rather usual name.pdf", "pages": 12}}',
       '4711:1730000000000000000', 1, 0, case when n % 10 > 0 then null else (select min(id) from hf_step) + n % 4 end,
       case when n % 10 > 0 then 'done' when n % 200 = 0 then 'dead' when n % 300 = 10 then 'paused' else 'waiting' end,
       {now}, case when n % 200 = 0 then 'ValueError' else '' end, {now}, {now}
  from {numbers}
"""
NUMBERS = {
    "sqlite": "(with recursive t(n) as (select 1 union all select n + 1 from t where n < {count}) select n from t)",
    "postgresql": "generate_series(1, {count}) as t (n)",
}
NOW = {"sqlite": "1730000000000000", "postgresql": "now()"}


def fill(store: Store, count: int) -> None:
    """Create a pipeline of four steps with `count` documents."""
    pipeline = holdfast.Pipeline("gauges")
    for name in ("extract", "chunk", "embed", "index"):
        pipeline.step(name=name)(lambda doc: None)
    plan = store.declare(pipeline.shape())
    holdfast.submit(pipeline, store, batch="b", documents=[("first", None)])
    with store.transaction() as tx:
        numbers = NUMBERS[tx.dialect].format(count=count)
        values = {"pipeline": plan.pipeline_id, "plan": plan.plan_id, "batch": 1, "now": NOW[tx.dialect]}
        tx.execute(INSERT_DOCUMENTS.format(numbers=numbers, **values))
        tx.execute("analyze")


@contextmanager
def stores(named: str | None) -> Iterator[list[str]]:
    if named:
        yield [named]
        return
    with tempfile.TemporaryDirectory() as folder, running_postgres() as server:
        yield [f"sqlite:///{folder}/gauges.db", server.create_database("gauges")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--store")
    args = parser.parse_args()
    with stores(args.store) as urls:
        for url in urls:
            with holdfast.open(url) as store:
                fill(store, args.documents)
                seconds = []
                for _ in range(7):
                    started = perf_counter()
                    gauges = store.gauges("gauges")
                    seconds.append(perf_counter() - started)
                assert sum(gauges.documents.values()) == args.documents + 1
                name = url.partition(":")[0]
                print(
                    f"{name}: gauges of {args.documents:,} documents: {min(seconds):.3f} to {max(seconds):.3f} s, "
                    f"median {median(seconds):.3f} s"
                )


if __name__ == "__main__":
    main()
