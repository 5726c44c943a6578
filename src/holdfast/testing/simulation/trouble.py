"""Trouble: what may happen at any point, by choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from sqlite3 import IntegrityError
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError, StoreGone
from holdfast.testing.simulation.machine import Killed, Process, Thread
from holdfast.testing.simulation.promises import CLAIM, MOVES
from holdfast.testing.simulation.shapes import CHANGES, GATES, REMOVABLE, Edition
from holdfast.testing.simulation.stores import LEASE

if TYPE_CHECKING:
    from holdfast.testing.simulation.world import World

CHANCES = (0.03, 0.01, 0.1)
"""How likely trouble is, at each point."""
IDLE = 0.25
"""How likely it is when nobody has anything to do: nothing is gained by waiting for it."""
MOST = 8
LASTS = 30
"""How many turns the last trouble is given to have consequences before there is peace."""
OFTEN = ("kill", "freeze", "cut off", "deliver again", "deliver again")
"""What comes more often than the rest."""
STRIKES = ("kill", "cut off")
"""What may happen where nobody else can go on."""
SHOWN = 8
"""How many of the calls that were made last may be delivered once more."""
SKEWS = (0.0, 2.0, -2.0, 4.0)
FROZEN = (0.5, 1.3, 2.5)
"""How long a process stands still, in leases."""
HOLDS = (0.0, 1.0, 5.0)
"""For how many seconds somebody puts documents on hold; 0 is until somebody resumes them."""


class Trouble:
    """Chooses whether something happens at a point, what, and to whom."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._choices = world.choices
        self._chance = CHANCES[world.choices.one_of(len(CHANCES))]
        self._left = 1 + world.choices.one_of(MOST)
        self._last_at = 0
        self._ceased = False
        self.counts: dict[str, int] = Counter()
        self._kinds: dict[str, Callable[[Thread], None]] = {
            "kill": self._kill,
            "kill another": self._kill_another,
            "freeze": self._freeze,
            "freeze another": self._freeze_another,
            "cut off": self._cut_off,
            "wrong clock": self._set_wrong,
            "stop": self._stop,
            "start": self._start,
            "new version": self._change_pipeline,
            "edit": self._edit,
            "take out": self._take_out,
            "redo": self._redo,
            "deliver again": self._deliver_again,
            "cancel": self._cancel,
            "pause": self._pause,
            "resume": self._resume,
            "rewind": self._rewind,
            "redrive": self._redrive,
            "prioritise": self._prioritise,
            "change": self._change,
            "submit": self._submit,
        }
        self._names = [*self._kinds, *OFTEN]

    @property
    def chance(self) -> float:
        """How likely trouble is now."""
        if self._ceased:
            return 0.0
        return IDLE if self._world.promises.all_rest else self._chance

    def happen(self, thread: Thread, where: str) -> None:
        """Lets something happen to the thread that came by, or to others."""
        if self._ceased:
            return
        self._bring(self._names[self._choices.one_of(len(self._names))], thread, f"{where} a transaction")

    def strike(self, thread: Thread, where: str) -> None:
        """Kills the process that came by, or cuts it off."""
        if not self._ceased:
            self._bring(STRIKES[self._choices.one_of(len(STRIKES))], thread, f"{where} a commit")

    def _bring(self, kind: str, thread: Thread, where: str) -> None:
        self._left -= 1
        self._ceased = self._left <= 0
        self._last_at = self._world.machine.turns
        self.counts[kind] += 1
        self._world.tell(f"{where}: {kind}")
        self._kinds[kind](thread)

    @property
    def is_over(self) -> bool:
        """Whether all the trouble has come, a while ago, or has no more consequences."""
        return self._ceased and (self._world.promises.all_rest or self._world.machine.turns > self._last_at + LASTS)

    def cease(self) -> None:
        """Ends it."""
        self._ceased = True

    # machines

    def _kill(self, thread: Thread) -> None:
        self._world.machine.kill(thread.process)

    def _kill_another(self, thread: Thread) -> None:
        if (other := self._another(thread)) is not None:
            self._world.tell(f"it is {other}")
            self._world.machine.kill(other)

    def _freeze(self, thread: Thread) -> None:
        leases = FROZEN[self._choices.one_of(len(FROZEN))]
        thread.process.frozen_until = self._world.machine.now + leases * LEASE.total_seconds()

    def _freeze_another(self, thread: Thread) -> None:
        if (other := self._another(thread)) is not None:
            leases = FROZEN[self._choices.one_of(len(FROZEN))]
            other.frozen_until = self._world.machine.now + leases * LEASE.total_seconds()

    def _another(self, thread: Thread) -> Process | None:
        machine = self._world.machine
        others = [one for one in machine.processes if one is not thread.process and machine.is_running(one)]
        return others[self._choices.one_of(len(others))] if others else None

    def _cut_off(self, _: Thread) -> None:
        raise StoreGone("the connection is gone")

    def _set_wrong(self, thread: Thread) -> None:
        self._world.promises.doubts.clocks = True
        thread.process.skew = SKEWS[self._choices.one_of(len(SKEWS))]

    def _stop(self, thread: Thread) -> None:
        self._world.budgets[thread.process].stop("SIGTERM")

    def _start(self, _: Thread) -> None:
        self._world.start_worker()

    def _deliver_again(self, _: Thread) -> None:
        """A call that was made before is carried out once more; nobody hears the answer."""
        calls = [call for call in self._world.store.watch.delivered if call.verb not in ("beat", "wake")]
        if not calls:
            return
        call = calls[-1 - self._choices.one_of(min(SHOWN, len(calls)))]
        self._world.tell(f"it is {call.verb} by {call.process}")
        self._world.promises.doubts.hands |= call.verb in (*CLAIM, *MOVES, "rewind")
        machine = self._world.machine
        before, machine.current = machine.current, None
        try:
            self._world.store.watch.carry_out(call)
        except (HoldfastError, IntegrityError, Killed) as error:
            self._world.tell(f"{type(error).__name__}: {error}")
        finally:
            machine.current = before

    # people

    def _numbers(self) -> list[int]:
        """Gives the document that somebody decides about, or all."""
        numbers = [seen.id for seen in self._world.promises.seen]
        chosen = self._choices.one_of(len(numbers) + 1)
        return numbers if chosen == len(numbers) else [numbers[chosen]]

    def _cancel(self, _: Thread) -> None:
        numbers = self._numbers()
        with self._world.as_people():
            self._world.store.cancel(numbers, who="somebody", reason="no longer needed")

    def _pause(self, _: Thread) -> None:
        numbers, seconds = self._numbers(), HOLDS[self._choices.one_of(len(HOLDS))]
        with self._world.as_people():
            until = self._world.machine.clock() + timedelta(seconds=seconds) if seconds else None
            self._world.store.pause(numbers, who="somebody", reason="wait a moment", until=until)

    def _resume(self, _: Thread) -> None:
        numbers = self._numbers()
        with self._world.as_people():
            self._world.store.resume(self._world.plan, numbers, who="somebody", reason="go on")

    def _redrive(self, _: Thread) -> None:
        numbers = self._numbers()
        with self._world.as_people():
            self._world.store.redrive(numbers, who="somebody", reason="once more")

    def _rewind(self, _: Thread) -> None:
        numbers, steps = self._numbers(), self._world.steps
        to = steps[self._choices.one_of(len(steps))]
        with self._world.as_people():
            self._world.store.rewind_to(self._world.plan, numbers, to=to, who="somebody", reason="do it again")

    def _prioritise(self, _: Thread) -> None:
        numbers, priority = self._numbers(), self._choices.one_of(3)
        with self._world.as_people():
            self._world.store.prioritise(numbers, priority=priority, who="somebody", reason="first")

    def _change(self, _: Thread) -> None:
        keys = sorted(self._world.versions)
        self._world.submit(keys[self._choices.one_of(len(keys))])

    def _submit(self, _: Thread) -> None:
        self._world.submit(f"doc{len(self._world.versions)}")

    def _change_pipeline(self, _: Thread) -> None:
        """Somebody deploys another version: workers that begin from now on have it."""
        more = CHANGES[self._choices.one_of(len(CHANGES))]
        now = self._world.edition
        self._deploy(now.having({step: 1 for step in more if step not in now.steps}))

    def _edit(self, _: Thread) -> None:
        """Somebody writes a step anew, and deploys that."""
        now = self._world.edition
        bodies = [step for step in now.steps if step not in GATES]
        edited = bodies[self._choices.one_of(len(bodies))]
        self._world.tell(f"it is {edited}")
        self._deploy(now.having({edited: now.times(edited) + 1}))

    def _take_out(self, _: Thread) -> None:
        """Somebody deploys the pipeline without a step. Those that run may still bring documents to it."""
        removable = [step for step in self._world.steps if step in REMOVABLE]
        if removable:
            removed = removable[self._choices.one_of(len(removable))]
            self._world.tell(f"it is {removed}")
            self._deploy(self._world.edition.without(removed))

    def _deploy(self, edition: Edition) -> None:
        try:
            self._world.deploy(edition)
        except HoldfastError as error:
            self._world.tell(f"{error}")

    def _redo(self, _: Thread) -> None:
        self._world.redo()
