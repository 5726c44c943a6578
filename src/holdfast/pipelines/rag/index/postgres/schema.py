"""Create the tables of the index in PostgreSQL, pgvector, and a table of vectors for each model."""

from __future__ import annotations

from pathlib import Path

import psycopg
from msgspec.structs import asdict

from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.tokenizer import TOKENIZER_VERSION
from holdfast.pipelines.rag.index.values import EmbeddingModel, check_dimension
from holdfast.pipelines.rag.sql_statements import fill, index_statements

SCHEMA = Path(__file__).parent / "schema.sql"
SQL = index_statements("postgresql")
MIN_PGVECTOR = (0, 8)
"""The first version of pgvector that continues a search when a filter leaves too few results."""
MAX_INDEXED_DIMENSION = 4000
"""The largest dimension that pgvector can index at half precision. Longer vectors are compared one by one."""


class NoPgvector(HoldfastError):
    """The database has no pgvector, or a version that is too old. The message says what to do."""


def create_tables(tx: Tx) -> None:
    """Create the extension and the tables that are missing."""
    tx.execute(SQL["lock_schema"])
    _require_pgvector(tx)
    for statement in SCHEMA.read_text().split(";\n"):
        if statement.strip():
            tx.execute(statement)
    if tx.execute(SQL["words_stored_apart"]).fetchone():
        tx.execute(SQL["store_words_inline"])
    if tx.execute(SQL["tokenizer"]).fetchone() is None:
        tx.execute(
            SQL["record_tokenizer"], {"version": 1 if tx.execute(SQL["has_words"]).fetchone() else TOKENIZER_VERSION}
        )


def require_model_id(tx: Tx, model: EmbeddingModel) -> int:
    """Return the id of a model. Add the model and create the table of its vectors if it is new.

    Raises:
        ValueError: The model has vectors of another dimension in this store.
    """
    row = tx.execute(SQL["find_model"], asdict(model)).fetchone()
    if row is None:
        tx.execute(SQL["lock_schema"])
        row = tx.execute(SQL["find_model"], asdict(model)).fetchone() or _add_model(tx, model)
    model_id, dimension = row
    check_dimension(model, dimension)
    return int(model_id)


def _add_model(tx: Tx, model: EmbeddingModel) -> tuple[int, int]:
    model_id, dimension = tx.execute(SQL["add_model"], asdict(model)).fetchone()
    tx.execute(fill(SQL["create_vector_table"], model_id=model_id, dimension=dimension))
    if dimension <= MAX_INDEXED_DIMENSION:
        tx.execute(fill(SQL["create_vector_index"], model_id=model_id))
    return model_id, dimension


def _require_pgvector(tx: Tx) -> None:
    installed = tx.execute(SQL["pgvector_version"]).fetchone()
    if installed is None:
        _install_pgvector(tx)
        installed = tx.execute(SQL["pgvector_version"]).fetchone()
    if tuple(map(int, installed[0].split(".")[:2])) < MIN_PGVECTOR:
        raise NoPgvector(
            f"document search needs pgvector 0.8 or later, and this database has {installed[0]}: install a newer one "
            "on its server, then run: alter extension vector update"
        )


def _install_pgvector(tx: Tx) -> None:
    if not tx.execute(SQL["pgvector_available"]).fetchone():
        raise NoPgvector(
            "document search in PostgreSQL needs the extension pgvector, and this server does not have it: install it "
            "(packages are called postgresql-NN-pgvector or pgvector), or keep the index in a SQLite file"
        )
    try:
        tx.execute(SQL["create_pgvector"])
    except psycopg.errors.InsufficientPrivilege as error:
        raise NoPgvector(
            "document search needs the extension pgvector, and this user may not create it: ask the owner of the "
            "database to run: create extension vector"
        ) from error
