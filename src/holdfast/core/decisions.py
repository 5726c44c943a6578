"""What was decided about a document, as its journal tells it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from holdfast.core.model import Decision, Entry

AT_A_GATE = "gate "
"""How the reason begins with which a document is parked at a gate, rather than stuck there."""


def waits_at(gate: str) -> str:
    """Gives the reason with which a document is parked at a gate."""
    return f"{AT_A_GATE}{gate}: a person has to decide"


def decided_at_gate(journal: Sequence[Entry], gate: str, generation: int) -> Decision | None:
    """Gives the decision that let a document past a gate, in one of its generations."""
    passed = [line for line in journal if (line.verb, line.step, line.generation) == ("resume", gate, generation)]
    return _decision(passed[-1]) if passed else None


def decided_at_step(journal: Sequence[Entry], step: str, generation: int) -> Decision | None:
    """Gives the last decision about what a step asked by raising Pause, in one of its generations.

    Whoever resumes a document that was parked for another reason decides nothing: its body had not asked.
    """
    asked, decision = False, None
    for line in journal:
        if line.step != step or line.generation != generation:
            continue
        if line.verb == "pause":
            asked = bool(line.detail.get("asks"))
        elif line.verb == "resume":
            decision = _decision(line) if asked else decision
            asked = False
    return decision


def nobody_decided(gate: str, within: timedelta) -> str:
    """Says why holdfast itself decides."""
    return f"nobody decided at {gate} within {spoken(within)}"


def spoken(span: timedelta) -> str:
    """Says how long in the largest unit that says it exactly: 3 days, 36 hours, 90 seconds."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        count, rest = divmod(span, timedelta(seconds=length))
        if count and not rest:
            return f"{count} {unit}" + "s" * (count > 1)
    seconds = span.total_seconds()
    return f"{seconds:g} second" + "s" * (seconds != 1)


def _decision(line: Entry) -> Decision:
    return Decision(line.who, line.detail["reason"], line.detail.get("answer"), line.at)
