"""The report of a worker: what it did, counted from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from msgspec import Struct

from holdfast.core.formatting import format_duration
from holdfast.core.model import DocumentStatus, State
from holdfast.core.moves import Move, Release
from holdfast.core.reasons import INTERRUPTED
from holdfast.observe.events import (
    BatchExpired,
    CircuitOpened,
    Claimed,
    Committed,
    Event,
    GaveBack,
    LostClaim,
    Reclaimed,
    RowsLeft,
    Stopping,
    Warned,
)

MAX_WARNINGS = 20
"""How many sentences about documents a report has, at most."""


class Report(Struct, frozen=True):
    """What a worker did, from its start to its end. `print(report)` shows the main numbers.

    Attributes:
        done: Documents that passed the last step.
        dead: Documents that became dead letters.
        paused: Documents that were paused, at a gate or for another reason.
        tried_again: Attempts that failed or were put off. Their documents wait for the next one.
        released: Documents that were given back because the worker stopped.
        lost: Documents that another worker took over.
        reclaimed: Documents that this worker took over from dead workers.
        claimed: Claims of documents.
        moves: Changes of checkpoints that were committed.
        commits: Transactions that committed them.
        items: Items that were kept.
        set_aside: Items that failed and were set aside, and were not done later.
        seconds: How long the worker ran.
        stopped_by: Why it stopped. Empty if nothing was left to do.
        warnings: What a person should know about the pipeline, each said once: a sentence for each.
    """

    done: int = 0
    dead: int = 0
    paused: int = 0
    tried_again: int = 0
    released: int = 0
    lost: int = 0
    reclaimed: int = 0
    claimed: int = 0
    moves: int = 0
    commits: int = 0
    items: int = 0
    set_aside: int = 0
    seconds: float = 0.0
    stopped_by: str = ""
    warnings: tuple[str, ...] = ()

    def __add__(self, later: Report) -> Report:
        """Add a later report."""
        added = [name for name in self.__struct_fields__ if name != "stopped_by"]
        both = {name: getattr(self, name) + getattr(later, name) for name in added}
        return Report(**both, stopped_by=later.stopped_by)

    def __str__(self) -> str:
        parts = [f"{self.done} done"]
        parts += [f"{count} {label}" for label, count in self._other_counts() if count]
        text = ", ".join(parts) + f" in {self.seconds:.1f} s"
        text += f"; stopped: {self.stopped_by}" if self.stopped_by else ""
        return "\n".join((text, *self.warnings))

    def _other_counts(self) -> list[tuple[str, int]]:
        return [
            ("items set aside", self.set_aside),
            ("dead", self.dead),
            ("paused", self.paused),
            ("to be tried again", self.tried_again),
            ("given back", self.released),
            ("lost to others", self.lost),
        ]


class DocumentResult(Struct, frozen=True):
    """Where one document is after `drain(key=...)`, and what the call did.

    Attributes:
        document: The document as it is now.
        report: What this call did.
        wait: How long until it is worth asking again, if the document waits: 0 if it is due now. None if it does not
            wait.
        reason: Why the document is where it is, for people. Empty if there is nothing to say.
    """

    document: DocumentStatus
    report: Report
    wait: timedelta | None = None
    reason: str = ""

    @property
    def state(self) -> State:
        """The state of the document now: `"done"`, `"dead"`, `"paused"`, `"cancelled"` or `"waiting"`."""
        return self.document.state

    @property
    def worked(self) -> bool:
        """True if this call worked on the document. A document that was done already is `done`, and not worked on."""
        return self.report.claimed > 0

    def __str__(self) -> str:
        document = self.document
        did = "" if self.worked else " already" if self.state in ("done", "dead", "cancelled") else ""
        due = f", due in {format_duration(self.wait.total_seconds())}" if self.wait else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{document.key} is {self.state}{did}{due}{reason}"


class ReportCounter:
    """Count events for a report."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._counts = dict.fromkeys(Report.__struct_fields__[:12], 0)
        self._aside: dict[tuple[int, int, str | None], set[int]] = {}  # of documents that are still in that step
        self._stopped_by = ""
        self._warnings: list[str] = []

    def _add_warning(self, event: RowsLeft | Warned) -> None:
        if isinstance(event, RowsLeft) or len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(event.sentence)

    def __call__(self, event: Event) -> None:
        counts = self._counts
        match event:
            case Committed(moves):
                counts["commits"] += 1
                counts["moves"] += len(moves)
                counts["items"] += sum([len(move.items) for move in moves])
                self._count_asides(moves)
                for state, count in Counter([move.state for move in moves]).items():
                    if state != "running":
                        counts[state] += count
            case Claimed(claims):
                counts["claimed"] += len(claims)
            case GaveBack(releases):
                self._count_releases(releases)
            case LostClaim():
                counts["lost"] += 1
            case Reclaimed(documents):
                counts["reclaimed"] += len(documents)
                counts["dead"] += sum(document.state == "dead" for document in documents)
                counts["paused"] += sum(document.state == "paused" for document in documents)
            case BatchExpired(expired):
                counts["dead"] += sum(document.state == "dead" for document in expired.documents)
            case RowsLeft() | Warned():
                self._add_warning(event)
            case CircuitOpened(step, failure):
                self._warnings.append(f"Step {step} was paused for all documents: {failure}.")
            case Stopping(reason):
                self._stopped_by = reason
            case _:
                pass

    def _count_asides(self, moves: Sequence[Move]) -> None:
        """Count each item that is set aside once, however often it fails, and not if it is mended."""
        for move in moves:
            place = (move.claim.document_id, move.before.generation, move.before.step)
            if move.asides or move.mended:
                known = self._aside.setdefault(place, set())
                before = len(known)
                known |= {item.position for item in move.asides}
                known -= {*move.mended}
                self._counts["set_aside"] += len(known) - before
            if self._aside and move.after.step != move.before.step:
                self._aside.pop(place, None)

    def _count_releases(self, releases: Sequence[Release]) -> None:
        for release in releases:
            self._counts[_field(release.verb, release.state)] += 1
            if release.state != "waiting":
                at = release.claim.checkpoint
                self._aside.pop((release.claim.document_id, at.generation, at.step), None)
            if release.code == INTERRUPTED and len(self._warnings) < MAX_WARNINGS:
                self._warnings.append(f"{release.claim.key} of {release.claim.batch}: {release.reason}.")

    def report(self) -> Report:
        """Return the report so far."""
        seconds = monotonic() - self._began
        return Report(**self._counts, seconds=seconds, stopped_by=self._stopped_by, warnings=(*self._warnings,))


def _field(verb: str, state: str) -> str:
    if verb == "release":
        return "released"
    return state if state in ("dead", "paused") else "tried_again"
