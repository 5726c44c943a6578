"""The caretaker: what every worker does for the fleet, again and again, so that nothing waits for one that is gone.

Nor for a person who does not decide in time, where a gate says what is to be done then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from holdfast.core.decisions import nobody_decided
from holdfast.core.model import Plan, Standing, State, Worker
from holdfast.core.orphans import STRATEGIES
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.events import Decided, Event
from holdfast.engine.orphans import gone_among
from holdfast.stores.protocol import Store

UPKEEP = 2.0
"""Seconds between rounds while there is work."""

CROWD = 50
"""So many workers may each look for work as often as one would. In a larger fleet each waits longer, as others look."""

LOOKING = 0.0001
"""Seconds for each pair of workers between rounds of one: every worker looks whether every other is gone, and what a
fleet spends on that must not grow with the square of its size. All of them together still look many times a second."""

INNOCENT = 10
"""How many times as many dead workers a document survives whose body ran in a child: hardly ever was it the body."""

WHO = "holdfast"
"""Who did it, when nobody else did: decided at a gate, ended a pause whose time had come."""


class Caretaker:
    """Reclaims orphans, wakes sleepers, decides what nobody did, and looks out for suspects."""

    def __init__(
        self, pipeline: Pipeline, store: Store, plan: Plan, *, say: Callable[[Event], None], batch: str | None = None
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._say = say
        self._batch = batch
        self._gates = [step for step in pipeline.steps if step.options.within is not None]
        self._looked_at = 0.0
        self._tidied_at = monotonic()
        self._set_times_at: float | None = None
        self._others = 0
        self.suspects = False

    @property
    def crowd(self) -> float:
        """How many times as long as usual a worker waits before it looks for work again, since others look as well."""
        return max(self._others / CROWD, 1.0)

    def is_due(self, every: float) -> bool:
        """Answers whether it is time for a round."""
        return monotonic() - self._looked_at >= max(every, LOOKING * self._others**2)

    def look_after(self, me: Worker, in_hand: Sequence[int]) -> list[Standing]:
        """Makes a round. Answers the documents that were reclaimed."""
        self._looked_at = monotonic()
        others = {worker: silent for worker, _, silent in self._store.workers() if worker.id != me.id}
        gone = gone_among(others)
        self._others = sum(not silent and worker.id not in gone for worker, silent in others.items())
        reclaimed = self._store.reclaim(self._plan, who=me.name, verdict=self._verdict, gone=gone)
        self._wake()
        if self._set_times_at is None or monotonic() - self._set_times_at > me.lease.total_seconds():
            self._set_times_at = monotonic()
            self._set_times()
        for gate in self._gates:
            self._decide_late(gate, me)
        self.suspects = self._store.suspects_due(self._plan, batch=self._batch)
        if monotonic() - self._tidied_at > me.lease.total_seconds():
            self._tidied_at = monotonic()
            self._store.surrender(me, keeping=in_hand)
        return reclaimed

    def _wake(self) -> None:
        """Wakes all whose time has come, a slice at a time: others commit in between."""
        while self._store.wake(self._plan, who=WHO):
            pass

    def _set_times(self) -> None:
        """For documents that were parked before their gate had a time, or by a worker that does not know of it yet."""
        for gate in self._gates:
            assert gate.options.within is not None
            while self._store.set_time(self._plan, gate.name, within=gate.options.within):
                pass

    def _decide_late(self, gate: AnyStep, me: Worker) -> None:
        """Decides about documents that are undecided for too long. Of many workers, and people, the first one does."""
        assert gate.options.within is not None
        said = {"who": WHO, "reason": nobody_decided(gate.name, gate.options.within)}
        while late := self._store.undecided(self._plan, gate.name):
            if gate.options.otherwise == "approve":
                decided = self._store.resume(self._plan, [*late], at=late, **said)
            else:
                decided = self._store.reject([*late], at=late, **said)
            if not decided:
                return
            verdict = gate.options.otherwise or "reject"
            self._say(Decided(gate.name, verdict, decided, pipeline=self._pipeline.name, worker=me.name))

    def _verdict(self, step: str, attempts: int, crashes: int) -> tuple[State, timedelta]:
        if self._pipeline.orphans != "requeue":
            return STRATEGIES[self._pipeline.orphans], timedelta(0)
        if step not in self._pipeline:
            return "waiting", timedelta(0)
        options = self._pipeline[step].options
        retry, isolated = options.retry, options.runs_in == "process"
        if attempts >= retry.attempts or crashes >= retry.crashes * (INNOCENT if isolated else 1):
            return "dead", timedelta(0)
        tries = max(attempts, crashes - 1)  # the first crash is most often the machine's: go on at once
        return "waiting", retry.wait(tries) if tries else timedelta(0)
