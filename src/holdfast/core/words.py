"""Numbers, times and places in words, the same wherever people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from holdfast.core.codec import encode_json
from holdfast.core.model import Checkpoint, Output
from holdfast.core.plan import Shape

OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, what turns the direction of writing, and halves of characters."""


def count(number: int, noun: str, many: str = "") -> str:
    """Gives "1 document" or "1,203 documents"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {many or noun + 's'}"


def span(seconds: float) -> str:
    """Gives a length of time as a person would say it."""
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


def moment(when: datetime) -> str:
    """Gives a moment on the clock of the person who looks."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(when: datetime, now: datetime) -> str:
    """Says how long ago or in how long a moment is."""
    seconds = (now - when).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def harmless(text: str) -> str:
    """Gives text in which all that a terminal would obey, also the end of a line, is replaced, one for one.

    Names of files and texts of errors come from anywhere.
    """
    return OBEYED.sub("\ufffd", text)


def spelled(written: str) -> str:
    """Gives JSON in which all that a terminal would obey is spelled, as \\u009b: it says the same to programs."""
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def one_line(text: str, width: int = 200) -> str:
    """Gives text on one line, cut where it is too long, with nothing in it that a terminal would obey."""
    line = harmless(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def place(at: Checkpoint, shape: Shape | None, outputs: Sequence[Output] = ()) -> str:
    """Says where a checkpoint is: "at step embed, item 128 of 300"."""
    if at.step is None:
        return "past the last step"
    where = inside(at.step, at.cursor, shape, outputs)
    return f"at step {at.step}, {where}" if where else f"at step {at.step}"


def inside(step: str, cursor: Any, shape: Shape | None, outputs: Sequence[Output] = ()) -> str:
    """Says where a cursor is inside its step; empty at the beginning."""
    if cursor is None:
        return ""
    kind = next((one for one in shape.steps if one.name == step), None) if shape else None
    total = next((one.items for one in outputs if kind and one.step == kind.over), 0)
    of = f" of {total:,}" if total else ""
    if isinstance(cursor, int):
        return f"item {cursor:,}{of}"
    if kind and kind.kind == "over" and isinstance(cursor, dict):
        with suppress(TypeError, ValueError):  # a damaged one is told as it stands there
            return _scattered(cursor, of)
    return f"cursor {one_line(encode_json(cursor))}"


def _scattered(cursor: dict[str, Any], of: str) -> str:
    beyond = sum(stop - start for start, stop in cursor.get("done", []))
    aside = len(cursor.get("aside", []))
    said = [f"item {cursor.get('next', 0):,}{of}"]
    said += [f"{beyond:,} beyond it done"] if beyond else []
    said += [f"{aside:,} set aside"] if aside else []
    return ", ".join(said)
