"""Measure whether ten times the documents take ten times as long in document search, and how much memory they need.

    python bench/growth.py                       10,000, 100,000 and 1,000,000 chunks, each in its own store
    python bench/growth.py 10000 100000

Texts of random words, about 23 chunks each, go through all of document search, with a cheap embedder instead of a
model. Each size has its own processes, so that none inherits the memory of another. Memory is the peak of one process:
the worker, or a child that parses.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import holdfast
from holdfast.pipelines import rag

SIZES = (10_000, 100_000, 1_000_000)
CHUNKS_PER_DOCUMENT = 23
CHARACTERS = 19_000
WORDS = 50_000
FOLDERS = 1000


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        measure(int(sys.argv[2]))
        return
    print("| documents | chunks | seconds | chunks/s | MB, worker | MB, a child | MB of store, per 1,000 chunks |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for size in map(int, sys.argv[1:] or SIZES):
        subprocess.run([sys.executable, __file__, "--one", str(size)], check=True)


def measure(size: int) -> None:
    """Ingest about `size` chunks, and print a row."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH")) as scratch:
        folder, database = Path(scratch) / "texts", Path(scratch) / "growth.db"
        write_texts(folder, size // CHUNKS_PER_DOCUMENT)
        started = time.perf_counter()
        with holdfast.open(f"sqlite:///{database}") as store:
            library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))
            report = library.ingest(str(folder))
            with store.reading() as tx:
                ((chunks,),) = tx.execute("select count(*) from rag_chunk").fetchall()
        seconds = time.perf_counter() - started
        memory = [getrusage(who).ru_maxrss // 1024 for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        stored = database.stat().st_size / chunks / 1000
        cells = [report.done, chunks, f"{seconds:.1f}", f"{chunks / seconds:.0f}", *memory, f"{stored:.2f}"]
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def write_texts(folder: Path, documents: int) -> None:
    """Write texts, each with other words."""
    random_generator = random.Random(5)
    words = [
        "".join(random_generator.choices("abcdefghilmnoprstu", k=random_generator.randint(3, 11))) for _ in range(WORDS)
    ]
    for number in range(documents):
        text = " ".join(random_generator.choices(words, k=CHARACTERS // 8))
        path = folder / f"{number % FOLDERS}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
