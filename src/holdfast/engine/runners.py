"""Runners: where bodies run. Threads take calls one by one; async bodies share one loop.

A thread that has finished something helps: it does the worker's next round itself, if nobody else does just then. So a
result that is ready is committed by the thread that has it, without waking another, which costs more than many a body.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from holdfast.core.pipeline import Pipeline
from holdfast.engine.bodies import Desk
from holdfast.engine.calls import Call, Event, PullStream, Raised, Returned, RunValue, RunWindow
from holdfast.stores.protocol import Timeouts

if TYPE_CHECKING:
    import asyncio  # a third of the time that `import holdfast` takes, so it waits for the first async body

    from holdfast.engine.isolation import Nursery

MOMENT, LONG_MOMENT = 0.002, 0.008
"""Seconds of work after which a thread helps to commit what it has finished: as many as a commit takes, in between."""

BODIES = (RunValue, PullStream, RunWindow)
"""The calls that run a body. What else is asked for takes a moment, and runs on a thread."""

Job = tuple[Desk, Call]
Begun = tuple[Desk, Call, float]
Result = tuple[Desk, Event, float]
"""What came back, and how many seconds it took."""


class Jobs:
    """Calls that wait for a thread. Streams that are open come first: what was begun is finished before more is begun.

    So few streams are open at once, and few children, however many documents are in hand.
    """

    def __init__(self) -> None:
        self._there: SimpleQueue[None] = SimpleQueue()  # one for each job, whichever it will be
        self._begun: deque[Job] = deque()
        self._others: deque[Job | None] = deque()

    def put(self, job: Job | None) -> None:
        """Adds a job; None lets one thread end."""
        if job is not None and isinstance(job[1], PullStream) and job[0].stream is not None:
            self._begun.append(job)
        else:
            self._others.append(job)
        self._there.put(None)

    def get(self) -> Job | None:
        """Waits for a job."""
        self._there.get()
        return self._next()

    def get_nowait(self) -> Job | None:
        """Gives a job, or raises Empty."""
        self._there.get_nowait()
        return self._next()

    def _next(self) -> Job | None:
        if self._begun:
            with suppress(IndexError):  # another thread was quicker
                return self._begun.popleft()
        return self._others.popleft()


class Runners:
    """Runs calls on threads and on a loop, and hands their results back."""

    def __init__(
        self, pipeline: Pipeline, *, threads: int, help_out: Callable[[float], bool], nursery: Nursery | None = None
    ) -> None:
        self._on_loop = {step.name for step in pipeline.steps if step.is_async and step.options.runs_in == "thread"}
        self._jobs = Jobs()
        self._results: deque[Result] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._moment = MOMENT
        self._help_out = help_out
        self._threads = 0
        self._working: dict[int, Begun] = {}  # by thread
        self._left_behind: set[int] = set()
        self._nursery = nursery
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, tuple[asyncio.Task[None], Begun]] = {}  # by the identity of their calls
        for _ in range(threads):
            self._start_thread()

    def start(self, jobs: Iterable[Job]) -> None:
        """Starts calls."""
        for job in jobs:
            _, call = job
            if call.step in self._on_loop and isinstance(call, BODIES):
                self._start_on_loop(*job)
            else:
                self._jobs.put(job)

    @property
    def have_results(self) -> bool:
        """Whether something has come back."""
        return bool(self._results)

    def results(self) -> list[Result]:
        """Gives what has come back."""
        taken: list[Result] = []
        with suppress(IndexError):
            while True:
                taken.append(self._results.popleft())
        return taken

    def wait(self, seconds: float) -> None:
        """Waits until somebody nudges, or the time is over."""
        with suppress(Empty):
            self._bell.get(timeout=max(seconds, 0.0001))
            while True:
                self._bell.get_nowait()

    def nudge(self) -> None:
        """Ends a wait for results."""
        self._bell.put(None)

    def commits_take(self, seconds: float) -> None:
        """Learns how long a commit takes: the longer, the more share one."""
        self._moment = min(max(seconds, MOMENT), LONG_MOMENT)

    def take_back(self) -> list[Job]:
        """Gives back the calls that no thread has taken yet."""
        jobs: list[Job] = []
        with suppress(Empty):
            while True:
                if (job := self._jobs.get_nowait()) is not None:
                    jobs.append(job)
        return jobs

    def overdue(self, timeouts: Timeouts) -> list[Job]:
        """Gives the calls that have run for longer than their step allows. Some may just have come back."""
        now = monotonic()
        begun = [*self._working.copy().values(), *(begun for _, begun in self._tasks.copy().values())]
        return [
            (desk, call)
            for desk, call, since in begun
            if call.step in timeouts and now - since >= timeouts[call.step].total_seconds()
        ]

    def abandon(self, call: Call) -> None:
        """Gives up on a call that takes too long: a task is cancelled, a thread is left behind and replaced."""
        on_loop = self._tasks.get(id(call))
        if on_loop is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(on_loop[0].cancel)
        elif self._nursery is None or not self._nursery.end(call):
            stuck = [thread for thread, (_, working_on, _) in self._working.copy().items() if working_on is call]
            self._left_behind.update(stuck)
            for _ in stuck:
                self._start_thread()

    def close(self) -> None:
        """Lets the threads end. One that is stuck in a body is left behind."""
        self.take_back()
        for _ in range(self._threads):
            self._jobs.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    # threads

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name="holdfast-runner", daemon=True).start()

    def _work(self) -> None:
        me = threading.get_ident()
        alone_since: float | None = None  # when it began what nobody has heard of yet
        while (job := self._jobs.get()) is not None:
            alone_since = alone_since or monotonic()
            self._work_off(me, job)
            del job  # it may be long until the next, and a document can be large
            if me in self._left_behind:
                self._left_behind.discard(me)
                return
            if self._help_out(alone_since):
                alone_since = None

    def _work_off(self, me: int, job: Job | None) -> None:
        """Does a job, and those that follow if they are quick: what is finished waits a moment, so that others join."""
        since = now = monotonic()
        while job is not None:
            desk, call = job
            self._working[me] = (desk, call, now)
            event, began = self._event(desk, call), now
            if desk.lost:
                desk.close()  # the worker may be gone before it hears of this
            now = monotonic()
            self._results.append((desk, event, now - began))
            if now - since > self._moment or me in self._left_behind:
                return
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
        self._jobs.put(None)  # the sign to end is for the loop above

    def _event(self, desk: Desk, call: Call) -> Event:
        try:
            if self._nursery is not None and desk.pipeline[call.step].options.runs_in == "process":
                return Returned(call, self._nursery.run(desk, call))
            return Returned(call, desk.run(call))
        except BaseException as error:  # noqa: BLE001 - the one broad except: whatever a body does is judged, not fatal
            return Raised(call, error)

    # the loop

    def _start_on_loop(self, desk: Desk, call: Call) -> None:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(self._loop,), name="holdfast-loop", daemon=True).start()
        self._loop.call_soon_threadsafe(self._begin_task, desk, call)

    def _begin_task(self, desk: Desk, call: Call) -> None:
        assert self._loop is not None
        context = desk.context_of_stream() if isinstance(call, PullStream) else None
        task = self._loop.create_task(self._event_async(desk, call), context=context)
        self._tasks[id(call)] = (task, (desk, call, monotonic()))
        task.add_done_callback(lambda _: self._tasks.pop(id(call), None))

    async def _event_async(self, desk: Desk, call: Call) -> None:
        began = monotonic()
        try:
            event: Event = Returned(call, await desk.run_async(call))
        except BaseException as error:  # noqa: BLE001 - as above
            event = Raised(call, error)
        self._results.append((desk, event, monotonic() - began))
        self._bell.put(None)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

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
