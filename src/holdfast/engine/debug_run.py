"""Process one document in the calling thread, so that breakpoints, debuggers and profilers work in bodies.

It claims, sends heartbeats and commits as a worker does, and all its writes are fenced. Three things are different, for
the person who debugs: all bodies run in this thread, even those with `runs_in="process"`; no timeout applies; and a
stream with a time in `commit_every` is committed only at its next item.
"""

from __future__ import annotations

import os
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.core import forked_copy
from holdfast.core.errors import HoldfastError, LeaseLost, Signal, StoreError
from holdfast.core.forked_copy import end_forked_copy
from holdfast.core.model import Claim, DocumentStatus, Plan, WorkerRecord
from holdfast.core.moves import Lost, Move, Release
from holdfast.core.pipeline import Pipeline
from holdfast.engine import body_calls
from holdfast.engine.claimed_document import ClaimedDocumentFactory
from holdfast.engine.executor_requests import (
    Call,
    CommitMove,
    Compute,
    Event,
    GiveBack,
    Pulled,
    PullStream,
    Raised,
    ReadJournal,
    Request,
    Returned,
    RewindDocument,
    RunValue,
    RunWindow,
)
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.maintenance import WorkerMaintenance
from holdfast.engine.settings import DEFAULT_LEASE
from holdfast.engine.step_limits import StepLimits
from holdfast.process_identity import born, this_host
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    import asyncio

OnError = Callable[[BaseException, TracebackType | None], object]
"""Called with every error of a body and its traceback, before the error is handled."""


def debug_document(
    pipeline: Pipeline, store: Store, document_id: int, *, who: str, on_error: OnError | None = None
) -> DocumentStatus:
    """Process one waiting document in this thread until its end, a gate or an error.

    Quitting the debugger or Ctrl-C gives the document back. That costs no attempt.

    Args:
        pipeline: The pipeline.
        store: The store that holds the document.
        document_id: The id of the document.
        who: Who debugs it. It is part of the name of the worker in the journal.
        on_error: Called with every error of a body and its traceback, before the error is handled.

    Returns:
        The document, as it is afterwards.

    Raises:
        HoldfastError: The document does not wait, or its step is full.
        LeaseLost: Another worker or a person took the document over meanwhile.
    """
    plan = store.declare(pipeline.shape())
    with _registered(store, who) as me:
        WorkerMaintenance(pipeline, store, plan, emit=lambda _: None).run(me, [])
        claims = store.claim(plan, me, limit=1, which=document_id)
        if not claims:
            raise HoldfastError(_not_claimable(store.documents_by_id([document_id])))
        run = _DebugRun(pipeline, store, plan, me, claims[0])
        run.on_error = on_error or run.on_error
        try:
            run.run()
        finally:
            run.close()
    (document,) = store.documents_by_id([document_id])
    return document


@contextmanager
def _registered(store: Store, who: str) -> Iterator[WorkerRecord]:
    pid = os.getpid()
    me = store.register_worker(
        name=f"{who}-debugging-{pid}", host=this_host(), pid=pid, born=born(pid), lease=DEFAULT_LEASE
    )
    heartbeat = Heartbeat(store, me)
    try:
        yield me
    finally:
        heartbeat.stop()
        with suppress(StoreError):  # other workers notice the missing heartbeat
            store.retire_worker(me)


def _not_claimable(found: Sequence[DocumentStatus]) -> str:
    if not found:
        return "the document does not exist any more"
    document = found[0]
    why = {
        "running": f"is held by {document.holder}: stop that worker, or wait until its lease is over",
        "paused": f"is paused ({document.reason}): resume it first",
        "dead": f"is a dead letter ({document.reason}): redrive it first",
        "done": "is done: rewind it to the step that you want to debug first",
        "cancelled": "was cancelled: rewind it first",
        "waiting": f"is at step {document.checkpoint.step!r}, which the pipeline does not have",
    }
    return f"the document {document.key!r} {why[document.state]}"


