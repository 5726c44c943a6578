"""Format numbers, times and checkpoints for people, the same way everywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from math import floor, log10
from typing import Any

from holdfast.core.codec import encode_json
from holdfast.core.model import Checkpoint, Output
from holdfast.core.plan import Shape

CONTROL_CHARS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, changes of the writing direction, and lone surrogates."""

MAX_NAMED = 3
"""How many documents a sentence names at most."""


RECOVERABLE: dict[bool | None, str] = {True: "yes", False: "no: somebody has to do something first", None: "unknown"}
"""Whether an error can go away by itself, in words."""
RECOVERABLE_NOTE: dict[bool | None, str] = {True: " (recoverable)", False: " (not recoverable)", None: ""}
"""The same, after the text of the error."""


def format_count(number: int, noun: str, many: str = "") -> str:
    """Return "1 document" or "1,203 documents"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {many or noun + 's'}"


def format_money(amount: float) -> str:
    """Return "12.50"; below a cent, as many digits as show two that are not 0, such as "0.0026"."""
    if amount >= 0.01 or amount <= 0:
        return f"{amount:,.2f}"
    return f"{amount:.{1 - floor(log10(amount))}f}"


def format_lost_workers(losses: int) -> str:
    """Return "1 lost worker" or "12 lost workers"."""
    return format_count(losses, "lost worker")


def format_tries(*, attempts: int, crashes: int, losses: int) -> str:
    """Return "2 attempts, 1 crash", with lost workers if there are any."""
    parts = [format_count(attempts, "attempt"), format_count(crashes, "crash", "crashes")]
    return ", ".join([*parts, format_lost_workers(losses)] if losses else parts)


def name_first(keys: Sequence[str], total: int | None = None) -> str:
    """Return the first keys, and how many more there are: "a, b, c and 2 more"."""
    more = (len(keys) if total is None else total) - len(keys[:MAX_NAMED])
    return ", ".join(keys[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def format_duration(seconds: float) -> str:
    """Format a duration: "1.5 s", "3 min 05 s", "2 h 10 min", "4 days"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} days"


def format_exact_duration(span: timedelta) -> str:
    """Format a duration in the largest unit that is exact: "3 days", "36 hours", "90 seconds"."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        count, rest = divmod(span, timedelta(seconds=length))
        if count and not rest:
            return f"{count} {unit}" + "s" * (count > 1)
    seconds = span.total_seconds()
    return f"{seconds:g} second" + "s" * (seconds != 1)


def format_time(when: datetime) -> str:
    """Format a time in the local time zone."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_ago(when: datetime, now: datetime) -> str:
    """Return "3.0 s ago" for a time in the past, "in 3.0 s" for a time in the future."""
    seconds = (now - when).total_seconds()
    return f"{format_duration(seconds)} ago" if seconds >= 0 else f"in {format_duration(-seconds)}"


def printable(text: str) -> str:
    """Replace every control character and line end by U+FFFD, so that a terminal obeys none of them.

    File names and error texts may come from strangers.
    """
    return CONTROL_CHARS.sub("\ufffd", text)


def escape_control_chars(written: str) -> str:
    """Escape control characters in JSON, as \\u009b. Programs read the same value."""
    return CONTROL_CHARS.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def one_line(text: str, width: int = 200) -> str:
    """Return text on one line, cut to a width, without control characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def format_checkpoint(
    at: Checkpoint, shape: Shape | None, outputs: Sequence[Output] = (), *, total: int | None = None
) -> str:
    """Describe a checkpoint: "at step embed, item 128 of 300". `total` is what its stream said it will yield."""
    if at.step is None:
        return "past the last step"
    where = format_cursor(at.step, at.cursor, shape, outputs)
    if total is not None:
        is_count = isinstance(at.cursor, int)
        kept = next((one.items for one in outputs if one.step == at.step), at.cursor if is_count else 0)
        place = f"item {kept:,} of {total:,}"
        where = place if is_count or not where else f"{place}, {where}"
    return f"at step {at.step}, {where}" if where else f"at step {at.step}"


def format_cursor(step: str, cursor: Any, shape: Shape | None, outputs: Sequence[Output] = ()) -> str:
    """Describe a cursor inside its step. Empty at the beginning of the step."""
    if cursor is None:
        return ""
    shape_of_step = next((one for one in shape.steps if one.name == step), None) if shape else None
    total = next((one.items for one in outputs if shape_of_step and one.step == shape_of_step.over), 0)
    of = f" of {total:,}" if total else ""
    if isinstance(cursor, int):
        return f"item {cursor:,}{of}"
    if shape_of_step and shape_of_step.kind == "over" and isinstance(cursor, dict):
        with suppress(TypeError, ValueError):  # a damaged cursor is shown as JSON
            return _format_windows(cursor, of)
    return f"cursor {one_line(encode_json(cursor))}"


def _format_windows(cursor: dict[str, Any], of: str) -> str:
    beyond = sum(stop - start for start, stop in cursor.get("done", []))
    aside = len(cursor.get("aside", []))
    parts = [f"item {cursor.get('next', 0):,}{of}"]
    parts += [f"{beyond:,} beyond it done"] if beyond else []
    parts += [f"{aside:,} set aside"] if aside else []
    return ", ".join(parts)


def format_short_duration(seconds: float) -> str:
    """Format a duration that may be below a second: "3.5 ms", then as format_duration."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else format_duration(seconds)


def format_rate(per_second: float, what: str = "") -> str:
    """Format a rate: "120/s", "2.5 documents/s", or per minute if it is below one per second."""
    noun = f" {what}" if what else ""
    if per_second >= 100:
        return f"{per_second:,.0f}{noun}/s"
    if per_second >= 1 or per_second == 0:
        return f"{per_second:.1f}{noun}/s"
    return f"{per_second * 60:.1f}{noun}/min"


def format_table(rows: Sequence[Sequence[str]], *, indent: str = "", right: Sequence[int] = ()) -> list[str]:
    """Align the columns of a table. `right` has the numbers of the columns that are aligned at their right edge."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        (
            indent
            + "  ".join(
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        ).rstrip()
        for row in rows
    ]
