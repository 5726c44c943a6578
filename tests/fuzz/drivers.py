"""Drivers that generate inputs: Hypothesis from their shape, atheris from the coverage that they reach."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.runner import Feeder, until_over
from tests.fuzz.target import Target

INPUTS_PER_ROUND = 200
WARM_UP_INPUTS = 50
LONGEST = 1 << 16
QUIET = settings(
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    max_examples=INPUTS_PER_ROUND,
)


def has_atheris() -> bool:
    """Return True if atheris is installed. It has wheels for Linux, and not for every Python version."""
    return find_spec("atheris") is not None


def warm_up(target: Target, feeder: Feeder) -> None:
    """Run some inputs so that late imports are done: the guard of a sealed target would report them."""
    for data in target.seeds:
        feeder.warm_up(data)
    if target.sealed and not target.seeds:
        _each(target, feeder.warm_up, number=0, limit=WARM_UP_INPUTS)


def feed_by_shape(target: Target, feeder: Feeder, *, seconds: float, number: int) -> None:
    """Feed inputs of Hypothesis for some CPU seconds."""
    over = until_over(feeder, seconds)
    for part in count(number * 1000):
        feed_some_by_shape(target, feeder, number=part, over=over)
        if over():
            return


def feed_some_by_shape(
    target: Target,
    feeder: Feeder,
    *,
    number: int,
    limit: int = INPUTS_PER_ROUND,
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Feed some inputs, always the same ones for the same number. Skip the rest when the time is over."""
    _each(target, lambda value: None if over() else feeder.feed(value), number=number, limit=limit)


def _each(target: Target, use: Callable[[Any], None], *, number: int, limit: int) -> None:
    @seed(number)
    @settings(QUIET, max_examples=limit)
    @given(target.inputs)
    def run(value: Any) -> None:
        use(value)

    run()


def feed_by_coverage(
    target: Target, feeder: Feeder, *, seconds: float, number: int, corpus: Path, write_result: Any
) -> None:
    """Feed inputs of atheris. It never returns: atheris ends the process.

    Inputs that reach new code are written to `corpus`, and the next round starts with them.
    """
    import atheris

    for place, data in enumerate(target.seeds):
        (corpus / f"seed-{place}").write_bytes(data)
    over = until_over(feeder, seconds)

    def run(data: bytes) -> None:
        if over():
            write_result()
            os._exit(0)
        feeder.feed(data)

    ours = ("-handle_segv=0", "-handle_bus=0", "-handle_ill=0", "-handle_fpe=0", "-handle_abrt=0", "-detect_leaks=0")
    limits = ("-timeout=600", "-rss_limit_mb=0", f"-max_len={LONGEST}", f"-artifact_prefix={corpus.parent}/")
    atheris.Setup(["fuzz", "-verbosity=0", *ours, *limits, f"-seed={number % 2**31 + 1}", str(corpus)], run)
    atheris.Fuzz()
