"""Cleaning up: slice after slice, each a short transaction with a pause after it, so that no worker waits for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct

from holdfast.core.batches import CLOSING, NOTHING_YET, Cleaned, Reconciliation
from holdfast.stores.protocol import Store

OLDER = timedelta(days=30)
"""How long what finished documents kept stays, unless told otherwise."""
STALE = timedelta(days=7)
"""After how long without a move a batch that is not closed is called stale, unless told otherwise."""

AT_MOST = 0.04
"""Seconds that a slice may take. The next one is smaller when it took more."""
FIRST, LEAST, MOST = 1000, 1000, 4000
"""How many rows a slice takes: the first, and any. With fewer, what it costs to begin and end one would count most."""
SHORTEST = 0.005
"""Seconds between slices, at least; else as long as the slice took."""


Answer = TypeVar("Answer")


class CleanedBatch(Struct, frozen=True):
    """What was deleted of one batch: all of a closed one, or what finished documents of another kept."""

    pipeline: str
    batch: str
    why: Literal["closed", "finished"]
    documents: int
    items: int
    asides: int
    lines: int


class CleanupReport(Struct, frozen=True):
    """What a cleanup deleted, or would delete; and what batches nothing moves in."""

    batches: tuple[CleanedBatch, ...] = ()
    stale: tuple[Reconciliation, ...] = ()
    blobs: int = 0
    workers: int = 0
    slices: int = 0
    longest: float = 0.0

    @property
    def documents(self) -> int:
        """How many documents were cleaned up."""
        return sum(one.documents for one in self.batches)


class Retention(Struct, frozen=True, kw_only=True):
    """What is to be cleaned up."""

    pipeline: str | None = None
    batch: str | None = None
    older: timedelta = OLDER
    stale: timedelta = STALE
    with_errors: bool = False


EVERYTHING = Retention()


def cleanup(
    store: Store, what: Retention = EVERYTHING, *, who: str, pause: Callable[[float], object] = time.sleep
) -> CleanupReport:
    """Deletes what nobody needs any more. Killed anywhere, it can be called again.

    Of closed batches whose closing steps are over, everything but the batch, its report and its journal; of others,
    what documents kept that finished long ago; big values that no item refers to; workers that are long gone.
    """
    pace = Pace(pause)
    batches = []
    for found in _batches(store, what):
        cleaned = _clean(store, found, what, who=who, pace=pace)
        if cleaned.documents:
            batches.append(cleaned)
    blobs = 0
    after: bytes | None = b""
    while after is not None:
        deleted, after = pace.timed(partial(store.cleanup_blobs, after=after))
        blobs += deleted
    workers = store.cleanup_workers(older=what.older)
    return CleanupReport(tuple(batches), _stale(store, what), blobs, workers, pace.slices, pace.longest)


def survey(store: Store, what: Retention = EVERYTHING) -> CleanupReport:
    """Counts what `cleanup` would delete, and deletes nothing.

    Of big values it counts those that no item refers to now; those of the counted documents come to it.
    """
    batches = [cleaned for found in _batches(store, what) if (cleaned := _count(store, found, what)).documents]
    workers = store.count_workers(older=what.older)
    return CleanupReport(tuple(batches), _stale(store, what), store.count_blobs(), workers)


class Pace:
    """Keeps slices short, and leaves as much time to others as a slice took."""

    def __init__(self, pause: Callable[[float], object]) -> None:
        self._pause = pause
        self._rows = FIRST
        self.slices = 0
        self.longest = 0.0

    def timed(self, work: Callable[..., Answer]) -> Answer:
        """Does a slice of so many rows as seems right, and learns from the time it took."""
        began = time.monotonic()
        answer = work(limit=self._rows)
        took = time.monotonic() - began
        self.slices += 1
        self.longest = max(self.longest, took)
        if took > AT_MOST:
            self._rows = max(self._rows // 2, LEAST)
        elif took < AT_MOST / 3:
            self._rows = min(self._rows * 3 // 2, MOST)
        self._pause(max(took, SHORTEST))
        return answer


def _clean(store: Store, found: Reconciliation, what: Retention, *, who: str, pace: Pace) -> CleanedBatch:
    if found.state == "closed":
        clean = partial(store.cleanup_closed, found.pipeline, found.batch, who=who)
    else:
        place, errors = (found.pipeline, found.batch), what.with_errors
        clean = partial(store.cleanup_finished, *place, who=who, older=what.older, with_errors=errors)
    cleaned = NOTHING_YET
    while cleaned.goes_on_at is not None:
        cleaned = pace.timed(partial(clean, so_far=cleaned))
    return _of_batch(found, cleaned)


def _count(store: Store, found: Reconciliation, what: Retention) -> CleanedBatch:
    place = (found.pipeline, found.batch)
    if found.state == "closed":
        return _of_batch(found, store.count_closed(*place))
    return _of_batch(found, store.count_finished(*place, older=what.older, with_errors=what.with_errors))


def _of_batch(found: Reconciliation, cleaned: Cleaned) -> CleanedBatch:
    why: Literal["closed", "finished"] = "closed" if found.state == "closed" else "finished"
    return CleanedBatch(found.pipeline, found.batch, why, **cleaned.counts())


def _stale(store: Store, what: Retention) -> tuple[Reconciliation, ...]:
    """Finds the batches that are not closed, and in what nothing moved for long."""
    before = store.now() - what.stale
    return tuple(
        found
        for found in _batches(store, what)
        if found.state != "closed"
        and not found.pipeline.endswith(CLOSING)
        and max(found.created_at, found.moved_at or found.created_at) < before
    )


def _batches(store: Store, what: Retention) -> Iterator[Reconciliation]:
    pipelines = store.pipelines() if what.pipeline is None else [what.pipeline]
    for pipeline in pipelines:
        yield from store.census(pipeline, what.batch)
