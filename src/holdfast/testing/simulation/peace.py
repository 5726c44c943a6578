"""Peace: when faults cease, every document comes to its end, and people do only what nobody else can do.

They decide about what is parked for them, let dead letters try again, and have redone what is out of date. What sleeps,
waits or lost its worker goes on by itself. What is left in the end is what an undisturbed run leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.core.codec import decode_json
from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.shapes import OVER
from holdfast.testing.simulation.stage import ASKING

if TYPE_CHECKING:
    from holdfast.testing.simulation.world import World

FORGIVENESS = 12
"""How often somebody looks at what is parked or dead."""
REDOING = 4
"""How often somebody has work redone that is out of date."""


class Peace:
    """The end of a schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._promises = world.promises
        self._forgiven = 0
        self._redone = 0

    def is_over(self) -> bool:
        """Answers whether every document is at its end. If not, and nothing goes on, somebody does something."""
        if self._promises.broken:
            return True
        self._world.bring_back_what_is_missed()
        if not self._promises.all_rest:
            self._world.see_to_it_that_somebody_works()
            return False
        if self._forgiven < FORGIVENESS and any(self._is_worth_it(seen) for seen in self._promises.seen):
            self._forgive()
            return False
        if self._redone < REDOING and self._world.redo():
            self._redone += 1
            self._stop_earlier_versions()
            return False
        return True

    def _is_worth_it(self, seen: Seen) -> bool:
        if seen.state == "paused":
            return self._asks(seen)
        return seen.state == "dead" and not (self._forgiven and self._world.is_incurable(seen))

    def _asks(self, seen: Seen) -> bool:
        """Answers whether a document is parked for somebody. What sleeps has to wake by itself."""
        return seen.on_hold or seen.at_gate or self._world.stage.tempers[seen.key, seen.version].kind in ASKING

    def _forgive(self) -> None:
        """Somebody looks at what is parked or dead, and lets it go on."""
        self._forgiven += 1
        world = self._world
        parked = [seen.id for seen in self._promises.seen if seen.state == "paused" and self._asks(seen)]
        dead = [seen.id for seen in self._promises.seen if seen.state == "dead"]
        with world.as_people():
            world.store.resume(world.plan, parked, who="somebody", reason="it is right")
            world.store.redrive(dead, who="somebody", reason="once more")

    def _stop_earlier_versions(self) -> None:
        """What they would do is out of date as soon as it is done."""
        for process in self._world.machine.processes:
            if process not in self._world.up_to_date:
                self._world.budgets[process].stop("another version is deployed")

    def look_back(self) -> None:
        """When all is over, every document has to be at the end that its temper allows, with what that leaves."""
        if self._promises.broken:
            return
        for key in self._promises.acknowledged - {seen.key for seen in self._promises.seen}:
            self._promises.say(f"{key} was taken in, and is not there")
        for seen in self._promises.seen:
            if seen.state != "cancelled" and not (seen.state == "dead" and self._world.is_incurable(seen)):
                for wrong in self._wrong_with(seen):
                    self._promises.say(wrong)

    def _wrong_with(self, seen: Seen) -> Iterator[str]:
        if seen.state != "done":
            yield f"in peace {seen.key} came to its end as {seen.state}: {seen}"
            return
        yield from self._promises.editions.out_of_date(self._world.plan, seen)
        for step in [one for one in self._world.steps if one in ("pages", *OVER, "total")]:
            yield from self._wrong_with_what_is_kept(seen, step)

    def _wrong_with_what_is_kept(self, seen: Seen, step: str) -> Iterator[str]:
        world, number = self._world, self._world.plan.step_ids[step]
        kept = world.store.read(seen.id, seen.reuses.get(number, seen.generation), number, -1, 1000)
        at = world.made(seen.key, seen.version, step, seen.pages)
        made = [[seen.key, seen.version, step, place] for place in at]
        if [decode_json(str(value)) for _, value in kept] != made:
            yield f"{seen.key} is done, and {step} kept {kept} for it, not {made}"
        for generation in {*range(seen.generation)} - {seen.reuses.get(number)}:
            if world.store.read(seen.id, generation, number, -1, 1000):
                yield f"{seen.key} is done, and {step} of its generation {generation} is still there"
