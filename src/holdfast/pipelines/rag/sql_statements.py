"""Load SQL from files, and run it on the database of a transaction.

All files follow the rules of `holdfast.stores.sql.query_files`. The statements of the database indexes for both
databases are in index/queries. A file in the queries folder of one database is for that one only. Where SQL takes no
parameter, `{name}` stands for a whole number; `fill` puts it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from holdfast.core.codec import encode_json
from holdfast.core.moves import Tx
from holdfast.stores.sql.query_files import Query, load_queries, to_postgres, to_sqlite

INDEX = Path(__file__).parent / "index"
DIALECT_FOLDERS = {"sqlite": INDEX / "sqlite" / "queries", "postgresql": INDEX / "postgres" / "queries"}


class Statements:
    """The SQL files of one folder, for both databases. `run` takes the name of a file without its suffix."""

    def __init__(self, folder: Path) -> None:
        files = load_queries(folder)
        self._texts = {
            dialect: {name: translate(text, dialect) for name, text in files.items()}
            for dialect in ("sqlite", "postgresql")
        }

    def run(self, tx: Tx, statement: str, /, **params: Any) -> Any:
        """Run a statement and return the cursor of the driver. A parameter may be a list."""
        if tx.dialect == "sqlite":
            params = {name: encode_json(value) if isinstance(value, list) else value for name, value in params.items()}
        return tx.execute(self._texts[tx.dialect][statement], params)

    def run_many(self, tx: Tx, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each set of parameters."""
        tx.executemany(self._texts[tx.dialect][name], list(rows))


@cache
def load_statements(folder: Path) -> Statements:
    """Load the SQL files of a folder, once."""
    return Statements(folder)


def has_table(tx: Tx, name: str) -> bool:
    """Return True if the database has a table of this name."""
    return load_statements(Path(__file__).parent / "queries").run(tx, "has_table", name=name).fetchone() is not None


def translate(statement: str, dialect: str) -> str:
    """Return a statement in the form that the driver of a database takes: `sqlite` or `postgresql`."""
    return to_sqlite(statement) if dialect == "sqlite" else to_postgres(statement)


@cache
def index_statements(dialect: Literal["sqlite", "postgresql"]) -> dict[str, Query]:
    """Return the statements of the index for one database, in the form that its driver takes."""
    texts = load_queries(INDEX / "queries") | load_queries(DIALECT_FOLDERS[dialect])
    return {name: Query(translate(text, dialect)) for name, text in texts.items()}


def fill(statement: str, **numbers: int) -> str:
    """Replace each `{name}` by a whole number."""
    for name, number in numbers.items():
        statement = statement.replace(f"{{{name}}}", f"{number:d}")
    return statement
