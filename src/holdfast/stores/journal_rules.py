"""Which lines of a journal are counted when they repeat, instead of being written again."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.model import JournalEntry

REPEATING = ("defer",)
"""The verbs of lines that may repeat without end: a document that is put off, again and again."""
MAX_LINES = 20
"""How many such lines with different reasons one step of a document has. Then the newest one is used for all."""


def repeated_line(lines: Mapping[int, JournalEntry], line: JournalEntry) -> int | None:
    """Return the number of the line in which a line is counted. None if it has to be written."""
    if line.verb not in REPEATING or line.step is None:
        return None
    place = (line.verb, line.generation, line.step)
    numbers = [number for number, one in lines.items() if (one.verb, one.generation, one.step) == place]
    same = [number for number in numbers if _why(lines[number]) == _why(line)]
    return max(same, default=max(numbers) if len(numbers) >= MAX_LINES else None)


def _why(line: JournalEntry) -> tuple[str, object]:
    return line.code, line.detail.get("reason") if isinstance(line.detail, dict) else None
