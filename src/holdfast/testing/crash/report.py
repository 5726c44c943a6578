"""What a crash test says: where it killed, what differed, and all of it in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.errors import HoldfastError

Side = Literal["before", "after"]
Verb = Literal["submit", "claim", "commit", "give_back", "rewind"]

TOLD = 5
"""So many findings, and so many differences of each, are told in full. The first one is nearly always the cause."""


class Point(Struct, frozen=True):
    """One side of one commit point: where a run was killed."""

    number: int
    side: Side
    verb: Verb
    key: str = ""
    step: str = ""
    cursor: Any = None
    to: Any = None
    """The cursor that the commit moves to; the name of the next step, or `the end`, where it leaves the step."""

    def __str__(self) -> str:
        return f"point {self.number}, right {self.side} {_DEEDS[self.verb]}{self._place()}"

    def _place(self) -> str:
        if self.verb == "submit":
            return ""
        going = f", going to {_shown(self.to)}" if self.to is not None else ""
        return f" of {self.key!r} at step {self.step!r}, cursor {_shown(self.cursor)}{going}"


_DEEDS: dict[Verb, str] = {
    "submit": "the submit",
    "claim": "the claim",
    "commit": "the commit",
    "give_back": "the giving back",
    "rewind": "the rewind",
}


class Difference(Struct, frozen=True):
    """One thing that is not as it is after an undisturbed run."""

    place: str
    """`table charges`, or `document 'a.pdf'`."""
    kind: Literal["missing", "extra", "twice", "differs", "failed"]
    row: str
    """The row, or the step and position of the kept item, with its value."""
    note: str = ""
    culprits: tuple[str, ...] = ()
    """What `ignore=` would have to name for this to be no difference."""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.place}: {_KINDS[self.kind]}: {self.row}{note}"


_KINDS = {
    "missing": "missing",
    "extra": "too much",
    "twice": "there twice",
    "differs": "not the same",
    "failed": "it failed",
}


class Finding(Struct, frozen=True):
    """A kill after which the result was not the same."""

    point: Point
    differences: Sequence[Difference]

    def __str__(self) -> str:
        return "\n".join((f"killed at {self.point}, then resumed:", *_first_few(self.differences)))


class Progress(Struct, frozen=True):
    """Said after every kill: so many of so many, where the last one was, and what differed."""

    done: int
    total: int
    point: Point
    differences: Sequence[Difference] = ()


class CrashReport(Struct, frozen=True, kw_only=True):
    """What a crash test found."""

    pipeline: str
    states: dict[str, int]
    """How many documents ended in each state, undisturbed."""
    points: int = 0
    """How many commit points the undisturbed run had."""
    kills: int = 0
    seconds: float = 0.0
    slowest_resume: float = 0.0
    """The longest that a worker needed to take a document in hand after its predecessor was killed, in seconds."""
    findings: Sequence[Finding] = ()
    unsteady: Sequence[Difference] = ()
    """How two undisturbed runs differ: then nothing can be learned from a killed one, and nothing was killed."""

    @property
    def passed(self) -> bool:
        """Whether every killed run ended like the undisturbed one."""
        return not self.findings and not self.unsteady

    def __str__(self) -> str:
        if self.unsteady:
            return "\n".join(self._unsteady())
        documents = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "no documents"
        head = (
            f"pipeline {self.pipeline!r} ({documents}): {self.kills} kills around {self.points} commit points "
            f"in {self.seconds:.1f} s"
        )
        if not self.findings:
            return f"{head}; after each it went on to the same result"
        return "\n".join((f"{head}; {len(self.findings)} of them changed the result", *self._findings()))

    def _findings(self) -> Iterator[str]:
        for finding in self.findings[:TOLD]:
            yield f"\n{finding}"
        if len(self.findings) > TOLD:
            yield f"\nand {len(self.findings) - TOLD} more such kills"
        first = self.findings[0].point
        yield (
            f"\nWhat a body does by itself (a row, a file, a sum in a variable) is not part of the checkpoint. Write "
            f"rows in the step's effect, and begin at the cursor. To try this one again: points=[{first.number}]"
        )

    def _unsteady(self) -> Iterator[str]:
        yield f"pipeline {self.pipeline!r} gives another result each time, also when nobody kills it:"
        yield from _first_few(self.unsteady)
        names = sorted({name for difference in self.unsteady for name in difference.culprits})
        if names:
            yield f"If that is its nature, say so: ignore=({', '.join(map(repr, names))},)"


class Differs(AssertionError):
    """A run that was killed and resumed did not end like the undisturbed one."""

    def __init__(self, report: CrashReport) -> None:
        super().__init__(str(report))
        self.report = report


class RunFailed(HoldfastError):
    """A run that nobody killed failed, so there is nothing to compare with."""


def _first_few(differences: Sequence[Difference]) -> Iterator[str]:
    for difference in differences[:TOLD]:
        yield f"  {difference}"
    if len(differences) > TOLD:
        yield f"  and {len(differences) - TOLD} more"


def _shown(cursor: Any) -> str:
    return "none yet" if cursor is None else cursor if isinstance(cursor, str) else encode_json(cursor)
