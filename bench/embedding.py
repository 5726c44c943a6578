"""Measure how fast the default model of document search embeds, and whether threads keep the cores busy.

    python bench/embedding.py                    200 chunks for each number of threads
    python bench/embedding.py --chunks 1000 --threads 1 2 4

Texts are abstracts of SciFact or Cranfield (HOLDFAST_DATA, or ../shared/data beside the repository). They are split as
the pipeline splits them, and only full chunks of about 1000 characters are used. It prints chunks per second, chunks
per second of CPU time, how much CPU was used, and how long loading and one short question take.

On a busy machine, compare chunks per CPU second, and "CPU wanted": the CPU that was used plus the time in which threads
waited because others had the cores (Linux only).
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.pipelines.rag.chunk.splitters import split_recursive
from holdfast.pipelines.rag.embed.granite import Granite

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
QUESTION = "does a low dose of aspirin lower the risk of stroke?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    chunks = whole_chunks(args.chunks)
    granite = Granite()
    wall, cpu = time.perf_counter(), time.process_time()
    granite.embed_query(QUESTION)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"load and first question: {wall:.2f} s, {cpu:.2f} CPU-s (imports included)")
    print(f"a question: {1000 * seconds_per_question(granite):.1f} ms (median of 50)")
    print(f"{len(chunks)} chunks of {statistics.mean(map(len, chunks)):.0f} characters on average\n")
    print("| threads | chunks/s | chunks/CPU-s | CPU in use | CPU wanted |")
    print("|---|---|---|---|---|")
    for threads in args.threads:
        wall, cpu, waited = embed_all(granite, chunks, threads)
        rate, per_cpu = len(chunks) / wall, len(chunks) / cpu
        used, wanted = 100 * cpu / wall, 100 * (cpu + waited) / wall
        print(f"| {threads} | {rate:.1f} | {per_cpu:.1f} | {used:.0f} % | {wanted:.0f} % |", flush=True)


def whole_chunks(count: int) -> list[str]:
    """Return chunks of the full length."""
    text = "\n\n".join(abstracts())
    spans = (span for span in split_recursive(text) if span[1] - span[0] > 900)
    return [text[start:end] for (start, end), _ in zip(spans, range(count), strict=False)]


def abstracts() -> list[str]:
    scifact, cranfield = DATA / "scifact" / "corpus.csv", DATA / "cranfield" / "cran.all.1400"
    if scifact.exists():
        with scifact.open(newline="", encoding="utf-8") as file:
            return [f"{row['title']}\n{row['abstract']}" for row in csv.DictReader(file)]
    if cranfield.exists():
        return cranfield.read_text(encoding="utf-8").split("\n.W\n")[1:]
    raise SystemExit(f"there are no texts in {DATA}; set HOLDFAST_DATA")


def seconds_per_question(granite: Granite) -> float:
    took = []
    for _ in range(50):
        started = time.perf_counter()
        granite.embed_query(QUESTION)
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def embed_all(granite: Granite, chunks: list[str], threads: int) -> tuple[float, float, float]:
    """Embed in windows, as the pipeline does. Return seconds, CPU seconds, and seconds of waiting for a core."""
    size = min(granite.window, -(-len(chunks) // threads))
    windows = [chunks[first : first + size] for first in range(0, len(chunks), size)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(granite.embed_query, [QUESTION] * threads))
        wall, cpu, waited = time.perf_counter(), time.process_time(), seconds_without_core()
        list(pool.map(granite.embed, windows))
        return time.perf_counter() - wall, time.process_time() - cpu, seconds_without_core() - waited


def seconds_without_core() -> float:
    """Return how many seconds threads of this process could have run but had no core, as the kernel counts them."""
    files = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[1]) for file in files) / 1e9


if __name__ == "__main__":
    main()
