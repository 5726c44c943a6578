"""The promises, looked at after every transaction: what changed must be what may change, and nothing else did.

What is known here is the books before and after, the effects that were written, and who asked for what. Nothing of the
engine is asked: a cursor is read as the documentation says, and who holds what is read from the books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.moves import Move
from holdfast.testing.simulation.books import Books, Seen
from holdfast.testing.simulation.counts import miscounted
from holdfast.testing.simulation.doubts import Doubts
from holdfast.testing.simulation.editions import Editions
from holdfast.testing.simulation.effects import Effects
from holdfast.testing.simulation.leaving import Leaving
from holdfast.testing.simulation.machine import Machine, Process
from holdfast.testing.simulation.places import aside, covered, newly_done, rank
from holdfast.testing.simulation.shapes import ATTEMPTS, GATES, LIMIT, OVER
from holdfast.testing.simulation.stores import Call
from holdfast.testing.simulation.verifying import VERIFIED, Verifying
from holdfast.testing.simulation.waits import runs_wrongly

MOVES = ("commit", "exchange")
CLAIM = ("claim", "claim_suspect", "exchange")
BEGIN_ANEW = ("rewind", "rewind_to", "submit", "declare")
TURNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("waiting", "running"): CLAIM,
    ("waiting", "paused"): ("pause",),
    ("waiting", "cancelled"): ("cancel",),
    ("running", "waiting"): ("give_back", "retire", "surrender", "reclaim"),
    ("running", "paused"): (*MOVES, "give_back", "pause", "reclaim"),
    ("running", "done"): MOVES,
    ("running", "dead"): ("give_back", "reclaim"),
    ("running", "cancelled"): ("cancel",),
    ("paused", "waiting"): ("resume", "wake"),
    ("paused", "done"): ("resume",),
    ("paused", "dead"): ("reject",),
    ("paused", "cancelled"): ("cancel",),
    ("dead", "waiting"): ("redrive",),
}
"""Which verbs turn documents from one state into another, without a new generation."""
TOLD = ("cancel", "pause", "reclaim", "redrive", "reject", "resume", "wake")
"""The verbs that write a line of their own name into the journal."""
TAKEN = ("waiting", "running")
"""What a document was, and is, that was claimed."""
Held = tuple[str, int]
"""A document that somebody holds: its key, and under which fence."""
SUSPECT = 2


class Violation(Exception):
    """A promise was broken."""


class Promises:
    """Remembers the books as they were, and compares."""

    def __init__(self, machine: Machine, books: Books, *, is_incurable: Callable[[Seen], bool]) -> None:
        self._machine = machine
        self._books = books
        self._now = machine.clock()
        self._somebody_hears = True
        self._before: dict[int, Seen] = {}
        self._effects = Effects(books)
        self._holders: dict[int, Process] = {}
        self.doubts = Doubts()
        self._leaving = Leaving(machine, books, doubts=self.doubts, holder_of=self._process, is_incurable=is_incurable)
        self._verifying = Verifying()
        self.editions = Editions()
        self.acknowledged: set[str] = set()
        self.given_up: dict[tuple[str, int, str], set[int]] = {}
        """The items that were set aside for good, by key, version and step."""
        self.all_rest = False
        """Whether nobody has anything to do until something happens."""
        self.states: set[int] = set()
        self.broken: Violation | None = None

    # what others tell

    def enlisted(self, worker_id: int, process: Process) -> None:
        """Learns which process a worker is."""
        self._holders[worker_id] = process

    def reclaimed(self, call: Call) -> None:
        """Looks at what is left when somebody reclaimed: nothing that was overdue, however alive its holder is."""
        for seen in self.seen if not self.doubts.clocks else ():
            if seen.state == "running" and seen.deadline_at is not None and seen.deadline_at < call.at:
                self.say(f"{call.process} left {seen.key} to {self._process(seen)}, where it is overdue: {seen}")

    def say(self, broken: str) -> None:
        """Notes that a promise was broken. Only the first is told: what follows may follow from it."""
        self.broken = self.broken or Violation(broken)

    def _say_if(self, broken: str) -> None:
        if broken:
            self.say(broken)

    def holding(self, process: Process, key: str) -> Held | None:
        """Answers under which fence a process holds a document; None when it is another's."""
        held = [seen for seen in self._before.values() if seen.key == key and seen.state == "running"]
        return next(((key, seen.fence) for seen in held if self._process(seen) is process), None)

    def holds(self, process: Process, key: str, generation: int) -> bool:
        """Answers whether a process holds this generation of a document."""
        held = self.holding(process, key)
        return any((seen.key, seen.fence) == held and seen.generation == generation for seen in self.seen)

    def asked(self, process: Process, held: Held, *, is_there: bool) -> None:
        """Learns that the holder of a document asked whether its work is there, and what it heard."""
        if self.holding(process, held[0]) == held:
            self._verifying.heard(held, is_there=is_there)

    def inside(self, step: str, bodies: Sequence[tuple[Process, Held]]) -> None:
        """Looks at the bodies that run in a step that only so many may be in; what was lost since does not count."""
        really = {held for process, held in bodies if self.holding(process, held[0]) == held}
        if len(really) > LIMIT:
            self.say(f"{sorted(really)} are in {step} at once, where only {LIMIT} may be")

    @property
    def seen(self) -> Iterable[Seen]:
        """Every document, as it was seen last."""
        return self._before.values()

    # what is looked at

    def look(self, call: Call | None) -> None:
        """Looks at what a transaction changed."""
        self._now = self._machine.clock()  # of whoever asked
        current, self._machine.current = self._machine.current, None
        self._somebody_hears = current is not None  # not so of a second delivery
        try:
            self._look(call)
        finally:
            self._machine.current = current

    def _look(self, call: Call | None) -> None:
        if self.broken:
            return
        before, now = self._before, self._books.documents()
        verb = call.verb if call else ""
        changed = [(before.get(number), seen) for number, seen in now.items() if before.get(number) is not seen]
        self._before = now
        if changed:
            self.all_rest = all(_rests(seen) for seen in now.values())
            self.states.add(hash(tuple([_state(seen) for seen in now.values()])))
        if gone := before.keys() - now.keys():
            self.say(f"{gone} disappeared")
        if (expected := self._books.expected()) != len(now):
            self.say(f"{expected} documents are expected and {len(now)} are there")
        stayed = [(was, seen) for was, seen in changed if was is not None and was.generation == seen.generation]
        for broken in self._effects.look(verb, stayed if verb in MOVES else (), self._books.new_effects()):
            self.say(broken)
        for was, seen in changed:
            if was is None:
                self._may_begin(verb, seen)
            else:
                self._look_at(call, was, seen)
        if verb in CLAIM:
            self._the_first_come_first(call, changed)
            if not self.doubts.hands:
                self._suspects_are_alone(now)

    def _may_begin(self, verb: str, seen: Seen) -> None:
        if verb != "submit" or (seen.state, seen.moves, seen.generation, seen.cursor) != ("waiting", 0, 0, None):
            self.say(f"{seen} began by {verb or 'nobody'}")

    def _look_at(self, call: Call | None, was: Seen, now: Seen) -> None:
        verb = call.verb if call else ""
        if not self._somebody_hears and now.moves > was.moves and now.state == "running":
            self.doubts.ahead.add((now.id, now.fence))
        if now.fence < was.fence or now.moves < was.moves or now.generation < was.generation:
            self.say(f"{verb} took back fence, moves or generation: {was} became {now}")
        if now.generation > was.generation:
            self._began_anew(call, verb, was, now)
        elif (was.step, was.cursor) != (now.step, now.cursor):
            self._moved(call, verb, was, now)
        if was.state != now.state:
            self._turned(call, verb, was, now)
        if now.state == "running" and (was.state != "running" or was.worker_id != now.worker_id):
            self._claimed(verb, was, now)
        self._say_if(runs_wrongly(call, was, now, at=self._now))
        self._say_if(miscounted(call, was, now, got_on=was.step != now.step or bool(newly_done(was, now))))

    # checkpoints

    def _moved(self, call: Call | None, verb: str, was: Seen, now: Seen) -> None:
        if was.step is None:
            self.say(f"{verb} moved {was.key}, which was done, without a new generation")
            return
        if verb == "resume" and was.step in GATES and not was.on_hold and rank(now.step) > rank(was.step):
            self._decided(call, was)
            return
        if verb not in MOVES:
            self.say(f"{verb or 'nobody'} moved {was.key} from {was.step} {was.cursor} to {now.step} {now.cursor}")
            return
        if rank(now.step) < rank(was.step):
            self.say(f"{was.key} went back from {was.step} to {now.step}")
        elif now.step == was.step and not covered(was) <= covered(now):
            self.say(f"{was.key} went back inside {was.step}, from {was.cursor} to {now.cursor}")
        elif was.step in GATES:
            self.say(f"{was.key} went past its gate, and nobody decided")
        if now.moves != was.moves + 1:
            self.say(f"{was.key} made one move and counts {now.moves - was.moves}")
        self._was_the_holder(call, was, [move.claim.fence for move in _moves_of(call, was)])
        self._say_if(self._verifying.moved(was) if call and VERIFIED in call.arguments[0].step_ids else "")
        if call is not None:
            self.editions.moved(call.arguments[0], was, now)
        if was.step in OVER:
            self._set_aside(was, now)
            if now.step != was.step:
                self._gave_up(was)
        self._leaving.got_on(was)

    def _decided(self, call: Call | None, was: Seen) -> None:
        """People decide whenever they like; time decides at one gate, when it is over."""
        assert call is not None
        if call.process.is_somebody:
            return
        too_early = was.due_at is None or (was.due_at > self._now and not self.doubts.clocks)
        if was.step != "late" or too_early:
            self.say(f"{call.process} let {was.key} past {was.step}, where somebody may decide until {was.due_at}")

    def _gave_up(self, was: Seen) -> None:
        """What is still set aside when the step ends was tried as often as it may be, and is not made."""
        assert was.step is not None
        self.given_up[was.key, was.version, was.step] = {*aside(was)}
        tries = [*aside(was).values()]
        if tries and min(tries) < ATTEMPTS:
            self.say(f"{was.key} went past {was.step}, and items there were tried {tries} times")

    def _set_aside(self, was: Seen, now: Seen) -> None:
        """The list of what was set aside, which people read, says what the checkpoint says."""
        assert was.step is not None
        ought = aside(now if now.step == was.step else was)
        listed = self._books.asides(was.id, was.generation, was.step)
        if listed != ought:
            self.say(f"{was.key} has set {ought} of {was.step} aside, and {listed} is listed")

    def _was_the_holder(self, call: Call | None, was: Seen, fences: Sequence[int]) -> None:
        assert call is not None
        if was.state != "running":
            self.say(f"{call.process} moved {was.key} by {call.verb}, which was {was.state}")
        elif self._process(was) is not call.process or was.fence not in fences:
            self.say(f"{call.process} moved {was.key} with fence {fences}; {self._process(was)} holds it, {was.fence}")

    def _began_anew(self, call: Call | None, verb: str, was: Seen, now: Seen) -> None:
        if verb not in BEGIN_ANEW:
            self.say(f"{verb or 'nobody'} began {was.key} anew")
        if now.moves <= was.moves:
            self.say(f"{verb} began {was.key} anew, and counts no move")
        told = self._books.journal(now.id)[-2:]
        if not {"rewind", "change"} & {*told}:
            self.say(f"{was.key} began anew as {now.generation}, and its journal says {told}")
        if now.cursor is not None:
            self.say(f"{was.key} began anew inside {now.step}, at {now.cursor}")
        if call is not None and verb in ("rewind", "rewind_to"):
            known = was.step in call.arguments[0].step_ids  # from one that was taken out it goes to what comes after it
            if known and rank(now.step) > rank(was.step):
                self.say(f"{was.key} was rewound from {was.step} to {now.step}, which is later")
        if call is not None and verb == "rewind":
            self._set_back(call, was)
            self._say_if(self._verifying.set_back(was, call.arguments[0].step_ids))
        else:
            self._verifying.begins_anew(was)
        self._leaving.got_on(was)

    def _set_back(self, call: Call, was: Seen) -> None:
        """A worker sets back what it holds, from where it took it up."""
        claim = call.arguments[1]
        self._was_the_holder(call, was, [claim.fence])
        if claim.checkpoint.moves != was.moves:
            self.say(f"{call.process} set {was.key} back from move {claim.checkpoint.moves}, and it is at {was.moves}")

    # states

    def _turned(self, call: Call | None, verb: str, was: Seen, now: Seen) -> None:
        anew = now.generation > was.generation
        if verb in ("redrive", "resume"):
            self._verifying.begins_anew(was)
        if verb == "redrive":
            self._leaving.got_on(was)
        allowed = TURNS.get((was.state, now.state), ())
        if verb not in allowed and not (anew and verb in BEGIN_ANEW):
            self.say(f"{verb or 'nobody'} turned {was.key} from {was.state} to {now.state}")
        if verb in TOLD and self._books.journal(was.id)[-1:] != [verb]:
            self.say(f"{verb} turned {was.key} from {was.state} to {now.state}, and its journal does not tell")
        if call is not None and was.state == "running":
            for broken in self._leaving.look(call, was, now):
                self._say_if(broken)
        if now.crashes > was.crashes and verb != "reclaim":
            self.say(f"{verb} counted a crash of {was.key}")
        if verb == "wake":
            self._woken(was)
        if now.state == "done" and (now.step is not None or was.step is None):
            self.say(f"{now.key} is done at {now.step}")

    def _woken(self, was: Seen) -> None:
        if was.step in GATES and not was.on_hold:
            self.say(f"{was.key} was woken at its gate, and nobody decided")
        if was.due_at is None or was.due_at > self._now:
            self.say(f"{was.key} was woken before its time, which is {was.due_at}")

    def _claimed(self, verb: str, was: Seen, now: Seen) -> None:
        if verb not in CLAIM or was.state != "waiting":
            self.say(f"{verb or 'nobody'} let {now.key} run, which was {was.state}")
        if now.fence <= was.fence:
            self.say(f"{now.key} was claimed, and its fence is still {now.fence}")
        if was.due_at is not None and was.due_at > self._now:
            self.say(f"{now.key} was claimed {was.due_at - self._now} before it was due")
        if (was.step, was.cursor, was.moves) != (now.step, now.cursor, now.moves):
            self.say(f"{now.key} was claimed and moved: {was} became {now}")
        if was.crashes >= SUSPECT and verb != "claim_suspect":
            self.say(f"{now.key} crashed {was.crashes} workers and was claimed by {verb}, not alone")
        self._verifying.taken_up(now)

    def _the_first_come_first(self, call: Call | None, changed: Sequence[tuple[Seen | None, Seen]]) -> None:
        """Of documents that were due together, priority decides which are claimed, then age."""
        assert call is not None
        steps = call.arguments[0].step_ids
        left = [one for one in self.seen if one.state == "waiting" and one.step in steps]
        for was in [was for was, now in changed if was is not None and (was.state, now.state) == TAKEN]:
            for one in [one for one in left if (one.crashes < SUSPECT) == (was.crashes < SUSPECT)]:
                if one.due_at and was.due_at and one.due_at <= was.due_at and _turn(one) < _turn(was):
                    self.say(f"{was.key} was claimed before {one.key}, whose turn it was: {one}")

    def _suspects_are_alone(self, now: dict[int, Seen]) -> None:
        hands = Counter(seen.worker_id for seen in now.values() if seen.state == "running")
        for seen in now.values():
            if seen.state == "running" and seen.crashes >= SUSPECT and hands[seen.worker_id] > 1:
                self.say(f"{seen.key} crashed {seen.crashes} workers, and is not worked on alone")

    def _process(self, seen: Seen) -> Process | None:
        return self._holders.get(seen.worker_id or 0)


def _moves_of(call: Call | None, seen: Seen) -> list[Move]:
    assert call is not None
    return [move for move in call.arguments[1] if move.claim.document_id == seen.id]


def _rests(seen: Seen) -> bool:
    """Answers whether nothing becomes of a document until somebody decides. One that sleeps wakes by itself."""
    sleeps = seen.state == "paused" and (
        seen.due_at is not None or (seen.step == "late" and seen.at_gate and not seen.on_hold)
    )
    return not sleeps and seen.state not in ("waiting", "running")


def _turn(seen: Seen) -> tuple[Any, ...]:
    return -seen.priority, seen.due_at, seen.id


def _state(seen: Seen) -> tuple[Any, ...]:
    """Gives what makes one state of a document differ from another, whatever the numbers are."""
    place = (seen.state, seen.step, str(seen.cursor), min(seen.generation, 3))
    return (*place, seen.attempts, seen.crashes, seen.on_hold, seen.due_at is None)
