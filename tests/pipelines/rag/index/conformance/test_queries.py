"""What every index guarantees for searches: filters, any question, and the nearest vectors."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, IndexEntry, Where
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from tests.support.index_harness import NOTES, PAPERS, TEXT, IndexHarness

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


def some(harness: IndexHarness) -> None:
    harness.ingest("a/one.txt", "heron one", metadata={"year": 2020, "by": "Ada"})
    harness.ingest("a/two.pdf", "heron two", about=DocumentInfo("pdf", ""), metadata={"year": 2021, "by": "Ada"})
    harness.ingest("b/three.txt", "heron three", source="/other", metadata={'odd "key"': None, "tags": ["x", "y"]})
    harness.ingest("a/one.txt", "heron four", collection=NOTES)


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
def test_filters_apply_to_both_kinds_of_search(harness: IndexHarness, where: Where, found: set[str]) -> None:
    some(harness)
    texts = {f"heron {one}" for one in found}
    assert set(harness.word_hits("heron", where)) == texts
    assert set(harness.vector_hits("heron", where)) == texts


def test_rare_words_of_filtered_documents_do_not_hide_matches(harness: IndexHarness) -> None:
    harness.add("many", [f"common text {n}" for n in range(150)])
    harness.add("few", ["rare heron"] * 101, collection=NOTES)
    found = harness.word_hits("rare common", Where(collection=PAPERS), limit=10)
    assert len(found) == 10
    assert all(text.startswith("common") for text in found)


@pytest.mark.parametrize("question", HOSTILE, ids=range(len(HOSTILE)))
def test_any_question_can_be_searched(harness: IndexHarness, question: str) -> None:
    some(harness)
    harness.word_hits(question)
    harness.word_hits(question, Where(collection=PAPERS, path=question[:50], kind=question[:50]))


@pytest.mark.parametrize(
    "text", ["heron\0stork", "🦩 heron", "heron " * 20_000, "heron" + "x" * 70_000, "\x01\x02 heron"]
)
def test_texts_of_any_kind_can_be_added(harness: IndexHarness, text: str) -> None:
    harness.ingest("a", text, about=DocumentInfo("text", text[:200]), metadata={"said": text[:10].replace("\0", "")})
    assert harness.has("a", 1)
    assert harness.vector_hits("heron")


def test_words_are_found_in_inflected_forms(harness: IndexHarness) -> None:
    harness.ingest("a", "The herons were nesting", "A stork")
    assert harness.word_hits("heron nests") == ["The herons were nesting"]


def test_the_chunk_that_has_more_of_the_rare_words_comes_first(harness: IndexHarness) -> None:
    common = [*["heron near water"] * 30, *["stork near water"] * 60]
    harness.add("a", [*common, "osprey over water", "heron beside osprey"])
    assert harness.word_hits("heron osprey")[:2] == ["heron beside osprey", "osprey over water"]


def test_no_search_returns_more_than_its_limit(harness: IndexHarness) -> None:
    harness.ingest("a", *(f"heron {n}" for n in range(20)))
    assert len(harness.word_hits("heron", limit=7)) == len(harness.vector_hits("heron", limit=7)) == 7


def test_the_title_is_found_too(harness: IndexHarness) -> None:
    harness.ingest("a", "stands in the water", about=DocumentInfo("text", "Heron"))
    assert harness.word_hits("heron") == ["stands in the water"]


def test_a_chunk_has_its_document_and_position(harness: IndexHarness) -> None:
    harness.ingest("a", "one", "heron", about=DocumentInfo("pdf", "Birds"), metadata={"year": 1})
    (hit,) = harness.index.search_words(Question(text="heron"), Where(), limit=10)
    stored = harness.index.chunks([hit.chunk])[hit.chunk]
    assert stored.name == DocumentName(PAPERS, "/folder", "a")
    assert (stored.kind, stored.title, stored.metadata) == ("pdf", "Birds", {"year": 1})
    assert (stored.page, stored.start, stored.end, stored.text) == (2, 0, 5, "heron")
    assert (stored.position, stored.chunk_index) == (1, 0)


def test_a_chunk_has_its_index_in_its_page_also_where_pages_are_missing(harness: IndexHarness) -> None:
    pages = (1, 1, 2, 2, 2, 5)
    for key, numbers in {"whole": pages, "from page 2": pages[2:]}.items():
        chunks = [
            Chunk.from_text(f"heron {place} {key}", page=page, about=TEXT if not place else None, last=place == 5)
            for place, page in enumerate(pages)
            if page in numbers
        ]
        name = DocumentName(PAPERS, "/folder", key)
        with harness.store.transaction() as tx:
            harness.index.add_chunks(tx, IndexEntry(name=name, version=1, about=TEXT), chunks)
    ids = [hit.chunk for hit in harness.index.search_words(Question(text="heron"), Where(), limit=20)]
    stored = sorted(harness.index.chunks(ids).values(), key=lambda one: (one.name.key, one.position))
    assert [(one.name.key, one.position, one.page, one.chunk_index) for one in stored] == [
        ("from page 2", 0, 2, 0),
        ("from page 2", 1, 2, 1),
        ("from page 2", 2, 2, 2),
        ("from page 2", 3, 5, 0),
        ("whole", 0, 1, 0),
        ("whole", 1, 1, 1),
        ("whole", 2, 2, 0),
        ("whole", 3, 2, 1),
        ("whole", 4, 2, 2),
        ("whole", 5, 5, 0),
    ]


def described_pages(harness: IndexHarness, key: str, *, version: int, label: str) -> None:
    """Add a version of two pages with two chunks each. Only the first chunk of a page has its metadata."""
    pages = {1: {"label": label, "odd \0 \ud800": True}, 2: {"scale": 1.5}}
    chunks = [
        Chunk.from_text(
            f"heron {page} {place} of {label}",
            page=page,
            about=TEXT if (page, place) == (1, 0) else None,
            last=(page, place) == (2, 1),
            page_metadata=pages[page] if place == 0 else None,
        )
        for page in pages
        for place in range(2)
    ]
    name = DocumentName(PAPERS, "/folder", key)
    for start in (0, 1):  # in two transactions, the second in the middle of a page
        with harness.store.transaction() as tx:
            about = TEXT if start == 0 else None
            part = chunks[start : start + 1 + 2 * start]
            harness.index.add_chunks(tx, IndexEntry(name=name, version=version, about=about), part)


def page_metadata(harness: IndexHarness) -> list[tuple[int, dict[str, object]]]:
    ids = [hit.chunk for hit in harness.index.search_words(Question(text="heron"), Where(), limit=20)]
    pages = [(one.page, dict(one.page_metadata)) for one in harness.index.chunks(ids).values()]
    return sorted(pages, key=repr)


def test_all_chunks_of_a_page_have_its_metadata(harness: IndexHarness) -> None:
    described_pages(harness, "a", version=1, label="Q3")
    harness.ingest("b", "heron")
    first = {"label": "Q3", "odd \ufffd \ufffd": True}
    assert page_metadata(harness) == [(1, first), (1, first), (1, {}), (2, {"scale": 1.5}), (2, {"scale": 1.5})]


def test_the_metadata_of_pages_changes_and_goes_with_their_chunks(harness: IndexHarness) -> None:
    described_pages(harness, "a", version=1, label="Q3")
    described_pages(harness, "a", version=2, label="Q4")
    assert [metadata.get("label") for page, metadata in page_metadata(harness) if page == 1] == ["Q3", "Q3"]
    harness.make_visible("a")
    assert [metadata.get("label") for page, metadata in page_metadata(harness) if page == 1] == ["Q4", "Q4"]
    assert pages_kept(harness) == {2}
    harness.delete("a")
    assert pages_kept(harness) == set()


def pages_kept(harness: IndexHarness) -> set[int]:
    """Return the versions of documents of which the metadata of pages is kept."""
    with harness.store.reading() as tx:
        return {version for (version,) in tx.execute("select version from rag_page").fetchall()}


def test_the_vectors_of_chunks_are_returned_as_they_were_saved(harness: IndexHarness) -> None:
    harness.ingest("a", "one heron", "two storks")
    harness.add("b", ["a crane, of which no vector is known yet"])
    hits = harness.index.search_words(Question(text="heron storks crane"), Where(), limit=10)
    given = harness.index.vectors(harness.model, [*(hit.chunk for hit in hits), 123_456])
    texts = {number: stored.text for number, stored in harness.index.chunks([*given]).items()}
    assert sorted(texts.values()) == ["one heron", "two storks"]
    for number, text in texts.items():
        (row,) = harness.embedder.embed([text])
        assert given[number] == row.astype("<f2").tobytes()
    assert harness.index.vectors(EmbeddingModel("another", 64), [*given]) == {}


def clustered(count: int, *, seed: int, dimension: int = 64) -> np.ndarray:
    """Vectors of length one in clusters of a dozen, like passages about the same subject."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((count // 12 + 1, dimension))
    rows = centres[random.integers(0, len(centres), count)] + 0.35 * random.standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def fill(harness: IndexHarness, rows: np.ndarray) -> None:
    """Add a document for each 100 vectors, in two collections by turns."""
    for start in range(0, len(rows), 100):
        some = range(start, min(start + 100, len(rows)))
        collection = (PAPERS, NOTES)[start // 100 % 2]
        chunks = [
            Chunk.from_text(str(n), about=DocumentInfo() if n == start else None, last=n == some[-1]) for n in some
        ]
        name = DocumentName(collection, "/folder", str(start))
        with harness.store.transaction() as tx:
            harness.index.add_chunks(tx, IndexEntry(name=name, version=1, about=DocumentInfo()), chunks)
            vectors = {one.hash: rows[n].astype("<f2").tobytes() for n, one in zip(some, chunks, strict=True)}
            harness.index.save_vectors(tx, harness.model, vectors)
        harness.index.upload(name, model=harness.model)
        with harness.store.transaction() as tx:
            harness.index.make_visible(tx, name, model=harness.model)


def test_nearly_all_of_the_ten_nearest_are_found(harness: IndexHarness, kind: str) -> None:
    count = 500 if kind.startswith("client") else 5000  # the client's local mode is slow, and no engine of its own
    rows = clustered(count, seed=7)
    fill(harness, rows)
    asked = clustered(40, seed=7)[:20] + 0.02
    papers = np.arange(count) // 100 % 2 == 0
    for where, allowed in ((Where(), np.ones(count, bool)), (Where(collection=PAPERS), papers)):
        found = wanted = 0
        for vector in asked:
            nearness = np.where(allowed, rows.astype("<f2").astype(np.float32) @ vector, -9)
            best = {str(n) for n in np.argsort(-nearness)[:10]}
            found += len(best & set(harness.nearest(vector.astype(np.float32), where)))
            wanted += 10
        assert found / wanted >= 0.99


def test_a_vector_search_returns_as_many_as_its_limit(harness: IndexHarness, kind: str) -> None:
    count = 400 if kind.startswith("client") else 3000
    fill(harness, clustered(count, seed=7))
    asked = clustered(12, seed=8)[0]
    assert len(set(harness.nearest(asked, limit=count - 100))) == count - 100
    assert len(set(harness.nearest(asked, Where(collection=PAPERS), limit=count))) == count // 2
