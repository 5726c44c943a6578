"""What only the index in PostgreSQL can get wrong: fleets that write at once, patterns, privileges."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

pytest.importorskip("psycopg")

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import StoreError
from holdfast.pipelines.rag.index import Model, Where, index_of
from holdfast.pipelines.rag.index.postgres import NoPgvector, PostgresIndex
from holdfast.pipelines.rag.index.postgres.globs import as_regex
from holdfast.stores import open_store
from holdfast.testing.postgres import Postgres
from tests.rag.index.conftest import desk_at
from tests.rag.index.desk import Desk


@pytest.fixture
def desk(postgres_url: str, tmp_path: Path) -> Iterator[Desk]:
    yield from desk_at(postgres_url, "postgres", tmp_path)


def test_the_store_says_which_index_it_has(desk: Desk) -> None:
    assert isinstance(index_of(desk.store), PostgresIndex)


def test_vectors_of_another_type_are_refused_instead_of_misread(desk: Desk, postgres_url: str) -> None:
    desk.ingest("a", "one heron")
    (hit,) = desk.index.by_words("heron", Where(), limit=1)
    with psycopg.connect(postgres_url) as db:
        ((number,),) = db.execute("select id from rag_model").fetchall()
        for (index,) in db.execute(
            "select indexname from pg_indexes where tablename = %s and indexdef like '%%hnsw%%'",
            [f"rag_vector_{number}"],
        ).fetchall():
            db.execute(f"drop index {index}")
        db.execute(f"alter table rag_vector_{number} alter column vector type vector(64)")
    with pytest.raises(StoreError, match="a vector of hash-64 is kept in 260 bytes, and 64 halves are 132"):
        desk.index.vectors(desk.model, [hit.chunk])


def test_workers_that_meet_a_new_model_at_once_make_one_table(desk: Desk, postgres_url: str) -> None:
    together = Barrier(4)

    def remember(number: int) -> None:
        together.wait()
        with desk.store.transaction() as tx:
            desk.index.remember(tx, desk.model, {bytes([number]) * 16: bytes(128)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remember, range(4)))
    assert len(desk.index.known(desk.model, [bytes([number]) * 16 for number in range(4)])) == 4
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select count(*) from rag_model").fetchone() == (1,)


def test_workers_that_remember_the_same_contents_do_not_block_each_other_for_ever(desk: Desk) -> None:
    contents = [bytes([number]) * 16 for number in range(100)]
    desk.remember("the model is known")
    together = Barrier(4)

    def remember(turn: int) -> None:
        mine = contents if turn % 2 else contents[::-1]
        together.wait()
        with desk.store.transaction() as tx:
            desk.index.remember(tx, desk.model, dict.fromkeys(mine, bytes(128)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remember, range(4)))
    assert desk.index.known(desk.model, contents) == set(contents)


def test_processes_that_prepare_at_once_make_one_schema(postgres_url: str) -> None:
    store = open_store(postgres_url)
    together = Barrier(4)

    def prepare(_: int) -> None:
        together.wait()
        with store.transaction() as tx:
            PostgresIndex(postgres_url).prepare(tx)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(prepare, range(4)))
    store.close()


def test_a_user_who_may_not_create_pgvector_is_told_who_may(postgres_url: str) -> None:
    open_store(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("drop role if exists humble")
        db.execute("create role humble login")
        db.execute("grant all on schema public to humble")
        db.execute("grant all on all tables in schema public to humble")
    store = open_store(postgres_url.replace("postgres@", "humble@"))
    index = index_of(store)
    with pytest.raises(NoPgvector, match="create extension vector"), store.transaction() as tx:
        index.prepare(tx)
    index.close()
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("drop owned by humble")
        db.execute("drop role humble")


def test_words_that_the_statistics_know_are_found_as_before(desk: Desk, postgres_url: str) -> None:
    desk.add("a", [f"common text {n}" for n in range(300)])
    desk.add("b", ["common heron"])
    before = desk.words("common heron", limit=5)[0]
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("analyze rag_chunk")
    assert desk.words("common heron", limit=5)[0] == before == "common heron"
    assert len(desk.words("common", limit=500)) == 301


def test_words_that_came_after_the_statistics_were_read_are_found(desk: Desk, postgres_url: str) -> None:
    desk.ingest("a", "heron and reed")
    with psycopg.connect(postgres_url) as db:
        db.execute("analyze rag_chunk")
    assert len(desk.index.by_words("heron", Where(), limit=5)) == 1
    desk.ingest("b", "bittern, no heron")
    assert len(desk.index.by_words("bittern", Where(), limit=5)) == 1
    assert len(desk.index.by_words("heron", Where(), limit=5)) == 2


def test_words_lie_with_their_chunk(desk: Desk, postgres_url: str) -> None:
    """Ranking reads the words of many chunks; the texts of a few are read in the end, and may lie apart."""
    question = "select attstorage from pg_attribute where attrelid = 'rag_chunk'::regclass and attname = 'words'"
    with psycopg.connect(postgres_url) as db:
        assert db.execute(question).fetchone() == ("m",)


def test_vectors_that_are_too_long_to_be_indexed_are_compared(desk: Desk) -> None:
    long = Desk(desk.store, desk.index, desk.another, dimension=4100)
    long.ingest("a", "heron", "stork")
    assert long.meaning("heron", limit=1) == ["heron"]
    assert long.meaning("heron", Where(collection="papers"), limit=1) == ["heron"]


def test_a_model_that_nobody_used_finds_nothing(desk: Desk) -> None:
    assert desk.meaning("heron") == []
    assert not desk.holds("a", 1, model=Model("unheard", 8))


@pytest.fixture(scope="module")
def both(postgres_server: Postgres) -> Iterator[tuple[sqlite3.Connection, psycopg.Connection]]:
    lite = sqlite3.connect(":memory:")
    with psycopg.connect(postgres_server.dsn, autocommit=True) as db:
        yield lite, db
    lite.close()


@given(pattern=st.text("ab-]^[*?.\\/é(", max_size=8), text=st.text("ab-]^.\\/é(", max_size=5))
@settings(max_examples=400, deadline=None)
def test_patterns_of_paths_mean_what_they_mean_in_sqlite(
    both: tuple[sqlite3.Connection, psycopg.Connection], pattern: str, text: str
) -> None:
    lite, db = both
    (wanted,) = lite.execute("select ? glob ?", (text, pattern)).fetchone()
    assert db.execute("select %s ~ %s", (text, as_regex(pattern))).fetchone() == (bool(wanted),)
