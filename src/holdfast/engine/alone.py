"""One document in one thread: the calling one, so that breakpoints, debuggers and profilers work in bodies.

It claims, beats and commits as a worker does, and everything it writes carries the fence. Only what would disturb a
person is left out: bodies run where they are called, also those that belong into a process, and no deadline ends them.
"""

from __future__ import annotations

import os
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, LeaseLost, Signal, StoreError
from holdfast.core.model import Claim, Plan, Standing, Worker
from holdfast.core.moves import Ending, Lost, Move, rewound
from holdfast.core.pipeline import Pipeline
from holdfast.engine import bodies
from holdfast.engine.bodies import StepsDone, StoreReader
from holdfast.engine.calls import (
    Call,
    Commit,
    Compute,
    Event,
    GiveBack,
    Pulled,
    PullStream,
    Raised,
    ReadJournal,
    Request,
    Returned,
    Rewind,
    RunValue,
    RunWindow,
)
from holdfast.engine.caretaker import Caretaker
from holdfast.engine.doors import Doors
from holdfast.engine.hand import take
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.hosts import born, this_host
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    import asyncio

LEASE = timedelta(seconds=30)

LookAt = Callable[[BaseException, TracebackType | None], object]
"""Called with every error of a body and its traceback, before anything is done about it."""


def advance_alone(
    pipeline: Pipeline, store: Store, document_id: int, *, who: str, look_at: LookAt | None = None
) -> Standing:
    """Takes one waiting document as far as it goes, in this thread: to its end, to a gate, or to an error.

    Raises HoldfastError when the document does not wait, and LeaseLost when somebody took it over meanwhile. Quitting
    the debugger or Ctrl-C gives it back, and costs nothing.
    """
    plan = store.declare(pipeline.shape())
    with _enlisted(store, who) as me:
        Caretaker(pipeline, store, plan, say=lambda _: None).look_after(me, [])
        claims = store.claim_this(plan, me, document_id)
        if not claims:
            raise HoldfastError(_why_not(store.look([document_id])))
        alone = _Alone(pipeline, store, plan, me, claims[0])
        alone.look_at = look_at or alone.look_at
        try:
            alone.run()
        finally:
            alone.close()
    (here,) = store.look([document_id])
    return here


@contextmanager
def _enlisted(store: Store, who: str) -> Iterator[Worker]:
    pid = os.getpid()
    me = store.enlist(name=f"{who}-debugging-{pid}", host=this_host(), pid=pid, born=born(pid), lease=LEASE)
    heartbeat = Heartbeat(store, me)
    try:
        yield me
    finally:
        heartbeat.stop()
        with suppress(StoreError):  # others find out by themselves
            store.retire(me)


def _why_not(found: Sequence[Standing]) -> str:
    if not found:
        return "the document is not there any more"
    here = found[0]
    why = {
        "running": f"is held by {here.holder}: stop that worker, or wait until its lease is over",
        "paused": f"is paused ({here.reason}): let it go on first",
        "dead": f"is a dead letter ({here.reason}): redrive it first",
        "done": "is done: rewind it to the step to be debugged first",
        "cancelled": "was cancelled",
        "waiting": f"stands at {here.checkpoint.step!r}, which the pipeline does not have",
    }
    return f"the document {here.key!r} {why[here.state]}"


