"""Measure whether the cost of a document stays the same, and memory stays bounded, up to a million documents.

    python bench/scale.py                            SQLite, 1,000 to 1,000,000 documents
    python bench/scale.py --store postgresql://...   your own database (it is filled)

Each size has its own process: submit, then drain through three steps that store a value each. It prints documents
submitted and drained per second, CPU per step, bytes per document and peak memory. On SQLite, a last run of 10,000
documents is traced: commits and statements per document, from the claim to the end.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import holdfast

SIZES = (1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--one", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args.store, args.one)
        return
    print("| documents | submitted/s | drained/s | steps/s | CPU us/step | bytes/document | peak memory MB |")
    print("|---|---|---|---|---|---|---|")
    for size in map(int, args.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            store = args.store or f"sqlite:///{folder}/scale.db"
            subprocess.run([sys.executable, __file__, "--one", str(size), "--store", store], check=True)
    if not args.store:
        with tempfile.TemporaryDirectory() as folder:
            count_statements(f"sqlite:///{folder}/traced.db", 10_000)


def pipeline_of(size: int) -> holdfast.Pipeline:
    pipeline = holdfast.Pipeline(f"scale{size}-{os.getpid()}")
    for number in range(3):
        pipeline.step(name=f"step{number}")(lambda doc, number=number: {"step": number, "document": doc.key})
    return pipeline


def count_statements(url: str, size: int) -> None:
    """Drain with every connection traced. Print commits and statements per document."""
    statements: Counter[str] = Counter()
    connect = sqlite3.connect

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(lambda statement: statements.update([statement.strip().lower()[:6]]))
        return connection

    pipeline = pipeline_of(size)
    with holdfast.open(url) as store:
        documents = ((f"folder/document-{number}.pdf", None) for number in range(size))
        holdfast.submit(pipeline, store, batch="scale", documents=documents)
    sqlite3.connect = traced  # type: ignore[assignment]
    with holdfast.open(url) as store:
        holdfast.drain(pipeline, store, threads=1)
    print(
        f"\n{statements['commit'] / size:.4f} commits and {statements.total() / size:.4f} statements "
        "per document of three steps"
    )


def measure(url: str, size: int) -> None:
    pipeline = pipeline_of(size)
    with holdfast.open(url) as store:
        started = time.perf_counter()
        documents = ((f"folder/document-{number}.pdf", {"number": number}) for number in range(size))
        holdfast.submit(pipeline, store, batch="scale", documents=documents)
        submitted = time.perf_counter() - started
        started, cpu = time.perf_counter(), time.process_time()
        report = holdfast.drain(pipeline, store, threads=1)
        drained, cpu = time.perf_counter() - started, time.process_time() - cpu
        assert report.done == size, report
        assert store.balance(pipeline.name).done == size
    path = Path(url.removeprefix("sqlite:///"))
    size_on_disk = path.stat().st_size // size if path.exists() else 0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"| {size:,} | {size / submitted:,.0f} | {size / drained:,.0f} | {3 * size / drained:,.0f} "
        f"| {cpu * 1e6 / size / 3:.1f} | {size_on_disk or '-'} | {memory} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
