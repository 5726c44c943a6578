"""A task that a worker runs in the background from time to time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from holdfast.core.model import Plan
from holdfast.core.pipeline import Pipeline
from holdfast.observe.events import Event, TaskFailed
from holdfast.stores.protocol import Store


class TaskContext(Protocol):
    """What a task gets from its worker."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline of the worker."""

    @property
    def store(self) -> Store:
        """Its store."""

    @property
    def plan(self) -> Plan:
        """The plan of the pipeline."""

    @property
    def worker(self) -> str:
        """The name of the worker."""

    def emit(self, event: Event) -> None:
        """Pass an event to the listeners of the worker."""

    def pause(self, seconds: float) -> None:
        """Wait. Raise TaskStopped if the worker ends: what the task has not done yet is left."""


class PeriodicTask(Protocol):
    """A task for the background. `holdfast.MaintenanceScan` is one."""

    @property
    def every(self) -> timedelta:
        """How long to wait between two runs."""

    def run(self, context: TaskContext) -> None:
        """Run it once.

        Args:
            context: The worker.
        """


class TaskStopped(Exception):
    """The worker ends, so its background task ends too."""


class BackgroundTask:
    """Run a task in a thread of its own, at once and then in intervals. An error is an event; it stops nothing."""

    def __init__(
        self,
        task: PeriodicTask,
        pipeline: Pipeline,
        store: Store,
        plan: Plan,
        *,
        emit: Callable[[Event], None],
        worker: str,
    ) -> None:
        self.pipeline = pipeline
        self.store = store
        self.plan = plan
        self.worker = worker
        self.emit = emit
        self._task = task
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-task", daemon=True)
        self._thread.start()

    def pause(self, seconds: float) -> None:
        """Wait. Raise TaskStopped if the worker ends."""
        if self._end.wait(seconds):
            raise TaskStopped

    def stop(self, *, within: timedelta) -> None:
        """End the thread at its next pause. A short run is waited for: a worker may end soon after it started."""
        self._end.set()
        self._thread.join(timeout=within.total_seconds())

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self._task.run(self)
                self.pause(self._task.every.total_seconds())
            except TaskStopped:
                return
            except Exception as error:  # noqa: BLE001 - a task must not stop the worker; the next run is another try
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._end.is_set():
            return  # its store may be closed by now
        task = type(self._task).__name__
        self.emit(TaskFailed(task, f"{type(error).__name__}: {error}", pipeline=self.pipeline.name, worker=self.worker))
        self._end.wait(self._task.every.total_seconds())