class _DebugRun:
    """The document, and the loop that handles the requests of its executor."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan, me: WorkerRecord, claim: Claim) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._me = me
        self.on_error: OnError = lambda _error, _trace: None
        self._step_limits = StepLimits(pipeline, store, plan)
        self._runner: asyncio.Runner | None = None
        factory = ClaimedDocumentFactory(pipeline, store, plan, stopping=lambda: False)
        (self._document,) = factory.create([claim], who=me.name)

    def run(self) -> None:
        """Handle the requests of the executor until it ends."""
        answer: Any = None
        try:
            while True:
                try:
                    request: Request = self._document.executor.send(answer)
                except StopIteration:
                    return
                if isinstance(request, GiveBack):
                    self._give_back(request.release)
                    return
                answer = self._handle(request)
        except BdbQuit:
            self._release("the debugger was quit")
        except KeyboardInterrupt:
            self._release("stopped by Ctrl-C")
            raise

    def close(self) -> None:
        """Close an open stream, so that its clean-up code runs."""
        self._document.executor.close()
        self._document.bodies.close()
        if self._runner is not None:
            self._runner.close()

    def _handle(self, request: CommitMove | Compute | RewindDocument | ReadJournal) -> Any:
        match request:
            case Compute(calls):
                self._get_permit(calls)
                return [self._run_call(call) for call in calls]
            case CommitMove(move):
                return self._commit(move)
            case RewindDocument():
                return self._rewind(request)
            case ReadJournal():
                return self._store.journal(self._document.claim.document_id)

    def _get_permit(self, calls: Sequence[Call]) -> None:
        """Get a permit for a step with a limit, or give the document back."""
        if not self._step_limits.needs_permit(self._document, calls[0]):
            return
        self._step_limits.wait_for_permit(self._document, calls)
        if not list(self._step_limits.admit(lambda _: True)):
            full = f"step {calls[0].step!r} is full: as many documents are in it as its limit allows"
            self._release(full)
            raise HoldfastError(f"{full}. The document was given back; try again when there is room")

    def _run_call(self, call: Call) -> Event:
        forks = forked_copy.count
        try:
            result = self._result(call)
        except BaseException as error:  # user code: the failure policy decides about any error
            if forked_copy.count != forks:
                end_forked_copy(f"the body of step {call.step!r}", error)
            if isinstance(error, (BdbQuit, KeyboardInterrupt)):
                raise
            self._report_error(error)
            return Raised(call, error)
        if forked_copy.count != forks:
            end_forked_copy(f"the body of step {call.step!r}")
        if isinstance(result, Pulled) and result.error is not None:
            if isinstance(result.error, BdbQuit):
                raise result.error
            self._report_error(result.error)
        return Returned(call, result)

    def _result(self, call: Call) -> Any:
        if not self._pipeline[call.step].is_async or not isinstance(call, (RunValue, PullStream, RunWindow)):
            return self._document.bodies.run(call)
        if self._runner is None:
            import asyncio

            self._runner = asyncio.Runner()  # one loop for all calls, because a stream stays open in it
        bodies = self._document.bodies
        context = bodies.context_of_stream() if isinstance(call, PullStream) else None
        return self._runner.run(bodies.run_async(call), context=context)

    def _report_error(self, error: BaseException) -> None:
        if not isinstance(error, Signal):
            self.on_error(error, traceback_of_body(error))

    def _commit(self, move: Move) -> Any:
        move = replace(move, timeout=None) if move.state == "running" else move
        (answer,) = self._store.commit(self._plan, [move])
        if isinstance(answer, Lost):
            raise self._lost()
        return answer

    def _rewind(self, request: RewindDocument) -> Claim:
        document = self._document
        why = {"who": self._me.name, "reason": request.reason, "code": request.code}
        if not self._store.rewind(self._plan, document.claim, to=request.to, **why):
            raise self._lost()
        document.rewind(request.to, self._pipeline)
        return document.claim

    def _give_back(self, release: Release) -> None:
        if not all(self._store.release([release])):
            raise self._lost()

    def _release(self, reason: str) -> None:
        """Give the document back. If the claim is lost already, nothing happens."""
        claim = self._document.claim
        self._store.release([Release(claim, self._me.name, "waiting", "release", costs="nothing", reason=reason)])

    def _lost(self) -> LeaseLost:
        key = self._document.claim.key
        return LeaseLost(f"the document {key!r} was taken over, changed or cancelled meanwhile; nothing was written")


def traceback_of_body(error: BaseException) -> TracebackType | None:
    """Return the part of an error's traceback that is in the body, without the frames that called it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != body_calls.__file__:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename == body_calls.__file__:
        trace = trace.tb_next
    return trace or error.__traceback__
