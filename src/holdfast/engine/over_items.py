"""Steps over items: several windows run at the same time, finish in any order, and items that fail are set aside."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.circuit import NO_ITEM
from holdfast.core.error_categories import error_category
from holdfast.core.errors import BodyLost, Pause, RetryLater, StoreError, TooManyFailures, WrongLength
from holdfast.core.item_windows import Windows
from holdfast.core.model import FailedItem, Item
from holdfast.core.moves import Effect, MoveWarning, Release, Tx
from holdfast.core.reasons import MANY_SET_ASIDE, sentence
from holdfast.core.retry import retry_after
from holdfast.core.step import AnyStep
from holdfast.engine.executor_requests import NOTHING_THERE, Compute, Event, Raised, Returned, RunWindow
from holdfast.engine.failure_policy import DocumentReleased, failure_of, readable

if TYPE_CHECKING:
    from holdfast.engine.executor import Executor, Run


MANY = 0.1
"""There is a warning when more than this share of the items is set aside, or more than half the failure rate."""


class OverItemsRun:
    """One step over items, for one document.

    `running` is the number of windows that run. `retries` has windows that run next: halves of windows that failed, and
    single items that were set aside. `stopped_by` is the error after which no further window is started.
    `last_error` is the error of the item that was set aside last.
    """

    def __init__(self, executor: Executor, step: AnyStep, windows: Windows) -> None:
        self.executor = executor
        self.step = step
        self.windows = windows
        self.retry = step.options.retry
        self.running = 0
        self.retries: list[RunWindow] = []
        self.stopped_by: BaseException | None = None
        self.last_error: BaseException | None = None
        self.passed = False

    def run(self) -> Run:
        """Run all windows, then every item that was set aside once more, then move past the step."""
        if not self.windows.finished:
            yield from self._run_windows()
        if self.passed:
            return
        aside = self.windows.aside.items()
        self.retries = [self._single(position) for position, tries in aside if tries < self.retry.attempts]
        if self.retries:
            yield from self._run_windows()
        self._defer_if_attempts_are_left()
        if too_many := self._too_many_failures():
            raise self.executor.released_after(self.step, too_many)
        assert self.windows.finished, f"step {self.step.name!r} would end with items undone"
        move = self.executor.past(self.step, asides=len(self.windows.aside))
        yield from self.executor.commit(self.step, move)

    def _single(self, position: int) -> RunWindow:
        return RunWindow(self.step.name, (position, position + 1))

    def _run_windows(self) -> Run:
        while True:
            calls = tuple(self._next_calls())
            if not calls and not self.running:
                break
            self.running += len(calls)
            events: Sequence[Event] = yield Compute(calls)
            self.running -= len(events)
            yield from self._commit(events)
        if self.stopped_by is not None:
            raise self.executor.released_after(self.step, self.stopped_by)

    def _next_calls(self) -> Generator[RunWindow]:
        free = self.step.options.parallel - self.running
        while free > 0 and self.stopped_by is None:
            if self.retries:
                yield self.retries.pop(0)
            elif span := self.windows.take(self.step.options.size or 1):
                yield RunWindow(self.step.name, span)
            else:
                return
            free -= 1

    def _commit(self, events: Sequence[Event]) -> Run:
        before = len(self.windows.aside)
        items: list[Item] = []
        effects: list[Effect] = []
        asides: list[FailedItem] = []
        mended: list[int] = []
        for event in events:
            assert isinstance(event.call, RunWindow)
            if isinstance(event, Raised):
                asides += self._on_error(event.call, event.error)
                continue
            assert isinstance(event, Returned)  # only streams yield
            mended += [position for position in range(*event.call.span) if position in self.windows.aside]
            self.windows.finish(event.call.span)
            items += event.result.items
            if event.result is not NOTHING_THERE:
                effect = self.executor.effect(self.step, event.result.value)
                effects += [] if effect is None else [effect]
        for position in mended:
            self.windows.mend(position)
        cursor = self.windows.cursor()
        if cursor == (self.executor.at.cursor or 0):
            return  # a window that failed was halved: there is nothing to commit yet
        effect = partial(_run_all, effects) if effects else None
        if self._is_last_commit(mended):
            move = self.executor.past(self.step, items, effect)
            self.passed = True
        else:
            done = self.windows.done_places
            move = self.executor.within(
                self.step,
                cursor,
                items,
                effect,
                places=done,
                asides=asides,
                mended=mended,
                warnings=self._warnings(before),
            )
        yield from self.executor.commit(self.step, move)

    def _is_last_commit(self, mended: Sequence[int]) -> bool:
        """Return True if all windows are done and no item was set aside: then one commit also ends the step."""
        is_unfinished = self.windows.aside or mended or self.retries or self.running or self.stopped_by
        return self.windows.finished and not is_unfinished

    def _on_error(self, call: RunWindow, error: BaseException) -> list[FailedItem]:
        """Halve a window that failed, down to single items. Set a single item that failed aside."""
        start, stop = call.span
        error = readable(error)
        if isinstance(error, (RetryLater, Pause, WrongLength, StoreError, BodyLost)) or retry_after(error) is not None:
            self.stopped_by = self.stopped_by or error
            return []
        if self._is_of_no_item(error):
            self.stopped_by = self.stopped_by or error
            return []
        if stop - start > 1:
            middle = (start + stop) // 2
            self.retries += [RunWindow(call.step, (start, middle)), RunWindow(call.step, (middle, stop))]
            return []
        tries = self.retry.attempts if self.retry.is_permanent(error) else self.windows.aside.get(start, 0) + 1
        self.windows.set_aside(start, tries=tries)
        self.last_error = error
        self.stopped_by = self.stopped_by or self._too_many_failures(f"; the last one: {failure_of(error)}")
        return [FailedItem(start, tries, failure_of(error, self.retry))]

    def _is_of_no_item(self, error: BaseException) -> bool:
        """Return True if no item is to blame for an error: a service is away, and would fail for each of them."""
        circuit, category = self.step.options.circuit, error_category(error)
        return circuit is not None and category in NO_ITEM and category in circuit.categories

    def _warnings(self, before: int) -> tuple[MoveWarning, ...]:
        """Return a warning if many items are set aside now, and were not before: once, before the step may stop."""
        bad, total, rate = len(self.windows.aside), self.windows.total, self.step.options.failure_rate
        many = min(rate / 2, MANY) * total
        if not before <= many < bad or bad > rate * total:
            return ()
        facts = {"aside": f"{bad:,}", "total": f"{total:,}", "allowed": f"{int(rate * total):,}"}
        return (MoveWarning(MANY_SET_ASIDE, self.step.name, sentence(MANY_SET_ASIDE, step=self.step.name, **facts)),)

    def _too_many_failures(self, last: str = "") -> TooManyFailures | None:
        bad, total, rate = len(self.windows.aside), self.windows.total, self.step.options.failure_rate
        if bad <= rate * total:
            return None
        allowed = f"more than the {rate:.0%} that step {self.step.name!r} allows"
        too_many = TooManyFailures(f"{bad} of {total} items failed, {allowed}{last}")
        too_many.__cause__ = self.last_error
        return too_many

    def _defer_if_attempts_are_left(self) -> None:
        left = [tries for tries in self.windows.aside.values() if tries < self.retry.attempts]
        if left:
            reason = f"{len(left)} items of {self.step.name} failed and will be tried again"
            claim, who, delay = self.executor.claim, self.executor.who, self.retry.wait(max(left))
            raise DocumentReleased(Release(claim, who, "waiting", "defer", delay, costs="nothing", reason=reason))


def _run_all(effects: Sequence[Effect], tx: Tx) -> None:
    for effect in effects:
        effect(tx)
