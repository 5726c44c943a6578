"""How long a search takes, and where the time goes.

    python bench/search.py                            100,000 chunks in SQLite, in a folder that is deleted afterwards
    python bench/search.py --keep /tmp/search.db      the same, and the next call need not fill it again
    python bench/search.py --filter path

Chunks are made of the words of SciFact's abstracts (HOLDFAST_DATA, or ../shared/data beside the repository), shuffled
so that each is another while words stay as rare as they are; vectors are random, in clusters. Questions are SciFact's
claims, embedded by the real model. Printed for the whole call and its parts: the median and the 95th percentile, as the
clock has it and in CPU time of the asking thread. On a machine that has other things to do, compare CPU time.
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

from holdfast.pipelines.rag.collections import Collection, create
from holdfast.pipelines.rag.embedders.granite import Granite
from holdfast.pipelines.rag.index import Entry, Index, Model, Name, Where, index_of
from holdfast.pipelines.rag.model import About, Chunk
from holdfast.pipelines.rag.search import Search
from holdfast.stores import open_store
from holdfast.stores.protocol import Store

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
PARTS = {
    "embedding": "embed_query",
    "words": "by_words",
    "meaning": "by_meaning",
    "again": "vectors",
    "fetching": "chunks",
}
OF_A_DOCUMENT = 20
FILTERS = {"none": Where(), "collection": Where(collection="bench"), "path": Where(collection="bench", path="*7.txt")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--filter", choices=FILTERS, default="none")
    parser.add_argument("--keep", type=Path)
    parser.add_argument(
        "--url", help="another database, such as postgresql://host/name; empty, or filled by this before"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{asked.keep or Path(folder) / 'search.db'}"
        store = open_store(url)
        granite = Granite()
        index = index_of(store)
        fill(store, index, Model(granite.name, granite.dimension), asked.chunks)
        measure(index, granite, claims()[: asked.questions], FILTERS[asked.filter])
        index.close()
        store.close()


def fill(store: Store, index: Index, model: Model, chunks: int) -> None:
    """Fills an index, unless it is filled."""
    with store.transaction() as tx:
        index.prepare(tx)
        create(tx, Collection("bench"))
        ((there,),) = tx.execute("select count(*) from rag_chunk").fetchall()
    if there:
        print(f"{there} chunks are there")
        return
    begun = time.perf_counter()
    words, vectors = texts(), clusters(model.dimension)
    for number in range(-(-chunks // OF_A_DOCUMENT)):
        name = Name("bench", "/bench", f"{number}.txt")
        made = [next(words) for _ in range(OF_A_DOCUMENT)]
        some = [
            Chunk.holding(text, about=About("text") if not place else None, last=place == OF_A_DOCUMENT - 1)
            for place, text in enumerate(made)
        ]
        with store.transaction() as tx:
            index.add(tx, Entry(name=name, version=1, about=About("text")), some)
            index.remember(tx, model, {one.hash: next(vectors) for one in some})
            index.show(tx, name, model=model)
    print(f"{chunks} chunks were added in {time.perf_counter() - begun:.0f} s")


def texts() -> Iterator[str]:
    """Gives texts of about 1000 characters, of words that are as rare as they are in the abstracts."""
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
    """Passes every call on, and takes the time of some."""

    def __init__(self, inner: Any, spans: Spans) -> None:
        self._inner = inner
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        part = next((part for part, verb in PARTS.items() if verb == name), None)
        return timed(value, self._spans[part]) if part else value


def timed(verb: Callable[..., Any], spans: list[tuple[float, float]]) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        answer = verb(*arguments, **more)
        spans.append((time.perf_counter() - wall, time.thread_time() - cpu))
        return answer

    return call


def measure(index: Index, granite: Granite, questions: list[str], where: Where) -> None:
    spans: Spans = defaultdict(list)
    search = Search(Timed(index, spans), Timed(granite, spans))
    begun = time.perf_counter()
    search(questions[0], where)
    print(f"the first question, with loading: {time.perf_counter() - begun:.2f} s")
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
        figures = [at(values, share) for values in (clock, cpu) for share in (50, 95)]
        print(f"| {part} | {' | '.join(f'{figure:.1f}' for figure in figures)} |")


def at(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


if __name__ == "__main__":
    main()
