"""Renamed steps: work that was done under the old names still counts, also without the map of old names."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.core.pipeline import Pipeline
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def pipeline_with_verify(name: str, there: set[str], **renamed: str) -> Pipeline:
    """Return a pipeline with one step of this name, which can be verified."""
    pipeline = Pipeline("papers", renamed=renamed)

    def body(doc: Any) -> int:
        there.add(doc.key)
        return 1

    body.__name__ = name
    step = pipeline.step(body)
    step.verify(lambda doc: doc.key in there)
    return pipeline


def test_lost_results_of_a_renamed_step_are_found_without_the_rename_map(store: Store) -> None:
    there: set[str] = set()
    before = pipeline_with_verify("extract", there)
    holdfast.submit(before, store, batch="march", documents=[("a", None)])
    holdfast.drain(before, store)
    store.declare(pipeline_with_verify("parse", there, extract="parse").shape())
    there.clear()
    found = holdfast.verify(pipeline_with_verify("parse", there), store)
    assert (found.documents, found.rewound) == (1, 1)


def test_results_lost_again_park_a_document_whose_step_was_renamed_meanwhile(store: Store) -> None:
    there: set[str] = set()
    before, now = pipeline_with_verify("extract", there), pipeline_with_verify("parse", there, extract="parse")
    holdfast.submit(before, store, batch="march", documents=[("a", None)])
    holdfast.drain(before, store)
    there.clear()
    assert holdfast.verify(before, store).rewound == 1
    holdfast.drain(now, store)
    there.clear()
    assert holdfast.verify(now, store).parked == 1
