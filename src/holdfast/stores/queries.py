"""Loads SQL from files: one file per verb, the same names for every database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Statement = tuple[str, Sequence[Any] | dict[str, Any]]

ROWS = "/* rows */"
IF = "-- if "
SIZES = (256, 128, 64, 32, 24, 16, 8, 7, 6, 5, 4, 3, 2, 1)
"""How many rows a statement takes. A few fixed sizes, so that the driver's statement cache knows them all, and fewer
than 32 rows are never more than two statements."""


class Query(str):
    """One statement. `for_rows(n)` repeats the row that follows the mark, for writing many rows with one statement.

    `asking(...)` leaves out the lines that end in `-- if name` for a name that is not asked for, so that each question
    finds the index that fits it.
    """

    __slots__ = ()

    def for_rows(self, count: int) -> str:
        """Gives the statement for so many rows."""
        return _repeated(self, count)

    def asking(self, names: Iterable[str]) -> str:
        """Gives the statement with the conditions of these names."""
        return _asking(self, frozenset(names))


@cache
def _repeated(statement: str, count: int) -> str:
    head, _, tail = statement.partition(ROWS)
    row, _, rest = tail.partition("\n")
    return head + ", ".join([row.strip()] * count) + "\n" + rest


@cache
def _asking(statement: str, names: frozenset[str]) -> str:
    lines = [line.partition(IF) for line in statement.splitlines()]
    return "\n".join(text.rstrip() for text, mark, name in lines if not mark or name in names)


def load(folder: Path) -> dict[str, Query]:
    """Reads every statement of a folder, by the name of its file."""
    return {path.stem: Query(path.read_text().strip()) for path in sorted(folder.glob("*.sql"))}


def in_statements(statement: Query, head: Sequence[Any], rows: Sequence[Any], width: int) -> Iterator[Statement]:
    """Gives the statements that write rows, with their parameters. The rows lie flat, `width` values each."""
    start, count = 0, len(rows) // width
    for size in SIZES:
        while count >= size:
            stop = start + size * width
            yield statement.for_rows(size), [*head, *rows[start:stop]]
            start, count = stop, count - size


def migrations(folder: Path) -> list[tuple[int, str]]:
    """Gives the numbered migrations of a folder, in order."""
    return [(int(path.stem.partition("_")[0]), path.read_text()) for path in sorted(folder.glob("*.sql"))]
