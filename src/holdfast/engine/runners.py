"""Runners: the threads and the event loop on which calls run.

Plain bodies run on threads, async bodies share one event loop. A thread that has finished calls also runs the next
scheduler tick, if no other thread does. So the thread that has a result commits it, without waking another thread,
which costs more than many bodies.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.core import forked_copy
from holdfast.core.forked_copy import end_forked_copy
from holdfast.core.pipeline import Pipeline
from holdfast.engine.claimed_document import ClaimedDocument
from holdfast.engine.crash_evidence import RunningMarks
from holdfast.engine.executor_requests import (
    Call,
    CountKept,
    Event,
    Pulled,
    PullStream,
    Raised,
    Returned,
    RunValue,
    RunWindow,
    Yielded,
)
from holdfast.stores.protocol import Timeouts

if TYPE_CHECKING:
    import asyncio  # a third of the time of `import holdfast`, so it is imported with the first async body

    from holdfast.engine.processes import ProcessPool

MIN_GATHER_SECONDS, MAX_GATHER_SECONDS = 0.002, 0.008
"""A thread runs queued calls for as long as a commit takes, within these limits, before it commits their results."""

BODIES = (RunValue, PullStream, RunWindow)
"""The calls that run a body. The others are short, and always run on a thread."""

Job = tuple[ClaimedDocument, Call]
RunningCall = tuple[ClaimedDocument, Call, float]
"""A call that runs, and when it started."""
Result = tuple[ClaimedDocument, Event, float, float]
"""A call that has ended, and how many seconds it took; or a part of what the stream of a running call yielded."""


class CallQueue:
    """Calls that wait for a thread. Calls of open streams come first: documents are finished before others are begun.

    So few streams, and few child processes, are open at once, however many documents are claimed.
    """

    def __init__(self) -> None:
        self._available: SimpleQueue[None] = SimpleQueue()  # one entry for each call in the two queues
        self._open_streams: deque[Job] = deque()
        self._others: deque[Job | None] = deque()

    def put(self, job: Job | None) -> None:
        """Add a call. None ends one thread."""
        if job is not None and isinstance(job[1], PullStream) and job[0].bodies.stream is not None:
            self._open_streams.append(job)
        else:
            self._others.append(job)
        self._available.put(None)

    def get(self) -> Job | None:
        """Wait for a call."""
        self._available.get()
        return self._next()

    def get_nowait(self) -> Job | None:
        """Return a call, or raise Empty."""
        self._available.get_nowait()
        return self._next()

    def _next(self) -> Job | None:
        if self._open_streams:
            with suppress(IndexError):  # another thread was quicker
                return self._open_streams.popleft()
        return self._others.popleft()


class Runners:
    """Run calls on threads and on an event loop, and collect their results.

    Which thread may use what:

    - `start`, `take_results`, `take_unstarted`, `find_overdue`, `running_streams`, `running_bodies`, `abandon`,
      `set_commit_seconds`: under the scheduler lock. `wait`, `close`: the worker's main thread. `wake`, `has_results`:
      any thread.
    - `_queue`, `_results`, `_wakeups` are thread-safe queues. `_running` has one entry for each thread, which only that
      thread writes. `_tasks` belongs to the event loop's thread. Others read copies of these two.
    - `_abandoned` is written under the scheduler lock, and by the abandoned thread when it ends.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        threads: int,
        after_calls: Callable[[float], bool],
        pool: ProcessPool | None = None,
        marks: RunningMarks | None = None,
    ) -> None:
        self._on_loop = {step.name for step in pipeline.steps if step.is_async and step.options.runs_in == "thread"}
        self._queue = CallQueue()
        self._results: deque[Result] = deque()
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._gather_seconds = MIN_GATHER_SECONDS
        self._after_calls = after_calls
        self._threads = 0
        self._running: dict[int, RunningCall] = {}  # by thread
        self._abandoned: set[int] = set()
        self._pool = pool
        self._forks = forked_copy.count
        self._marks = marks or RunningMarks()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, tuple[asyncio.Task[None], RunningCall]] = {}  # by the identity of their calls
        for _ in range(threads):
            self._start_thread()

    def start(self, jobs: Iterable[Job]) -> None:
        """Start calls."""
        for job in jobs:
            _, call = job
            if call.step in self._on_loop and isinstance(call, BODIES):
                self._start_on_loop(*job)
            else:
                self._queue.put(job)

    @property
    def has_results(self) -> bool:
        """True if a call has ended since the last `take_results`."""
        return bool(self._results)

    def take_results(self) -> list[Result]:
        """Return the results of the calls that have ended, and remove them."""
        taken: list[Result] = []
        with suppress(IndexError):
            while True:
                taken.append(self._results.popleft())
        return taken

    def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, or the time is over."""
        with suppress(Empty):
            self._wakeups.get(timeout=max(seconds, 0.0001))
            while True:
                self._wakeups.get_nowait()

    def wake(self) -> None:
        """End a `wait`."""
        self._wakeups.put(None)

    def set_commit_seconds(self, seconds: float) -> None:
        """Set how long a commit takes. The longer it takes, the more calls share one."""
        self._gather_seconds = min(max(seconds, MIN_GATHER_SECONDS), MAX_GATHER_SECONDS)

    def take_unstarted(self) -> list[Job]:
        """Return the calls that no thread has started, and remove them."""
        jobs: list[Job] = []
        with suppress(Empty):
            while True:
                if (job := self._queue.get_nowait()) is not None:
                    jobs.append(job)
        return jobs

    def find_overdue(self, timeouts: Timeouts) -> list[Job]:
        """Return the calls that run for longer than their step allows. Some of them may just have ended."""
        now = monotonic()
        running = [*self._running.copy().values(), *(running for _, running in self._tasks.copy().values())]
        return [
            (document, call)
            for document, call, since in running
            if call.step in timeouts
            and not isinstance(call, CountKept)  # it is our own work, not that of the body
            and now - max(since, document.bodies.part_at) >= timeouts[call.step].total_seconds()
        ]

    def running_streams(self, steps: Collection[str]) -> list[RunningCall]:
        """Return the calls of streams of these steps that run. Some of them may just have ended."""
        running = [*self._running.copy().values(), *(running for _, running in self._tasks.copy().values())]
        return [one for one in running if isinstance(one[1], PullStream) and one[1].step in steps]

    def running_bodies(self) -> dict[int, float]:
        """Return for how many seconds each body has been running, by the identity of its call."""
        now = monotonic()
        running = [*self._running.copy().values(), *(running for _, running in self._tasks.copy().values())]
        return {id(call): now - since for _, call, since in running if isinstance(call, BODIES)}

    def abandon(self, call: Call) -> None:
        """Stop waiting for a call. A task is cancelled, a child is killed, a thread is left alone and replaced."""
        task = self._tasks.get(id(call))
        if task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(task[0].cancel)
        elif self._pool is None or not self._pool.kill(call):
            stuck = [thread for thread, (_, running, _) in self._running.copy().items() if running is call]
            self._abandoned.update(stuck)
            for _ in stuck:
                self._start_thread()

    def close(self) -> None:
        """End the threads and the loop. A thread that is stuck in a body is left alone."""
        self.take_unstarted()
        for _ in range(self._threads):
            self._queue.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    # threads

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._run_thread, name="holdfast-runner", daemon=True).start()

    def _run_thread(self) -> None:
        me, cell = threading.get_ident(), self._marks.enter_thread()
        uncommitted_since: float | None = None  # start of the oldest call whose result no tick has taken
        while (job := self._queue.get()) is not None:
            uncommitted_since = uncommitted_since or monotonic()
            self._run_jobs(me, cell, job)
            self._marks.cells[cell] = 0
            del job  # the next one may take long to come, and a document can be large
            if me in self._abandoned:
                self._abandoned.discard(me)
                break
            if self._after_calls(uncommitted_since):
                uncommitted_since = None
        self._marks.leave_thread(cell)

    def _run_jobs(self, me: int, cell: int, job: Job | None) -> None:
        """Run a call, and further queued ones while they are quick, so that their results share a commit."""
        since = now = monotonic()
        cells = self._marks.cells
        while job is not None:
            document, call = job
            self._running[me] = (document, call, now)
            cells[cell] = document.claim.document_id
            event, began = self._run_call(document, call), now
            if document.bodies.lost:
                document.bodies.close()  # the worker may have ended before a tick takes this result
            now = monotonic()
            self._results.append((document, event, began, now - began))
            if now - since > self._gather_seconds or me in self._abandoned:
                return
            try:
                job = self._queue.get_nowait()
            except Empty:
                return
        self._queue.put(None)  # this None ends a thread: `_run_thread` has to see it

    def _run_call(self, document: ClaimedDocument, call: Call) -> Event:
        bodies = document.bodies
        try:
            if self._pool is not None and bodies.pipeline[call.step].options.runs_in == "process":
                return Returned(call, self._pool.run(bodies, call, on_part=partial(self._add_part, document, call)))
            event: Event = Returned(call, bodies.run(call))
        except BaseException as error:  # noqa: BLE001 - user code: the failure policy decides about any error
            event = Raised(call, error)
        if forked_copy.count != self._forks:
            end_copy_after(call, event)
        return event

    def _add_part(self, document: ClaimedDocument, call: Call, part: Pulled) -> None:
        """Add what a stream in a child has yielded, as the result of a call that goes on."""
        document.bodies.part_at = monotonic()
        _, _, began = self._running[threading.get_ident()]
        self._results.append((document, Yielded(call, part), began, 0.0))
        self._wakeups.put(None)

    # the event loop

    def _start_on_loop(self, document: ClaimedDocument, call: Call) -> None:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=_run_loop, args=(self._loop, self._marks), name="holdfast-loop", daemon=True
            ).start()
        self._loop.call_soon_threadsafe(self._start_task, document, call)

    def _start_task(self, document: ClaimedDocument, call: Call) -> None:
        assert self._loop is not None
        context = document.bodies.context_of_stream() if isinstance(call, PullStream) else None
        task = self._loop.create_task(self._run_call_async(document, call), context=context)
        self._tasks[id(call)] = (task, (document, call, monotonic()))
        task.add_done_callback(lambda _: self._tasks.pop(id(call), None))

    async def _run_call_async(self, document: ClaimedDocument, call: Call) -> None:
        began, cell = monotonic(), self._marks.take_cell()
        self._marks.begin(cell, document.claim.document_id)
        try:
            event: Event = Returned(call, await document.bodies.run_async(call))
        except BaseException as error:  # noqa: BLE001 - user code, as above
            event = Raised(call, error)
        if forked_copy.count != self._forks:
            end_copy_after(call, event)
        self._marks.end(cell)
        self._results.append((document, event, began, monotonic() - began))
        self._wakeups.put(None)


def end_copy_after(call: Call, event: Event) -> NoReturn:
    """End this process, which is a copy of the worker that user code forked in this call."""
    error = event.error if isinstance(event, Raised) else None
    end_forked_copy(f"the body of step {call.step!r}", error)


def _run_loop(loop: asyncio.AbstractEventLoop, marks: RunningMarks) -> None:
    import asyncio

    marks.enter_loop_thread()
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        _end_tasks(loop)
        loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    ended: Coroutine[Any, Any, Any] = _gather(tasks)
    loop.run_until_complete(ended)
    loop.run_until_complete(loop.shutdown_asyncgens())


async def _gather(tasks: Iterable[asyncio.Task[Any]]) -> None:
    import asyncio

    await asyncio.gather(*tasks, return_exceptions=True)
