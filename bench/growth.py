"""Whether ten times the documents take ten times as long, and how much memory that takes.

    python bench/growth.py                       10,000, 100,000 and 1,000,000 chunks, each in a store of its own
    python bench/growth.py 10000 100000

Texts of random words, about 23 chunks each, through all of document search, with a cheap embedder in place of a model.
Each size has processes of its own, so that none inherits the memory of another. Memory is the most that any one process
had: the worker, or a child that parses.
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
OF_A_DOCUMENT = 23
CHARACTERS = 19_000
WORDS = 50_000
FOLDERS = 1000


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]))
        return
    print("| documents | chunks | seconds | chunks/s | MB, worker | MB, a child | MB of store, per 1,000 chunks |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for size in map(int, sys.argv[1:] or SIZES):
        subprocess.run([sys.executable, __file__, "--one", str(size)], check=True)


def one(size: int) -> None:
    """Makes about so many chunks searchable, and prints a row."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH")) as scratch:
        folder, database = Path(scratch) / "texts", Path(scratch) / "growth.db"
        write(folder, size // OF_A_DOCUMENT)
        began = time.perf_counter()
        with holdfast.open(f"sqlite:///{database}") as store:
            library = rag.Library(store, settings=rag.Settings(embedder="hash:64"))
            report = library.ingest(str(folder))
            with store.reading() as tx:
                ((chunks,),) = tx.execute("select count(*) from rag_chunk").fetchall()
        seconds = time.perf_counter() - began
        memory = [getrusage(who).ru_maxrss // 1024 for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        stored = database.stat().st_size / chunks / 1000
        cells = [report.done, chunks, f"{seconds:.1f}", f"{chunks / seconds:.0f}", *memory, f"{stored:.2f}"]
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def write(folder: Path, documents: int) -> None:
    """Writes texts, each of other words."""
    chosen = random.Random(5)
    words = ["".join(chosen.choices("abcdefghilmnoprstu", k=chosen.randint(3, 11))) for _ in range(WORDS)]
    for number in range(documents):
        text = " ".join(chosen.choices(words, k=CHARACTERS // 8))
        path = folder / f"{number % FOLDERS}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
