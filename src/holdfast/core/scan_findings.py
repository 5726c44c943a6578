"""What a scan of a pipeline found: batches, dead letters and running documents that nobody takes care of."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.batches import Reconciliation
from holdfast.core.formatting import format_count
from holdfast.core.orphans import Orphan


class ScanFindings(Struct, frozen=True, kw_only=True):
    """What a scan found and did.

    Attributes:
        stale: Batches that are not closed, and in which nothing moved for a long time.
        dead_letters: How many dead letters nobody redrove or accepted for a long time, by batch.
        orphans: Running documents without a sign of life for longer than the grace time.
        ended: Stale batches that the scan ended: their open documents were cancelled.
        closed: Stale batches that the scan closed.
        cleaned: How many documents the scan cleaned up.
    """

    stale: tuple[Reconciliation, ...] = ()
    dead_letters: dict[str, int] = {}
    orphans: tuple[Orphan, ...] = ()
    ended: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    cleaned: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing that a person should know."""
        return not (self.stale or self.dead_letters or self.orphans or self.ended or self.closed)


def describe_findings(findings: ScanFindings) -> str:
    """Return what a scan found and did, as a sentence without its subject."""
    parts = []
    if findings.stale:
        parts.append(f"nothing moves in {', '.join(found.batch for found in findings.stale)}")
    if findings.dead_letters:
        count = format_count(sum(findings.dead_letters.values()), "dead letter")
        parts.append(f"{count} without a decision in {', '.join(findings.dead_letters)}")
    if findings.orphans:
        parts.append(f"{format_count(len(findings.orphans), 'running document')} without a sign of life")
    parts += [f"ended: {', '.join(findings.ended)}"] if findings.ended else []
    parts += [f"closed: {', '.join(findings.closed)}"] if findings.closed else []
    return "; ".join(parts) or "nothing was found"
