"""What only the index in PostgreSQL can get wrong: concurrent writers, patterns, privileges."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

pytest.importorskip("psycopg")

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.core.errors import StoreError
from holdfast.pipelines.rag import Library
from holdfast.pipelines.rag.index import EmbeddingModel, Where
from holdfast.pipelines.rag.index.postgres import NoPgvector, PostgresIndex
from holdfast.pipelines.rag.index.postgres.globs import glob_to_regex
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.registry import database_index
from holdfast.stores import open_store
from tests.pipelines.rag.index.conftest import index_harness
from tests.support.index_harness import IndexHarness
from tests.support.postgres import Postgres


@pytest.fixture
def harness(postgres_url: str, tmp_path: Path) -> Iterator[IndexHarness]:
    yield from index_harness(postgres_url, "postgres", tmp_path)


def test_the_url_of_the_store_selects_the_index(harness: IndexHarness) -> None:
    assert isinstance(database_index(harness.store), PostgresIndex)


def test_documents_are_found_in_a_store_with_a_schema_of_its_own(
    postgres_url: str, tmp_path: Path, opened: Callable[..., Library]
) -> None:
    (tmp_path / "heron.txt").write_text("A heron stands in the shallow water.")
    (tmp_path / "tide.txt").write_text("The tide turns at noon.")
    mark = "&" if "?" in postgres_url else "?"
    with holdfast.open(f"{postgres_url}{mark}schema=jobs") as store, holdfast.open(postgres_url) as beside:
        library = opened(store)
        assert library.ingest(str(tmp_path)).done == 2
        assert library.search("heron")[0].key.endswith("heron.txt")
        assert beside.pipelines() == []
    with psycopg.connect(postgres_url) as db:
        rows = db.execute("select schemaname from pg_tables where tablename = 'hf_document' order by 1").fetchall()
    assert rows == [("jobs",), ("public",)]


def test_vectors_of_another_type_are_refused_instead_of_misread(harness: IndexHarness, postgres_url: str) -> None:
    harness.ingest("a", "one heron")
    (hit,) = harness.index.search_words(Question(text="heron"), Where(), limit=1)
    with psycopg.connect(postgres_url) as db:
        ((number,),) = db.execute("select id from rag_model").fetchall()
        for (index,) in db.execute(
            "select indexname from pg_indexes where tablename = %s and indexdef like '%%hnsw%%'",
            [f"rag_vector_{number}"],
        ).fetchall():
            db.execute(f"drop index {index}")
        db.execute(f"alter table rag_vector_{number} alter column vector type vector(64)")
    with pytest.raises(StoreError, match="a vector of hash-64 has 260 bytes in the database, and 132 were expected"):
        harness.index.vectors(harness.model, [hit.chunk])


def test_workers_that_use_a_new_model_at_once_create_one_table(harness: IndexHarness, postgres_url: str) -> None:
    together = Barrier(4)

    def remember(number: int) -> None:
        together.wait()
        with harness.store.transaction() as tx:
            harness.index.save_vectors(tx, harness.model, {bytes([number]) * 16: bytes(128)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remember, range(4)))
    assert len(harness.index.known_hashes(harness.model, [bytes([number]) * 16 for number in range(4)])) == 4
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select count(*) from rag_model").fetchone() == (1,)


def test_workers_that_save_the_same_contents_do_not_deadlock(harness: IndexHarness) -> None:
    contents = [bytes([number]) * 16 for number in range(100)]
    harness.save_vectors("the model is known")
    together = Barrier(4)

    def remember(turn: int) -> None:
        mine = contents if turn % 2 else contents[::-1]
        together.wait()
        with harness.store.transaction() as tx:
            harness.index.save_vectors(tx, harness.model, dict.fromkeys(mine, bytes(128)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remember, range(4)))
    assert harness.index.known_hashes(harness.model, contents) == set(contents)


def test_processes_that_create_tables_at_once_create_one_schema(postgres_url: str) -> None:
    store = open_store(postgres_url)
    together = Barrier(4)

    def prepare(_: int) -> None:
        together.wait()
        with store.transaction() as tx:
            PostgresIndex(postgres_url).create_tables(tx)

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
    index = database_index(store)
    with pytest.raises(NoPgvector, match="create extension vector"), store.transaction() as tx:
        index.create_tables(tx)
    index.close()
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("drop owned by humble")
        db.execute("drop role humble")


def test_words_in_the_statistics_are_found(harness: IndexHarness, postgres_url: str) -> None:
    harness.add("a", [f"common text {n}" for n in range(300)])
    harness.add("b", ["common heron"])
    before = harness.word_hits("common heron", limit=5)[0]
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("analyze rag_chunk")
    assert harness.word_hits("common heron", limit=5)[0] == before == "common heron"
    assert len(harness.word_hits("common", limit=500)) == 301


def test_words_that_came_after_the_statistics_were_read_are_found(harness: IndexHarness, postgres_url: str) -> None:
    harness.ingest("a", "heron and reed")
    with psycopg.connect(postgres_url) as db:
        db.execute("analyze rag_chunk")
    assert len(harness.index.search_words(Question(text="heron"), Where(), limit=5)) == 1
    harness.ingest("b", "bittern, no heron")
    assert len(harness.index.search_words(Question(text="bittern"), Where(), limit=5)) == 1
    assert len(harness.index.search_words(Question(text="heron"), Where(), limit=5)) == 2


def test_words_are_stored_in_the_row_of_their_chunk(harness: IndexHarness, postgres_url: str) -> None:
    """Ranking reads the words of many chunks. Only the texts of a few are read, so these may be stored apart."""
    question = "select attstorage from pg_attribute where attrelid = 'rag_chunk'::regclass and attname = 'words'"
    with psycopg.connect(postgres_url) as db:
        assert db.execute(question).fetchone() == ("m",)


def test_vectors_that_are_too_long_to_be_indexed_are_compared(harness: IndexHarness) -> None:
    long = IndexHarness(harness.store, harness.index, harness.another, dimension=4100)
    long.ingest("a", "heron", "stork")
    assert long.vector_hits("heron", limit=1) == ["heron"]
    assert long.vector_hits("heron", Where(collection="papers"), limit=1) == ["heron"]


def test_a_model_without_vectors_finds_nothing(harness: IndexHarness) -> None:
    assert harness.vector_hits("heron") == []
    assert not harness.has("a", 1, model=EmbeddingModel("unheard", 8))


@pytest.fixture(scope="module")
def both(postgres_server: Postgres) -> Iterator[tuple[sqlite3.Connection, psycopg.Connection]]:
    lite = sqlite3.connect(":memory:")
    with psycopg.connect(postgres_server.dsn, autocommit=True) as db:
        yield lite, db
    lite.close()


@given(pattern=st.text("ab-]^[*?.\\/é(", max_size=8), text=st.text("ab-]^.\\/é(", max_size=5))
@settings(max_examples=400, deadline=None)
def test_patterns_of_paths_match_as_in_sqlite(
    both: tuple[sqlite3.Connection, psycopg.Connection], pattern: str, text: str
) -> None:
    lite, db = both
    (wanted,) = lite.execute("select ? glob ?", (text, pattern)).fetchone()
    assert db.execute("select %s ~ %s", (text, glob_to_regex(pattern))).fetchone() == (bool(wanted),)
