"""The counts of the progress display: read from the store, and updated by the events of the engine between reads."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import monotonic

from msgspec import Struct

from holdfast.cli.shown_keys import shown_key
from holdfast.cli.ui.eta import Eta
from holdfast.core.errors import StoreError
from holdfast.core.model import DocumentStatus
from holdfast.core.moves import Release
from holdfast.core.pipeline import Pipeline
from holdfast.observe.events import CircuitClosed, CircuitOpened, ClockSetBack, Committed, Event, GaveBack, Reclaimed
from holdfast.stores.protocol import Store

RECOUNT_INTERVAL = 10.0
"""Seconds between two reads of what other workers did. It is longer if a read takes long."""
TIMINGS_INTERVAL = 2.0
"""Seconds between two reads of the step times. Workers write them as often, and reading them is cheap."""
RATE_WINDOW = 30.0
"""Seconds over which the rate is measured."""


NO_NOUNS: Mapping[str, str] = {}
"""No special names for the items of steps."""


class FailedAttempt(Struct, frozen=True):
    """A failed attempt, and whether the document is dead now."""

    key: str
    batch: str
    step: str
    error: str
    dead: bool

    def __str__(self) -> str:
        where = f" at {self.step}" if self.step else ""
        return f"{shown_key(self.key)}{where}: {self.error}{'' if self.dead else ' (will be tried again)'}"


class ProgressCounts:
    """Counts of documents and items. It is a listener, so it must be cheap: it gets every event of the engine."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        *,
        batch: str | None,
        threads: int,
        nouns: Mapping[str, str] = NO_NOUNS,
        withdrawn: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.pipeline = pipeline.name
        self.nouns = nouns
        self.batch = batch
        self.withdrawn = 0
        self._count_withdrawn = withdrawn
        self.steps = [step.name for step in pipeline.steps]
        self.submitted = 0
        self.submitting = False
        self.total = self.done = self.dead = self.paused = self.cancelled = self.failed_attempts = self.due_later = 0
        self.at_step: dict[str, int] = dict.fromkeys(self.steps, 0)
        self.items: dict[str, int] = dict.fromkeys(self.steps, 0)
        self.failures: deque[FailedAttempt] = deque()
        self.notices: deque[str] = deque()
        """What people should know at once."""
        self._store = store
        self.recount_interval = RECOUNT_INTERVAL
        self._next_recount = self._next_timings = 0.0
        self._ended_at_recount = 0
        self._clock = clock
        self._eta = Eta(pipeline, threads=threads, clock=clock)
        self._places: tuple[int, ...] = ()
        self._places_since = clock()
        self._held_back: Counter[str] = Counter()
        self._samples: deque[tuple[float, int, int]] = deque()

    # from the store

    def recount(self) -> None:
        """Read all counts from the store, which include the work of other workers and new documents."""
        began = monotonic()
        batches = [batch for batch in self._store.batches(self.pipeline) if self.batch in (None, batch.name)]
        withdrawn = self._count_withdrawn()  # removed documents are not shown
        self.done = sum(batch.balance.done for batch in batches)
        self.dead = sum(batch.balance.dead for batch in batches)
        self.paused = sum(batch.balance.paused for batch in batches)
        self.cancelled = sum(batch.balance.cancelled for batch in batches) - withdrawn
        self.withdrawn = withdrawn
        self.total = sum(batch.balance.expected for batch in batches) - withdrawn  # last: a display waits for it
        self.at_step = {step: sum(batch.at_step.get(step, 0) for batch in batches) for step in self.steps}
        self._count_held_back()
        self._update_eta()
        now = monotonic()
        self._next_recount = now + max(self.recount_interval, 50 * (now - began))
        self._ended_at_recount = self.ended

    def _count_held_back(self) -> None:
        """Count, by step, the documents that no worker can take now: they are paused or due later."""
        causes = [
            cause
            for cause in self._store.wait_causes(self.pipeline, batch=self.batch)
            if cause.kind in ("backoff", "circuit", "clock") or cause.state == "paused"
        ]
        self.due_later = sum(cause.documents for cause in causes if cause.state == "waiting")
        self._held_back.clear()
        for cause in causes:
            self._held_back[cause.step or ""] += cause.documents

    def recount_if_due(self) -> None:
        """Read from the store again if it is time. Errors of the store are ignored here: the worker reports them."""
        try:
            if monotonic() >= self._next_recount or self._seems_complete():
                self.recount()
            elif monotonic() >= self._next_timings:
                self._update_eta()
        except StoreError:
            self._next_recount = self._next_timings = monotonic() + self.recount_interval

    def _seems_complete(self) -> bool:
        """Return True if all counted documents have ended since the last read: there may be new ones to count."""
        return not self.remaining and self.ended != self._ended_at_recount

    def _update_eta(self) -> None:
        self._next_timings = monotonic() + TIMINGS_INTERVAL
        self._eta.update(self._store.step_times(self.pipeline), remaining=self.remaining)

    # from the events of the engine

    def __call__(self, event: Event) -> None:
        if isinstance(event, Committed):
            self._count_moves(event)
        elif isinstance(event, GaveBack):
            for ending in event.releases:
                self._count_ending(ending)
        elif isinstance(event, CircuitOpened):
            waits = "it goes on by itself when a document that is tried works"
            self.notices.append(f"Step {event.step} is paused for all documents: {event.failure}; {waits}.")
        elif isinstance(event, CircuitClosed):
            self.notices.append(f"Step {event.step} goes on.")
        elif isinstance(event, ClockSetBack):
            reset = event.reset
            self.notices.append(f"The clock was set back by at least {reset.setback}. Put right: {reset}.")
        elif isinstance(event, Reclaimed):
            for document in event.documents:
                self._count_reclaimed(document)

    def _count_moves(self, event: Committed) -> None:
        at_step, items = self.at_step, self.items
        for move in event.moves:
            step, after = move.before.step, move.after.step
            if move.items:
                items[step] += len(move.items)  # type: ignore[index]
            if after != step:
                self._left(step)
                if after is not None:
                    at_step[after] += 1
            if move.state == "done":
                self.done += 1
            elif move.state == "paused":
                self.paused += 1

    def _left(self, step: str | None) -> None:
        """Count a document out of a step. It may not be counted there, if it was submitted after the last read."""
        if self.at_step.get(step or ""):
            self.at_step[step or ""] -= 1

    def _count_ending(self, ending: Release) -> None:
        if ending.state == "paused":
            self.paused += 1
        elif ending.verb == "fail":
            dead = ending.state == "dead"
            self._count_failure(
                FailedAttempt(ending.claim.key, ending.claim.batch, ending.step, str(ending.failure), dead)
            )

    def _count_reclaimed(self, document: DocumentStatus) -> None:
        """Show a crash only if the document is dead after it. Earlier ones are mostly problems of the machine."""
        if document.state == "dead":
            step = document.checkpoint.step or ""
            self._count_failure(FailedAttempt(document.key, document.batch, step, document.reason, dead=True))

    def _count_failure(self, failed: FailedAttempt) -> None:
        if failed.dead:
            self.dead += 1
            self._left(failed.step)
        else:
            self.failed_attempts += 1
        self.failures.append(failed)

    # derived

    @property
    def ended(self) -> int:
        """The number of documents that have ended."""
        return self.done + self.dead + self.cancelled

    @property
    def remaining(self) -> int:
        """The number of documents that workers can still process without a person."""
        return max(self.total - self.ended - self.paused, 0)

    @property
    def active(self) -> int:
        """The number of documents that workers can process now."""
        return max(self.remaining - self.due_later, 0)

    def past(self, step: str) -> int:
        """Return how many documents have passed this step."""
        later = self.steps[self.steps.index(step) + 1 :]
        return self.done + sum(self.at_step[name] for name in later)

    def rates(self) -> tuple[float, float]:
        """Return how many documents ended and how many items were kept per second, recently."""
        now, items = self._clock(), sum(self.items.values())
        self._samples.append((now, self.ended, items))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_WINDOW:
            self._samples.popleft()
        since, ended_then, items_then = self._samples[0]
        seconds = now - since
        if seconds < 0.5:
            return 0.0, 0.0
        return max(self.ended - ended_then, 0) / seconds, (items - items_then) / seconds

    def seconds_left(self, rate: float) -> float | None:
        """Return an estimate of the time left; None if it is unknown. Paused and later documents do not count.

        An estimate that has proved wrong is unknown: nothing has moved to another step for longer than that. One large
        document among many small ones does this.
        """
        left = self._estimate(rate)
        places = (self.ended, *self.at_step.values())
        if places != self._places:
            self._places, self._places_since = places, self._clock()
        return None if left is None or left < self._clock() - self._places_since else left

    def _estimate(self, rate: float) -> float | None:
        active = self.active
        at_step = {step: count - self._held_back[step] for step, count in self.at_step.items()}
        left = self._eta.seconds_left(at_step, active)
        if left is not None:
            return left
        return active / rate if active and rate else None
