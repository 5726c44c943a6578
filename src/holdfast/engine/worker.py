"""The worker: threads, a heartbeat, and rounds until there is nothing left to do, or no time.

One thread at a time does rounds: whoever has the baton. A runner that has finished a body takes it if it is free; the
worker's own thread takes it now and then, so that rounds go on while all bodies are long.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from holdfast.core.pipeline import Pipeline
from holdfast.engine.budget import Budget
from holdfast.engine.events import Enlisted, Event, Listener, Retired, Stopping
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.hosts import born, this_host
from holdfast.engine.report import Report, Tally
from holdfast.engine.rounds import Rounds
from holdfast.engine.runners import Runners
from holdfast.engine.settings import Settings
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.engine.isolation import Nursery

GLANCE = 0.01
"""Seconds after which the worker's own thread does a round, if no runner did: what is finished waits no longer."""
AHEAD = 0.003
"""Seconds that a runner works on while others commit, at least; then it waits for them."""
PATIENCE = 1.0
"""How many seconds a runner waits for one commit."""


class Worker:
    """Works through the documents of one pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        *,
        settings: Settings | None = None,
        budget: Budget | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.pipeline = pipeline
        self.store = store
        self.settings = settings or Settings()
        self.budget = budget or Budget()
        self._tally = Tally()
        self._listeners: tuple[Listener, ...] = (self._tally, *listeners)
        self._plan = store.declare(pipeline.shape())
        self._rounds = Rounds(pipeline, store, self._plan, settings=self.settings, budget=self.budget, say=self._say)
        self._baton = threading.Lock()
        self._trouble: BaseException | None = None

    def drain(self) -> Report:
        """Works until no document waits or runs any more, or the budget is over."""
        return self._work(until_empty=True)

    def work(self) -> Report:
        """Works until the budget is over."""
        return self._work(until_empty=False)

    def hear(self, event: Event) -> None:
        """Hears what another worker of the crew says, and says it as its own."""
        with self._baton:
            self._say(event)

    def report(self) -> Report:
        """Tells what was done so far."""
        return self._tally.report()

    def _work(self, *, until_empty: bool) -> Report:
        with self._ready():
            while not self.budget.is_over():
                with self._baton:
                    self._round()
                    busy, patience = self._rounds.hold_something, self._patience()
                if busy:
                    self._runners.wait(patience)
                elif not self._rest(until_empty=until_empty):
                    break
            self._wind_down()
        return self.report()

    def _round(self) -> None:
        """Does a round. Only with the baton."""
        if self._trouble is not None:
            raise self._trouble
        self._renew_if_given_up()
        self._rounds.run()

    def _help_out(self, since: float) -> bool:
        """Does rounds for a runner that has results of work since then. Answers False when another does."""
        while self._runners.have_results and self._trouble is None:
            if not self._take_baton(since):
                self._runners.nudge()  # whoever has the baton may have heard all it wanted: somebody looks again
                return False
            try:
                self._round()
            except BaseException as error:  # noqa: BLE001 - the worker's own thread raises it
                self._trouble = error
                self._runners.nudge()
            finally:
                self._baton.release()
        return True

    def _take_baton(self, since: float) -> bool:
        """Takes the baton if it is free, or waits for it if the runner is too far ahead of what is being committed.

        Too far is longer than a commit takes: a kill undoes the work of a commit or two, and the slower commits are,
        the more moves share one.
        """
        until = monotonic() + PATIENCE
        while not self._baton.acquire(blocking=False):
            ahead = monotonic() - max(since, self._rounds.heard_at)
            if ahead < max(AHEAD, self._rounds.commits_take) or monotonic() > until:
                return False
            if self._baton.acquire(timeout=GLANCE):
                break
        return True

    @contextmanager
    def _ready(self) -> Iterator[None]:
        nursery = self._nursery()
        self._runners = self._rounds.runners = Runners(
            self.pipeline, threads=self.settings.threads, help_out=self._help_out, nursery=nursery
        )
        self.budget.on_stop = self._runners.nudge
        self._enlist()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, 0.0005))  # else a busy body holds up every statement of a commit for 5 ms
        try:
            yield
            with self._baton:
                self._rounds.tell_pace()
            self.store.retire(self._me)
            self._say(Retired(self._me))
        except BaseException as error:
            self._trouble = error  # no runner does another round
            raise
        finally:
            sys.setswitchinterval(interval)
            self._heartbeat.stop()
            self._runners.close()
            if nursery is not None:
                nursery.close()

    def _nursery(self) -> Nursery | None:
        if all(step.options.runs_in == "thread" for step in self.pipeline.steps):
            return None
        from holdfast.engine.isolation import Nursery

        self.store.rest()  # it forks, so it comes before any thread, and no connection goes with it
        return Nursery(self.pipeline)

    def _rest(self, *, until_empty: bool) -> bool:
        """Waits until something may be due. Answers False when nothing is left to wait for."""
        began, batch = monotonic(), self.settings.batch
        due = self.store.next_due(self._plan, batch=batch)
        if due is None and until_empty and not self.store.running(self._plan, batch=batch):
            return False
        least = 10 * (monotonic() - began)  # in a long queue of others even looking costs something
        idle = self._rounds.idle
        wait = idle if due is None else min(max(due.total_seconds(), 0.001), idle)
        self._runners.wait(min(max(wait, least), self.budget.remaining))
        self._rounds.look_again(is_due=due is not None and due <= timedelta(0))
        return True

    def _patience(self) -> float:
        """How long the worker's own thread leaves rounds to others."""
        return 0.0 if self._rounds.are_pressing else min(GLANCE, self.budget.remaining)

    def _renew_if_given_up(self) -> None:
        """A worker that was thought dead begins anew. What it held is others' now."""
        if not self._heartbeat.given_up:
            return
        self._rounds.lose_everything()
        self._heartbeat.stop()
        self._enlist()

    def _enlist(self) -> None:
        pid = os.getpid()
        self._me = self._rounds.me = self.store.enlist(
            name=self.settings.name, host=this_host(), pid=pid, born=born(pid), lease=self.settings.lease
        )
        self._heartbeat = Heartbeat(self.store, self._me)
        self._say(Enlisted(self._me, self.pipeline.name))

    def _wind_down(self) -> None:
        """Lets what runs come to its next item, keeps that, and gives everything back."""
        if not self.budget.is_over():
            return  # there was nothing left to do
        deadline = monotonic() + self.settings.grace.total_seconds()
        with self._baton:
            self._say(Stopping(self.budget.reason, pipeline=self.pipeline.name, worker=self._me.name))
            self._rounds.release_what_has_not_begun()
        while self._rounds.hold_something and monotonic() < deadline and self._trouble is None:
            with self._baton:
                self._round()
            if self._rounds.hold_something:
                self._runners.wait(GLANCE)
        if self._trouble is not None:
            raise self._trouble
        with self._baton:
            self._rounds.release_everything()

    def _say(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)
