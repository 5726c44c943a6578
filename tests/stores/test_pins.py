"""Whatever plans a document goes through, its pin tells what was done under which: nothing false, nothing missed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Checkpoint, Item, NewDocument
from holdfast.core.moves import ACCEPTED, Move
from holdfast.core.plan import Shape, StepShape
from holdfast.core.stale import differences
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock

NAMES = "abcd"
SHAPES = st.lists(st.integers(0, 2), min_size=4, max_size=4).map(
    lambda versions: Shape(
        "p", tuple(StepShape(name, "value", version) for name, version in zip(NAMES, versions, strict=True) if version)
    )
)
ORDERS = st.permutations(NAMES)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_pin_tells_what_was_really_done(data: Any) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    shape = data.draw(SHAPES.filter(lambda one: one.steps))
    plan = store.declare(shape)
    store.submit(plan, "b", [NewDocument("k")], submission=1, part=0)
    worker = store.enlist(name="w", host="h", pid=1, born="", lease=timedelta(days=1))
    done: dict[str, tuple[int, tuple[str, ...]]] = {}
    declared = [(plan, shape)]
    for _ in range(12):
        if data.draw(st.booleans()):
            shape = data.draw(SHAPES.filter(lambda one: one.steps))
            if data.draw(st.integers(0, 3)) == 0:
                order = data.draw(ORDERS)
                shape = Shape("p", tuple(sorted(shape.steps, key=lambda one: order.index(one.name))))
            try:
                declared.append((store.declare(shape), shape))
            except PlanRefused:
                continue
        plan, shape = data.draw(st.sampled_from([declared[-1]] * 3 + declared))
        for claim in store.claim(plan, worker, limit=1):
            at = claim.checkpoint
            place = shape.names.index(at.step or "")
            later = shape.names[place + 1 :]
            to = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
            move = Move(claim, at, to, "running" if later else "done", [Item(at.step or "", 0, "1")])
            if plan is declared[-1][0]:  # workers of an earlier order are to be stopped first
                assert store.commit(plan, [move]) == [ACCEPTED], "it did a step twice"
            elif store.commit(plan, [move]) != [ACCEPTED]:
                return
            step = shape.steps[place]
            done[step.name] = (step.version, shape.names[:place])
            store.surrender(worker, keeping=[])
    here = store.standing("p", "b", "k")
    (pin,) = [one for one in store.plans("p") if one.plan_id == here.plan_id]
    if here.state != "done":
        return
    gone = {one.name for one in pin.shape.steps if one.gone}
    for _, other in declared:
        if any(done.get(one.name, (0,))[0] != one.version for one in other.steps):
            assert differences(pin.shape, other), "stale work was missed"
        elif gone & {*other.names}:
            assert differences(pin.shape, other), "a step that was taken out and comes back was not redone"
        elif all(done[name][1] == other.names[:place] for place, name in enumerate(other.names)):
            assert not any(one.to for one in differences(pin.shape, other)), "what is as it should be was called stale"
