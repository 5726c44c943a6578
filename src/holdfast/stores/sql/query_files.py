"""Load SQL from files: one statement per file, named after its file.

Statements that serve both databases are in `stores/sql/queries/`. A file of the same name in the `queries/` folder of
one store replaces the shared one. Shared statements are written in the SQL of PostgreSQL, with six rules:

- `:name` is a parameter. `:now` is the current time: by the clock of the store if it was given one, otherwise by the
  database's clock.
- `value::type` is a cast. SQLite needs none, so they are removed there.
- `x in :ids::bigint[]` and `x not in :ids::bigint[]` compare with a list in one parameter.
- `rows(:moves) as m (id bigint, state text)` is a table in one parameter, made by `Rows(id=[...], state=[...])`.
  On PostgreSQL each column is a parameter of its own, `:moves_id` and `:moves_state`.
- `json_int(d.reuses, s.id)` is the integer that a JSON object has under an id. `greatest`, `json_build_object`,
  `least`, `json_build_array` and `json_agg` are also translated.
- A line that ends in `-- on sqlite` or `-- on postgresql` is left out for the other database.

In the statements of every store, a line that ends in `-- if name` is used only if `with_conditions` names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Statement = tuple[str, Sequence[Any] | dict[str, Any]]
Translate = Callable[[str], str]

SHARED = Path(__file__).parent / "queries"

ROWS = "/* rows */"
IF = "-- if "
SIZES = (256, 128, 64, 32, 24, 16, 8, 7, 6, 5, 4, 3, 2, 1)
"""How many rows a statement takes. A few fixed sizes, so that the driver's statement cache knows them all, and fewer
than 32 rows are never more than two statements."""


class Query(str):
    """One statement."""

    __slots__ = ()

    def for_rows(self, count: int) -> str:
        """Return the statement for a number of rows: the row that follows the mark `/* rows */` is repeated."""
        return _repeated(self, count)

    def with_conditions(self, names: Iterable[str]) -> str:
        """Return the statement with the conditions of these names, so that each question finds its best index."""
        return _with_conditions(self, frozenset(names))


@cache
def _repeated(statement: str, count: int) -> str:
    head, _, tail = statement.partition(ROWS)
    row, _, rest = tail.partition("\n")
    return head + ", ".join([row.strip()] * count) + "\n" + rest


@cache
def _with_conditions(statement: str, names: frozenset[str]) -> str:
    lines = [line.partition(IF) for line in statement.splitlines()]
    return "\n".join(text.rstrip() for text, mark, name in lines if not mark or name in names)


def load_queries(folder: Path) -> dict[str, Query]:
    """Read every statement of a folder, by the name of its file."""
    return {path.stem: Query(path.read_text().strip()) for path in sorted(folder.rglob("*.sql"))}


def load_translated(folder: Path, translate: Translate) -> dict[str, Query]:
    """Read the shared statements and those of one store, which come first, and translate them for its database."""
    return {name: Query(translate(query)) for name, query in (load_queries(SHARED) | load_queries(folder)).items()}


def in_statements(statement: Query, head: Sequence[Any], rows: Sequence[Any], width: int) -> Iterator[Statement]:
    """Yield the statements that write rows, with their parameters. `rows` is flat, with `width` values for each row."""
    start, count = 0, len(rows) // width
    for size in SIZES:
        while count >= size:
            stop = start + size * width
            yield statement.for_rows(size), [*head, *rows[start:stop]]
            start, count = stop, count - size


def migrations(folder: Path) -> list[tuple[int, str]]:
    """Return the numbered migrations of a folder, in order."""
    return [(int(path.stem.partition("_")[0]), path.read_text()) for path in sorted(folder.glob("*.sql"))]


OPAQUE = r"(?P<opaque>'[^']*'|--[^\n]*)"
"""Texts and comments, in which nothing is translated."""

IN_LIST = re.compile(rf"{OPAQUE}|\b(?P<negated>not )?in :(?P<list>\w+)::(?P<type>\w+)\[\]")
ROWS_AS = re.compile(rf"{OPAQUE}|\brows\(:(?P<rows>\w+)\) as (?P<alias>\w+) \((?P<columns>[^)]*)\)")
JSON_INT = re.compile(rf"{OPAQUE}|\bjson_int\((?P<object>[\w.]+), (?P<id>[\w.]+)\)")
FUNCTION = re.compile(rf"{OPAQUE}|\b(?P<function>greatest|least|json_build_object|json_build_array|json_agg)(?=\()")
CAST = re.compile(rf"{OPAQUE}|::\w+(\[\])?")
PARAMETER = re.compile(rf"{OPAQUE}|(?<!:):(?P<parameter>[a-z]\w*)(?P<cast>::\w+)?")
ON = re.compile(r"\s*-- on (\w+)$")

SQLITE_FUNCTIONS = {
    "greatest": "max",
    "least": "min",
    "json_build_object": "json_object",
    "json_build_array": "json_array",
    "json_agg": "json_group_array",
}


def to_sqlite(statement: str) -> str:
    """Translate a shared statement for Python's sqlite3."""
    statement = _on("sqlite", statement)
    if "in :" in statement:  # the searches below are skipped where they find nothing: a store has to open fast
        statement = _replaced(IN_LIST, _in_json, statement)
    if "rows(:" in statement:
        statement = _replaced(ROWS_AS, _json_rows, statement)
    if "json_int(" in statement:
        statement = _replaced(JSON_INT, _json_extract, statement)
    if any(name in statement for name in SQLITE_FUNCTIONS):
        statement = _replaced(FUNCTION, lambda m: SQLITE_FUNCTIONS[m["function"]], statement)
    return _replaced(CAST, lambda _: "", statement) if "::" in statement else statement


