"""The numbers a display shows: what the store said, moved on by what the engine says."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import monotonic

from msgspec import Struct

from holdfast.cli.eta import Eta
from holdfast.core.errors import StoreError
from holdfast.core.model import Standing
from holdfast.core.moves import Ending
from holdfast.core.pipeline import Pipeline
from holdfast.engine.events import Committed, Event, GaveBack, Reclaimed
from holdfast.stores.protocol import Store

RECOUNT = 10.0
"""Seconds between looks at what other workers did; more where a look takes long."""
GLANCE = 2.0
"""Seconds between looks at how long steps take, which costs little: workers write it down as often."""
WINDOW = 30.0
"""Seconds over which the rate is measured."""


NO_NOUNS: Mapping[str, str] = {}
"""What the items of a step are called; of all steps, items."""


class Failed(Struct, frozen=True):
    """One try that failed: what became of the document."""

    key: str
    batch: str
    step: str
    error: str
    dead: bool

    def __str__(self) -> str:
        where = f" at {self.step}" if self.step else ""
        return f"{self.key}{where}: {self.error}{'' if self.dead else ' (will be tried again)'}"


class Counts:
    """Counts documents and items, cheaply enough to hear every event of the engine."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        *,
        batch: str | None,
        hands: int = 8,
        nouns: Mapping[str, str] = NO_NOUNS,
        withdrawn: Callable[[], int] = lambda: 0,
    ) -> None:
        self.pipeline = pipeline.name
        self.nouns = nouns
        self.batch = batch
        self.withdrawn = 0
        self._count_withdrawn = withdrawn
        self.steps = [step.name for step in pipeline.steps]
        self.submitted = 0
        self.submitting = False
        self.total = self.done = self.dead = self.paused = self.cancelled = self.again = self.later = 0
        self.at_step: dict[str, int] = dict.fromkeys(self.steps, 0)
        self.items: dict[str, int] = dict.fromkeys(self.steps, 0)
        self.failures: deque[Failed] = deque()
        self._store = store
        self.looks_every = RECOUNT
        self._next_look = self._next_glance = 0.0
        self._eta = Eta(pipeline, hands=hands)
        self._held_back: Counter[str] = Counter()
        self._seen: deque[tuple[float, int, int]] = deque()

    # what the store says

    def recount(self) -> None:
        """Asks the store, which knows what other workers did and what was submitted meanwhile."""
        began = monotonic()
        batches = [one for one in self._store.batches(self.pipeline) if self.batch in (None, one.name)]
        self.total = sum(one.balance.expected for one in batches)
        self.done = sum(one.balance.done for one in batches)
        self.dead = sum(one.balance.dead for one in batches)
        self.paused = sum(one.balance.paused for one in batches)
        self.cancelled = sum(one.balance.cancelled for one in batches)
        self.withdrawn = self._count_withdrawn()  # nobody has to hear of them for ever
        self.total -= self.withdrawn
        self.cancelled -= self.withdrawn
        self.at_step = {step: sum(one.at_step.get(step, 0) for one in batches) for step in self.steps}
        self._look_what_is_held_back()
        self._learn()
        now = monotonic()
        self._next_look = now + max(self.looks_every, 50 * (now - began))

    def _look_what_is_held_back(self) -> None:
        """Counts, by step, what nobody could work on now: it is paused, or due later."""
        causes = [
            cause
            for cause in self._store.causes(self.pipeline, batch=self.batch)
            if cause.kind == "backoff" or cause.state == "paused"
        ]
        self.later = sum(cause.documents for cause in causes if cause.kind == "backoff")
        self._held_back.clear()
        for cause in causes:
            self._held_back[cause.step or ""] += cause.documents

    def recount_now_and_then(self) -> None:
        """Asks the store again if that is due. A store in trouble is told by the worker, not here."""
        try:
            if monotonic() >= self._next_look:
                self.recount()
            elif monotonic() >= self._next_glance:
                self._learn()
        except StoreError:
            self._next_look = self._next_glance = monotonic() + self.looks_every

    def _learn(self) -> None:
        self._next_glance = monotonic() + GLANCE
        self._eta.learn(self._store.paces(self.pipeline), remaining=self.remaining)

    # what the engine says

    def __call__(self, event: Event) -> None:
        if isinstance(event, Committed):
            self._count_moves(event)
        elif isinstance(event, GaveBack):
            for ending in event.endings:
                self._count_ending(ending)
        elif isinstance(event, Reclaimed):
            for here in event.standings:
                self._count_reclaimed(here)

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
        """A document left a step. It may never have been counted there: what others carried was submitted since."""
        if self.at_step.get(step or ""):
            self.at_step[step or ""] -= 1

    def _count_ending(self, ending: Ending) -> None:
        if ending.state == "paused":
            self.paused += 1
        elif ending.verb == "fail":
            dead = ending.state == "dead"
            self._count_failure(Failed(ending.claim.key, ending.claim.batch, ending.step, str(ending.failure), dead))

    def _count_reclaimed(self, here: Standing) -> None:
        """A crash is told when it is the last; before that it is most often the machine's."""
        if here.state == "dead":
            self._count_failure(Failed(here.key, here.batch, here.checkpoint.step or "", here.reason, dead=True))

    def _count_failure(self, failed: Failed) -> None:
        if failed.dead:
            self.dead += 1
            self._left(failed.step)
        else:
            self.again += 1
        self.failures.append(failed)

    # what follows from them

    @property
    def ended(self) -> int:
        """How many documents need no more work from us."""
        return self.done + self.dead + self.cancelled

    @property
    def remaining(self) -> int:
        """How many documents can still be worked on without a person."""
        return max(self.total - self.ended - self.paused, 0)

    def past(self, step: str) -> int:
        """Answers how many documents have this step behind them."""
        later = self.steps[self.steps.index(step) + 1 :]
        return self.done + sum(self.at_step[one] for one in later)

    def rates(self) -> tuple[float, float]:
        """Answers how many documents ended and how many items were kept in a second, lately."""
        now, items = monotonic(), sum(self.items.values())
        self._seen.append((now, self.ended, items))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        since, ended_then, items_then = self._seen[0]
        seconds = now - since
        if seconds < 0.5:
            return 0.0, 0.0
        return max(self.ended - ended_then, 0) / seconds, (items - items_then) / seconds

    def seconds_left(self, rate: float) -> float | None:
        """Answers how long it may take still; None when nobody can say. What is paused or due later is not promised."""
        able = max(self.remaining - self.later, 0)
        at_step = {step: count - self._held_back[step] for step, count in self.at_step.items()}
        left = self._eta.seconds_left(at_step, able)
        if left is not None:
            return left
        return able / rate if able and rate else None
