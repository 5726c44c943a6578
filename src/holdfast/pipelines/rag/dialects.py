"""Statements that every database understands, but for how their parameters are marked."""

from __future__ import annotations

from typing import Any

from holdfast.core.moves import Tx


def marked(tx: Tx, statement: str) -> str:
    """Gives a statement, written with ?, as the database behind a transaction takes it."""
    return statement if tx.dialect == "sqlite" else statement.replace("?", "%s")


def has_table(tx: Tx, name: str) -> bool:
    """Answers whether there is a table of this name."""
    if tx.dialect == "sqlite":
        return bool(run(tx, "select 1 from sqlite_master where type = 'table' and name = ?", name).fetchone())
    return run(tx, "select to_regclass(?)", name).fetchone()[0] is not None


def run(tx: Tx, statement: str, *parameters: Any) -> Any:
    """Runs a statement that is written with ?."""
    return tx.execute(marked(tx, statement), parameters)
