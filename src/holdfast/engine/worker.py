"""The worker: claims documents, drives their executors, and commits what is ready, together.

All of that is one round, and one thread at a time does rounds: whoever has the baton. A runner that has finished a body
takes it if it is free; the worker's own thread takes it now and then, so that rounds go on while all bodies are long.
Whatever has come back when the last commit is through goes into the next: the slower the disk, the larger the group,
and nobody waits for a timer.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import StepTimeout
from holdfast.core.model import Claim
from holdfast.core.moves import Accepted, Answer, Ending, Lost, Move, rewound
from holdfast.core.pipeline import Pipeline
from holdfast.engine.bodies import Desk, StoreReader
from holdfast.engine.budget import Budget
from holdfast.engine.calls import Call, Commit, Compute, Event, GiveBack, Raised, ReadJournal, Request
from holdfast.engine.caretaker import UPKEEP, Caretaker
from holdfast.engine.doors import Doors
from holdfast.engine.events import (
    Claimed,
    Committed,
    Enlisted,
    GaveBack,
    Listener,
    LostClaim,
    Reclaimed,
    Retired,
    Rewound,
    Stopping,
)
from holdfast.engine.events import Event as Said
from holdfast.engine.hand import InHand, take
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.hosts import born, this_host
from holdfast.engine.pace import IDLE, Pace
from holdfast.engine.report import Report, Tally
from holdfast.engine.runners import Runners
from holdfast.engine.settings import Settings
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.engine.isolation import Nursery

GLANCE = 0.01
"""Seconds after which the worker's own thread does a round, if no runner did: what is finished waits no longer."""


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
        self._timeouts = {s.name: s.options.timeout for s in pipeline.steps if s.options.timeout is not None}
        self._deadlines = {s.name: s.deadline for s in pipeline.steps if s.deadline is not None}
        self._pace = Pace(pipeline, threads=self.settings.threads, most=self.settings.concurrency)
        self._doors = Doors(pipeline, store, self._plan)
        self._caretaker = Caretaker(pipeline, store, self._plan, batch=self.settings.batch)
        self._hand: set[InHand] = set()
        self._jobs: list[tuple[Desk, Call]] = []
        self._group: list[tuple[InHand, Move]] = []
        self._endings: list[Ending] = []
        self._baton = threading.Lock()
        self._trouble: BaseException | None = None

    def drain(self) -> Report:
        """Works until no document waits or runs any more, or the budget is over."""
        return self._work(until_empty=True)

    def work(self) -> Report:
        """Works until the budget is over."""
        return self._work(until_empty=False)

    # the loop

    def _work(self, *, until_empty: bool) -> Report:
        with self._ready():
            while not self.budget.is_over():
                with self._baton:
                    self._round()
                    busy, patience = bool(self._hand), self._patience()
                if busy:
                    self._runners.wait(patience)
                elif not self._rest(until_empty=until_empty):
                    break
            self._wind_down()
        return self._tally.report()

    def _round(self) -> None:
        """Hears what came back, commits what is ready, and takes more in hand. Only with the baton."""
        if self._trouble is not None:
            raise self._trouble
        self._renew_if_given_up()
        for desk, event in self._runners.results():
            self._hear(desk, event)
        if self._timeouts:
            self._expire()
        for waiting in self._doors.admit(self._hand.__contains__):
            self._run(*waiting)
        self._start_jobs()
        self._commit()
        self._give_back()
        if not self.budget.is_over():
            self._look_after_orphans()
            self._take_in_hand()
            self._give_back()
        self._start_jobs()

    def _help_out(self) -> None:
        """Does rounds for a runner that has results, as long as nobody else does."""
        while self._runners.have_results and self._trouble is None:
            if not self._baton.acquire(blocking=False):
                self._runners.nudge()  # whoever has the baton may have heard all it wanted: somebody looks again
                return
            try:
                self._round()
            except BaseException as error:  # noqa: BLE001 - the worker's own thread raises it
                self._trouble = error
                self._runners.nudge()
            finally:
                self._baton.release()

    @contextmanager
    def _ready(self) -> Iterator[None]:
        nursery = self._nursery()
        self._runners = Runners(self.pipeline, threads=self.settings.threads, help_out=self._help_out, nursery=nursery)
        self.budget.on_stop = self._runners.nudge
        self._enlist()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, 0.0005))  # else a busy body holds up every statement of a commit for 5 ms
        try:
            yield
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

    def _hear(self, desk: Desk, event: Event) -> None:
        assert isinstance(desk, InHand)
        if desk.forget(event.call):
            return  # it was given up meanwhile: too late
        if desk not in self._hand:
            if not desk.calls:
                desk.close()
            return
        self._hear_of(desk, event)

    def _hear_of(self, desk: InHand, event: Event) -> None:
        if desk.committing:
            desk.heard += (event,)
        else:
            self._tell(desk, (event,))

    def _tell_events(self, desk: InHand) -> None:
        if desk.heard:
            heard, desk.heard = desk.heard, ()
            self._tell(desk, heard)

    def _tell(self, desk: InHand, said: Any) -> None:
        """Tells an executor what came of its request, and does what it asks for next."""
        try:
            request: Request = desk.run_of.send(said)
        except StopIteration:
            self._let_go(desk)
            return
        if isinstance(request, Compute):
            self._compute(desk, request.calls)
        elif isinstance(request, Commit):
            desk.committing = True
            self._group.append((desk, request.move))
        elif isinstance(request, GiveBack):
            self._end(desk, request.ending)
        elif isinstance(request, ReadJournal):
            self._tell(desk, self.store.journal(desk.claim.document_id))
        else:
            self._rewind(desk, request.to, request.reason)

    def _compute(self, desk: InHand, calls: Sequence[Call]) -> None:
        if self.budget.is_over():
            if not desk.calls:  # what is out is waited for, and kept
                self._release(desk)
        elif calls and self._doors.stop(desk, calls[0]):
            self._doors.queue(desk, calls)
        else:
            self._run(desk, calls)

    def _run(self, desk: InHand, calls: Sequence[Call]) -> None:
        for call in calls:
            desk.calls[id(call)] = call
            self._jobs.append((desk, call))

    def _start_jobs(self) -> None:
        if self._jobs:
            jobs, self._jobs = self._jobs, []
            self._runners.start(jobs)

    # committing

    def _commit(self) -> None:
        """Commits all moves that are ready, together, and claims in place of those that end; then the rest go on."""
        if not self._group:
            return
        group, self._group = self._group, []
        moves = [move for _, move in group]
        began = monotonic()
        answers, claims = self._exchange(moves)
        took = monotonic() - began
        accepted = []
        for (desk, move), answer in zip(group, answers, strict=True):
            desk.committing = False
            if isinstance(answer, Lost):
                self._lose(desk)
                continue
            if isinstance(answer, Accepted):
                accepted.append(move)
                if move.state != "running":
                    self._let_go(desk)
                    continue
            self._tell(desk, answer)
            if not desk.committing:
                self._tell_events(desk)
        self._doors.left()
        if accepted:
            self._say(Committed(accepted, took))
        self._begin(claims)

    def _exchange(self, moves: Sequence[Move]) -> tuple[list[Answer], list[Claim]]:
        staying = len(self._hand) - sum(move.state != "running" for move in moves)
        alone = self.budget.is_over() or self._caretaker.suspects
        wanted = 0 if alone else self._pace.wanted(staying)
        if not wanted:
            return self.store.commit(self._plan, moves), []
        answers, claims = self.store.exchange(
            self._plan, moves, self._me, limit=wanted, batch=self.settings.batch, timeouts=self._deadlines
        )
        self._pace.claimed(len(claims), wanted)
        return answers, claims

    def _rewind(self, desk: InHand, to: str, reason: str) -> None:
        if not self.store.rewind(self._plan, desk.claim, to=to, who=self._me.name, reason=reason):
            self._lose(desk)
            return
        self._say(Rewound(desk.claim, to, reason))
        before = [step.name for step in self.pipeline.behind(to)]
        desk.admitted = ""
        desk.claim = desk.reader.claim = rewound(desk.claim, to=to, before=before)
        self._tell(desk, desk.claim)

    def _end(self, desk: InHand, ending: Ending) -> None:
        self._endings.append(ending)
        self._let_go(desk)

    def _release(self, desk: InHand) -> None:
        reason = self.budget.reason or "the worker stops"
        self._end(desk, Ending(desk.claim, self._me.name, "waiting", "release", costs="nothing", reason=reason))

    def _give_back(self) -> None:
        if not self._endings:
            return
        endings, self._endings = self._endings, []
        held = self.store.give_back(endings)
        self._say(GaveBack([ending for ending, ours in zip(endings, held, strict=True) if ours]))
        for ending, ours in zip(endings, held, strict=True):
            if not ours:
                self._say(LostClaim(ending.claim))

    def _lose(self, desk: InHand) -> None:
        self._say(LostClaim(desk.claim))
        self._let_go(desk)

    def _let_go(self, desk: InHand) -> None:
        self._hand.discard(desk)
        desk.run_of.close()
        if desk.stream is not None and not desk.calls:
            desk.close()

    # claiming

    def _take_in_hand(self) -> None:
        if self._caretaker.suspects:
            self._take_a_suspect()
        elif wanted := self._pace.wanted(len(self._hand)):
            claims = self.store.claim(
                self._plan, self._me, limit=wanted, batch=self.settings.batch, timeouts=self._deadlines
            )
            self._pace.claimed(len(claims), wanted)
            self._begin(claims)

    def _take_a_suspect(self) -> None:
        """A document that crashed its workers is worked on while nothing else is in hand."""
        if self._hand:
            return
        claims = self.store.claim_suspect(self._plan, self._me, batch=self.settings.batch, timeouts=self._deadlines)
        self._caretaker.suspects = bool(claims)
        self._begin(claims)

    def _begin(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        self._say(Claimed(claims))
        for desk in [self._hold(claim) for claim in claims]:
            self._tell(desk, None)

    def _hold(self, claim: Claim) -> InHand:
        reader = StoreReader(self.store, self._plan, claim)
        desk = take(self.pipeline, claim, reader, who=self._me.name, stopping=self.budget.is_over)
        self._hand.add(desk)
        return desk

    def _rest(self, *, until_empty: bool) -> bool:
        """Waits until something may be due. Answers False when nothing is left to wait for."""
        began, batch = monotonic(), self.settings.batch
        due = self.store.next_due(self._plan, batch=batch)
        if due is None and until_empty and not self.store.running(self._plan, batch=batch):
            return False
        least = 10 * (monotonic() - began)  # in a long queue of others even looking costs something
        wait = IDLE if due is None else min(max(due.total_seconds(), 0.001), IDLE)
        self._runners.wait(min(max(wait, least), self.budget.remaining))
        self._pace.look_again()
        return True

    # time

    def _patience(self) -> float:
        """How long the worker's own thread leaves rounds to others."""
        if self._group or self._endings:
            return 0.0
        return min(GLANCE, self.budget.remaining)

    def _expire(self) -> None:
        """Gives up on calls that take longer than their step allows."""
        for desk, call in self._runners.overdue(self._timeouts):
            assert isinstance(desk, InHand)
            if not desk.give_up(call):
                continue
            self._runners.abandon(call)
            if desk in self._hand:
                allowed = f"the {self._timeouts[call.step]} that its timeout allows"
                self._hear_of(desk, Raised(call, StepTimeout(f"step {call.step!r} took longer than {allowed}")))

    def _renew_if_given_up(self) -> None:
        """A worker that was thought dead begins anew. What it held is others' now."""
        if not self._heartbeat.given_up:
            return
        for desk in list(self._hand):
            self._lose(desk)
        self._group.clear()
        self._endings.clear()
        self._heartbeat.stop()
        self._enlist()

    def _enlist(self) -> None:
        pid = os.getpid()
        self._me = self.store.enlist(
            name=self.settings.name, host=this_host(), pid=pid, born=born(pid), lease=self.settings.lease
        )
        self._heartbeat = Heartbeat(self.store, self._me)
        self._say(Enlisted(self._me, self.pipeline.name))

    def _look_after_orphans(self) -> None:
        if not self._caretaker.is_due(UPKEEP if self._hand else IDLE):
            return
        reclaimed = self._caretaker.look_after(self._me, [desk.claim.document_id for desk in self._hand])
        if reclaimed:
            self._say(Reclaimed(reclaimed))
            self._pace.look_again()

    # the end

    def _wind_down(self) -> None:
        """Lets what runs come to its next item, keeps that, and gives everything back."""
        if not self.budget.is_over():
            return  # there was nothing left to do
        deadline = monotonic() + self.settings.grace.total_seconds()
        with self._baton:
            self._say(Stopping(self.budget.reason))
            self._release_what_has_not_begun()
        while self._hand and monotonic() < deadline and self._trouble is None:
            with self._baton:
                self._round()
            if self._hand:
                self._runners.wait(GLANCE)
        with self._baton:
            for desk in list(self._hand):
                self._release(desk)
            self._give_back()
        if self._trouble is not None:
            raise self._trouble

    def _release_what_has_not_begun(self) -> None:
        for desk, call in [*self._jobs, *self._runners.take_back()]:
            assert isinstance(desk, InHand)
            desk.calls.pop(id(call), None)
        self._jobs.clear()
        for desk in [desk for desk in self._hand if not desk.calls and not desk.committing]:
            self._release(desk)

    def _say(self, event: Said) -> None:
        for listener in self._listeners:
            listener(event)
