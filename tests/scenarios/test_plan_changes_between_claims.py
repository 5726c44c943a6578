"""Random deployments and decisions between claims: stale work is found, and a rewound document has its inputs."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Claim, DocumentStatus, Failure, Item
from holdfast.core.moves import ACCEPTED
from holdfast.core.plan import Shape, StepShape
from holdfast.core.staleness import as_declared, stale_work
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness, after

NAMES = "abcde"
GATES = "bd"
VERBS = ["deploy", "work", "work", "work", "work", "rewind", "redrive", "resume", "resume"]
SEEDS = {"plain": [*range(60), 1006], "renames": [*range(60), 744], "gates": [*range(60), 2506]}


class RandomDeployments:
    """A pipeline with three documents that is deployed again and again. Each item is the version of its step."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.random = random.Random(seed)
        self.store = MemoryStore(clock=(clock := ManualClock()))
        self.shape = Shape("p", ())
        self.shape = self.another_shape()
        self.harness = StoreHarness(self.store, clock, self.shape)
        self.harness.submit("k0", "k1", "k2")

    def another_shape(self) -> Shape:
        names = [name for name in NAMES if self.random.random() < 0.75] or ["a"]
        renamed: dict[str, str] = {}
        if self.kind == "renames" and self.shape.steps and self.random.random() < 0.5:
            for old in self.shape.names:
                later = [name for name in names if name > old]
                if old not in names and later:
                    renamed[old] = later[0]
        steps = [
            StepShape(name, "gate" if self.is_gate(name) else "value", self.random.choice([1, 1, 2])) for name in names
        ]
        return Shape("p", tuple(steps), renamed)

    def is_gate(self, name: str | None) -> bool:
        return self.kind == "gates" and name is not None and name in GATES

    def random_event(self) -> None:
        self.harness.clock.advance(timedelta(seconds=1))
        getattr(self, self.random.choice(VERBS))()

    def deploy(self) -> None:
        shape = self.another_shape()
        try:
            self.harness.plan = self.store.declare(shape)
        except PlanRefused:
            return
        self.shape = shape

    def work(self) -> None:
        for claim in self.harness.claim(limit=self.random.choice([1, 2])):
            self.work_on(claim, steps=self.random.choice([0, 1, 2, 9]))

    def work_on(self, claim: Claim, *, steps: int) -> None:
        while steps and not self.is_gate(claim.checkpoint.step):
            step = next(one for one in self.shape.steps if one.name == claim.checkpoint.step)
            move = self.harness.forward(claim, items=[Item(step.name, 0, str(step.version))])
            if self.is_gate(move.after.step):
                move = self.harness.forward(claim, items=move.items, state="paused", reason="gate")
            assert self.harness.commit(move) == [ACCEPTED], "a step was done twice"
            if move.state != "running":
                return
            claim, steps = after(claim, move), steps - 1
        if self.is_gate(claim.checkpoint.step):
            self.harness.release(claim, state="paused", verb="pause", reason="gate")
        elif self.random.random() < 0.15:
            self.harness.release(claim, state="dead", failure=Failure("E", "x"))
        else:
            self.harness.release(claim, verb="release", costs="nothing")

    def rewind(self) -> None:
        to = self.random.choice(self.shape.names)
        ids = [number for number in self.store.select("p") if self.random.random() < 0.5]
        inputs = {name for name in self.harness.plan.before(to) if not self.is_gate(name)}
        for number in self.store.rewind_to(self.harness.plan, ids, to=to, who="me", reason="why"):
            assert inputs <= {step for step, _, _ in self.store.items(number)}, f"rewound to {to} without its inputs"

    def redrive(self) -> None:
        self.store.redrive(self.store.select("p", state="dead"), who="me", reason="why")

    def resume(self) -> None:
        self.store.resume(self.harness.plan, self.store.select("p", state="paused"), who="me", reason="why")

    def compare(self) -> None:
        """Compare the documents that are reported as stale with the items that exist."""
        redone_from = {
            one.plan_id: one.to for one in stale_work(as_declared(self.store.plans("p"), self.shape), self.shape)
        }
        for document in self.store.documents("p"):
            stale_step = self.first_stale_step(document)
            if stale_step is not None:
                reported = redone_from.get(document.plan_id, "nothing")
                assert reported <= stale_step, f"{document.key}: {stale_step} is stale, reported was {reported}"

    def first_stale_step(self, document: DocumentStatus) -> str | None:
        """Return the first finished step of a document whose item is not what the pipeline would make now."""
        at = document.checkpoint.step
        if at is not None and at not in self.shape.names:
            return None
        behind = self.shape.steps if at is None else self.shape.steps[: self.shape.names.index(at)]
        made = {step: value for step, _, value in self.store.items(document.id)}
        worked = [step for step in behind if step.kind != "gate"]
        return next((step.name for step in worked if made.get(step.name) != str(step.version)), None)


@pytest.mark.parametrize("kind", SEEDS)
def test_stale_documents_are_found_whatever_happens_between_two_claims(kind: str) -> None:
    for seed in SEEDS[kind]:
        deployments = RandomDeployments(kind, seed)
        for _ in range(40):
            deployments.random_event()
            deployments.compare()