def to_postgres(statement: str) -> str:
    """Translate a shared statement for psycopg."""
    statement = _on("postgresql", statement).replace("%", "%%")
    statement = _replaced(IN_LIST, _in_array, statement)
    statement = _replaced(ROWS_AS, _unnested, statement)
    statement = _replaced(JSON_INT, lambda m: f"({m['object']} ->> {m['id']}::text)::int", statement)
    return _replaced(PARAMETER, _psycopg_parameter, statement)


def _on(database: str, statement: str) -> str:
    if "-- on " not in statement:
        return statement
    lines = [(ON.search(line), line) for line in statement.splitlines()]
    return "\n".join(line[: mark.start()] if mark else line for mark, line in lines if not mark or mark[1] == database)


def _replaced(pattern: re.Pattern[str], by: Callable[[re.Match[str]], str], statement: str) -> str:
    return pattern.sub(lambda match: match["opaque"] or by(match), statement)


def _in_json(match: re.Match[str]) -> str:
    return f"{match['negated'] or ''}in (select value from json_each(:{match['list']}))"  # noqa: S608 - our own files


def _json_extract(match: re.Match[str]) -> str:
    return f"json_extract({match['object']}, '$.\"' || {match['id']} || '\"')"


def _in_array(match: re.Match[str]) -> str:
    return f"{'<> all' if match['negated'] else '= any'}(:{match['list']}::{match['type']}[])"


def _json_rows(match: re.Match[str]) -> str:
    names = [column.split()[0] for column in match["columns"].split(",")]
    columns = ", ".join(f"value ->> {place} as {name}" for place, name in enumerate(names))
    return f"(select {columns} from json_each(:{match['rows']})) as {match['alias']}"  # noqa: S608 - our own files


def _unnested(match: re.Match[str]) -> str:
    columns = [column.split() for column in match["columns"].split(",")]
    arrays = ", ".join(f":{match['rows']}_{name}::{kind}[]" for name, kind in columns)
    return f"unnest({arrays}) as {match['alias']} ({', '.join(name for name, _ in columns)})"


def _psycopg_parameter(match: re.Match[str]) -> str:
    if match["parameter"] == "now" and not match["cast"]:
        return "coalesce(%(now)s::timestamptz, now())"
    return f"%({match['parameter']})s{match['cast'] or ''}"
