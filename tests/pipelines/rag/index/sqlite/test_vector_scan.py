"""Vectors in memory: add, remove, compact, and find the nearest at each stage."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

np = pytest.importorskip("numpy")

from holdfast.pipelines.rag.index.sqlite.vector_scan import CANDIDATES, INITIAL_CAPACITY, Vectors  # noqa: E402


def rows(count: int, *, dimension: int = 32, seed: int = 1) -> np.ndarray:
    made = np.random.default_rng(seed).standard_normal((count, dimension))
    halves: np.ndarray = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype("<f2")
    return halves


def fill(vectors: Vectors, made: np.ndarray, documents: Iterable[int], collection: int = 1) -> None:
    """Add vectors with chunk ids from 1, after those that are there."""
    numbers = [*documents]
    chunks = [*range(1, len(made) + 1)]
    vectors.add(chunks, numbers, [collection] * len(made), [row.tobytes() for row in made])


def first(vectors: Vectors, row: np.ndarray) -> int:
    return vectors.nearest(row.astype(np.float32), limit=1)[0].chunk


def test_every_vector_is_nearest_to_itself_after_growing() -> None:
    vectors, made = Vectors(32), rows(3 * INITIAL_CAPACITY)
    for start in range(0, len(made), 700):
        part = made[start : start + 700]
        chunks = [*range(start + 1, start + 1 + len(part))]
        vectors.add(chunks, chunks, [1] * len(part), [row.tobytes() for row in part])
    assert len(vectors) == 3 * INITIAL_CAPACITY
    assert [first(vectors, made[n]) for n in range(0, len(made), 97)] == [n + 1 for n in range(0, len(made), 97)]


def test_removed_vectors_are_not_found() -> None:
    vectors, made = Vectors(32), rows(100)
    fill(vectors, made, (n // 10 + 1 for n in range(100)))
    vectors.drop([1, 3])
    assert len(vectors) == 80
    found = {hit.document for hit in vectors.nearest(made[0].astype(np.float32), limit=100)}
    assert found == {2, 4, 5, 6, 7, 8, 9, 10}


def test_arrays_are_compacted_when_half_is_empty_and_all_is_still_found() -> None:
    vectors, made = Vectors(32), rows(100)
    fill(vectors, made, (n // 10 + 1 for n in range(100)))
    vectors.drop([1, 2, 3, 4, 5, 6])
    assert vectors._count == 40
    assert [first(vectors, made[n]) for n in range(60, 100)] == [*range(61, 101)]
    vectors.add([500], [50], [2], [made[0].tobytes()])
    assert first(vectors, made[0]) == 500
    assert len(vectors) == 41


def test_all_vectors_can_be_removed() -> None:
    vectors, made = Vectors(32), rows(10)
    fill(vectors, made, [1] * 10)
    vectors.drop([1])
    assert len(vectors) == 0
    assert vectors.nearest(made[0].astype(np.float32), limit=5) == []


def test_empty_lists_can_be_added_removed_and_searched() -> None:
    vectors = Vectors(32)
    vectors.add([], [], [], [])
    vectors.drop([])
    vectors.drop([7])
    assert vectors.nearest(np.ones(32, np.float32), limit=5) == []


def test_a_search_can_be_limited_to_a_collection_or_to_documents() -> None:
    vectors, made = Vectors(32), rows(2 * CANDIDATES + 100)
    half = len(made) // 2
    fill(vectors, made[:half], [1] * half, collection=1)
    fill(vectors, made[half:], range(2, half + 2), collection=2)
    asked = made[0].astype(np.float32)
    assert {hit.document for hit in vectors.nearest(asked, limit=50, collection=1)} == {1}
    assert 1 not in {hit.document for hit in vectors.nearest(asked, limit=50, collection=2)}
    assert {hit.document for hit in vectors.nearest(asked, limit=50, documents=[5, 6])} == {5, 6}
    assert vectors.nearest(asked, limit=50, documents=[]) == vectors.nearest(asked, limit=50, collection=3) == []


def test_dimensions_that_are_no_multiple_of_64_work() -> None:
    for dimension in (1, 7, 63, 64, 65, 100):
        vectors, made = Vectors(dimension), rows(CANDIDATES + 500, dimension=dimension)
        fill(vectors, made, [1] * len(made))
        best = vectors.nearest(made[5].astype(np.float32), limit=1)[0]
        exact = made.astype(np.float32) @ made[5].astype(np.float32)
        assert best.score == pytest.approx(exact.max(), abs=1e-3)


def test_thousands_of_equal_vectors_can_be_searched() -> None:
    vectors = Vectors(32)
    made = np.repeat(rows(1), 5 * CANDIDATES, axis=0)
    fill(vectors, made, [1] * len(made))
    assert len(vectors.nearest(made[0].astype(np.float32), limit=10)) == 10


def test_hits_come_nearest_first() -> None:
    vectors, made = Vectors(32), rows(500)
    fill(vectors, made, [1] * 500)
    scores = [hit.score for hit in vectors.nearest(made[3].astype(np.float32), limit=20)]
    assert scores == sorted(scores, reverse=True)
