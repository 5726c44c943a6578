from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.codec import decode_json
from holdfast.core.model import Standing
from holdfast.stores import open_store
from holdfast.stores.protocol import Store

SOON = holdfast.Retry(base=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=1))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/engine.db")
    yield store
    store.close()


class Bench:
    """Submits, drains and looks, for one pipeline in one batch."""

    def __init__(self, store: Store, pipeline: holdfast.Pipeline) -> None:
        self.store = store
        self.pipeline = pipeline

    def submit(self, *keys: str) -> None:
        holdfast.submit(self.pipeline, self.store, batch="b", documents=[(key, {"name": key}) for key in keys])

    def drain(self, **how: Any) -> holdfast.Report:
        return holdfast.drain(self.pipeline, self.store, **{"threads": 2, **how})

    def standing(self, key: str = "a") -> Standing:
        return self.store.standing(self.pipeline.name, "b", key)

    def kept(self, step: str, key: str = "a") -> list[Any]:
        items = self.store.items(self.standing(key).id)
        return [value if isinstance(value, bytes) else decode_json(value) for at, _, value in items if at == step]

    def verbs(self, key: str = "a") -> list[str]:
        return [entry.verb for entry in self.store.journal(self.standing(key).id)]


@pytest.fixture
def pipeline() -> holdfast.Pipeline:
    return holdfast.Pipeline("p")


@pytest.fixture
def bench(store: Store, pipeline: holdfast.Pipeline) -> Bench:
    return Bench(store, pipeline)
