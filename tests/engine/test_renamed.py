"""Steps get other names, and the map is tidied away: what was done and decided under the old names still counts."""

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


def checked(name: str, there: set[str], **renamed: str) -> Pipeline:
    """A pipeline with one step of this name, whose work can be asked for."""
    pipeline = Pipeline("papers", renamed=renamed)

    def body(doc: Any) -> int:
        there.add(doc.key)
        return 1

    body.__name__ = name
    step = pipeline.step(body)
    step.verify(lambda doc: doc.key in there)
    return pipeline


def test_work_that_is_gone_is_found_after_the_map_was_tidied_away(store: Store) -> None:
    there: set[str] = set()
    before = checked("extract", there)
    holdfast.submit(before, store, batch="march", documents=[("a", None)])
    holdfast.drain(before, store)
    store.declare(checked("parse", there, extract="parse").shape())
    there.clear()
    found = holdfast.verify(checked("parse", there), store)
    assert (found.documents, found.rewound) == (1, 1)


def test_work_that_is_gone_again_is_parked_though_its_step_was_renamed_meanwhile(store: Store) -> None:
    there: set[str] = set()
    before, now = checked("extract", there), checked("parse", there, extract="parse")
    holdfast.submit(before, store, batch="march", documents=[("a", None)])
    holdfast.drain(before, store)
    there.clear()
    assert holdfast.verify(before, store).rewound == 1
    holdfast.drain(now, store)
    there.clear()
    assert holdfast.verify(now, store).parked == 1
