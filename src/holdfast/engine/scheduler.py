"""The scheduler: decides what runs, what is committed and what is claimed. Its work is done in ticks.

One scheduler tick: collect finished calls, commit ready moves in one transaction, claim more documents.

Every move that became ready during the last commit goes into the next one. The slower the disk, the larger the groups;
no timer is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from time import monotonic
from typing import Any

from holdfast.core.errors import StepTimeout, StoreError
from holdfast.core.model import Checkpoint, Claim, DocumentStatus, Plan, WorkerRecord
from holdfast.core.moves import Accepted, Lost, Move, Release
from holdfast.core.pipeline import Pipeline
from holdfast.core.reasons import CIRCUIT_OPEN
from holdfast.core.retry import is_suspect
from holdfast.engine.budget import Budget
from holdfast.engine.claim_size import IDLE, ClaimSize
from holdfast.engine.claimed_document import ClaimedDocument, ClaimedDocumentFactory
from holdfast.engine.crash_evidence import RunningMarks
from holdfast.engine.executor_requests import (
    Call,
    CommitMove,
    Compute,
    Event,
    GiveBack,
    Pulled,
    Raised,
    ReadJournal,
    Request,
    RewindDocument,
    Yielded,
)
from holdfast.engine.interruptions import interrupted
from holdfast.engine.item_cache import CacheBudget
from holdfast.engine.maintenance import MAINTENANCE_INTERVAL, WorkerMaintenance
from holdfast.engine.runners import BODIES, Job, Result, Runners
from holdfast.engine.settings import WorkerSettings
from holdfast.engine.step_circuits import StepCircuits
from holdfast.engine.step_limits import StepLimits
from holdfast.engine.step_timings import StepTimings
from holdfast.engine.stream_collector import commits_by_time
from holdfast.observe.events import (
    Claimed,
    Committed,
    GaveBack,
    LostClaim,
    Reclaimed,
    Rewound,
    RowsLeft,
    StepsTimed,
    Warned,
)
from holdfast.observe.events import Event as EngineEvent
from holdfast.stores.protocol import Exchanged, Scope, Store


class Scheduler:
    """The documents that one worker has claimed, and what happens to them next.

    Which thread may use which field:

    - A thread that calls a method has the scheduler lock (`Worker._lock`). All fields are used under that lock only,
      with the objects in them: `_documents`, `_new_calls`, `_ready_moves`, `_releases`, `_rows_left`, `_suspect`,
      `_suspect_since`, `_others_until`, `_claim_size`, `_step_limits`, `_circuits`, `_maintenance`, `_timings`,
      `_cache_budget`, `_only`, `_worker`, `_scope`, `_factory`, `_maintained_at`.
    - Any thread may read `is_busy`, `idle_seconds`, `collected_at` and `commit_seconds` without the lock. The value may
      be one tick old; the readers use it only to decide how long to wait.
    - `_budget` and `_store` are safe for all threads. `_runners`, and the `bodies` of a document, are shared with the
      runner threads: `Runners` and `BodyCaller` document how.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        plan: Plan,
        *,
        worker: WorkerRecord,
        runners: Runners,
        settings: WorkerSettings,
        budget: Budget,
        emit: Callable[[EngineEvent], None],
        marks: RunningMarks | None = None,
        only: int | None = None,
    ) -> None:
        self._only = only
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._worker = worker
        self._runners = runners
        self._budget = budget
        self._emit = emit
        self._marks = marks or RunningMarks()
        self._timed_streams = {s.name for s in pipeline.steps if commits_by_time(s)}
        self._timeouts = {s.name: s.options.timeout for s in pipeline.steps if s.options.timeout is not None}
        deadlines = {s.name: s.deadline for s in pipeline.steps if s.deadline is not None}
        self._scope: Scope = {"batch": settings.batch, "timeouts": deadlines}
        self._factory = ClaimedDocumentFactory(pipeline, store, plan, stopping=budget.is_over)
        self._claim_size = ClaimSize(pipeline, threads=settings.threads, most=settings.concurrency)
        self._step_limits = StepLimits(pipeline, store, plan)
        self._maintenance = WorkerMaintenance(pipeline, store, plan, emit=emit, batch=settings.batch)
        self._circuits = StepCircuits(pipeline, store, plan, emit=emit)
        self._timings = StepTimings()
        self._cache_budget = CacheBudget()
        self._documents: set[ClaimedDocument] = set()
        self._suspect: ClaimedDocument | None = None
        self._suspect_since = self._others_until = 0.0
        self._new_calls: list[Job] = []
        self._ready_moves: list[tuple[ClaimedDocument, Move]] = []
        self._releases: list[Release] = []
        self._rows_left: set[str] = set()
        self._maintained_at = 0.0
        self.collected_at = self.commit_seconds = 0.0
        """When results were collected last, and how many seconds the last commit took."""

    @property
    def is_busy(self) -> bool:
        """True if any document is claimed."""
        return bool(self._documents)

    @property
    def has_writes(self) -> bool:
        """True if something is ready to be written."""
        return bool(self._ready_moves or self._releases)

    @property
    def idle_seconds(self) -> float:
        """Seconds to wait before looking for work again when there was none."""
        return IDLE * self._maintenance.wait_factor

    @property
    def circuits(self) -> StepCircuits:
        """The circuits of the steps."""
        return self._circuits

    def start(self) -> None:
        """Read which steps are paused, before the first tick."""
        self._circuits.start(who=self._worker.name)
        self._set_paused()

    def tick(self) -> None:
        """Collect finished calls, commit ready moves in one transaction, claim more documents."""
        self.collected_at = monotonic()
        self._collect(self._runners.take_results())
        if self._timed_streams:
            self._collect(self._take_parts())
        if self._timeouts:
            self._expire_calls()
        for document, calls in self._step_limits.admit(self._documents.__contains__):
            self._on_admitted(document, calls)
        self._start_calls()
        self._commit_moves()
        self._write_releases()
        if not self._budget.is_over():
            self._maintain()
            self._claim()
            self._write_releases()
        self._start_calls()

    def expect_work(self, *, is_due: bool) -> None:
        """Look for work at the next tick. If a document is due but claim() returned none, check for suspects."""
        self._claim_size.expect_work()
        self._maintenance.suspects |= is_due

    def drop_all(self) -> None:
        """Stop working on all documents, because other workers have taken them."""
        for document in list(self._documents):
            self._drop(document)
        self._ready_moves.clear()
        self._releases.clear()

    def set_worker(self, worker: WorkerRecord) -> None:
        """Claim and release under this worker record from now on."""
        self._worker = worker

    def release_unstarted(self) -> None:
        """Give back the documents for which no call runs."""
        for document, call in [*self._new_calls, *self._runners.take_unstarted()]:
            document.remove_call(call)
        self._new_calls.clear()
        for document in [one for one in self._documents if not one.calls and not one.committing]:
            self._release(document)

    def release_all(self) -> None:
        """Give back all documents. Those whose bodies still run are interrupted."""
        running = self._runners.running_bodies()
        for document in list(self._documents):
            if not self._interrupt(document, running):
                self._release(document)
        self._write_releases()

    def record_timings(self) -> None:
        """Write how long bodies took since the last time. A kill or an error loses the part that is not written."""
        if timings := self._timings.take():
            worked = self._timings.worked_at(self._store.now())
            self._store.add_step_times(self._plan, timings, worked=worked)
            self._emit(StepsTimed(timings, **self._source))

    @property
    def _source(self) -> dict[str, str]:
        return {"pipeline": self._pipeline.name, "worker": self._worker.name}

    # results

    def _collect(self, results: Sequence[Result]) -> None:
        self._timings.add_results(results)
        for document, event, _, _ in results:
            if self._circuits.is_counting:
                self._circuits.after_result(event)
            self._on_result(document, event)

    def _take_parts(self) -> list[Result]:
        """Return what streams have yielded whose time to commit has come. Their bodies compute the next item."""
        results: list[Result] = []
        for document, call, began in self._runners.running_streams(self._timed_streams):
            if not document.committing:
                parts: list[Pulled] = []
                document.bodies.take_part(call, parts.append)
                results += [(document, Yielded(call, part), began, 0.0) for part in parts]
        return results

    def _on_result(self, document: ClaimedDocument, event: Event) -> None:
        if isinstance(event, Yielded):
            if id(event.call) in document.calls and document in self._documents:
                self._deliver(document, event)
            return
        if document not in self._documents:
            self._timings.close(document)
        if document.remove_call(event.call):
            return  # it was abandoned: its result comes too late
        if document not in self._documents:
            if not document.calls:
                document.bodies.close()
            return
        self._deliver(document, event)

    def _deliver(self, document: ClaimedDocument, event: Event) -> None:
        if document.committing:
            document.events += (event,)
        else:
            self._resume(document, (event,))

    def _deliver_late(self, document: ClaimedDocument) -> None:
        if document.events:
            events, document.events = document.events, ()
            self._resume(document, events)

    def _resume(self, document: ClaimedDocument, answer: Any) -> None:
        """Send an executor the answer to its last request, and handle its next request."""
        try:
            request: Request = document.executor.send(answer)
        except StopIteration:
            self._remove(document)
            return
        if type(request) is Compute:
            self._on_compute(document, request.calls)
        elif type(request) is CommitMove:
            document.committing = True
            self._ready_moves.append((document, request.move))
        elif isinstance(request, GiveBack):
            self._give_back(document, request.release)
        elif isinstance(request, ReadJournal):
            self._resume(document, self._store.journal(document.claim.document_id))
        elif isinstance(request, RewindDocument):
            self._rewind(document, request)

    def _on_compute(self, document: ClaimedDocument, calls: Sequence[Call]) -> None:
        if self._budget.is_over():
            if not document.awaits_results:  # results of running calls are waited for, and committed
                self._release(document)
        elif (self._circuits.paused or document.held_back) and self._is_held_back(document, calls):
            self._hold_back(document)
        elif calls and self._step_limits.needs_permit(document, calls[0]):
            self._step_limits.wait_for_permit(document, calls)
        else:
            self._add_calls(document, calls)

    def _on_admitted(self, document: ClaimedDocument, calls: Sequence[Call]) -> None:
        """Start the calls of a document that may enter a step with a limit."""
        if (self._circuits.paused or document.held_back) and self._is_held_back(document, calls):
            self._hold_back(document)
        else:
            self._add_calls(document, calls)

    def _add_calls(self, document: ClaimedDocument, calls: Sequence[Call]) -> None:
        for call in calls:
            document.calls[id(call)] = call
            self._new_calls.append((document, call))

    def _start_calls(self) -> None:
        if self._new_calls:
            calls, self._new_calls = self._new_calls, []
            self._runners.start(calls)

    def _expire_calls(self) -> None:
        """Abandon calls that take longer than their step allows."""
        for document, call in self._runners.find_overdue(self._timeouts):
            if not document.abandon_call(call):
                continue
            self._runners.abandon(call)
            if document in self._documents:
                allowed = f"the {self._timeouts[call.step]} that its timeout allows"
                self._deliver(document, Raised(call, StepTimeout(f"step {call.step!r} took longer than {allowed}")))

    # commits

    def _commit_moves(self) -> None:
        """Commit all ready moves in one transaction, claim documents in place of finished ones, and resume the rest."""
        if not self._ready_moves:
            return
        ready, self._ready_moves = self._ready_moves, []
        began = monotonic()
        answers, claims = self._commit_marked([move for _, move in ready])
        self.commit_seconds = seconds = monotonic() - began
        self._runners.set_commit_seconds(seconds)
        accepted, lost = [], []
        for (document, move), answer in zip(ready, answers, strict=True):
            document.committing = False
            if type(answer) is Lost:
                lost.append((document, move))
                continue
            if type(answer) is Accepted:
                accepted.append(move)
                self._on_accepted(document, move)
            elif document.calls:
                document.bodies.lost = True  # what its bodies still compute is of no use
            if document in self._documents:
                self._resume(document, answer)
                if not document.committing:
                    self._deliver_late(document)
        if lost:
            self._drop_after_commit(lost)
        self._step_limits.check_soon()
        if accepted:
            self._emit(Committed(accepted, seconds, **self._source))
            if self._circuits.is_probing:
                self._after_moves(accepted)
        self._begin(claims)
        self._warn(accepted)

    def _on_accepted(self, document: ClaimedDocument, move: Move) -> None:
        """Record that a move was committed. A document that is done or waits at a gate leaves this worker."""
        document.moved = True
        self._timings.add_commit(document, move)
        if move.state != "running":
            self._remove(document)
        elif move.items:
            document.reader.cache_items(move.items, self._cache_budget)

    def _warn(self, moves: Sequence[Move]) -> None:
        """Tell people what they should know about moves that were committed. Nearly always, there is nothing."""
        if rows_left := {step for move in moves if move.rows_left for step in move.rows_left}:
            self._report_rows_left(rows_left)
        for move in [move for move in moves if move.warnings]:
            for warning in move.warnings:
                self._emit(Warned(move.claim, warning, **self._source))

    def _report_rows_left(self, steps: set[str]) -> None:
        """Tell people that rows of an earlier generation stay: once for each step, over all workers of the store."""
        for step in sorted(steps - self._rows_left):
            self._rows_left.add(step)
            if self._store.record_rows_left(self._plan, step):
                self._emit(RowsLeft(step, removed=step not in self._pipeline, **self._source))

    def _commit_marked(self, moves: Sequence[Move]) -> Exchanged:
        """Commit, and meanwhile mark the documents whose effects run: an effect can end the process, too."""
        effects = [move.claim.document_id for move in moves if move.effect is not None]
        if not effects:
            return self._commit_and_claim(moves)
        self._marks.committing(effects)
        answers = self._commit_and_claim(moves)
        self._marks.committed()
        return answers

    def _commit_and_claim(self, moves: Sequence[Move]) -> Exchanged:
        staying = len(self._documents) - sum(move.state != "running" for move in moves)
        alone = self._claims_nothing_else or self._only is not None
        wanted = 0 if self._budget.is_over() or alone else self._claim_size.wanted(staying)
        if not wanted:
            return self._store.commit(self._plan, moves), []
        answers, claims = self._store.exchange(self._plan, moves, self._worker, limit=wanted, **self._scope)
        self._claim_size.claimed(len(claims), wanted)
        return answers, claims

    def _rewind(self, document: ClaimedDocument, request: RewindDocument) -> None:
        why = {"who": self._worker.name, "reason": request.reason, "code": request.code}
        if not self._store.rewind(self._plan, document.claim, to=request.to, **why):
            self._drop(document)
            return
        self._emit(Rewound(document.claim, request.to, request.reason, **self._source))
        document.rewind(request.to, self._pipeline)
        self._resume(document, document.claim)

    # circuits

    def _is_held_back(self, document: ClaimedDocument, calls: Sequence[Call]) -> bool:
        """Return True if the next calls of a document must not start, because their step is paused.

        A document stays held back if the step goes on meanwhile: calls of it were removed, and nobody would start them.
        """
        if not document.held_back and calls and isinstance(calls[0], BODIES):
            document.held_back = self._circuits.why_held_back(document.claim.document_id, calls[0].step)
        return bool(document.held_back)

    def _hold_back(self, document: ClaimedDocument) -> None:
        """Give a document back as soon as none of its calls runs. It costs nothing."""
        if document.awaits_results or document.committing:
            return
        claim, who, why = document.claim, self._worker.name, document.held_back
        release = Release(claim, who, "waiting", "release", costs="nothing", reason=why, code=CIRCUIT_OPEN)
        self._add_release(document, release)

    def _hold_back_unstarted(self, steps: Sequence[str]) -> None:
        """Give back the documents whose calls at these steps have not started."""
        jobs = [*self._new_calls, *self._runners.take_unstarted()]
        self._new_calls = []
        for document, call in jobs:
            if call.step in steps and self._is_held_back(document, (call,)):
                document.remove_call(call)
            else:
                self._new_calls.append((document, call))
        for document in [one for one in self._documents if one.held_back]:
            self._hold_back(document)

    def _refresh_circuits(self) -> None:
        before = len(self._circuits.paused)
        if new := self._circuits.refresh(who=self._worker.name):
            self._hold_back_unstarted(new)
        self._set_paused()
        if len(self._circuits.paused) < before:
            self._claim_size.expect_work()

    def _set_paused(self) -> None:
        """Claim at no step that is paused."""
        self._scope["paused"] = self._maintenance.paused = (*self._circuits.paused,)

    def _give_back(self, document: ClaimedDocument, release: Release) -> None:
        """Give a document back as its executor says, unless a service is away."""
        paused = (*self._circuits.paused,)
        if self._circuits.is_probe(document.claim.document_id):
            release = self._circuits.after_probe(release)
        elif release.outage:
            if release.state == "dead":
                self.record_timings()  # they say whether the step works for other documents
            release = self._circuits.after_failure(release)
        self._add_release(document, release)
        if new := [step for step in self._circuits.paused if step not in paused]:
            self._set_paused()
            self._hold_back_unstarted(new)

    def _after_moves(self, moves: Sequence[Move]) -> None:
        if self._circuits.after_moves(moves, who=self._worker.name):
            self._set_paused()
            self._claim_size.expect_work()

    def _claim_probes(self) -> None:
        """Try a document at each paused step whose time has come. Beside a suspect nothing else is tried."""
        for step in self._circuits.due_probes():
            if self._suspect is not None:
                return
            is_alone = not self._documents
            claim = self._circuits.claim_probe(step, self._worker, self._scope, is_alone=is_alone)
            for document in self._begin([claim] if claim else []):
                if (
                    is_alone
                    and document in self._documents
                    and is_suspect(crashes=document.claim.crashes, losses=document.claim.losses)
                ):
                    self._suspect = document

    # releases

    def _interrupt(self, document: ClaimedDocument, running: Mapping[int, float]) -> bool:
        """Give back a document whose body runs, if that counts as an interruption. Return False if it does not.

        It does not count if the document moved since it was claimed, or if a person pressed Ctrl-C.
        """
        begun = [(call, running[number]) for number, call in document.calls.items() if number in running]
        if not begun or document.moved or self._budget.reason == "SIGINT":
            return False
        call, ran = max(begun, key=itemgetter(1))
        step, who = self._pipeline[call.step], self._worker.name
        self._add_release(document, interrupted(document.claim, step, who=who, budget=self._budget, ran=ran))
        return True

    def _release(self, document: ClaimedDocument) -> None:
        reason = self._budget.reason or "the worker stops"
        release = Release(document.claim, self._worker.name, "waiting", "release", costs="nothing", reason=reason)
        self._add_release(document, release)

    def _add_release(self, document: ClaimedDocument, release: Release) -> None:
        self._releases.append(release)
        self._circuits.drop_probe(document.claim.document_id)
        self._remove(document)

    def _write_releases(self) -> None:
        if not self._releases:
            return
        releases, self._releases = self._releases, []
        held = self._store.release(releases)
        self._emit(GaveBack([release for release, ours in zip(releases, held, strict=True) if ours], **self._source))
        for release, ours in zip(releases, held, strict=True):
            if not ours:
                self._emit(LostClaim(release.claim, None, None, **self._source))

    def _drop_after_commit(self, lost: Sequence[tuple[ClaimedDocument, Move]]) -> None:
        """Stop working on documents whose moves were not made. Listeners learn where the documents are instead."""
        try:
            found = self._store.documents_by_id([document.claim.document_id for document, _ in lost])
        except StoreError:  # it is only for the log
            found = []
        now = {status.id: status for status in found}
        for document, move in lost:
            self._drop(document, move.after, now.get(document.claim.document_id))

    def _drop(self, document: ClaimedDocument, to: Checkpoint | None = None, now: DocumentStatus | None = None) -> None:
        """Stop working on a document whose claim is lost."""
        document.bodies.lost = True
        self._circuits.drop_probe(document.claim.document_id)
        self._emit(LostClaim(document.claim, to, now, **self._source))
        self._remove(document)

    def _remove(self, document: ClaimedDocument) -> None:
        self._documents.discard(document)
        if document is self._suspect:
            self._suspect = None
            self._others_until = 2 * monotonic() - self._suspect_since
            self._claim_size.expect_work()
        if document.reader.cache is not None:
            document.reader.drop_cache()
        self._timings.close(document)
        document.executor.close()
        if document.bodies.stream is not None and not document.calls:
            document.bodies.close()

    # claims

    @property
    def _claims_nothing_else(self) -> bool:
        """True if a suspect is held or has to be claimed: it is processed without other documents."""
        return self._suspect_is_next or self._suspect is not None

    @property
    def _suspect_is_next(self) -> bool:
        """True if a suspect has to be claimed now.

        After a suspect, other documents get at least as much time as it took: many suspects must not stop the rest.
        """
        return self._maintenance.suspects and monotonic() >= self._others_until

    def _claim(self) -> None:
        if self._only is not None:
            if not self._documents:
                self._claim_only(self._only)
            return
        if self._suspect_is_next and not self._documents:
            self._claim_suspect()
        if not self._claims_nothing_else and (wanted := self._claim_size.wanted(len(self._documents))):
            claims = self._store.claim(self._plan, self._worker, limit=wanted, **self._scope)
            self._claim_size.claimed(len(claims), wanted)
            if not claims and not self._documents:
                self._others_until = 0.0  # nobody needs the time
            self._begin(claims)
        if self._circuits.paused and self._suspect is None:
            self._claim_probes()

    def _claim_only(self, document_id: int) -> None:
        """Claim the one document of this worker, if it waits and is due. It is held alone, so it may be a suspect."""
        found = self._store.documents_by_id([document_id])
        if not found or found[0].state != "waiting" or (found[0].due_at or self._store.now()) > self._store.now():
            return
        step = found[0].checkpoint.step or ""
        if step in self._circuits.paused:
            claim = self._circuits.claim_document(step, self._worker, document_id, self._scope)
            self._begin([claim] if claim else [])
        else:
            self._begin(self._store.claim(self._plan, self._worker, limit=1, which=document_id, **self._scope))

    def _claim_suspect(self) -> None:
        """Claim a document that may be what ends its workers, while no other document is held."""
        claims = self._store.claim(self._plan, self._worker, limit=1, which="suspect", **self._scope)
        self._maintenance.suspects = bool(claims)
        self._suspect_since = monotonic()
        for document in self._begin(claims):
            self._suspect = document if document in self._documents else None  # it may be given back at once

    def _begin(self, claims: Sequence[Claim]) -> Sequence[ClaimedDocument]:
        if not claims:
            return ()
        self._emit(Claimed(claims, **self._source))
        documents = self._factory.create(claims, who=self._worker.name)
        self._documents.update(documents)
        for document in documents:
            self._resume(document, None)
        return documents

    # maintenance

    def _maintain(self) -> None:
        every = MAINTENANCE_INTERVAL if self._documents else IDLE
        if monotonic() - self._maintained_at < every:
            return
        self._maintained_at = monotonic()
        self.record_timings()
        self._drop_lost()
        if not self._maintenance.is_due(every):
            return
        self._refresh_circuits()
        reclaimed = self._maintenance.run(self._worker, [document.claim.document_id for document in self._documents])
        if reclaimed:
            self._emit(Reclaimed(reclaimed, **self._source))
            self._claim_size.expect_work()

    def _drop_lost(self) -> None:
        """Stop work on documents that were cancelled, paused, rewound or changed: streams end at their next item."""
        documents = {one.claim.document_id: one for one in self._documents if not one.committing}  # commits tell too
        for document_id in self._store.lost_claims([one.claim for one in documents.values()]) if documents else ():
            self._drop(documents[document_id])
