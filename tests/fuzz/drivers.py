"""Who thinks of inputs: Hypothesis, by the shape they have, or atheris, by the lines of code that they reach."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.feeding import Feeder, until_over
from tests.fuzz.target import Target

ROUND = 200
WARMING = 50
LONGEST = 1 << 16
QUIET = settings(
    database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), max_examples=ROUND
)


def has_atheris() -> bool:
    """Answers whether coverage can guide: there are wheels for Linux, and not for every Python."""
    return find_spec("atheris") is not None


def warm(target: Target, feeder: Feeder) -> None:
    """Has everything imported and opened that is so when it is first needed: a sealed target would be blamed for it."""
    for one in target.seeds:
        feeder.warm(one)
    if target.sealed and not target.seeds:
        _each(target, feeder.warm, number=0, most=WARMING)


def by_shape(target: Target, feeder: Feeder, *, seconds: float, number: int) -> None:
    """Feeds what Hypothesis thinks of, for so many seconds of the processor."""
    over = until_over(feeder, seconds)
    for part in count(number * 1000):
        some_by_shape(target, feeder, number=part, over=over)
        if over():
            return


def some_by_shape(
    target: Target, feeder: Feeder, *, number: int, most: int = ROUND, over: Callable[[], bool] = lambda: False
) -> None:
    """Feeds some inputs, always the same ones for a number. When the time is over, the rest is left out."""
    _each(target, lambda value: None if over() else feeder.feed(value), number=number, most=most)


def _each(target: Target, do: Callable[[Any], None], *, number: int, most: int) -> None:
    @seed(number)
    @settings(QUIET, max_examples=most)
    @given(target.inputs)
    def one(value: Any) -> None:
        do(value)

    one()


def by_coverage(target: Target, feeder: Feeder, *, seconds: float, number: int, corpus: Path, tell: Any) -> None:
    """Feeds what atheris thinks of. It takes the process over: whoever calls this does not come back.

    What it found worth keeping goes to `corpus`, and the next round begins with it.
    """
    import atheris

    for place, one in enumerate(target.seeds):
        (corpus / f"seed-{place}").write_bytes(one)
    over = until_over(feeder, seconds)

    def one(data: bytes) -> None:
        if over():
            tell()
            os._exit(0)
        feeder.feed(data)

    ours = ("-handle_segv=0", "-handle_bus=0", "-handle_ill=0", "-handle_fpe=0", "-handle_abrt=0", "-detect_leaks=0")
    limits = ("-timeout=600", "-rss_limit_mb=0", f"-max_len={LONGEST}", f"-artifact_prefix={corpus.parent}/")
    atheris.Setup(["fuzz", "-verbosity=0", *ours, *limits, f"-seed={number % 2**31 + 1}", str(corpus)], one)
    atheris.Fuzz()
