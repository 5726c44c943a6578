"""What a refused plan suggests is accepted when it is declared."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Sequence
from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.core.errors import PlanRefused
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import Desk

STEPS = ("scan", "extract", "chunk", "embed", "publish")
FATES = {"stays": "{}", "is renamed": "{}s", "becomes another": "new-{}", "is gone": ""}


def papers(names: Sequence[str], renamed: dict[str, str]) -> Shape:
    return Shape("papers", tuple(StepShape(name, "value") for name in names), renamed)


def refusal(desk: Desk, shape: Shape) -> str:
    try:
        desk.store.declare(shape)
    except PlanRefused as refused:
        return str(refused)
    return ""


@given(
    fates=st.tuples(*(st.sampled_from([*FATES]) for _ in STEPS)), standing=st.sets(st.sampled_from(STEPS), min_size=1)
)
def test_what_a_refusal_suggests_is_accepted(fates: tuple[str, ...], standing: set[str]) -> None:
    now = [FATES[fate].format(step) for step, fate in zip(STEPS, fates, strict=True) if FATES[fate]]
    assume(now)
    clock = ManualClock()
    desk = Desk(MemoryStore(clock=clock), clock, papers(STEPS, {}))
    for step in standing:
        claim = desk.take_in(step)
        while claim.checkpoint.step != step:
            claim = desk.advance(desk.keep(claim, "1"))
        desk.give_back(claim, state="paused")
    clock.advance(timedelta(seconds=1))
    told = refusal(desk, papers(now, {}))
    if told and "Nothing comes after" not in told:
        suggested = literal_eval(re.findall(r"renamed=(\{.*?\})", told)[0])
        assert refusal(desk, papers(now, suggested)) == ""
