"""Find orphans, and decide what happens to them. For people, and for timers that people set up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from holdfast.core.model import DocumentStatus
from holdfast.core.orphans import GRACE, Orphan, Strategy
from holdfast.engine.crash_evidence import find_deaths
from holdfast.process_identity import gone_among
from holdfast.stores.protocol import MAX_PER_TRANSACTION, Store


def find_orphans(store: Store, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None) -> list[Orphan]:
    """Find the orphans of a pipeline. Dead workers of this machine are found even before their leases are over."""
    return store.orphans(pipeline, grace=grace, batch=batch, gone=gone_workers(store))


def resolve_orphans(
    store: Store, orphans: Sequence[Orphan], *, strategy: Strategy, who: str, reason: str
) -> list[DocumentStatus]:
    """Take orphans from their workers, in slices. If it is killed, the next scan finds the rest."""
    resolved: list[DocumentStatus] = []
    workers = [worker for worker, _, _ in store.workers()]
    deaths = find_deaths(store, workers, gone=gone_among(workers)).deaths
    for start in range(0, len(orphans), MAX_PER_TRANSACTION):
        part = orphans[start : start + MAX_PER_TRANSACTION]
        resolved += store.resolve_orphans(part, strategy=strategy, who=who, reason=reason, deaths=deaths)
    return resolved


def gone_workers(store: Store) -> list[int]:
    """Return the ids of the workers of this machine whose processes are certainly dead."""
    return gone_among(worker for worker, _, _ in store.workers())
