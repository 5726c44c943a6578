"""Clean up a store in slices. Each is a short transaction with a pause after it, so that no worker waits for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct

from holdfast.core.batches import CLOSING, NOTHING_YET, Cleaned, Reconciliation
from holdfast.stores.protocol import Store

DEFAULT_OLDER = timedelta(days=30)
"""How long the items of finished documents stay, by default."""
DEFAULT_STALE = timedelta(days=7)
"""After how long without a move an open batch is called stale, by default."""

MAX_SLICE_SECONDS = 0.04
"""How long a slice may take. If it took longer, the next one is smaller."""
FIRST_ROWS, MIN_ROWS, MAX_ROWS = 1000, 1000, 4000
"""How many rows are in the first slice and in any slice. With fewer rows, starting and ending it would cost most."""
MIN_PAUSE_SECONDS = 0.005
"""The shortest pause between two slices. By default it is as long as the slice took."""


T = TypeVar("T")


class CleanedBatch(Struct, frozen=True):
    """What was deleted of one batch: all documents of a closed one, or the items of finished documents."""

    pipeline: str
    batch: str
    why: Literal["closed", "finished"]
    documents: int
    items: int
    asides: int
    lines: int


class CleanupReport(Struct, frozen=True):
    """What a cleanup deleted or would delete, and the batches in which nothing moves."""

    batches: tuple[CleanedBatch, ...] = ()
    stale: tuple[Reconciliation, ...] = ()
    blobs: int = 0
    workers: int = 0
    slices: int = 0
    longest: float = 0.0

    @property
    def documents(self) -> int:
        """How many documents were cleaned up."""
        return sum(batch.documents for batch in self.batches)


class Retention(Struct, frozen=True, kw_only=True):
    """What to clean up."""

    pipeline: str | None = None
    batch: str | None = None
    older: timedelta = DEFAULT_OLDER
    stale: timedelta = DEFAULT_STALE
    with_errors: bool = False


EVERYTHING = Retention()


def cleanup(
    store: Store, what: Retention = EVERYTHING, *, who: str, pause: Callable[[float], object] = time.sleep
) -> CleanupReport:
    """Delete what is no longer needed. It is safe to kill it, and to call it again.

    It deletes: of closed batches whose closing steps have ended, everything but the batch, its report and its journal;
    of other batches, the items of documents that ended long ago; big values to which no item refers; the records of
    workers that ended long ago.

    Args:
        store: The store.
        what: Which pipeline and batch, and how old.
        who: The name for the journal.
        pause: Waits for a number of seconds.

    Returns:
        What was deleted, and the stale batches.
    """
    slices = SliceRunner(pause)
    batches = []
    for found in _batches(store, what):
        cleaned = _clean(store, found, what, who=who, slices=slices)
        if cleaned.documents:
            batches.append(cleaned)
    blobs = 0
    after: bytes | None = b""
    while after is not None:
        deleted, after = slices.run(partial(store.cleanup_blobs, after=after))
        blobs += deleted
    workers = store.cleanup_workers(older=what.older)
    return CleanupReport(tuple(batches), _stale(store, what), blobs, workers, slices.count, slices.longest)


def clean_closed_batch(
    store: Store, pipeline: str, batch: str, *, who: str, pause: Callable[[float], object] = time.sleep
) -> CleanedBatch:
    """Delete the documents of one closed batch whose closing steps have ended. Big values are left to `cleanup`.

    It is safe to kill it, and to call it again. Nothing is deleted of a batch that is not closed.

    Args:
        store: The store.
        pipeline: The name of the pipeline.
        batch: The name of the batch.
        who: The name for the journal.
        pause: Waits for a number of seconds.

    Returns:
        What was deleted.
    """
    clean = partial(store.cleanup_closed, pipeline, batch, who=who)
    cleaned = _in_slices(clean, SliceRunner(pause))
    return CleanedBatch(pipeline, batch, "closed", **cleaned.counts())


def survey(store: Store, what: Retention = EVERYTHING) -> CleanupReport:
    """Count what `cleanup` would delete. It deletes nothing.

    Of big values it counts those to which no item refers now. Those of the counted documents would be deleted too.
    """
    batches = [cleaned for found in _batches(store, what) if (cleaned := _count(store, found, what)).documents]
    workers = store.count_workers(older=what.older)
    return CleanupReport(tuple(batches), _stale(store, what), store.count_blobs(), workers)


class SliceRunner:
    """Run slices that are short, with pauses in which others can write."""

    def __init__(self, pause: Callable[[float], object]) -> None:
        self._pause = pause
        self._rows = FIRST_ROWS
        self.count = 0
        self.longest = 0.0

    def run(self, work: Callable[..., T]) -> T:
        """Run one slice, then pause. Adapt the number of rows of the next slice to the time that this one took."""
        began = time.monotonic()
        result = work(limit=self._rows)
        seconds = time.monotonic() - began
        self.count += 1
        self.longest = max(self.longest, seconds)
        if seconds > MAX_SLICE_SECONDS:
            self._rows = max(self._rows // 2, MIN_ROWS)
        elif seconds < MAX_SLICE_SECONDS / 3:
            self._rows = min(self._rows * 3 // 2, MAX_ROWS)
        self._pause(max(seconds, MIN_PAUSE_SECONDS))
        return result


def _clean(store: Store, found: Reconciliation, what: Retention, *, who: str, slices: SliceRunner) -> CleanedBatch:
    if found.state == "closed":
        clean = partial(store.cleanup_closed, found.pipeline, found.batch, who=who)
    else:
        place, errors = (found.pipeline, found.batch), what.with_errors
        clean = partial(store.cleanup_finished, *place, who=who, older=what.older, with_errors=errors)
    return _of_batch(found, _in_slices(clean, slices))


def _in_slices(clean: Callable[..., Cleaned], slices: SliceRunner) -> Cleaned:
    cleaned = NOTHING_YET
    while cleaned.goes_on_at is not None:
        cleaned = slices.run(partial(clean, so_far=cleaned))
    return cleaned


def _count(store: Store, found: Reconciliation, what: Retention) -> CleanedBatch:
    place = (found.pipeline, found.batch)
    if found.state == "closed":
        return _of_batch(found, store.count_closed(*place))
    return _of_batch(found, store.count_finished(*place, older=what.older, with_errors=what.with_errors))


def _of_batch(found: Reconciliation, cleaned: Cleaned) -> CleanedBatch:
    why: Literal["closed", "finished"] = "closed" if found.state == "closed" else "finished"
    return CleanedBatch(found.pipeline, found.batch, why, **cleaned.counts())


def _stale(store: Store, what: Retention) -> tuple[Reconciliation, ...]:
    """Return the batches that are not closed, and in which nothing has moved for a long time."""
    before = store.now() - what.stale
    return tuple(found for found in _batches(store, what) if is_stale(found, before))


def is_stale(found: Reconciliation, before: datetime) -> bool:
    """Return True if a batch is not closed, and nothing has moved in it since then."""
    if found.state == "closed" or found.pipeline.endswith(CLOSING):
        return False
    return max(found.created_at, found.moved_at or found.created_at) < before


def _batches(store: Store, what: Retention) -> Iterator[Reconciliation]:
    pipelines = store.pipelines() if what.pipeline is None else [what.pipeline]
    for pipeline in pipelines:
        yield from store.batch_counts(pipeline, what.batch)
