"""The tables of the index in PostgreSQL, and a table of vectors for each model."""

from __future__ import annotations

from pathlib import Path

import psycopg

from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import Model
from holdfast.stores.queries import load

HERE = Path(__file__).parent
SQL = load(HERE / "queries")
OLDEST = (0, 8)
"""The first pgvector that goes on looking when a filter leaves too few."""
INDEXABLE = 4000
"""How many numbers of half precision a vector may have to be indexed. Longer ones are compared one by one."""
WORDS_ARE_ELSEWHERE = """
select 1 from pg_attribute where attrelid = 'rag_chunk'::regclass and attname = 'words' and attstorage <> 'm'
"""
"""Whether words may lie apart from their chunk, as PostgreSQL has it by itself: ranking would fetch them one by one. It
is the text that lies apart where a chunk is long, and only those that are shown are read."""
ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtext('holdfast document search'))"


class NoPgvector(HoldfastError):
    """The database has no pgvector, or an old one. The message says what to do."""


def prepare(tx: Tx) -> None:
    """Makes the extension and the tables where they are missing."""
    tx.execute(ONE_AT_A_TIME)  # "if not exists" is no protection from another who makes the same just now
    _prepare_pgvector(tx)
    for statement in (HERE / "schema.sql").read_text().split(";\n"):
        if statement.strip():
            tx.execute(statement)
    if tx.execute(WORDS_ARE_ELSEWHERE).fetchone():
        tx.execute("alter table rag_chunk alter column words set storage main")


def number_of(tx: Tx, model: Model) -> int:
    """Gives the number of a model, and makes its table with its first vectors."""
    named = {"name": model.name, "dimension": model.dimension}
    row = tx.execute(SQL["model"], named).fetchone()
    if row is None:
        tx.execute(ONE_AT_A_TIME)
        row = tx.execute(SQL["model"], named).fetchone() or _add(tx, model)
    if row[1] != model.dimension:
        raise ValueError(f"{model.name} gave vectors of {row[1]} numbers before, and gives {model.dimension} now")
    return int(row[0])


def _add(tx: Tx, model: Model) -> tuple[int, int]:
    number, dimension = tx.execute(SQL["add_model"], {"name": model.name, "dimension": model.dimension}).fetchone()
    table = f"rag_vector_{number:d}"
    tx.execute(f"create table {table} (hash bytea primary key, vector halfvec({dimension:d}) not null)")
    if dimension <= INDEXABLE:
        tx.execute(f"create index {table}_near on {table} using hnsw (vector halfvec_cosine_ops)")
    return number, dimension


def _prepare_pgvector(tx: Tx) -> None:
    installed = tx.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
    if installed is None:
        _install(tx)
        installed = tx.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
    if tuple(map(int, installed[0].split(".")[:2])) < OLDEST:
        raise NoPgvector(
            f"document search needs pgvector 0.8 or later, and this database has {installed[0]}: install a newer one "
            "on its server, then run: alter extension vector update"
        )


def _install(tx: Tx) -> None:
    if not tx.execute("select 1 from pg_available_extensions where name = 'vector'").fetchone():
        raise NoPgvector(
            "document search in PostgreSQL needs the extension pgvector, and this server does not have it: install it "
            "(packages are called postgresql-NN-pgvector or pgvector), or keep the index in a SQLite file"
        )
    try:
        tx.execute("create extension vector")
    except psycopg.errors.InsufficientPrivilege as error:
        raise NoPgvector(
            "document search needs the extension pgvector, and this user may not create it: have the owner of the "
            "database run: create extension vector"
        ) from error
