"""Interruptions: a worker had to stop while a body ran, before the document could move.

One of them costs nothing. A document that is interrupted again and again needs more time than its workers have: people
are told after a few times, and after `Retry(interruptions=)` the document is paused for a person.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from holdfast.core.formatting import format_count, format_duration
from holdfast.core.model import Claim
from holdfast.core.moves import Release
from holdfast.core.reasons import INTERRUPTED, sentence
from holdfast.core.step import AnyStep
from holdfast.engine.budget import Budget

FEW = 3
"""After this many interruptions people are told."""
BEHIND_OTHERS = timedelta(seconds=1)
"""How long a document waits that was interrupted a few times, so that others are claimed first."""


def interrupted(claim: Claim, step: AnyStep, *, who: str, budget: Budget, ran: float) -> Release:
    """Return how a document is given back whose body was interrupted.

    Args:
        claim: The claim on the document. It did not move under this claim.
        step: The step whose body ran.
        who: The name of the worker.
        budget: The budget that is over.
        ran: For how many seconds the body ran.
    """
    limit, times = step.options.retry.interruptions, claim.interruptions + 1
    is_over = limit is not None and times >= limit
    if times < FEW and not is_over:
        return Release(claim, who, "waiting", "release", costs="interruption", reason=budget.reason)
    release = Release(
        claim,
        who,
        "waiting",
        "release",
        BEHIND_OTHERS,
        costs="interruption",
        reason=_sentence(step, times, budget, ran),
        code=INTERRUPTED,
    )
    return replace(release, state="paused", verb="pause", delay=timedelta(0)) if is_over else release


def _sentence(step: AnyStep, times: int, budget: Budget, ran: float) -> str:
    stop = f"the worker was stopped ({budget.reason})"
    if budget.lasts is not None:
        stop = f"the budget of the worker was {format_duration(budget.lasts.total_seconds())}"
    facts = {"times": format_count(times, "time"), "step": step.name, "stop": stop, "ran": format_duration(ran)}
    return sentence(INTERRUPTED, **facts)
