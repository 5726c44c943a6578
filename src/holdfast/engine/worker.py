"""The worker: starts the threads, keeps the heartbeat, and runs scheduler ticks until the work or the time is over.

ARCHITECTURE.md, section "Threads", has a diagram of the threads. Calls go one way: Worker, then Scheduler, then
Runners. The one call back is `after_calls`: a runner thread that has finished calls runs the next tick itself if no
other thread does. The main thread runs a tick from time to time, so that ticks go on while all bodies are long.
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

from holdfast.core.model import WorkerRecord
from holdfast.core.pipeline import Pipeline
from holdfast.core.reasons import CIRCUIT_OPEN, sentence
from holdfast.engine.background_task import BackgroundTask
from holdfast.engine.budget import Budget
from holdfast.engine.crash_evidence import OomWatch, RunningMarks, record_crashes
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.named_document import wait_for
from holdfast.engine.runners import Runners
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.settings import WorkerSettings
from holdfast.observe.events import Event, Listener, Stopping, WorkerStarted, WorkerStopped
from holdfast.observe.report import Report, ReportCounter
from holdfast.process_identity import born, this_host
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.engine.processes import ProcessPool

TICK_INTERVAL = 0.01
"""Seconds after which the main thread runs a tick if no runner did. A finished call waits no longer than that."""
MIN_AHEAD = 0.003
"""Seconds for which a runner goes on with further calls, at least, while another thread commits. Then it waits."""
MAX_COMMIT_WAIT = 1.0
"""Maximum number of seconds for which a runner waits for one commit."""
SWITCH_INTERVAL = 0.0005
"""Seconds between thread switches of Python. With its 5 ms, a busy body delays every statement of a commit by 5 ms."""


class Worker:
    """Process the documents of one pipeline, or `only` the one with this id.

    Which thread may use which field:

    - `pipeline`, `store`, `settings`, `budget`, `_plan`, `_listeners`, `_only` are set once, and read by any thread.
    - `_lock` is the scheduler lock. A thread needs it for every tick and every other use of `_scheduler`, for
      `_emit` while ticks run, and to write `_error`.
    - `_error` is read without the lock: a thread that misses it runs one more tick, or waits once more.
    - `_paused_since` is used by the main thread only: since when nothing is left to do but to wait for paused steps,
      and how many documents had been tried there then.
    - `_runners`, `_scheduler`, `_record`, `_heartbeat` and `_recorder` are set by the main thread before the first
      tick. `_record`, `_heartbeat` and `_recorder` are replaced under the lock when this worker was taken for dead.
    - `_marks` and `_oom` may be used by any thread: see their classes.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        *,
        settings: WorkerSettings | None = None,
        budget: Budget | None = None,
        listeners: Sequence[Listener] = (),
        only: int | None = None,
    ) -> None:
        self._only = only
        self.pipeline = pipeline
        self.store = store
        self.settings = settings or WorkerSettings()
        self.budget = budget or Budget()
        self._counter = ReportCounter()
        self._listeners: tuple[Listener, ...] = (self._counter, *listeners)
        self._plan = store.declare(pipeline.shape())
        self._marks = RunningMarks()
        self._oom = OomWatch()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._paused_since: tuple[float, dict[str, int]] | None = None

    def drain(self) -> Report:
        """Work until no document waits or runs, or the budget is over."""
        return self._run(until_empty=True)

    def work(self) -> Report:
        """Work until the budget is over."""
        return self._run(until_empty=False)

    def relay(self, event: Event) -> None:
        """Pass an event of another worker process, or of a background task, to the listeners of this one."""
        with self._lock:
            self._emit(event)

    def report(self) -> Report:
        """Return what was done so far."""
        return self._counter.report()

    def _run(self, *, until_empty: bool) -> Report:
        with self._started():
            while not self.budget.is_over():
                with self._lock:
                    self._tick()
                    busy, seconds = self._scheduler.is_busy, self._seconds_to_next_tick()
                if busy:
                    self._runners.wait(seconds)
                elif not self._wait_for_work(until_empty=until_empty):
                    break
            self._stop()
        return self.report()

    # ticks

    def _tick(self) -> None:
        """Run a tick. The caller has the lock."""
        if self._error is not None:
            raise self._error
        self._renew_if_given_up()
        self._scheduler.tick()

    def _tick_for_runner(self, since: float) -> bool:
        """Run ticks for a runner thread that has results of calls since then. Return False if another thread does."""
        while self._runners.has_results and self._error is None:
            if not self._acquire_lock(since):
                self._runners.wake()  # the tick that runs may have missed these results: the main thread checks
                return False
            try:
                self._tick()
            except BaseException as error:  # noqa: BLE001 - passed to the main thread, which raises it
                self._error = error
                self._runners.wake()
            finally:
                self._lock.release()
        return True

    def _acquire_lock(self, since: float) -> bool:
        """Acquire the lock if it is free, or wait for it if the runner is too far ahead of the commits.

        Too far is longer than a commit takes. So a kill loses the work of one or two commits, and the slower commits
        are, the more moves share one.
        """
        until = monotonic() + MAX_COMMIT_WAIT
        while not self._lock.acquire(blocking=False):
            ahead = monotonic() - max(since, self._scheduler.collected_at)
            if ahead < max(MIN_AHEAD, self._scheduler.commit_seconds) or monotonic() > until:
                return False
            if self._lock.acquire(timeout=TICK_INTERVAL):
                break
        return True

    def _seconds_to_next_tick(self) -> float:
        """Return how long the main thread leaves ticks to the runners."""
        return 0.0 if self._scheduler.has_writes else min(TICK_INTERVAL, self.budget.remaining)

    def _wait_for_work(self, *, until_empty: bool) -> bool:
        """Wait until a document may be due. Return False if there is nothing left to wait for."""
        if self._only is not None:
            return self._wait_for_document(self._only)
        began, batch = monotonic(), self.settings.batch
        due = self.store.next_due(self._plan, batch=batch, paused=(*self._scheduler.circuits.paused,))
        if due is None and until_empty and not self.store.running(self._plan, batch=batch):
            if not self._waits_for_circuits(batch):
                return False
        else:
            self._paused_since = None
        least = 10 * (monotonic() - began)  # with many documents of others, even this query takes a while
        idle = self._scheduler.idle_seconds
        wait = idle if due is None else min(max(due.total_seconds(), 0.001), idle)
        self._runners.wait(min(max(wait, least), self.budget.remaining))
        with self._lock:
            self._scheduler.expect_work(is_due=due is not None and due <= timedelta(0))
        return True

    def _wait_for_document(self, document_id: int) -> bool:
        """Wait until the one document of this worker may be due. Return False if this worker will not get it."""
        wait = wait_for(self.store, document_id, me=self._record.id, paused=self._scheduler.circuits.paused)
        if wait is None or wait.total_seconds() > self.budget.remaining:
            return False
        idle = self._scheduler.idle_seconds
        self._runners.wait(min(max(wait.total_seconds(), 0.001), idle, self.budget.remaining))
        return True

    def _waits_for_circuits(self, batch: str | None) -> bool:
        """Return True if documents wait at steps that are paused, and it makes sense to wait for them."""
        paused = self._scheduler.circuits.paused
        if not paused or self.store.next_due(self._plan, batch=batch) is None:
            return False
        if self._paused_since is None:
            self._paused_since = (monotonic(), {step: one.probes for step, one in paused.items()})
        since, probes = self._paused_since
        waited, hopeless = monotonic() - since, self._scheduler.circuits.is_hopeless
        if not all(hopeless(step, waited=waited, probes=probes.get(step, 0)) for step in paused):
            return True
        reason = "; ".join(sentence(CIRCUIT_OPEN, step=step, why=one.reason) for step, one in paused.items())
        with self._lock:
            self._emit(Stopping(reason, pipeline=self.pipeline.name, worker=self._record.name))
        return False

    # start and stop

    @contextmanager
    def _started(self) -> Iterator[None]:
        pool = self._start_pool()
        self._runners = Runners(
            self.pipeline,
            threads=self.settings.threads,
            after_calls=self._tick_for_runner,
            pool=pool,
            marks=self._marks,
        )
        self.budget.on_stop = self._runners.wake
        self._scheduler = Scheduler(
            self.pipeline,
            self.store,
            self._plan,
            worker=self._register(),
            runners=self._runners,
            settings=self.settings,
            budget=self.budget,
            emit=self._emit,
            marks=self._marks,
            only=self._only,
        )
        self._scheduler.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, SWITCH_INTERVAL))
        maintenance = self._start_maintenance()
        try:
            yield
            with self._lock:
                self._scheduler.record_timings()
            self.store.retire_worker(self._record)
            self._emit(WorkerStopped(self._record))
        except BaseException as error:  # re-raised; runner threads must see any error
            self._error = error  # no runner runs another tick
            raise
        finally:
            sys.setswitchinterval(interval)
            if maintenance is not None:
                maintenance.stop(within=self.settings.grace)
            self._heartbeat.stop()
            self._recorder.close()
            self._runners.close()
            if pool is not None:
                pool.close()

    def _start_maintenance(self) -> BackgroundTask | None:
        if self.settings.maintenance is None:
            return None
        place = (self.pipeline, self.store, self._plan)
        return BackgroundTask(self.settings.maintenance, *place, emit=self.relay, worker=self._record.name)

    def _start_pool(self) -> ProcessPool | None:
        if all(step.options.runs_in == "thread" for step in self.pipeline.steps):
            return None
        from holdfast.engine.processes import ProcessPool

        self.store.disconnect()  # the pool forks: before any thread starts, and without an open connection
        return ProcessPool(self.pipeline, self._oom)

    def _register(self) -> WorkerRecord:
        pid = os.getpid()
        self._record = self.store.register_worker(
            name=self.settings.name, host=this_host(), pid=pid, born=born(pid), lease=self.settings.lease
        )
        self._recorder = record_crashes(self.store, self._record, marks=self._marks, oom=self._oom)
        self._heartbeat = Heartbeat(self.store, self._record, on_beat=self._recorder.refresh)
        self._emit(WorkerStarted(self._record, self.pipeline.name, self._plan.plan_id))
        return self._record

    def _renew_if_given_up(self) -> None:
        """Start again as a new worker if others took this one for dead. They have its documents now."""
        if not self._heartbeat.given_up:
            return
        self._scheduler.drop_all()
        self._heartbeat.stop()
        self._recorder.close()
        self._scheduler.set_worker(self._register())

    def _stop(self) -> None:
        """Let running calls reach their next item, commit that, and give all documents back."""
        if not self.budget.is_over():
            return  # there was nothing left to do
        deadline = monotonic() + self.settings.grace.total_seconds()
        with self._lock:
            self._emit(Stopping(self.budget.reason, pipeline=self.pipeline.name, worker=self._record.name))
            self._scheduler.release_unstarted()
        while self._scheduler.is_busy and monotonic() < deadline and self._error is None:
            with self._lock:
                self._tick()
            if self._scheduler.is_busy:
                self._runners.wait(TICK_INTERVAL)
        if self._error is not None:
            raise self._error
        with self._lock:
            self._scheduler.release_all()

    def _emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)
