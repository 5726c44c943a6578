"""Numbers, times and places in words, the same on every page of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.words import ago, count, harmless, inside, moment, one_line, place, span

__all__ = ["ago", "count", "harmless", "inside", "moment", "one_line", "place", "rate", "span", "table"]


def short(seconds: float) -> str:
    """Gives a length of time that may be very short."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else span(seconds)


def rate(per_second: float, what: str = "") -> str:
    """Gives a rate, by the minute where a second is too short."""
    noun = f" {what}" if what else ""
    if per_second >= 100:
        return f"{per_second:,.0f}{noun}/s"
    if per_second >= 1 or per_second == 0:
        return f"{per_second:.1f}{noun}/s"
    return f"{per_second * 60:.1f}{noun}/min"


def table(rows: Sequence[Sequence[str]], *, indent: str = "", right: Sequence[int] = ()) -> list[str]:
    """Lines columns up; those named in `right` at their right edge."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (
            indent
            + "  ".join(
                cell.rjust(width) if place in right else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        ).rstrip()
        for row in rows
    ]
