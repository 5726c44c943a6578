"""The report of a crash test: where it killed, and what differed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.errors import HoldfastError

Side = Literal["before", "after"]
Verb = Literal["submit", "claim", "commit", "release", "rewind", "redrive", "withdraw"]

MAX_SHOWN = 5
"""Maximum number of findings, and of differences of each, that are shown. The first is nearly always the cause."""


class Point(Struct, frozen=True):
    """The place where a run was killed: one side of one commit point.

    Attributes:
        number: The number of the commit point, from 1, in the order of the undisturbed run.
        side: `"before"` or `"after"` the commit.
        verb: What the transaction did.
        key: The document, if the transaction was about one.
        step: Its step.
        cursor: Its cursor before the commit.
        to: The cursor that the commit moves to. If the commit leaves the step: the name of the next step, or `the end`.
        undoes: True if the commit replaces rows of an earlier generation.
    """

    number: int
    side: Side
    verb: Verb
    key: str = ""
    step: str = ""
    cursor: Any = None
    to: Any = None
    undoes: bool = False

    def __str__(self) -> str:
        return f"point {self.number}, right {self.side} {_VERB_NAMES[self.verb]}{self._place()}"

    def _place(self) -> str:
        going = f", going to {_cursor_text(self.to)}" if self.to is not None else ""
        if not self.key:
            return going
        return f" of {self.key!r} at step {self.step!r}, cursor {_cursor_text(self.cursor)}{going}"


_VERB_NAMES: dict[Verb, str] = {
    "submit": "the submit",
    "claim": "the claim",
    "commit": "the commit",
    "release": "the release",
    "rewind": "the rewind",
    "redrive": "the redrive",
    "withdraw": "the withdrawal",
}


class Difference(Struct, frozen=True):
    """One thing that differs from the undisturbed run.

    Attributes:
        place: `table charges`, or `document 'a.pdf'`.
        kind: How it differs.
        row: The row, or the step and position of an item, with its value.
        note: More about it, or nothing.
        culprits: What `ignore=` has to name so that this counts as no difference.
    """

    place: str
    kind: Literal["missing", "extra", "twice", "differs", "failed"]
    row: str
    note: str = ""
    culprits: tuple[str, ...] = ()

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.place}: {_KIND_NAMES[self.kind]}: {self.row}{note}"


_KIND_NAMES = {
    "missing": "missing",
    "extra": "unexpected",
    "twice": "duplicate",
    "differs": "different",
    "failed": "failed",
}


Scenario = Literal["resumed", "changed", "redone"]
"""What happened in a run: it was killed and resumed; it was killed, documents were changed, and it was resumed; or all
documents were done, were changed, rewound and done again, and that was killed and resumed."""


class DifferingRun(Struct, frozen=True):
    """A run whose result differed.

    Attributes:
        point: Where it was killed. None if it was not killed.
        differences: What differs from the undisturbed run.
        scenario: What happened in the run.
    """

    point: Point | None
    differences: Sequence[Difference]
    scenario: Scenario = "resumed"

    def __str__(self) -> str:
        return "\n".join((f"{self._describe()}:", *_first_few(self.differences)))

    def _describe(self) -> str:
        if self.scenario == "resumed":
            return f"killed at {self.point}, then resumed"
        if self.scenario == "changed":
            return f"killed at {self.point}, then changed and resumed"
        killed = f", killed at {self.point}, and resumed" if self.point else ""
        return f"done, then changed and rewound{killed}"


class CrashTestProgress(Struct, frozen=True):
    """The progress of a crash test. It is passed to `progress` after every run.

    Attributes:
        done: How many runs there were so far.
        total: How many runs there will be.
        point: Where this run was killed. None if it was not killed.
        differences: What differs from the undisturbed run.
    """

    done: int
    total: int
    point: Point | None
    differences: Sequence[Difference] = ()


class CrashReport(Struct, frozen=True, kw_only=True):
    """The result of a crash test. `print(report)` explains it.

    Attributes:
        pipeline: The name of the pipeline.
        states: How many documents ended in each state in the undisturbed run.
        points: How many commit points the undisturbed run had.
        kills: How many runs were killed.
        changes: In how many runs documents were changed half-way, or were changed and rewound when they were done.
        seconds: How long the test took.
        slowest_resume: The longest time until a worker claimed a document after a kill, in seconds.
        findings: The runs whose result was different.
        unstable: How two undisturbed runs differ. If they differ, a killed run proves nothing, so nothing was killed.
        without_undo: The steps that have an effect, and say nothing about how its rows go away.
        ended: The documents whose effect ended its transaction in the undisturbed run. Nothing was killed then either.
    """

    pipeline: str
    states: dict[str, int]
    points: int = 0
    kills: int = 0
    changes: int = 0
    seconds: float = 0.0
    slowest_resume: float = 0.0
    findings: Sequence[DifferingRun] = ()
    unstable: Sequence[Difference] = ()
    without_undo: tuple[str, ...] = ()
    ended: Sequence[Difference] = ()

    @property
    def passed(self) -> bool:
        """True if every run ended like the undisturbed one."""
        return not self.findings and not self.unstable and not self.ended

    def __str__(self) -> str:
        if self.unstable:
            return "\n".join(self._unstable())
        if self.ended:
            head = f"pipeline {self.pipeline!r} has an effect that ends its transaction, so nothing was killed:"
            return "\n".join((head, *_first_few(self.ended)))
        documents = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "no documents"
        head = (
            f"pipeline {self.pipeline!r} ({documents}): {self.kills} kills around {self.points} commit points "
            f"in {self.seconds:.1f} s"
        )
        if not self.findings:
            return f"{head}; the result was the same after each{self._changes()}"
        if self.findings[0].scenario == "resumed":
            return "\n".join((f"{head}; {len(self.findings)} of them changed the result", *self._findings()))
        return "\n".join((f"{head}; the result was the same after each", *self._findings_of_changes()))

    def _changes(self) -> str:
        if not self.changes:
            return ""
        return f". In {self.changes} more runs documents changed or were rewound; it was that of a fresh run after each"

    def _findings_of_changes(self) -> Iterator[str]:
        many = f"{len(self.findings)} of {self.changes}"
        yield f"In {many} more runs, documents that changed or were rewound did not end like those of a fresh run:"
        for finding in self.findings[:MAX_SHOWN]:
            yield f"\n{finding}"
        if len(self.findings) > MAX_SHOWN:
            yield f"\nand {len(self.findings) - MAX_SHOWN} more runs with differences"
        yield f"\n{self._cause_in_changes()}"

    def _cause_in_changes(self) -> str:
        if self.without_undo:
            step = self.without_undo[0]
            return (
                f"Step {step!r} has an effect and no undo: when a document is done again, the rows of the first time "
                f'stay. Say how they go away, with @{step}.undo, or return the rows with @{step}.rows. See "When a '
                'document changes" in docs/writing-pipelines.md'
            )
        names = sorted({name for finding in self.findings for one in finding.differences for name in one.culprits})
        ignored = f" If these may differ, ignore them: ignore=({', '.join(map(repr, names))},)" if names else ""
        return f"An undo must remove all that the effect of its step wrote, and no more.{ignored}"

    def _findings(self) -> Iterator[str]:
        for finding in self.findings[:MAX_SHOWN]:
            yield f"\n{finding}"
        if len(self.findings) > MAX_SHOWN:
            yield f"\nand {len(self.findings) - MAX_SHOWN} more kills with differences"
        first = self.findings[0].point
        repeat = f" To repeat this kill: points=[{first.number}]" if first else ""
        yield (
            "\nWhat a body writes by itself (a row, a file, a sum in a variable) is not part of the checkpoint. Write "
            f"rows in the step's effect, and start at the cursor.{repeat}"
        )

    def _unstable(self) -> Iterator[str]:
        yield f"pipeline {self.pipeline!r} has another result each time, also without a kill:"
        yield from _first_few(self.unstable)
        names = sorted({name for difference in self.unstable for name in difference.culprits})
        if names:
            yield f"If these may differ, ignore them: ignore=({', '.join(map(repr, names))},)"


class Differs(AssertionError):
    """A killed and resumed run did not end like the undisturbed one.

    Args:
        report: The report with the details. It is an attribute of the error.
    """

    def __init__(self, report: CrashReport) -> None:
        super().__init__(str(report))
        self.report = report


class RunFailed(HoldfastError):
    """A run that was not killed failed, so there is nothing to compare with."""


def _first_few(differences: Sequence[Difference]) -> Iterator[str]:
    for difference in differences[:MAX_SHOWN]:
        yield f"  {difference}"
    if len(differences) > MAX_SHOWN:
        yield f"  and {len(differences) - MAX_SHOWN} more"


def _cursor_text(cursor: Any) -> str:
    return "none yet" if cursor is None else cursor if isinstance(cursor, str) else encode_json(cursor)
