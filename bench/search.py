"""Measure how long a search takes, and where the time goes.

    python bench/search.py                            100,000 chunks in SQLite, in a folder that is deleted afterwards
    python bench/search.py --keep /tmp/search.db      the same, and the next call need not fill it again
    python bench/search.py --filter path

Chunks are made of the words of SciFact's abstracts (HOLDFAST_DATA, or ../shared/data beside the repository). They are
shuffled, so that every chunk is different and words stay as rare as they are. Vectors are random, in clusters.
Questions are SciFact's claims, embedded by the real model. It prints the median and the 95th percentile of the whole
call and its parts, by the clock and in CPU time of the calling thread. On a busy machine, compare CPU time.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.pipelines.rag.collections.settings import Collection, create_collection
from holdfast.pipelines.rag.embed.granite import Granite
from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, Index, IndexEntry, Where
from holdfast.pipelines.rag.index.registry import database_index
from holdfast.pipelines.rag.search.search import Search
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from holdfast.stores import open_store
from holdfast.stores.protocol import Store

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
PARTS = {
    "embedding": "embed_query",
    "words": "search_words",
    "runs": "search_runs",
    "meaning": "search_vectors",
    "feedback": "vectors",
    "fetching": "chunks",
}
CHUNKS_PER_DOCUMENT = 20
FILTERS = {"none": Where(), "collection": Where(collection="bench"), "path": Where(collection="bench", path="*7.txt")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--filter", choices=FILTERS, default="none")
    parser.add_argument("--keep", type=Path)
    parser.add_argument(
        "--url", help="another database, such as postgresql://host/name: empty, or filled by this program before"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = args.url or f"sqlite:///{args.keep or Path(folder) / 'search.db'}"
        store = open_store(url)
        granite = Granite()
        index = database_index(store)
        fill(store, index, EmbeddingModel(granite.name, granite.dimension), args.chunks)
        measure(index, granite, claims()[: args.questions], FILTERS[args.filter])
        index.close()
        store.close()


def fill(store: Store, index: Index, model: EmbeddingModel, chunks: int) -> None:
    """Fill an index, unless it is filled already."""
    with store.transaction() as tx:
        index.create_tables(tx)
        create_collection(tx, Collection("bench"))
        ((existing,),) = tx.execute("select count(*) from rag_chunk").fetchall()
    if existing:
        print(f"{existing} chunks exist already")
        return
    started = time.perf_counter()
    words, vectors = texts(), clusters(model.dimension)
    for number in range(-(-chunks // CHUNKS_PER_DOCUMENT)):
        name = DocumentName("bench", "/bench", f"{number}.txt")
        chunk_texts = [next(words) for _ in range(CHUNKS_PER_DOCUMENT)]
        document_chunks = [
            Chunk.from_text(
                text, about=DocumentInfo("text") if not place else None, last=place == CHUNKS_PER_DOCUMENT - 1
            )
            for place, text in enumerate(chunk_texts)
        ]
        with store.transaction() as tx:
            index.add_chunks(tx, IndexEntry(name=name, version=1, about=DocumentInfo("text")), document_chunks)
            index.save_vectors(tx, model, {chunk.hash: next(vectors) for chunk in document_chunks})
            index.make_visible(tx, name, model=model)
    print(f"{chunks} chunks were added in {time.perf_counter() - started:.0f} s")


def texts() -> Iterator[str]:
    """Yield texts of about 1000 characters, with words that are as rare as in the abstracts."""
    random = np.random.default_rng(1)
    with (DATA / "scifact" / "corpus.csv").open(newline="", encoding="utf-8") as file:
        words = np.array(" ".join(f"{row['title']} {row['abstract']}" for row in csv.DictReader(file)).split())
    while True:
        random.shuffle(words)
        for start in range(0, len(words) - 150, 150):
            yield " ".join(words[start : start + 150])


def clusters(dimension: int) -> Iterator[bytes]:
    random = np.random.default_rng(2)
    centres = random.standard_normal((2000, dimension))
    while True:
        rows = centres[random.integers(0, len(centres), 1000)] + 0.6 * random.standard_normal((1000, dimension))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        yield from (row.tobytes() for row in rows.astype("<f2"))


def claims() -> list[str]:
    with (DATA / "scifact" / "claims.csv").open(newline="", encoding="utf-8") as file:
        return list(dict.fromkeys(row["claim"] for row in csv.DictReader(file)))


Spans = dict[str, list[tuple[float, float]]]


class Timed:
    """Pass every call on, and measure the time of some."""

    def __init__(self, inner: Any, spans: Spans) -> None:
        self._inner = inner
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        part = next((part for part, verb in PARTS.items() if verb == name), None)
        return timed(value, self._spans[part]) if part else value


def timed(verb: Callable[..., Any], spans: list[tuple[float, float]]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        answer = verb(*args, **kwargs)
        spans.append((time.perf_counter() - wall, time.thread_time() - cpu))
        return answer

    return call


def measure(index: Index, granite: Granite, questions: list[str], where: Where) -> None:
    spans: Spans = defaultdict(list)
    search = Search(Timed(index, spans), Timed(granite, spans))
    started = time.perf_counter()
    search(questions[0], where)
    print(f"the first question, with loading: {time.perf_counter() - started:.2f} s")
    for question in questions[:10]:
        search(question, where)
    spans.clear()
    whole = timed(search, spans["the whole call"])
    for question in questions:
        assert whole(question, where)
    load = os.getloadavg()[0]
    print(f"{len(questions)} questions; load of the machine {load:.1f}, with {os.cpu_count()} cores\n")
    print("| ms | p50 | p95 | p50 CPU | p95 CPU |\n|---|---|---|---|---|")
    for part, taken in spans.items():
        clock, cpu = ([1000 * span[which] for span in taken] for which in (0, 1))
        figures = [percentile(values, share) for values in (clock, cpu) for share in (50, 95)]
        print(f"| {part} | {' | '.join(f'{figure:.1f}' for figure in figures)} |")


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


if __name__ == "__main__":
    main()
