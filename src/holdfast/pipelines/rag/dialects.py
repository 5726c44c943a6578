"""Statements that every database understands, but for how their parameters are marked."""

from __future__ import annotations

from typing import Any

from holdfast.core.moves import Tx


def marked(tx: Tx, statement: str) -> str:
    """Gives a statement, written with ?, as the database behind a transaction takes it."""
    return statement if tx.dialect == "sqlite" else statement.replace("?", "%s")


def run(tx: Tx, statement: str, *parameters: Any) -> Any:
    """Runs a statement that is written with ?."""
    return tx.execute(marked(tx, statement), parameters)
