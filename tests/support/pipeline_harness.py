"""A harness for tests that run one pipeline on one store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import holdfast
from holdfast.core.codec import Kept, decode_json
from holdfast.core.model import DocumentStatus
from holdfast.stores.protocol import Store

SOON = holdfast.Retry(base=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=1))


class PipelineHarness:
    """One pipeline on one store, with short calls to submit, drain and read documents of one batch."""

    def __init__(self, store: Store, pipeline: holdfast.Pipeline) -> None:
        self.store = store
        self.pipeline = pipeline

    def submit(self, *keys: str) -> None:
        holdfast.submit(self.pipeline, self.store, batch="b", documents=[(key, {"name": key}) for key in keys])

    def drain(self, **options: Any) -> holdfast.Report:
        return holdfast.drain(self.pipeline, self.store, **{"threads": 2, **options})

    def document(self, key: str = "a") -> DocumentStatus:
        return self.store.document(self.pipeline.name, "b", key)

    def kept(self, step: str, key: str = "a") -> list[Any]:
        """Return the values that a step kept."""
        items = self.store.items(self.document(key).id)
        return [value if isinstance(value, bytes) else decode_json(value) for at, _, value in items if at == step]

    def verbs(self, key: str = "a") -> list[str]:
        """Return the verbs in a document's journal."""
        return [entry.verb for entry in self.store.journal(self.document(key).id)]


class NoReader:
    """A reader of items that a test must not use."""

    def next_position(self, step: str) -> int:
        raise AssertionError("nothing is read here")

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        raise AssertionError("nothing is read here")

    def decision(self, step: str) -> holdfast.Decision | None:
        raise AssertionError("nothing is read here")
