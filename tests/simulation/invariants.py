"""The invariants, checked after every transaction: only what may change has changed.

The checks use the stored state before and after, the effects that were written, and the calls of the store. They use
nothing of the engine: a cursor is read as the documentation describes it, and the holder is read from the stored state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.moves import Move
from tests.simulation.attempt_checks import count_violation
from tests.simulation.cursor_reader import covered_places, failed_places, newly_done, step_order
from tests.simulation.effect_checks import EffectChecks
from tests.simulation.fake_os import Machine, SimulatedProcess
from tests.simulation.observed_state import ObservedDocument, ObservedState
from tests.simulation.pipelines import ATTEMPTS, GATES, LIMIT, OVER
from tests.simulation.release_checks import ReleaseChecks
from tests.simulation.uncertainty import Uncertainty
from tests.simulation.undo_checks import UndoChecks
from tests.simulation.verify_checks import VERIFIED, VerifyChecks
from tests.simulation.version_checks import VersionChecks
from tests.simulation.wait_checks import deadline_violation
from tests.simulation.watched_stores import Call

MOVE_VERBS = ("commit", "exchange")
CLAIM_VERBS = ("claim", "claim_probe", "exchange")
NEW_GENERATION_VERBS = ("rewind", "rewind_to", "submit", "declare")
TRANSITIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("waiting", "running"): CLAIM_VERBS,
    ("waiting", "paused"): ("pause",),
    ("waiting", "cancelled"): ("cancel", "withdraw"),
    ("running", "waiting"): ("release", "retire_worker", "release_unknown", "reclaim"),
    ("running", "paused"): (*MOVE_VERBS, "release", "pause", "reclaim"),
    ("running", "done"): MOVE_VERBS,
    ("running", "dead"): ("release", "reclaim"),
    ("running", "cancelled"): ("cancel", "withdraw"),
    ("paused", "waiting"): ("resume", "wake"),
    ("paused", "done"): ("resume",),
    ("paused", "dead"): ("reject",),
    ("paused", "cancelled"): ("cancel", "withdraw"),
    ("done", "cancelled"): ("withdraw",),
    ("dead", "cancelled"): ("withdraw",),
    ("dead", "waiting"): ("redrive",),
}
"""Which verbs may change a document from one state to another without a new generation."""
JOURNALLED = ("cancel", "pause", "reclaim", "redrive", "reject", "resume", "wake", "withdraw")
"""The verbs that write a line of their own name into the journal."""
CLAIMED = ("waiting", "running")
"""The states of a document before and after a claim."""
KeyAndFence = tuple[str, int]
"""A claimed document: its key and its fence."""
SUSPECT, SUSPECT_LOSSES = 2, 5


class Violation(Exception):
    """An invariant does not hold."""


class Invariants:
    """Remembers the last stored state and compares it with the present one."""

    def __init__(
        self, machine: Machine, observed: ObservedState, *, is_incurable: Callable[[ObservedDocument], bool]
    ) -> None:
        self._machine = machine
        self._observed = observed
        self._now = machine.clock()
        self._caller_gets_the_answer = True
        self._before: dict[int, ObservedDocument] = {}
        self._effect_checks = EffectChecks(observed)
        self._undo_checks = UndoChecks(observed)
        self._holders: dict[int, SimulatedProcess] = {}
        self.uncertainty = Uncertainty()
        self._release_checks = ReleaseChecks(
            machine, observed, uncertainty=self.uncertainty, holder_of=self._holder_process, is_incurable=is_incurable
        )
        self._verify_checks = VerifyChecks()
        self.version_checks = VersionChecks()
        self.acknowledged: set[str] = set()
        self.given_up: dict[tuple[str, int, str], set[int]] = {}
        """The items that were given up after all tries, by key, version and step."""
        self.all_settled = False
        """Whether no document can make progress until something happens."""
        self.states: set[int] = set()
        self.violation: Violation | None = None

    # what callers report

    def on_register(self, worker_id: int, process: SimulatedProcess) -> None:
        """Remember which process a worker is."""
        self._holders[worker_id] = process

    def on_reclaim(self, call: Call) -> None:
        """Check that a reclaim left no overdue document, even if its holder is alive."""
        for document in self.documents if not self.uncertainty.clocks else ():
            if document.state == "running" and document.deadline_at is not None and document.deadline_at < call.at:
                holder = self._holder_process(document)
                self.fail(f"{call.process} left {document.key} to {holder}, where it is overdue: {document}")

    def fail(self, message: str) -> None:
        """Record a violation. Only the first is kept, because later ones may follow from it."""
        self.violation = self.violation or Violation(message)

    def _fail_if(self, message: str) -> None:
        if message:
            self.fail(message)

    def fence_held(self, process: SimulatedProcess, key: str) -> KeyAndFence | None:
        """Return the key and the fence under which a process holds a document; None if it does not hold it."""
        held = [document for document in self._before.values() if document.key == key and document.state == "running"]
        return next(((key, document.fence) for document in held if self._holder_process(document) is process), None)

    def holds(self, process: SimulatedProcess, key: str, generation: int) -> bool:
        """Return True if a process holds this generation of a document."""
        held = self.fence_held(process, key)
        return any(
            (document.key, document.fence) == held and document.generation == generation for document in self.documents
        )

    def on_verify(self, process: SimulatedProcess, held: KeyAndFence, *, is_there: bool) -> None:
        """Remember what the holder of a document learned when it verified a result."""
        if self.fence_held(process, held[0]) == held:
            self._verify_checks.on_answer(held, is_there=is_there)

    def check_step_limit(self, step: str, bodies: Sequence[tuple[SimulatedProcess, KeyAndFence]]) -> None:
        """Check the limit of a step. Bodies whose claim was lost since do not count."""
        inside = {held for process, held in bodies if self.fence_held(process, held[0]) == held}
        if len(inside) > LIMIT:
            self.fail(f"{sorted(inside)} are in {step} at once, where the limit is {LIMIT}")

    @property
    def documents(self) -> Iterable[ObservedDocument]:
        """Every document, as it was at the last check."""
        return self._before.values()

    # checks

    def check(self, call: Call | None) -> None:
        """Check what a transaction changed."""
        self._now = self._machine.clock()  # the clock of the caller
        current, self._machine.current = self._machine.current, None
        self._caller_gets_the_answer = current is not None  # False for a second delivery
        try:
            self._check(call)
        finally:
            self._machine.current = current

    def _check(self, call: Call | None) -> None:
        if self.violation:
            return
        before, now = self._before, self._observed.documents()
        verb = call.verb if call else ""
        changed = [
            (before.get(number), document) for number, document in now.items() if before.get(number) is not document
        ]
        self._before = now
        if changed:
            self.all_settled = all(_is_settled(document) for document in now.values())
            self.states.add(hash(tuple([_state_key(document) for document in now.values()])))
        if gone := before.keys() - now.keys():
            self.fail(f"{gone} disappeared")
        if (expected := self._observed.expected()) != len(now):
            self.fail(f"{expected} documents are expected and {len(now)} are there")
        stayed = [
            (was, document) for was, document in changed if was is not None and was.generation == document.generation
        ]
        moved = stayed if verb in MOVE_VERBS else []
        wrote, undone = self._observed.new_effects(), self._observed.new_undone()
        for violation in self._effect_checks.check(verb, moved, wrote):
            self.fail(violation)
        for violation in self._undo_checks.check(verb, moved, wrote=wrote, undone=undone):
            self.fail(violation)
        for was, document in changed:
            if was is None:
                self._check_new(verb, document)
            else:
                self._check_document(call, was, document)
        if verb in CLAIM_VERBS:
            self._check_claim_order(call, changed)
            if not self.uncertainty.assignments:
                self._check_suspects_alone(now)

    def _check_new(self, verb: str, document: ObservedDocument) -> None:
        if verb != "submit" or (document.state, document.moves, document.generation, document.cursor) != (
            "waiting",
            0,
            0,
            None,
        ):
            self.fail(f"{document} was created by {verb or 'no call'}")

    def _check_document(self, call: Call | None, was: ObservedDocument, now: ObservedDocument) -> None:
        verb = call.verb if call else ""
        if not self._caller_gets_the_answer and now.moves > was.moves and now.state == "running":
            self.uncertainty.ahead_of_holder.add((now.id, now.fence))
        if now.fence < was.fence or now.moves < was.moves or now.generation < was.generation:
            self.fail(f"{verb} took back fence, moves or generation: {was} became {now}")
        if now.generation > was.generation:
            self._check_new_generation(call, verb, was, now)
        elif (was.step, was.cursor) != (now.step, now.cursor):
            self._check_move(call, verb, was, now)
        if was.state != now.state:
            self._check_transition(call, verb, was, now)
        if verb == "open_circuit":
            self._release_checks.given_back(was, now)
            self.uncertainty.ahead_of_holder.add((now.id, now.fence))
        if now.state == "running" and (was.state != "running" or was.worker_id != now.worker_id):
            self._check_claim(call, was, now)
        self._fail_if(deadline_violation(call, was, now, at=self._now))
        progressed = was.step != now.step or bool(newly_done(was, now))
        self._fail_if(count_violation(call, was, now, progressed=progressed, holder=self._holder_process(was)))

    # checkpoints

    def _check_move(self, call: Call | None, verb: str, was: ObservedDocument, now: ObservedDocument) -> None:
        if verb == "withdraw":
            self._check_withdrawn_place(call, now)
            return
        if was.step is None:
            self.fail(f"{verb} moved {was.key}, which was done, without a new generation")
            return
        if verb == "resume" and was.step in GATES and not was.on_hold and step_order(now.step) > step_order(was.step):
            self._check_gate_decision(call, was)
            return
        if verb not in MOVE_VERBS:
            self.fail(f"{verb or 'no call'} moved {was.key} from {was.step} {was.cursor} to {now.step} {now.cursor}")
            return
        if step_order(now.step) < step_order(was.step):
            self.fail(f"{was.key} went back from {was.step} to {now.step}")
        elif now.step == was.step and not covered_places(was) <= covered_places(now):
            self.fail(f"{was.key} went back inside {was.step}, from {was.cursor} to {now.cursor}")
        elif was.step in GATES:
            self.fail(f"{was.key} passed its gate without a decision")
        if now.moves != was.moves + 1:
            self.fail(f"{was.key} made one move and counts {now.moves - was.moves}")
        self._check_holder(call, was, [move.claim.fence for move in _moves_of(call, was)])
        self._fail_if(self._verify_checks.check_move(was) if call and VERIFIED in call.arguments[0].step_ids else "")
        if call is not None:
            self.version_checks.on_move(call.arguments[0], was, now)
        if was.step in OVER:
            self._check_failed_items(was, now)
            if now.step != was.step:
                self._check_given_up(was)
        self._release_checks.progressed(was)

    def _check_withdrawn_place(self, call: Call | None, now: ObservedDocument) -> None:
        assert call is not None
        if now.step != next(iter(call.arguments[0].step_ids)):
            self.fail(f"{now.key} was withdrawn, and can go on at {now.step} without its rows")

    def _check_gate_decision(self, call: Call | None, was: ObservedDocument) -> None:
        """Check who passed a gate: a person at any time, a worker only when the time of the gate is over."""
        assert call is not None
        if call.process.is_operator:
            return
        too_early = was.due_at is None or (was.due_at > self._now and not self.uncertainty.clocks)
        if was.step != "late" or too_early:
            self.fail(f"{call.process} let {was.key} past {was.step}, where a person may decide until {was.due_at}")

    def _check_given_up(self, was: ObservedDocument) -> None:
        """Check that items which are still set aside at the end of the step were tried as often as allowed."""
        assert was.step is not None
        self.given_up[was.key, was.version, was.step] = {*failed_places(was)}
        tries = [*failed_places(was).values()]
        if tries and min(tries) < ATTEMPTS:
            self.fail(f"{was.key} went past {was.step}, and items there were tried {tries} times")

    def _check_failed_items(self, was: ObservedDocument, now: ObservedDocument) -> None:
        """Check that the list of items set aside is the same as in the checkpoint."""
        assert was.step is not None
        expected = failed_places(now if now.step == was.step else was)
        listed = self._observed.failed_items(was.id, was.generation, was.step)
        if listed != expected:
            self.fail(f"{was.key} has failed items {expected} of {was.step}, and {listed} is listed")

    def _check_holder(self, call: Call | None, was: ObservedDocument, fences: Sequence[int]) -> None:
        assert call is not None
        if was.state != "running":
            self.fail(f"{call.process} moved {was.key} by {call.verb}, which was {was.state}")
        elif self._holder_process(was) is not call.process or was.fence not in fences:
            self.fail(
                f"{call.process} moved {was.key} with fence {fences}; {self._holder_process(was)} holds it, {was.fence}"
            )

    def _check_new_generation(self, call: Call | None, verb: str, was: ObservedDocument, now: ObservedDocument) -> None:
        if verb not in NEW_GENERATION_VERBS:
            self.fail(f"{verb or 'no call'} started a new generation of {was.key}")
        if now.moves <= was.moves:
            self.fail(f"{verb} started a new generation of {was.key}, and counts no move")
        verbs = self._observed.journal(now.id)[-2:]
        if not {"rewind", "change"} & {*verbs}:
            self.fail(f"{was.key} is at generation {now.generation}, and its journal ends with {verbs}")
        if now.cursor is not None:
            self.fail(f"generation {now.generation} of {was.key} starts inside {now.step}, at {now.cursor}")
        if call is not None and verb in ("rewind", "rewind_to"):
            known = was.step in call.arguments[0].step_ids  # a document at a removed step may go to a later one
            if known and step_order(now.step) > step_order(was.step):
                self.fail(f"{was.key} was rewound from {was.step} to {now.step}, which is later")
        if call is not None and verb == "rewind":
            self._check_rewind(call, was)
            self._fail_if(self._verify_checks.check_rewind(was, call.arguments[0].step_ids))
        else:
            self._verify_checks.forget(was)
        self._release_checks.progressed(was)

    def _check_rewind(self, call: Call, was: ObservedDocument) -> None:
        """Check that a worker rewinds only what it holds, from where it claimed it."""
        claim = call.arguments[1]
        self._check_holder(call, was, [claim.fence])
        if claim.checkpoint.moves != was.moves:
            self.fail(f"{call.process} rewound {was.key} from move {claim.checkpoint.moves}, and it is at {was.moves}")

    # states

    def _check_transition(self, call: Call | None, verb: str, was: ObservedDocument, now: ObservedDocument) -> None:
        is_new_generation = now.generation > was.generation
        if verb in ("redrive", "resume"):
            self._verify_checks.forget(was)
        if verb == "redrive":
            self._release_checks.progressed(was)
        if verb == "withdraw" and call is not None:
            for violation in self._undo_checks.check_withdrawn(now, call.arguments[0].step_ids):
                self.fail(violation)
        allowed = TRANSITIONS.get((was.state, now.state), ())
        if verb not in allowed and not (is_new_generation and verb in NEW_GENERATION_VERBS):
            self.fail(f"{verb or 'no call'} changed {was.key} from {was.state} to {now.state}")
        if verb in JOURNALLED and self._observed.journal(was.id)[-1:] != [verb]:
            self.fail(f"{verb} changed {was.key} from {was.state} to {now.state}, and it is not in the journal")
        if call is not None and was.state == "running":
            for violation in self._release_checks.check(call, was, now, at=self._now):
                self._fail_if(violation)
        if (now.crashes > was.crashes or now.losses > was.losses) and verb != "reclaim":
            self.fail(f"{verb} counted a crash or a loss of {was.key}")
        if verb == "wake":
            self._check_wake(was)
        if now.state == "done" and (now.step is not None or was.step is None):
            self.fail(f"{now.key} is done at {now.step}")

    def _check_wake(self, was: ObservedDocument) -> None:
        if was.step in GATES and not was.on_hold:
            self.fail(f"{was.key} was woken at its gate without a decision")
        if was.due_at is None or was.due_at > self._now:
            self.fail(f"{was.key} was woken before it was due, at {was.due_at}")

    def _check_claim(self, call: Call | None, was: ObservedDocument, now: ObservedDocument) -> None:
        verb, which = (call.verb, call.options.get("which", "due")) if call else ("", "due")
        if verb not in CLAIM_VERBS or was.state != "waiting":
            self.fail(f"{verb or 'no call'} started {now.key}, which was {was.state}")
        if now.fence <= was.fence:
            self.fail(f"{now.key} was claimed, and its fence is still {now.fence}")
        if was.due_at is not None and was.due_at > self._now:
            self.fail(f"{now.key} was claimed {was.due_at - self._now} before it was due")
        if (was.step, was.cursor, was.moves) != (now.step, now.cursor, now.moves):
            self.fail(f"{now.key} was claimed and moved: {was} became {now}")
        if _is_suspect(was) != (which == "suspect"):
            counts = f"crashed {was.crashes} workers and lost {was.losses}"
            self.fail(f"{now.key} {counts}, and was claimed by {verb} of {which} documents")
        self._verify_checks.on_claim(now)

    def _check_claim_order(
        self, call: Call | None, changed: Sequence[tuple[ObservedDocument | None, ObservedDocument]]
    ) -> None:
        """Check that of documents that are due, those with higher priority are claimed first, then older ones."""
        assert call is not None
        if call.verb == "claim_probe":
            return  # documents that did not fail come first, then those that were tried longest ago
        paused = call.options.get("paused", ())
        steps = [step for step in call.arguments[0].step_ids if step not in paused]
        left = [document for document in self.documents if document.state == "waiting" and document.step in steps]
        for was in [was for was, now in changed if was is not None and (was.state, now.state) == CLAIMED]:
            if was.step in paused:
                self.fail(f"{was.key} was claimed at {was.step}, which is paused")
            for other in [document for document in left if _is_suspect(document) == _is_suspect(was)]:
                due_before = other.due_at and was.due_at and other.due_at <= was.due_at
                if due_before and _claim_order(other) < _claim_order(was):
                    self.fail(f"{was.key} was claimed before {other.key}, which comes first: {other}")

    def _check_suspects_alone(self, now: dict[int, ObservedDocument]) -> None:
        assignments = Counter(document.worker_id for document in now.values() if document.state == "running")
        for document in now.values():
            if document.state == "running" and _is_suspect(document) and assignments[document.worker_id] > 1:
                self.fail(f"{document.key} has to be alone, and its worker has other documents: {document}")

    def _holder_process(self, document: ObservedDocument) -> SimulatedProcess | None:
        return self._holders.get(document.worker_id or 0)


def _moves_of(call: Call | None, document: ObservedDocument) -> list[Move]:
    assert call is not None
    return [move for move in call.arguments[1] if move.claim.document_id == document.id]


def _is_settled(document: ObservedDocument) -> bool:
    """Return True if nothing happens to a document until a person decides. A sleeping document wakes by itself."""
    sleeps = document.state == "paused" and (
        document.due_at is not None or (document.step == "late" and document.at_gate and not document.on_hold)
    )
    return not sleeps and document.state not in ("waiting", "running")


def _is_suspect(document: ObservedDocument) -> bool:
    return document.crashes >= SUSPECT or document.losses >= SUSPECT_LOSSES


def _claim_order(document: ObservedDocument) -> tuple[Any, ...]:
    return -document.priority, document.due_at, document.id


def _state_key(document: ObservedDocument) -> tuple[Any, ...]:
    """Return what distinguishes one state of a document from another, without ids."""
    place = (document.state, document.step, str(document.cursor), min(document.generation, 3))
    counts = (document.attempts, document.crashes, document.losses)
    return (*place, *counts, document.on_hold, document.due_at is None)
