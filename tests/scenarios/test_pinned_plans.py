"""The pin of a document says under which plan each step was done, whatever plans it goes through."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Checkpoint, Claim, Item, NewDocument, Plan
from holdfast.core.moves import ACCEPTED, Move
from holdfast.core.plan import Shape, StepShape
from holdfast.core.staleness import differences
from holdfast.stores.memory import MemoryStore

NAMES = "abcd"


def shape_of(versions: list[int]) -> Shape:
    """Return a shape with the steps that have a version."""
    steps = zip(NAMES, versions, strict=True)
    return Shape("p", tuple(StepShape(name, "value", version) for name, version in steps if version))


SHAPES = st.lists(st.integers(0, 2), min_size=4, max_size=4).filter(any).map(shape_of)
ORDERS = st.permutations(NAMES)


class DocumentHistory:
    """One document that is processed under one plan after another, and a record of what was really done."""

    def __init__(self, shape: Shape) -> None:
        self.store = MemoryStore()
        self.declared = [(self.store.declare(shape), shape)]
        self.store.submit(self.declared[0][0], "b", [NewDocument("k")], submission=1, part=0)
        self.worker = self.store.register_worker(name="w", host="h", pid=1, born="", lease=timedelta(days=1))
        self.done: dict[str, tuple[int, tuple[str, ...]]] = {}

    def declare(self, shape: Shape) -> None:
        """Declare another plan, if it is not refused."""
        try:
            self.declared.append((self.store.declare(shape), shape))
        except PlanRefused:
            return

    def one_step(self, plan: Plan, shape: Shape) -> None:
        """Let a worker do one step."""
        for claim in self.store.claim(plan, self.worker, limit=1):
            place = shape.names.index(claim.checkpoint.step or "")
            assert self.store.commit(plan, [self._move(claim, shape, place)]) == [ACCEPTED], "a step was done twice"
            self.done[shape.names[place]] = (shape.steps[place].version, shape.names[:place])
            self.store.release_unknown(self.worker, keeping=[])

    def _move(self, claim: Claim, shape: Shape, place: int) -> Move:
        at, later = claim.checkpoint, shape.names[place + 1 :]
        to = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
        return Move(claim, at, to, "running" if later else "done", [Item(shape.names[place], 0, "1")])

    def compare(self) -> None:
        """Compare the pin with the record, for every declared plan."""
        status = self.store.document("p", "b", "k")
        (pin,) = [one.shape for one in self.store.plans("p") if one.plan_id == status.plan_id]
        gone = {one.name for one in pin.steps if one.gone}
        for _, other in self.declared:
            if any(self.done.get(one.name, (0,))[0] != one.version for one in other.steps):
                assert differences(pin, other), "stale work was not found"
            elif gone & {*other.names}:
                assert differences(pin, other), "a step that was removed and comes back is not stale"
            elif all(self.done[name][1] == other.names[:place] for place, name in enumerate(other.names)):
                assert not any(one.to for one in differences(pin, other)), "current work was reported as stale"

    @property
    def is_done(self) -> bool:
        return self.store.document("p", "b", "k").state == "done"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_pin_says_which_steps_were_done_under_which_plan(data: Any) -> None:
    history = DocumentHistory(data.draw(SHAPES))
    for _ in range(12):
        if data.draw(st.booleans()):
            order = data.draw(st.sampled_from([NAMES, NAMES, data.draw(ORDERS)]))
            shape = data.draw(SHAPES)
            history.declare(Shape("p", tuple(sorted(shape.steps, key=lambda one: order.index(one.name)))))
        now = history.declared[-1]
        same_order = [declared for declared in history.declared if _same_order(declared[1], now[1])]
        history.one_step(*data.draw(st.sampled_from([now] * 3 + same_order)))  # workers of other orders are stopped
    if history.is_done:
        history.compare()


def _same_order(first: Shape, second: Shape) -> bool:
    common = {*first.names} & {*second.names}
    return [name for name in first.names if name in common] == [name for name in second.names if name in common]
