"""holdfast.submit(connection=...): the connections that apps have, on both databases."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import holdfast
from holdfast.stores.protocol import Store
from tests.support.postgres import Postgres

papers = holdfast.Pipeline("papers")


@papers.step
def read(doc: holdfast.Document) -> str:
    return doc.key


def submit(store: Store, connection: Any, *keys: str, **how: Any) -> holdfast.SubmitResult:
    documents: list[Any] = [(key, None) for key in keys or ("a",)]
    return holdfast.submit(papers, store, batch="b", documents=documents, connection=connection, **how)


def keys(store: Store) -> list[str]:
    return sorted(document.key for document in store.documents("papers", limit=5000))


@pytest.fixture(params=["sqlite", "postgresql", "schema"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres_url")) + ("?schema=jobs" if request.param == "schema" else "")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with holdfast.open(url) as store:
        with store.transaction() as tx:
            tx.execute("create table note (text varchar(20) primary key)")
        yield store


def engine_url(store: Store, *, driver: str = "psycopg") -> str:
    url = store.url.partition("?")[0]
    return url.replace("postgresql:", f"postgresql+{driver}:")


@pytest.fixture
def engine(store: Store) -> Iterator[Any]:
    engine = create_engine(engine_url(store))
    yield engine
    engine.dispose()


@pytest.fixture
def connect(store: Store, tmp_path: Path) -> Callable[..., Any]:
    if store.url.startswith("sqlite"):
        return lambda **how: sqlite3.connect(tmp_path / "store.db", **how)
    return lambda **how: psycopg.connect(store.url.partition("?")[0], **how)


NOTE = "insert into note (text) values ('x')"


def notes(store: Store) -> int:
    with store.reading() as tx:
        return int(tx.execute("select count(*) from note").fetchone()[0])


def own_note(store: Store) -> Any:
    """The search path of the app does not begin with the schema of the store."""
    return text(NOTE if "?" not in store.url else NOTE.replace("note", "jobs.note", 1))


def test_a_session_commits_its_rows_and_the_documents_together(store: Store, engine: Any) -> None:
    with Session(engine) as session:
        session.execute(own_note(store))
        assert submit(store, session).new == 1
        session.rollback()
    assert (notes(store), keys(store)) == (0, [])
    with Session(engine) as session, session.begin():
        submit(store, session)
        session.execute(own_note(store))
    assert (notes(store), keys(store)) == (1, ["a"])
    assert holdfast.drain(papers, store).done == 1


def test_a_session_that_only_submits_commits_it(store: Store, engine: Any) -> None:
    with Session(engine) as session:
        submit(store, session)
        session.commit()
    with engine.connect() as connection:
        submit(store, connection, "b")
        connection.commit()
    with engine.begin() as connection:
        submit(store, connection, "c")
    registry = scoped_session(sessionmaker(engine))
    submit(store, registry, "d")
    registry.commit()
    registry.remove()
    with engine.connect() as connection:
        submit(store, connection, "not committed")
    assert keys(store) == ["a", "b", "c", "d"]


def test_a_savepoint_of_a_session_takes_the_documents_back(store: Store, engine: Any) -> None:
    with Session(engine) as session:
        submit(store, session, "a")
        nested = session.begin_nested()
        submit(store, session, "b")
        nested.rollback()
        with session.begin_nested():
            submit(store, session, "c")
        session.commit()
    assert keys(store) == ["a", "c"]


def test_thousands_of_documents_are_one_transaction(store: Store, connect: Callable[..., Any]) -> None:
    names = [f"{number:05}" for number in range(2500)]
    with closing(connect()) as connection:
        with pytest.raises(holdfast.DuplicateKey):
            submit(store, connection, *names, names[0])
        connection.commit()
        assert keys(store) == []
        assert submit(store, connection, *names).new == 2500
        connection.commit()
    assert keys(store) == names


def test_options_that_need_a_commit_are_refused(store: Store, connect: Callable[..., Any]) -> None:
    from datetime import timedelta

    with closing(connect()) as connection:
        for how in ({"deadline": timedelta(hours=1)}, {"listeners": [print]}):
            with pytest.raises(holdfast.HoldfastError, match="connection="):
                submit(store, connection, **how)


def test_workers_see_documents_only_after_the_commit(store: Store, connect: Callable[..., Any]) -> None:
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer: a worker waits for the caller")
    with closing(connect()) as connection:
        submit(store, None, "first")
        submit(store, connection, "second")
        assert holdfast.drain(papers, store).done == 1
        connection.commit()
        assert holdfast.drain(papers, store).done == 1


@pytest.mark.parametrize("kind", ["Session", "Connection", "driver"])
def test_a_connection_that_commits_by_itself_is_refused(store: Store, connect: Callable[..., Any], kind: str) -> None:
    by_itself = {"isolation_level": None} if store.url.startswith("sqlite") else {"autocommit": True}
    engine = create_engine(engine_url(store), isolation_level="AUTOCOMMIT")
    with closing(connect(**by_itself)) as driver, engine.connect() as connection, Session(engine) as session:
        given = {"Session": session, "Connection": connection, "driver": driver}[kind]
        with pytest.raises(holdfast.HoldfastError, match="commits each statement by itself"):
            submit(store, given)
    engine.dispose()
    assert keys(store) == []


def test_a_transaction_that_was_begun_on_such_a_connection_can_be_joined(
    store: Store, connect: Callable[..., Any]
) -> None:
    by_itself = {"isolation_level": None} if store.url.startswith("sqlite") else {"autocommit": True}
    with closing(connect(**by_itself)) as driver:
        for number, end in enumerate(("rollback", "commit")):
            driver.execute("begin")
            submit(store, driver, str(number))
            driver.execute(end)
    assert keys(store) == ["1"]


def test_another_database_is_refused(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    others: list[Any] = [sqlite3.connect(tmp_path / "other.db"), sqlite3.connect(":memory:")]
    if not store.url.startswith("sqlite"):
        server: Postgres = request.getfixturevalue("postgres_server")
        name = f"other_{uuid4().hex}"
        other = server.create_database(name)
        with holdfast.open(other + "?schema=jobs"), holdfast.open(other):
            others.append(psycopg.connect(other))
        others.append(psycopg.connect(server.dsn))
    for connection in others:
        with closing(connection), pytest.raises(holdfast.HoldfastError, match=r"another database|must be a"):
            submit(store, connection)
    with pytest.raises(holdfast.HoldfastError, match=r"must be a (sqlite3|psycopg)\.Connection"):
        submit(store, create_engine("sqlite://"))
    assert keys(store) == []


def test_rows_of_any_shape_are_understood(store: Store, connect: Callable[..., Any]) -> None:
    with closing(connect()) as connection:
        if store.url.startswith("sqlite"):
            connection.row_factory, connection.text_factory = sqlite3.Row, bytes
        else:
            connection.row_factory, connection.cursor_factory = dict_row, psycopg.RawCursor
        submit(store, connection, "a")
        submit(store, connection, "a", "b")
        if store.url.startswith("sqlite"):
            assert (connection.row_factory, connection.text_factory) == (sqlite3.Row, bytes)
        connection.commit()
    assert keys(store) == ["a", "b"]


def test_an_effect_can_submit_many_documents_on_its_connection(store: Store) -> None:
    letters = holdfast.Pipeline("letters")

    @letters.step
    def split(doc: holdfast.Document) -> list[str]:
        return ["x", "y"]

    @split.effect
    def feed(tx: holdfast.Tx, doc: holdfast.Document, parts: list[str]) -> None:
        submit(store, tx.connection, *(f"{doc.key}/{part}" for part in parts))

    holdfast.submit(letters, store, batch="b", documents=[("1", None), ("2", None)])
    assert holdfast.drain(letters, store).done == 2
    assert sorted(keys(store)) == ["1/x", "1/y", "2/x", "2/y"]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_every_isolation_level_can_be_joined(postgres_url: str, level: str) -> None:
    with holdfast.open(postgres_url) as store:
        engine = create_engine(engine_url(store), isolation_level=level)
        with Session(engine) as session:
            assert submit(store, session, "a").new == 1
            session.commit()
        with Session(engine) as session:
            session.execute(text("select 1 from hf_document"))
            submit(store, None, "b")
            if level == "READ COMMITTED":
                assert submit(store, session, "b", "c") == holdfast.SubmitResult(1, 0, 1)
                session.commit()
            else:  # the batch has changed since the snapshot: the app repeats its transaction, as for its own rows
                with pytest.raises(psycopg.errors.SerializationFailure):
                    submit(store, session, "b", "c")
                session.rollback()
                submit(store, session, "b", "c")
                session.commit()
        engine.dispose()
        assert keys(store) == ["a", "b", "c"]
        assert store.balance("papers", "b").expected == 3


def test_a_failed_transaction_is_refused(postgres_url: str) -> None:
    with holdfast.open(postgres_url) as store, closing(psycopg.connect(postgres_url)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1/0")
        with pytest.raises(holdfast.HoldfastError, match="roll back first"):
            submit(store, connection)
        connection.rollback()
        submit(store, connection)
        connection.commit()
        assert keys(store) == ["a"]


def test_a_search_path_of_the_caller_does_not_lead_to_another_store(postgres_url: str) -> None:
    with (
        holdfast.open(postgres_url) as store,
        holdfast.open(f"{postgres_url}?schema=other") as other,
        closing(psycopg.connect(postgres_url, options="-csearch_path=other")) as connection,
    ):
        submit(store, connection, "mine")
        submit(other, connection, "theirs")
        connection.commit()
        assert (keys(store), keys(other)) == (["mine"], ["theirs"])


def test_a_restarted_server_is_known_again(postgres_url: str) -> None:
    with holdfast.open(postgres_url) as store, closing(psycopg.connect(postgres_url)) as connection:
        submit(store, connection, "a")
        store._identity = store._identity._replace(started="before")  # type: ignore[attr-defined]
        submit(store, connection, "b")
        connection.commit()
        assert keys(store) == ["a", "b"]


def test_an_asynchronous_session_of_psycopg_joins_by_run_sync(postgres_url: str) -> None:
    async def request(store: Store) -> None:
        engine = create_async_engine(engine_url(store))
        async with AsyncSession(engine) as session:
            with pytest.raises(holdfast.HoldfastError, match="run_sync"):
                submit(store, session)
            await session.run_sync(lambda session: submit(store, session, "a"))
            await session.rollback()
            assert keys(store) == []
            await session.run_sync(lambda session: submit(store, session, "b", "c"))
            await session.commit()
        await engine.dispose()

    with holdfast.open(postgres_url) as store:
        asyncio.run(request(store))
        assert keys(store) == ["b", "c"]


def test_a_memory_store_has_no_transaction_to_join() -> None:
    with (
        holdfast.open("memory://") as store,
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(holdfast.StoreError, match="SQLite file"),
    ):
        submit(store, connection)
