"""Runners: where bodies run. Threads take calls one by one; async bodies share one loop.

Results come back in handfuls: handing one over at a time costs more than many a body (a thread switch is 90 µs). But
nothing that is finished waits for longer than a few milliseconds of other work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Coroutine, Iterable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from holdfast.engine.bodies import Desk
from holdfast.engine.calls import Call, Event, PullStream, Raised, Returned, RunValue, RunWindow

if TYPE_CHECKING:
    import asyncio  # a third of the time that `import holdfast` takes, so it waits for the first async body

    from holdfast.engine.isolation import Nursery

PATIENCE = 0.002
"""Seconds of work after which a thread hands over what it has finished."""

Job = tuple[Desk, Call]
Result = tuple[Desk, Event]


class Runners:
    """Runs calls on threads and on a loop, and hands their results back."""

    def __init__(self, *, threads: int, nursery: Nursery | None = None) -> None:
        self._jobs: deque[Job] = deque()
        self._results: SimpleQueue[list[Result]] = SimpleQueue()
        self._wake = threading.Semaphore(0)
        self._idle = 0
        self._lock = threading.Lock()
        self._closed = False
        self._working: dict[int, Call] = {}
        self._left_behind: set[int] = set()
        self._nursery = nursery
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by the identity of their calls
        self._finished: list[Result] = []
        for _ in range(threads):
            self._start_thread()

    def start(self, jobs: Iterable[Job]) -> None:
        """Starts calls."""
        plain: list[Job] = []
        for desk, call in jobs:
            if _is_async(desk, call):
                self._start_on_loop(desk, call)
            else:
                plain.append((desk, call))
        if plain:
            self._jobs.extend(plain)
            with self._lock:
                awake = min(self._idle, len(plain))
                self._idle -= awake
            if awake:
                self._wake.release(awake)

    def results(self, wait: float) -> list[Result]:
        """Gives what has come back; waits at most so many seconds for the first."""
        results: list[Result] = []
        try:
            results += self._results.get(timeout=wait) if wait > 0 else self._results.get_nowait()
            while True:
                results += self._results.get_nowait()
        except Empty:
            return results

    def nudge(self) -> None:
        """Ends a wait for results."""
        self._results.put([])

    def take_back(self) -> list[Job]:
        """Gives back the calls that no thread has taken yet."""
        jobs: list[Job] = []
        while True:
            try:
                jobs.append(self._jobs.popleft())
            except IndexError:
                return jobs

    def abandon(self, call: Call) -> None:
        """Gives up on a call that takes too long: a task is cancelled, a thread is left behind and replaced."""
        task = self._tasks.get(id(call))
        if task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(task.cancel)
        elif self._nursery is None or not self._nursery.end(call):
            stuck = [thread for thread, working_on in tuple(self._working.items()) if working_on is call]
            self._left_behind.update(stuck)
            for _ in stuck:
                self._start_thread()

    def close(self) -> None:
        """Lets the threads end. One that is stuck in a body is left behind."""
        self._closed = True
        self._wake.release(1000)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    # threads

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="holdfast-runner", daemon=True).start()

    def _work(self) -> None:
        while self._await_jobs():
            finished: list[Result] = []
            since = monotonic()
            while True:
                try:
                    desk, call = self._jobs.popleft()
                except IndexError:
                    break
                finished.append((desk, self._event(desk, call)))
                if monotonic() - since > PATIENCE:
                    self._results.put(finished)
                    finished, since = [], monotonic()
                if threading.get_ident() in self._left_behind:
                    self._left_behind.discard(threading.get_ident())
                    return
            if finished:
                self._results.put(finished)

    def _await_jobs(self) -> bool:
        with self._lock:
            if self._jobs:
                return not self._closed
            self._idle += 1
        self._wake.acquire()
        return not self._closed

    def _event(self, desk: Desk, call: Call) -> Event:
        desk.began[id(call)] = monotonic()
        self._working[threading.get_ident()] = call
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
        task = self._loop.create_task(self._event_async(desk, call))
        self._tasks[id(call)] = task
        task.add_done_callback(lambda _: self._tasks.pop(id(call), None))

    async def _event_async(self, desk: Desk, call: Call) -> None:
        desk.began[id(call)] = monotonic()
        try:
            event: Event = Returned(call, await desk.run_async(call))
        except BaseException as error:  # noqa: BLE001 - as above
            event = Raised(call, error)
        if not self._finished:
            assert self._loop is not None
            self._loop.call_soon(self._hand_over)
        self._finished.append((desk, event))

    def _hand_over(self) -> None:
        finished, self._finished = self._finished, []
        self._results.put(finished)


def _is_async(desk: Desk, call: Call) -> bool:
    step = desk.pipeline[call.step]
    here = step.is_async and step.options.runs_in == "thread"  # a child has a loop of its own
    return here and isinstance(call, (RunValue, PullStream, RunWindow))


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
