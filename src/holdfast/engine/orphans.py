"""A scan for orphans: what a person, or a timer of theirs, does about documents that nobody advances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from holdfast.core.model import Standing, Worker
from holdfast.core.orphans import GRACE, Orphan, Strategy
from holdfast.engine.hosts import is_gone
from holdfast.stores.protocol import Store, Upkeep

SLICE = 2000
"""How many orphans are resolved in one transaction, so that no worker waits long for it."""


def find_orphans(store: Store, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None) -> list[Orphan]:
    """Finds the orphans of a pipeline. Workers of this machine whose processes are gone need not be waited for."""
    return store.orphans(pipeline, grace=grace, batch=batch, gone=gone_workers(store))


def resolve_orphans(
    store: Upkeep, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
) -> list[Standing]:
    """Resolves orphans, slice by slice, each once. Killed in the middle, the next scan finds the rest."""
    slices = [orphans[start : start + SLICE] for start in range(0, len(orphans), SLICE)]
    return [here for some in slices for here in store.resolve_orphans(some, strategy=strategy, who=who, reason=reason)]


def gone_workers(store: Store) -> list[int]:
    """Names the workers of this machine whose processes are certainly gone."""
    return gone_among(worker for worker, _, _ in store.workers())


def gone_among(workers: Iterable[Worker]) -> list[int]:
    """Names those of these workers that are of this machine, and whose processes are certainly gone."""
    return [worker.id for worker in workers if is_gone(worker)]
