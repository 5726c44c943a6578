"""Find what nobody takes care of in a pipeline, and end, requeue or clean it up if that is asked for.

`find_orphans` and `resolve_orphans` are for people and for timers that people set up. `MaintenanceScan` is for workers:
they run it in the background. One of all workers does it, once in each interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.batches import Reconciliation
from holdfast.core.errors import CloseRefused
from holdfast.core.formatting import format_exact_duration
from holdfast.core.model import DocumentStatus
from holdfast.core.orphans import GRACE, Orphan, Strategy
from holdfast.engine.background_task import TaskContext
from holdfast.engine.crash_evidence import find_deaths
from holdfast.engine.maintenance import WHO
from holdfast.observe.events import BatchClosed, BatchExpired, ScanFindings, Scanned
from holdfast.ops.cleanup import DEFAULT_STALE, Retention, cleanup, is_stale
from holdfast.process_identity import gone_among
from holdfast.stores.protocol import MAX_PER_TRANSACTION, Store

DEFAULT_EVERY = timedelta(hours=1)
"""How long workers wait between two scans of a pipeline, by default."""

ScanAction = Literal["list", "cleanup", "end"]
"""What a scan does with what it finds: only list it; also clean up; or also end stale batches first."""
ACTIONS: tuple[ScanAction, ...] = ("list", "cleanup", "end")
DEFAULT_ACTION: ScanAction = "list"


class MaintenanceScan(Struct, frozen=True, kw_only=True):
    """Look from time to time for what nobody takes care of. Pass it to `holdfast.work` as `maintenance=`.

    It finds batches in which nothing moves, dead letters that nobody redrives or accepts, and running documents
    without a sign of life. The worker emits the event `Scanned`, which logs and notifications show.

    Args:
        every: How long to wait between two scans. Of many workers, one scans in each interval.
        stale: How long nothing must have moved in a batch, or about a dead letter.
        grace: How long a running document must have shown no sign of life.
        then: `"list"` changes nothing. `"cleanup"` deletes what `holdfast batch cleanup` deletes. `"end"` also ends
            stale batches before: it cancels their open documents, seals them, and closes those that need no person for
            it: without dead letters that nobody accepted, and without closing steps.

    Example:
        holdfast.drain(papers, store, maintenance=holdfast.MaintenanceScan(then="cleanup"), listeners=[print])
    """

    every: timedelta = DEFAULT_EVERY
    stale: timedelta = DEFAULT_STALE
    grace: timedelta = GRACE
    then: ScanAction = DEFAULT_ACTION

    def run(self, context: TaskContext) -> None:
        """Scan the pipeline of a worker, if no other worker did in this interval, and emit what was found.

        Args:
            context: The worker.
        """
        if context.store.begin_scan(context.plan, every=self.every):
            source = {"pipeline": context.pipeline.name, "worker": context.worker}
            context.emit(Scanned(_scan(self, context), **source))


def _scan(what: MaintenanceScan, context: TaskContext) -> ScanFindings:
    store, name = context.store, context.pipeline.name
    before = store.now() - what.stale
    batches = store.batch_counts(name)
    stale = [found for found in batches if is_stale(found, before)]
    ended: list[str] = []
    closed: list[str] = []
    cleaned = 0
    findings = ScanFindings(
        stale=tuple(stale),
        dead_letters=_dead_letters(what, context, batches),
        orphans=tuple(find_orphans(store, name, grace=what.grace)),
    )
    if what.then == "end":
        reason = f"nothing has moved in this batch for {format_exact_duration(what.stale)}"
        ended = [found.batch for found in stale if _end(context, found, reason)]
        closed = [found.batch for found in stale if _close(context, found, reason)]
    if what.then != "list":
        cleaned = cleanup(store, Retention(pipeline=name), who=WHO, pause=context.pause).documents
    return replace(findings, ended=tuple(ended), closed=tuple(closed), cleaned=cleaned)


def _dead_letters(what: MaintenanceScan, context: TaskContext, batches: Sequence[Reconciliation]) -> dict[str, int]:
    """Count the dead letters that nobody redrove or accepted for a long time, by batch."""
    unaccepted = [found.batch for found in batches if found.not_accepted and found.state != "closed"]
    count: Callable[..., int] = context.store.count
    counts = {
        batch: count(context.pipeline.name, batch=batch, state="dead", accepted=False, idle=what.stale)
        for batch in unaccepted
    }
    return {batch: number for batch, number in counts.items() if number}


def _end(context: TaskContext, found: Reconciliation, reason: str) -> bool:
    """Cancel the open documents of a stale batch and seal it, as a deadline that has just passed does."""
    store, name = context.store, context.pipeline.name
    if not found.open:
        return store.seal(name, found.batch, who=WHO, reason=reason)
    store.set_deadline(name, found.batch, at=store.now(), action="cancel", who=WHO, reason=reason)
    while (expired := store.expire_batch(context.plan, who=WHO)) is not None:
        context.emit(BatchExpired(expired, pipeline=name, worker=context.worker))
        context.pause(0)
    return True


def _close(context: TaskContext, found: Reconciliation, reason: str) -> bool:
    """Close a stale batch if no person is needed for it. Closing steps are run only by a person who closes a batch."""
    pipeline = context.pipeline
    if pipeline.closing.steps:
        return False
    try:
        done = context.store.close_batch(context.plan, found.batch, who=WHO, reason=reason, tolerate=pipeline.tolerates)
    except CloseRefused:
        return False
    if done.is_new:
        context.emit(BatchClosed(pipeline.name, found.batch, done.report))
    return done.is_new


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
