"""Whatever is deployed and decided between two claims, work that is missing or old is told, and inputs are there."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Claim, Failure, Item, Standing
from holdfast.core.moves import ACCEPTED
from holdfast.core.plan import Shape, StepShape
from holdfast.core.stale import as_declared, stale_work
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import Desk, after

NAMES = "abcde"
GATES = "bd"
VERBS = ["deploy", "work", "work", "work", "work", "rewind", "redrive", "resume", "resume"]
SEEDS = {"plain": [*range(60), 1006], "renames": [*range(60), 744], "gates": [*range(60), 2506]}


class Life:
    """A pipeline that is deployed again and again, with three documents in it. Each item is its step's version."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.dice = random.Random(seed)
        self.store = MemoryStore(clock=(clock := ManualClock()))
        self.shape = Shape("p", ())
        self.shape = self.another_shape()
        self.desk = Desk(self.store, clock, self.shape)
        self.desk.submit("k0", "k1", "k2")

    def another_shape(self) -> Shape:
        dice = self.dice
        names = [name for name in NAMES if dice.random() < 0.75] or ["a"]
        renamed: dict[str, str] = {}
        if self.kind == "renames" and self.shape.steps and dice.random() < 0.5:
            for old in self.shape.names:
                later = [name for name in names if name > old]
                if old not in names and later:
                    renamed[old] = later[0]
        steps = [StepShape(name, "gate" if self.is_gate(name) else "value", dice.choice([1, 1, 2])) for name in names]
        return Shape("p", tuple(steps), renamed)

    def is_gate(self, name: str | None) -> bool:
        return self.kind == "gates" and name is not None and name in GATES

    def step_on(self) -> None:
        self.desk.clock.advance(timedelta(seconds=1))
        getattr(self, self.dice.choice(VERBS))()

    def deploy(self) -> None:
        shape = self.another_shape()
        try:
            self.desk.plan = self.store.declare(shape)
        except PlanRefused:
            return
        self.shape = shape

    def work(self) -> None:
        for claim in self.desk.claim(limit=self.dice.choice([1, 2])):
            self.work_on(claim, steps=self.dice.choice([0, 1, 2, 9]))

    def work_on(self, claim: Claim, *, steps: int) -> None:
        while steps and not self.is_gate(claim.checkpoint.step):
            step = next(one for one in self.shape.steps if one.name == claim.checkpoint.step)
            move = self.desk.forward(claim, items=[Item(step.name, 0, str(step.version))])
            if self.is_gate(move.after.step):
                move = self.desk.forward(claim, items=move.items, state="paused", reason="gate")
            assert self.desk.commit(move) == [ACCEPTED], "a step was done twice"
            if move.state != "running":
                return
            claim, steps = after(claim, move), steps - 1
        if self.is_gate(claim.checkpoint.step):
            self.desk.give_back(claim, state="paused", verb="pause", reason="gate")
        elif self.dice.random() < 0.15:
            self.desk.give_back(claim, state="dead", failure=Failure("E", "x"))
        else:
            self.desk.give_back(claim, verb="release", costs="nothing")

    def rewind(self) -> None:
        to = self.dice.choice(self.shape.names)
        ids = [number for number in self.store.select("p") if self.dice.random() < 0.5]
        inputs = {name for name in self.desk.plan.before(to) if not self.is_gate(name)}
        for number in self.store.rewind_to(self.desk.plan, ids, to=to, who="me", reason="why"):
            assert inputs <= {step for step, _, _ in self.store.items(number)}, f"rewound to {to} without its inputs"

    def redrive(self) -> None:
        self.store.redrive(self.store.select("p", state="dead"), who="me", reason="why")

    def resume(self) -> None:
        self.store.resume(self.desk.plan, self.store.select("p", state="paused"), who="me", reason="why")

    def compare(self) -> None:
        """Compares what is told to be stale with the items that are really there."""
        redone_from = {
            one.plan_id: one.to for one in stale_work(as_declared(self.store.plans("p"), self.shape), self.shape)
        }
        for here in self.store.standings("p"):
            wrong = self.first_wrong(here)
            if wrong is not None:
                told = redone_from.get(here.plan_id, "nothing")
                assert told <= wrong, f"{here.key}: {wrong} is stale, told was {told}"

    def first_wrong(self, here: Standing) -> str | None:
        """Names the first step behind a document whose item is not what the pipeline would make now."""
        at = here.checkpoint.step
        if at is not None and at not in self.shape.names:
            return None
        behind = self.shape.steps if at is None else self.shape.steps[: self.shape.names.index(at)]
        made = {step: value for step, _, value in self.store.items(here.id)}
        worked = [step for step in behind if step.kind != "gate"]
        return next((step.name for step in worked if made.get(step.name) != str(step.version)), None)


@pytest.mark.parametrize("kind", SEEDS)
def test_missing_and_old_work_is_told_whatever_happens_between_two_claims(kind: str) -> None:
    for seed in SEEDS[kind]:
        life = Life(kind, seed)
        for _ in range(40):
            life.step_on()
            life.compare()