class _Alone:
    """The document, and what its executor asks for."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan, me: Worker, claim: Claim) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._me = me
        self.look_at: LookAt = lambda _error, _trace: None
        self._doors = Doors(pipeline, store, plan)
        self._runner: asyncio.Runner | None = None
        reader = StoreReader(store, plan, claim)
        traces = store.traces(plan, [claim])[0] if claim.checkpoint.moves else None
        did = StepsDone(pipeline, store, plan).under(traces)
        self._desk = take(pipeline, claim, reader, who=me.name, stopping=lambda: False, traces=traces, did=did)

    def run(self) -> None:
        """Does what the executor asks for until it asks for nothing more."""
        said: Any = None
        try:
            while True:
                try:
                    request: Request = self._desk.run_of.send(said)
                except StopIteration:
                    return
                if isinstance(request, GiveBack):
                    self._give_back(request.ending)
                    return
                said = self._do(request)
        except BdbQuit:
            self._release("the debugger was left")
        except KeyboardInterrupt:
            self._release("stopped by Ctrl-C")
            raise

    def close(self) -> None:
        """Lets a stream that was left in the middle clean up."""
        self._desk.run_of.close()
        self._desk.close()
        if self._runner is not None:
            self._runner.close()

    def _do(self, request: Commit | Compute | Rewind | ReadJournal) -> Any:
        match request:
            case Compute(calls):
                self._enter(calls)
                return [self._event(call) for call in calls]
            case Commit(move):
                return self._commit(move)
            case Rewind(to, reason):
                return self._rewind(to, reason)
            case ReadJournal():
                return self._store.journal(self._desk.claim.document_id)

    def _enter(self, calls: Sequence[Call]) -> None:
        """Asks for room in a step that only so many documents may be in."""
        if not self._doors.stop(self._desk, calls[0]):
            return
        self._doors.queue(self._desk, calls)
        if not list(self._doors.admit(lambda _: True)):
            full = f"step {calls[0].step!r} is full: as many documents are in it as its limit allows"
            self._release(full)
            raise HoldfastError(f"{full}. The document was given back; try again when there is room")

    def _event(self, call: Call) -> Event:
        try:
            result = self._result(call)
        except (BdbQuit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as in a worker: whatever a body does is judged
            self._tell(error)
            return Raised(call, error)
        if isinstance(result, Pulled) and result.error is not None:
            if isinstance(result.error, BdbQuit):
                raise result.error
            self._tell(result.error)
        return Returned(call, result)

    def _result(self, call: Call) -> Any:
        if not self._pipeline[call.step].is_async or not isinstance(call, (RunValue, PullStream, RunWindow)):
            return self._desk.run(call)
        if self._runner is None:
            import asyncio

            self._runner = asyncio.Runner()  # one loop for all calls: a stream lives in it
        context = self._desk.context_of_stream() if isinstance(call, PullStream) else None
        return self._runner.run(self._desk.run_async(call), context=context)

    def _tell(self, error: BaseException) -> None:
        if not isinstance(error, Signal):
            self.look_at(error, traceback_of_body(error))

    def _commit(self, move: Move) -> Any:
        move = replace(move, timeout=None) if move.state == "running" else move
        (answer,) = self._store.commit(self._plan, [move])
        if isinstance(answer, Lost):
            raise self._lost()
        return answer

    def _rewind(self, to: str, reason: str) -> Claim:
        desk = self._desk
        if not self._store.rewind(self._plan, desk.claim, to=to, who=self._me.name, reason=reason):
            raise self._lost()
        before = [step.name for step in self._pipeline.behind(to)]
        desk.claim = rewound(desk.claim, to=to, before=before)
        desk.reader.rewound(desk.claim)
        desk.admitted = ""
        return desk.claim

    def _give_back(self, ending: Ending) -> None:
        if not all(self._store.give_back([ending])):
            raise self._lost()

    def _release(self, reason: str) -> None:
        """Lets others have it. Nothing is lost when it is not ours any more."""
        ending = Ending(self._desk.claim, self._me.name, "waiting", "release", costs="nothing", reason=reason)
        self._store.give_back([ending])

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            f"the document {self._desk.claim.key!r} was taken over, changed or cancelled meanwhile; nothing was written"
        )


def traceback_of_body(error: BaseException) -> TracebackType | None:
    """Gives the traceback of an error from the body on, without the frames that called it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != bodies.__file__:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename == bodies.__file__:
        trace = trace.tb_next
    return trace or error.__traceback__
