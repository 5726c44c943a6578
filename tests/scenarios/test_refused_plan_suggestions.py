"""The `renamed` map that a refused plan suggests is accepted when it is declared."""

from __future__ import annotations

import re
from ast import literal_eval
from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.core.errors import PlanRefused
from holdfast.core.plan import Shape
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import StoreHarness
from holdfast.testing.conformance.base import papers

STEPS = ("scan", "extract", "chunk", "embed", "publish")
CHANGES = {"stays": "{}", "is renamed": "{}s", "becomes another": "new-{}", "is removed": ""}


def refusal(harness: StoreHarness, shape: Shape) -> str:
    try:
        harness.store.declare(shape)
    except PlanRefused as refused:
        return str(refused)
    return ""


@given(
    changes=st.tuples(*(st.sampled_from([*CHANGES]) for _ in STEPS)),
    occupied=st.sets(st.sampled_from(STEPS), min_size=1),
)
def test_the_suggestion_of_a_refused_plan_is_accepted(changes: tuple[str, ...], occupied: set[str]) -> None:
    now = [CHANGES[change].format(step) for step, change in zip(STEPS, changes, strict=True) if CHANGES[change]]
    assume(now)
    clock = ManualClock()
    harness = StoreHarness(MemoryStore(clock=clock), clock, papers(*STEPS))
    for step in occupied:
        claim = harness.submit_and_claim(step)
        while claim.checkpoint.step != step:
            claim = harness.advance(harness.keep(claim, "1"))
        harness.release(claim, state="paused")
    clock.advance(timedelta(seconds=1))
    message = refusal(harness, papers(*now))
    if message and "No step comes after" not in message:
        suggested = literal_eval(re.findall(r"renamed=(\{.*?\})", message)[0])
        assert refusal(harness, papers(*now, **suggested)) == ""
