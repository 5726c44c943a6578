"""What every index promises of questions: filters hold, nothing makes it stumble, the nearest are the nearest."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.pipelines.rag.index import Entry, Model, Name, Where
from holdfast.pipelines.rag.model import About, Chunk
from tests.rag.index.desk import NOTES, PAPERS, Desk

HOSTILE = [
    "",
    " ",
    "\0",
    "heron\0stork",
    '"',
    'heron"',
    "heron' or 1=1; --",
    '"heron" AND NOT OR NEAR(',
    "title:heron",
    "heron*",
    "^heron ^",
    "-heron +heron & | ! <-> :*",
    "(((",
    "_",
    "___ __",
    "🦩 heron 🦩",
    "🦩",
    "the of and",
    "Ünïcödé ﬁsh ẞ",
    "\ud800 heron",
    "%s %(words)s %",
    "heron\\",
    "日本語 のテキスト",
    "x" * 100_000,
    "heron " * 10_000,
    " ".join(f"word{n}" for n in range(10_000)),
]


def some(desk: Desk) -> None:
    desk.ingest("a/one.txt", "heron one", metadata={"year": 2020, "by": "Ada"})
    desk.ingest("a/two.pdf", "heron two", about=About("pdf", ""), metadata={"year": 2021, "by": "Ada"})
    desk.ingest("b/three.txt", "heron three", source="/other", metadata={'odd "key"': None, "tags": ["x", "y"]})
    desk.ingest("a/one.txt", "heron four", collection=NOTES)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (Where(), {"one", "two", "three", "four"}),
        (Where(collection=PAPERS), {"one", "two", "three"}),
        (Where(collection=NOTES), {"four"}),
        (Where(collection="none"), set()),
        (Where(source="/other"), {"three"}),
        (Where(key="a/one.txt"), {"one", "four"}),
        (Where(collection=PAPERS, key="a/one.txt"), {"one"}),
        (Where(path="a/*"), {"one", "two", "four"}),
        (Where(path="*.txt"), {"one", "three", "four"}),
        (Where(path="a/t?o.[ps]df"), {"two"}),
        (Where(path="[^a]/*"), {"three"}),
        (Where(path="["), set()),
        (Where(kind="pdf"), {"two"}),
        (Where(metadata={"by": "Ada"}), {"one", "two"}),
        (Where(metadata={"by": "Ada", "year": 2021}), {"two"}),
        (Where(metadata={"year": "2021"}), set()),
        (Where(metadata={"tags": ["x", "y"]}), {"three"}),
        (Where(metadata={'odd "key"': 3}), set()),
    ],
)
def test_filters_hold_for_both_kinds_of_search(desk: Desk, where: Where, found: set[str]) -> None:
    some(desk)
    texts = {f"heron {one}" for one in found}
    assert set(desk.words("heron", where)) == texts
    assert set(desk.meaning("heron", where)) == texts


def test_a_word_that_only_others_have_does_not_hide_what_was_asked_about(desk: Desk) -> None:
    desk.add("many", [f"common text {n}" for n in range(150)])
    desk.add("few", ["rare heron"] * 101, collection=NOTES)
    found = desk.words("rare common", Where(collection=PAPERS), limit=10)
    assert len(found) == 10
    assert all(text.startswith("common") for text in found)


@pytest.mark.parametrize("question", HOSTILE, ids=range(len(HOSTILE)))
def test_no_question_makes_it_stumble(desk: Desk, question: str) -> None:
    some(desk)
    desk.words(question)
    desk.words(question, Where(collection=PAPERS, path=question[:50], kind=question[:50]))


@pytest.mark.parametrize(
    "text", ["heron\0stork", "🦩 heron", "heron " * 20_000, "heron" + "x" * 70_000, "\x01\x02 heron"]
)
def test_texts_of_any_kind_can_be_added(desk: Desk, text: str) -> None:
    desk.ingest("a", text, about=About("text", text[:200]), metadata={"said": text[:10].replace("\0", "")})
    assert desk.holds("a", 1)
    assert desk.meaning("heron")


def test_words_are_found_in_other_forms(desk: Desk) -> None:
    desk.ingest("a", "The herons were nesting", "A stork")
    assert desk.words("heron nests") == ["The herons were nesting"]


def test_the_chunk_that_has_more_of_the_rare_words_comes_first(desk: Desk) -> None:
    common = [*["heron near water"] * 30, *["stork near water"] * 60]
    desk.add("a", [*common, "osprey over water", "heron beside osprey"])
    assert desk.words("heron osprey")[:2] == ["heron beside osprey", "osprey over water"]


def test_no_more_are_found_than_were_asked_for(desk: Desk) -> None:
    desk.ingest("a", *(f"heron {n}" for n in range(20)))
    assert len(desk.words("heron", limit=7)) == len(desk.meaning("heron", limit=7)) == 7


def test_the_title_is_found_too(desk: Desk) -> None:
    desk.ingest("a", "stands in the water", about=About("text", "Heron"))
    assert desk.words("heron") == ["stands in the water"]


def test_a_chunk_tells_where_it_stands(desk: Desk) -> None:
    desk.ingest("a", "one", "heron", about=About("pdf", "Birds"), metadata={"year": 1})
    (hit,) = desk.index.by_words("heron", Where(), limit=10)
    stored = desk.index.chunks([hit.chunk])[hit.chunk]
    assert stored.name == Name(PAPERS, "/folder", "a")
    assert (stored.kind, stored.title, stored.metadata) == ("pdf", "Birds", {"year": 1})
    assert (stored.page, stored.start, stored.end, stored.text) == (2, 0, 5, "heron")


def test_the_vectors_of_chunks_are_given_as_they_were_remembered(desk: Desk) -> None:
    desk.ingest("a", "one heron", "two storks")
    desk.add("b", ["a crane, of which no vector is known yet"])
    hits = desk.index.by_words("heron storks crane", Where(), limit=10)
    given = desk.index.vectors(desk.model, [*(hit.chunk for hit in hits), 123_456])
    texts = {number: stored.text for number, stored in desk.index.chunks([*given]).items()}
    assert sorted(texts.values()) == ["one heron", "two storks"]
    for number, text in texts.items():
        (row,) = desk.embedder.embed([text])
        assert given[number] == row.astype("<f2").tobytes()
    assert desk.index.vectors(Model("another", 64), [*given]) == {}


def clustered(count: int, *, seed: int, dimension: int = 64) -> np.ndarray:
    """Vectors of length one, a dozen to a cluster, as passages about the same things are."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((count // 12 + 1, dimension))
    rows = centres[random.integers(0, len(centres), count)] + 0.35 * random.standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def fill(desk: Desk, rows: np.ndarray) -> None:
    """A document of 100 chunks for each hundred vectors, in turn in two collections."""
    for start in range(0, len(rows), 100):
        some = range(start, min(start + 100, len(rows)))
        collection = (PAPERS, NOTES)[start // 100 % 2]
        chunks = [Chunk.holding(str(n), about=About() if n == start else None, last=n == some[-1]) for n in some]
        name = Name(collection, "/folder", str(start))
        with desk.store.transaction() as tx:
            desk.index.add(tx, Entry(name=name, version=1, about=About()), chunks)
            vectors = {one.hash: rows[n].astype("<f2").tobytes() for n, one in zip(some, chunks, strict=True)}
            desk.index.remember(tx, desk.model, vectors)
        desk.index.publish(name, model=desk.model)
        with desk.store.transaction() as tx:
            desk.index.show(tx, name, model=desk.model)


def test_nearly_all_of_the_ten_nearest_are_found(desk: Desk, kind: str) -> None:
    count = 500 if kind.startswith("client") else 5000  # the client's local mode is slow, and no engine of its own
    rows = clustered(count, seed=7)
    fill(desk, rows)
    asked = clustered(40, seed=7)[:20] + 0.02
    papers = np.arange(count) // 100 % 2 == 0
    for where, allowed in ((Where(), np.ones(count, bool)), (Where(collection=PAPERS), papers)):
        found = wanted = 0
        for vector in asked:
            nearness = np.where(allowed, rows.astype("<f2").astype(np.float32) @ vector, -9)
            best = {str(n) for n in np.argsort(-nearness)[:10]}
            found += len(best & set(desk.nearest(vector.astype(np.float32), where)))
            wanted += 10
        assert found / wanted >= 0.99


def test_as_many_of_the_nearest_are_found_as_are_asked_for(desk: Desk, kind: str) -> None:
    count = 400 if kind.startswith("client") else 3000
    fill(desk, clustered(count, seed=7))
    asked = clustered(12, seed=8)[0]
    assert len(set(desk.nearest(asked, limit=count - 100))) == count - 100
    assert len(set(desk.nearest(asked, Where(collection=PAPERS), limit=count))) == count // 2
