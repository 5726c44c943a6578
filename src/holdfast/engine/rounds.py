"""Rounds: what came back is heard, what is ready is committed, and more is taken in hand. One thread at a time.

Whatever has come back when the last commit is through goes into the next: the slower the disk, the larger the group,
and nobody waits for a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from holdfast.core.errors import StepTimeout
from holdfast.core.integrity import Traces
from holdfast.core.model import Claim, Plan, Worker
from holdfast.core.moves import Accepted, Ending, Lost, Move, rewound
from holdfast.core.pipeline import Pipeline
from holdfast.engine.bodies import Desk, StepsDone, StoreReader
from holdfast.engine.budget import Budget
from holdfast.engine.calls import Call, Commit, Compute, Event, GiveBack, Raised, ReadJournal, Request
from holdfast.engine.caretaker import UPKEEP, Caretaker
from holdfast.engine.doors import Doors
from holdfast.engine.events import Claimed, Committed, GaveBack, LostClaim, Paced, Reclaimed, Rewound
from holdfast.engine.events import Event as Said
from holdfast.engine.fresh import Room
from holdfast.engine.hand import InHand, take
from holdfast.engine.pace import IDLE, Pace
from holdfast.engine.runners import Result, Runners
from holdfast.engine.settings import Settings
from holdfast.engine.stopwatch import Stopwatch
from holdfast.stores.protocol import Exchanged, Scope, Store


class Rounds:
    """What a worker holds and does, round after round."""

    me: Worker
    runners: Runners

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        plan: Plan,
        *,
        settings: Settings,
        budget: Budget,
        say: Callable[[Said], None],
    ) -> None:
        self.pipeline = pipeline
        self.store = store
        self.budget = budget
        self._plan = plan
        self._steps_done = StepsDone(pipeline, store, plan)
        self._say = say
        self._timeouts = {s.name: s.options.timeout for s in pipeline.steps if s.options.timeout is not None}
        deadlines = {s.name: s.deadline for s in pipeline.steps if s.deadline is not None}
        self._scope: Scope = {"batch": settings.batch, "timeouts": deadlines}
        self._pace = Pace(pipeline, threads=settings.threads, most=settings.concurrency)
        self._doors = Doors(pipeline, store, plan)
        self._caretaker = Caretaker(pipeline, store, plan, say=say, batch=settings.batch)
        self._stopwatch = Stopwatch()
        self._room = Room()
        self._hand: set[InHand] = set()
        self._suspect: InHand | None = None
        self._jobs: list[tuple[Desk, Call]] = []
        self._group: list[tuple[InHand, Move]] = []
        self._endings: list[Ending] = []
        self._looked_at = 0.0
        self.heard_at = self.commits_take = 0.0
        """When results were heard last, and how many seconds the last commit took."""

    @property
    def hold_something(self) -> bool:
        """Whether any document is in hand."""
        return bool(self._hand)

    @property
    def are_pressing(self) -> bool:
        """Whether something is ready to be written."""
        return bool(self._group or self._endings)

    @property
    def idle(self) -> float:
        """For how many seconds to wait before looking for work again, when there was none."""
        return IDLE * self._caretaker.crowd

    def run(self) -> None:
        """Does one round."""
        self.heard_at = monotonic()
        self._hear_all(self.runners.results())
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

    def look_again(self, *, is_due: bool) -> None:
        """Learns that there may be work again. What was due all along, and not given to us, may be a suspect."""
        self._pace.look_again()
        self._caretaker.suspects |= is_due

    def lose_everything(self) -> None:
        """Forgets what is in hand: it is others' now."""
        for desk in list(self._hand):
            self._lose(desk)
        self._group.clear()
        self._endings.clear()

    def release_what_has_not_begun(self) -> None:
        """Gives back the documents that nothing runs for."""
        for desk, call in [*self._jobs, *self.runners.take_back()]:
            assert isinstance(desk, InHand)
            desk.calls.pop(id(call), None)
        self._jobs.clear()
        for desk in [desk for desk in self._hand if not desk.calls and not desk.committing]:
            self._release(desk)

    def release_everything(self) -> None:
        """Gives back all that is in hand."""
        for desk in list(self._hand):
            self._release(desk)
        self._give_back()

    def tell_pace(self) -> None:
        """Writes down how long bodies took since the last time. What a kill loses of it, or an error, is lost."""
        if spent := self._stopwatch.read():
            self.store.pace(self._plan, spent)
            self._say(Paced(spent, **self._by))

    @property
    def _by(self) -> dict[str, str]:
        return {"pipeline": self.pipeline.name, "worker": self.me.name}

    # hearing

    def _hear_all(self, results: Sequence[Result]) -> None:
        self._stopwatch.heard(results)
        for desk, event, _ in results:
            self._hear(desk, event)

    def _hear(self, desk: Desk, event: Event) -> None:
        assert isinstance(desk, InHand)
        if desk not in self._hand:
            self._stopwatch.let_go(desk)
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
            self.runners.start(jobs)

    def _expire(self) -> None:
        """Gives up on calls that take longer than their step allows."""
        for desk, call in self.runners.overdue(self._timeouts):
            assert isinstance(desk, InHand)
            if not desk.give_up(call):
                continue
            self.runners.abandon(call)
            if desk in self._hand:
                allowed = f"the {self._timeouts[call.step]} that its timeout allows"
                self._hear_of(desk, Raised(call, StepTimeout(f"step {call.step!r} took longer than {allowed}")))

    # committing

    def _commit(self) -> None:
        """Commits all moves that are ready, together, and claims in place of those that end; then the rest go on."""
        if not self._group:
            return
        group, self._group = self._group, []
        moves = [move for _, move in group]
        began = monotonic()
        answers, claims = self._exchange(moves)
        self.commits_take = took = monotonic() - began
        self.runners.commits_take(took)
        accepted = []
        for (desk, move), answer in zip(group, answers, strict=True):
            desk.committing = False
            if isinstance(answer, Lost):
                self._lose(desk)
                continue
            if isinstance(answer, Accepted):
                accepted.append(move)
                self._stopwatch.committed(desk, move)
                if move.state != "running":
                    self._let_go(desk)
                    continue
                if move.items:
                    desk.reader.learn(move.items, self._room)
            self._tell(desk, answer)
            if not desk.committing:
                self._tell_events(desk)
        self._doors.left()
        if accepted:
            self._say(Committed(accepted, took, **self._by))
        self._begin(claims)

    def _exchange(self, moves: Sequence[Move]) -> Exchanged:
        staying = len(self._hand) - sum(move.state != "running" for move in moves)
        wanted = 0 if self.budget.is_over() or self._is_alone else self._pace.wanted(staying)
        if not wanted:
            return self.store.commit(self._plan, moves), []
        answers, claims = self.store.exchange(self._plan, moves, self.me, limit=wanted, **self._scope)
        self._pace.claimed(len(claims), wanted)
        return answers, claims

    def _rewind(self, desk: InHand, to: str, reason: str) -> None:
        if not self.store.rewind(self._plan, desk.claim, to=to, who=self.me.name, reason=reason):
            self._lose(desk)
            return
        self._say(Rewound(desk.claim, to, reason, **self._by))
        before = [step.name for step in self.pipeline.behind(to)]
        desk.admitted = ""
        desk.claim = rewound(desk.claim, to=to, before=before)
        desk.reader.rewound(desk.claim)
        self._tell(desk, desk.claim)

    def _end(self, desk: InHand, ending: Ending) -> None:
        self._endings.append(ending)
        self._let_go(desk)

    def _release(self, desk: InHand) -> None:
        reason = self.budget.reason or "the worker stops"
        self._end(desk, Ending(desk.claim, self.me.name, "waiting", "release", costs="nothing", reason=reason))

    def _give_back(self) -> None:
        if not self._endings:
            return
        endings, self._endings = self._endings, []
        held = self.store.give_back(endings)
        self._say(GaveBack([ending for ending, ours in zip(endings, held, strict=True) if ours], **self._by))
        for ending, ours in zip(endings, held, strict=True):
            if not ours:
                self._say(LostClaim(ending.claim, **self._by))

    def _lose(self, desk: InHand) -> None:
        desk.lost = True
        self._say(LostClaim(desk.claim, **self._by))
        self._let_go(desk)

    def _let_go(self, desk: InHand) -> None:
        self._hand.discard(desk)
        if desk is self._suspect:
            self._suspect = None
        if desk.reader.fresh is not None:
            desk.reader.forget()
        self._stopwatch.let_go(desk)
        desk.run_of.close()
        if desk.stream is not None and not desk.calls:
            desk.close()

    # claiming

    @property
    def _is_alone(self) -> bool:
        """Whether nothing may be taken beside what is in hand, if anything is."""
        return self._caretaker.suspects or self._suspect is not None

    def _take_in_hand(self) -> None:
        if self._caretaker.suspects and not self._hand:
            self._take_a_suspect()
        if not self._is_alone and (wanted := self._pace.wanted(len(self._hand))):
            claims = self.store.claim(self._plan, self.me, limit=wanted, **self._scope)
            self._pace.claimed(len(claims), wanted)
            self._begin(claims)

    def _take_a_suspect(self) -> None:
        """A document that crashed its workers is worked on while nothing else is in hand."""
        claims = self.store.claim_suspect(self._plan, self.me, **self._scope)
        self._caretaker.suspects = bool(claims)
        for desk in self._begin(claims):
            self._suspect = desk if desk in self._hand else None  # it may be given back at once

    def _begin(self, claims: Sequence[Claim]) -> Sequence[InHand]:
        if not claims:
            return ()
        self._say(Claimed(claims, **self._by))
        traces = self._traces([claim for claim in claims if claim.checkpoint.moves])
        begun = [self._hold(claim, traces.get(claim.document_id)) for claim in claims]
        for desk in begun:
            self._tell(desk, None)
        return begun

    def _traces(self, begun: Sequence[Claim]) -> dict[int, Traces]:
        """Finds what is kept for documents that are taken up in the middle, for all of them at once."""
        if not begun:
            return {}
        return {one.document_id: found for one, found in zip(begun, self.store.traces(self._plan, begun), strict=True)}

    def _hold(self, claim: Claim, traces: Traces | None) -> InHand:
        reader = StoreReader(self.store, self._plan, claim)
        did = self._steps_done.under(traces)
        desk = take(
            self.pipeline, claim, reader, who=self.me.name, stopping=self.budget.is_over, traces=traces, did=did
        )
        self._hand.add(desk)
        return desk

    def _look_after_orphans(self) -> None:
        every = UPKEEP if self._hand else IDLE
        if monotonic() - self._looked_at < every:
            return
        self._looked_at = monotonic()
        self.tell_pace()
        self._let_go_of_what_was_lost()
        if not self._caretaker.is_due(every):
            return
        reclaimed = self._caretaker.look_after(self.me, [desk.claim.document_id for desk in self._hand])
        if reclaimed:
            self._say(Reclaimed(reclaimed, **self._by))
            self._pace.look_again()

    def _let_go_of_what_was_lost(self) -> None:
        """Stops work on documents that were cancelled, parked, set back or changed: streams end at their next item."""
        in_hand = {desk.claim.document_id: desk for desk in self._hand if not desk.committing}  # those learn it then
        for document_id in self.store.lost([desk.claim for desk in in_hand.values()]) if in_hand else ():
            self._lose(in_hand[document_id])
