"""What user code leaves behind on a connection, wherever it gets one, concerns nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from holdfast.core.model import NewDocument
from holdfast.core.moves import ACCEPTED, Accepted, Effect, Refused, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import Conformance, StoreHarness, writes
from holdfast.testing.conformance.effects import LEFT_BEHIND, leaves

Notes = Callable[[], list[str]]

PLACES = ("an effect", "an undo", "a block that writes", "a block that reads")
"""Where user code gets a transaction."""

_KEPT: list[Any] = []
"""What user code has opened and never closes."""

LEFT_OPEN: dict[str, dict[str, Callable[[Any], Any]]] = {
    "a cursor": {
        "sqlite": lambda connection: connection.execute("select * from many"),
        "postgresql": lambda connection: connection.execute(
            "declare mine cursor for select * from many; fetch mine", prepare=False
        ),
    },
    "a cursor that writes": {
        "sqlite": lambda connection: connection.execute("insert into many (number) values (7), (8) returning number"),
        "postgresql": lambda connection: connection.cursor().stream(
            "insert into many (number) values (7), (8) returning number"
        ),
    },
    "a cursor of a cursor": {
        "sqlite": lambda connection: connection.cursor().execute("select * from many"),
        "postgresql": lambda connection: connection.execute("declare mine cursor with hold for select * from many"),
    },
    "a cursor on a temporary table": {
        "sqlite": lambda connection: (
            connection.execute("create temporary table some_numbers as select * from many"),
            connection.execute("select * from some_numbers"),
        ),
        "postgresql": lambda connection: connection.execute("create temporary table some_numbers as table many"),
    },
    "a part of a value": {
        "sqlite": lambda connection: connection.blobopen("many", "value", 1),
        "postgresql": lambda connection: connection.execute("select lo_open(lo_create(0), 131072)"),
    },
}
"""By what is left open and by dialect: what opens it. One row of it is read."""


@contextmanager
def _left_open(harness: StoreHarness, left: str) -> Iterator[Effect]:
    harness.sql("create table many (number integer, value text default 'text')")
    harness.sql("insert into many (number) values (1), (2), (3)")

    def opens(tx: Tx) -> None:
        opened = LEFT_OPEN[left][tx.dialect](tx.connection)
        _KEPT.append(opened)
        for cursor in opened if isinstance(opened, tuple) else (opened,):
            with suppress(Exception):  # it has no rows
                next(cursor)

    try:
        yield opens
    finally:
        _KEPT.clear()


def _run_in(place: str, harness: StoreHarness, code: Effect) -> None:
    """Run user code where it gets a transaction. It may fail."""
    with suppress(Exception):  # the guard or the database may refuse it
        if place == "an effect":
            harness.commit(harness.forward(harness.submit_and_claim("z"), effect=code))
        elif place == "an undo":
            ids = [harness.submit_and_claim("z").document_id]
            harness.store.withdraw(harness.plan, ids, undo=lambda tx, _: code(tx), who="ann", reason="not wanted")
        else:
            with harness.store.transaction() if "writes" in place else harness.store.reading() as tx:
                code(tx)


class SessionConformance(Conformance):
    """Tests of user code that leaves something behind on the connection that it gets."""

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("left", LEFT_BEHIND)
    def test_what_user_code_leaves_in_its_session_reaches_nobody_else(
        self, harness: StoreHarness, notes: Notes, left: str, place: str
    ) -> None:
        claim = harness.submit_and_claim("a")
        _run_in(place, harness, leaves(left))
        assert harness.commit(harness.forward(claim, effect=writes("a"))) == [ACCEPTED]
        harness.finish(harness.submit_and_claim("b"))
        with harness.store.reading() as tx:
            assert [tuple(row) for row in tx.execute("select text from notes").fetchall()] == [("a",)]
        assert notes() == ["a"]
        assert harness.document("b").state == "done"

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("left", LEFT_OPEN)
    def test_what_user_code_leaves_open_holds_up_nobody(
        self, harness: StoreHarness, notes: Notes, other: Store, left: str, place: str
    ) -> None:
        claim = harness.submit_and_claim("a")
        with _left_open(harness, left) as opens:
            _run_in(place, harness, opens)
            other.submit(harness.plan, "april", [NewDocument("b")], submission=79, part=0)
            assert harness.commit(harness.forward(claim, effect=writes("a"))) == [ACCEPTED]
            harness.finish(harness.claim_one())
        assert notes() == ["a"]
        assert harness.store.document("papers", "april", "b").state == "done"

    def test_a_function_of_an_effect_is_gone_after_it(self, harness: StoreHarness, notes: Notes) -> None:
        def creates(tx: Tx) -> None:
            tx.connection.create_function("mine", 1, lambda text: f"of b: {text}")
            tx.connection.create_collation("by_length", lambda one, two: len(one) - len(two))
            tx.execute("insert into notes (text) select mine('text') order by mine('x') collate by_length")

        def uses(tx: Tx) -> None:
            tx.execute("insert into notes (text) values (mine('text'))")

        with harness.store.reading() as tx:
            if tx.dialect != "sqlite":
                pytest.skip("functions of PostgreSQL are in its schema")
        harness.submit(*"abc")
        effects = [writes("a"), creates, uses]
        moves = [harness.forward(claim, effect=each) for claim, each in zip(harness.claim(), effects, strict=True)]
        assert [type(answer) for answer in harness.commit(*moves)] == [Accepted, Accepted, Refused]
        assert notes() == ["a", "of b: text"]
