"""SQLAlchemy in effects: it writes in the transaction of the checkpoint, and cannot end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, DateTime, ForeignKey, String, create_engine, func, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.pool import QueuePool, StaticPool

import holdfast
import holdfast.sqlalchemy
from holdfast.stores.protocol import Store


class Base(DeclarativeBase):
    pass


class Ship(Base):
    __tablename__ = "ship"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(20), unique=True)
    seen: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    cargo: Mapped[Any] = mapped_column(JSON, nullable=True)
    sailors: Mapped[list[Sailor]] = relationship(back_populates="ship")


class Sailor(Base):
    __tablename__ = "sailor"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(20))
    ship_id: Mapped[int] = mapped_column(ForeignKey("ship.id"))
    ship: Mapped[Ship] = relationship(back_populates="sailors")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls: dict[str, Callable[[], str]] = {
        "memory": lambda: "memory://",
        "sqlite": lambda: f"sqlite:///{tmp_path}/store.db",
        "postgresql": lambda: str(request.getfixturevalue("postgres_url")),
    }
    with holdfast.open(urls[request.param]()) as store:
        with store.transaction() as tx, holdfast.sqlalchemy.connection(tx) as connection:
            Base.metadata.create_all(connection)
        yield store


Body = Callable[[Any, str], object]
"""What an effect does: it gets its transaction and the key of its document."""


def run(store: Store, *bodies: tuple[str, Body]) -> dict[str, str]:
    """Run one document for each body, all in one group. Return the state of each, or its error."""
    papers = holdfast.Pipeline("papers")
    by_key = dict(bodies)

    @papers.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    @read.effect
    def save(tx: holdfast.Tx, doc: holdfast.Document, key: str) -> None:
        by_key[key](tx, key)

    holdfast.submit(papers, store, batch="b", documents=[(key, None) for key in by_key])
    holdfast.drain(papers, store, threads=1)
    found = store.documents("papers", limit=100)
    return {document.key: document.error or document.state for document in found}


def names(store: Store) -> list[str]:
    with store.reading() as tx:
        return [row[0] for row in tx.execute("select name from ship order by name").fetchall()]


def adds(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key, seen=datetime(2026, 3, 1, tzinfo=UTC), cargo={"oil": 3}, sailors=[Sailor(name="x")]))


def test_what_a_session_adds_is_committed_with_the_checkpoint(store: Store) -> None:
    assert run(store, ("a", adds), ("b", adds)) == {"a": "done", "b": "done"}
    assert names(store) == ["a", "b"]
    with store.transaction() as tx, holdfast.sqlalchemy.session(tx) as session:
        ships = session.scalars(select(Ship).order_by(Ship.name)).all()
        assert [(ship.cargo, [sailor.name for sailor in ship.sailors]) for ship in ships] == [({"oil": 3}, ["x"])] * 2
        assert session.scalar(select(func.count()).select_from(Sailor)) == 2


def test_a_session_reads_what_the_effect_has_written(store: Store) -> None:
    seen: list[int | None] = []

    def reads(tx: holdfast.Tx, key: str) -> None:
        tx.execute("insert into ship (id, name) values (7, ?)", (key,))
        with holdfast.sqlalchemy.session(tx) as session:
            seen.append(session.scalar(select(Ship.id).where(Ship.name == key)))

    assert run(store, ("a", reads)) == {"a": "done"}
    assert seen == [7]


def commits(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key))
        session.commit()
        session.add(Ship(name=f"{key} too"))
        session.commit()


def commits_and_fails(tx: holdfast.Tx, key: str) -> None:
    commits(tx, key)
    raise RuntimeError("after the commit")


def test_the_commit_of_a_session_commits_nothing_before_the_checkpoint(store: Store) -> None:
    assert run(store, ("a", commits), ("b", commits_and_fails), ("c", adds)) == {
        "a": "done",
        "b": "RuntimeError",
        "c": "done",
    }
    assert names(store) == ["a", "a too", "c"]


def rolls_back(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key))
        session.flush()
        session.rollback()


def rolls_back_and_goes_on(tx: holdfast.Tx, key: str) -> None:
    with suppress(Exception), holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key))
        session.flush()
        session.rollback()
        session.add(Ship(name=f"{key} again"))


def violates(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add_all([Ship(name=key), Ship(name="a")])


def violates_and_passes_over_it(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key))
        session.flush()
        session.add(Ship(name="a"))
        with suppress(IntegrityError):
            session.flush()


def fails_in_the_session(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key))
        session.flush()
        raise RuntimeError("in the session")


def closes(tx: holdfast.Tx, key: str) -> None:
    with holdfast.sqlalchemy.session(tx) as session:
        session.add(Ship(name=key))
        session.flush()
        session.close()
        session.add(Ship(name=f"{key} too"))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (rolls_back, "TransactionEnded"),
        (rolls_back_and_goes_on, "TransactionEnded"),
        (violates, "IntegrityError"),
        (violates_and_passes_over_it, "TransactionEnded"),
        (fails_in_the_session, "RuntimeError"),
    ],
)
def test_an_effect_that_fails_in_its_session_fails_alone(store: Store, body: Body, error: str) -> None:
    assert run(store, ("a", adds), ("b", body), ("c", adds)) == {"a": "done", "b": error, "c": "done"}
    assert names(store) == ["a", "c"]


def test_a_session_that_is_closed_leaves_the_connection_and_the_rows_alone(store: Store) -> None:
    assert run(store, ("a", closes), ("b", adds)) == {"a": "done", "b": "done"}
    assert names(store) == ["a", "a too", "b"]


def test_savepoints_of_a_session_work(store: Store) -> None:
    def retries(tx: holdfast.Tx, key: str) -> None:
        with holdfast.sqlalchemy.session(tx) as session:
            session.add(Ship(name=key))
            session.flush()
            for name in (key, f"{key} kept", key):
                with suppress(IntegrityError), session.begin_nested():
                    session.add(Ship(name=name))
            nested = session.begin_nested()
            session.add(Ship(name="undone"))
            session.flush()
            nested.rollback()

    assert run(store, ("a", retries), ("b", retries), ("c", adds)) == dict.fromkeys("abc", "done")
    assert names(store) == ["a", "a kept", "b", "b kept", "c"]


def test_tables_can_be_created_in_an_effect(store: Store) -> None:
    class Other(DeclarativeBase):
        pass

    class Port(Other):
        __tablename__ = "port"
        name: Mapped[str] = mapped_column(primary_key=True)

    def creates(tx: holdfast.Tx, key: str) -> None:
        with holdfast.sqlalchemy.session(tx) as session:
            Other.metadata.create_all(session.connection())
            session.add(Port(name=key))
            if key == "b":
                session.flush()
                raise RuntimeError

    assert run(store, ("b", creates), ("a", creates)) == {"a": "done", "b": "RuntimeError"}
    with store.reading() as tx:
        assert tx.execute("select name from port").fetchall() == [("a",)]


def test_core_writes_in_the_transaction_of_the_effect(store: Store) -> None:
    def writes(tx: holdfast.Tx, key: str) -> None:
        with holdfast.sqlalchemy.connection(tx) as connection:
            connection.execute(insert(Ship), [{"name": key}, {"name": f"{key} 2"}])
            with suppress(IntegrityError), connection.begin_nested():
                connection.execute(insert(Ship), [{"name": key}])
            connection.execute(text("update ship set seen = null where name = :name"), {"name": key})

    def commits(tx: holdfast.Tx, key: str) -> None:
        with holdfast.sqlalchemy.connection(tx) as connection:
            connection.execute(insert(Ship), [{"name": key}])
            connection.commit()
            raise RuntimeError

    assert run(store, ("a", writes), ("b", commits)) == {"a": "done", "b": "RuntimeError"}
    assert names(store) == ["a", "a 2"]


@pytest.mark.parametrize("pool", [StaticPool, QueuePool])
def test_an_ordinary_engine_on_the_connection_cannot_end_the_transaction(store: Store, pool: Any) -> None:
    """Its pool rolls back when a connection is returned. The guard refuses that, and no other document is affected."""

    def joins(tx: holdfast.Tx, key: str) -> None:
        url = "sqlite://" if tx.dialect == "sqlite" else "postgresql+psycopg://"
        engine = create_engine(url, creator=lambda: tx.connection, poolclass=pool)
        with suppress(Exception), Session(engine) as session:
            session.add(Ship(name=key))
            session.commit()
        with suppress(Exception):
            engine.dispose()

    assert run(store, ("a", adds), ("b", joins), ("c", adds)) == {"a": "done", "b": "TransactionEnded", "c": "done"}
    assert names(store) == ["a", "c"]


def test_a_session_outside_of_effects_joins_the_transaction_of_the_store(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction() as tx:
        commits_and_fails(tx, "a")
    assert names(store) == []
    with pytest.raises(holdfast.BodyError, match=r"rolled back|ROLLBACK"), store.transaction() as tx:
        rolls_back(tx, "a")
    assert names(store) == []
    with store.transaction() as tx:
        closes(tx, "a")
    assert names(store) == ["a", "a too"]


def test_the_engine_is_set_up_once_for_each_connection(store: Store) -> None:
    with store.transaction() as tx:
        for number in range(3):
            adds(tx, str(number))
        handlers = getattr(tx.connection, "_notice_handlers", ())
        assert len(handlers) <= 2
