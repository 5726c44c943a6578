"""Steps over items: windows at once, out of order, with bad items set aside."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.errors import Pause, RetryLater, StoreError, TooManyFailures, WrongLength
from holdfast.core.model import Aside, Item
from holdfast.core.moves import Effect, Ending, Tx
from holdfast.core.retry import retry_after
from holdfast.core.step import AnyStep
from holdfast.core.windows import Windows
from holdfast.engine.calls import NOTHING_THERE, Compute, Event, Raised, RunWindow
from holdfast.engine.verdicts import Over, failure_of

if TYPE_CHECKING:
    from holdfast.engine.executor import Executor, Run


class Walk:
    """One step over items: windows at once, out of order, with bad items set aside."""

    def __init__(self, executor: Executor, step: AnyStep, windows: Windows) -> None:
        self.executor = executor
        self.step = step
        self.windows = windows
        self.retry = step.options.retry
        self.out = 0
        self.again: list[RunWindow] = []
        self.stopped_by: BaseException | None = None
        self.passed = False

    def run(self) -> Run:
        """First every item, then those that were set aside once more, then on to the next step."""
        if not self.windows.finished:
            yield from self._work_off()
        if self.passed:
            return
        self.again = [self._single(place) for place, tries in self.windows.aside.items() if tries < self.retry.attempts]
        if self.again:
            yield from self._work_off()
        self._put_off_if_hope_is_left()
        if too_many := self._too_many():
            raise self.executor.judged(self.step, too_many)
        assert self.windows.finished, f"step {self.step.name!r} would end with items undone"
        yield from self.executor.commit(self.step, self.executor.past(self.step))

    def _single(self, place: int) -> RunWindow:
        return RunWindow(self.step.name, (place, place + 1))

    def _work_off(self) -> Run:
        while True:
            calls = tuple(self._next_calls())
            if not calls and not self.out:
                break
            self.out += len(calls)
            events: Sequence[Event] = yield Compute(calls)
            self.out -= len(events)
            yield from self._commit(events)
        if self.stopped_by is not None:
            raise self.executor.judged(self.step, self.stopped_by)

    def _next_calls(self) -> Generator[RunWindow]:
        room = self.step.options.parallel - self.out
        while room > 0 and self.stopped_by is None:
            if self.again:
                yield self.again.pop(0)
            elif span := self.windows.take(self.step.options.size or 1):
                yield RunWindow(self.step.name, span)
            else:
                return
            room -= 1

    def _commit(self, events: Sequence[Event]) -> Run:
        items: list[Item] = []
        effects: list[Effect] = []
        asides: list[Aside] = []
        mended: list[int] = []
        for event in events:
            assert isinstance(event.call, RunWindow)
            if isinstance(event, Raised):
                asides += self._take_apart(event.call, event.error)
                continue
            mended += [place for place in range(*event.call.span) if place in self.windows.aside]
            self.windows.finish(event.call.span)
            items += event.result.items
            effect = None if event.result is NOTHING_THERE else self.executor.effect(self.step, event.result.value)
            if effect is not None:
                effects.append(effect)
        for place in mended:
            self.windows.mend(place)
        cursor = self.windows.cursor()
        if cursor == (self.executor.at.cursor or 0):
            return  # a window that failed was taken apart: nothing to keep yet
        together = partial(_all, effects) if effects else None
        if self._nothing_is_left(mended):
            move = self.executor.past(self.step, items, together)
            self.passed = True
        else:
            move = self.executor.within(self.step, cursor, items, together, asides=asides, mended=mended)
        yield from self.executor.commit(self.step, move)

    def _nothing_is_left(self, mended: Sequence[int]) -> bool:
        """Whether the last window is in, and nothing was ever set aside: then it is committed with the step's end."""
        return self.windows.finished and not (self.windows.aside or mended or self.again or self.out or self.stopped_by)

    def _take_apart(self, call: RunWindow, error: BaseException) -> list[Aside]:
        """Halves a window that failed, down to the single bad item, which is set aside."""
        start, stop = call.span
        if isinstance(error, (RetryLater, Pause, WrongLength, StoreError)) or retry_after(error) is not None:
            self.stopped_by = self.stopped_by or error
            return []
        if stop - start > 1:
            middle = (start + stop) // 2
            self.again += [RunWindow(call.step, (start, middle)), RunWindow(call.step, (middle, stop))]
            return []
        tries = self.retry.attempts if self.retry.is_permanent(error) else self.windows.aside.get(start, 0) + 1
        self.windows.set_aside(start, tries=tries)
        self.stopped_by = self.stopped_by or self._too_many(f"; the last one: {failure_of(error)}")
        return [Aside(start, tries, failure_of(error))]

    def _too_many(self, last: str = "") -> TooManyFailures | None:
        bad, total, rate = len(self.windows.aside), self.windows.total, self.step.options.failure_rate
        if bad <= rate * total:
            return None
        allowed = f"more than the {rate:.0%} that step {self.step.name!r} allows"
        return TooManyFailures(f"{bad} of {total} items failed, {allowed}{last}")

    def _put_off_if_hope_is_left(self) -> None:
        tried = [tries for tries in self.windows.aside.values() if tries < self.retry.attempts]
        if tried:
            reason = f"{len(tried)} items of {self.step.name} failed and will be tried again"
            claim, who, delay = self.executor.claim, self.executor.who, self.retry.wait(max(tried))
            raise Over(Ending(claim, who, "waiting", "defer", delay, costs="nothing", reason=reason))


def _all(effects: Sequence[Effect], tx: Tx) -> None:
    for effect in effects:
        effect(tx)
