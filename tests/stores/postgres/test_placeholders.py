from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.stores.postgres.placeholders import translate
from tests.support.postgres import Postgres

OPAQUE = [
    "'it''s ? :a %s'",
    "'100%'",
    '"a ? :a "" name"',
    "$$ ? :a 'b $$",
    "$body$ $$ ? :a $body$",
    "/* ? :a /* nested 'x */ %s */",
    "-- ? :a 'x\n",
    "E'\\' ? :a'",
    "e'\\\\'",
    "U&'? :a'",
    "cost$a$",
    "1::text",
    "a[1:a]",
    "a[b:a]",
    ":nobody",
    "x := 1",
    "x % 2",
]
TEXTS = st.sampled_from(OPAQUE)


def joined(pieces: list[str]) -> str:
    return " ".join(pieces)


@given(st.lists(st.one_of(TEXTS, st.sampled_from(["?", "??", "??|"]))))
def test_each_question_mark_outside_of_quotes_is_a_placeholder(pieces: list[str]) -> None:
    wanted = {"?": "%s", "??": "?", "??|": "?|"}
    expected = [wanted.get(piece) or piece.replace("%", "%%") for piece in pieces]
    changes = any(piece in wanted for piece in pieces)
    assert translate(joined(pieces), (1,)) == joined(expected if changes else pieces)


@given(st.lists(st.one_of(TEXTS, st.sampled_from(["?", ":a", ":b_1", "array[:a]"]))))
def test_each_name_of_the_mapping_outside_of_quotes_is_a_placeholder(pieces: list[str]) -> None:
    wanted = {":a": "%(a)s", ":b_1": "%(b_1)s", "array[:a]": "array[%(a)s]"}
    expected = [wanted.get(piece) or piece.replace("%", "%%") for piece in pieces]
    changes = any(piece in wanted for piece in pieces)
    assert translate(joined(pieces), {"a": 1, "b_1": 2}) == joined(expected if changes else pieces)


@given(st.lists(st.one_of(TEXTS, st.sampled_from(["?", "??", ":a"]))), st.sampled_from(["%s", "%b", "%t", "%(a)s"]))
def test_a_statement_in_the_style_of_psycopg_is_left_alone(pieces: list[str], native: str) -> None:
    statement = joined([native, *pieces])
    assert translate(statement, (1,)) == statement
    assert translate(statement, {"a": 1}) == statement


@given(st.text(alphabet="?:%s'\"$-/*ae\\[] \n1("), st.booleans())
def test_any_text_is_translated_or_left_alone(text: str, named: bool) -> None:
    parameters: object = {"a": 1} if named else (1,)
    translated = translate(text, parameters)
    assert translated == text or "%" in translated or "??" in text


@pytest.fixture(scope="module")
def db(postgres_server: Postgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as db:
        yield db


PARTS = st.one_of(
    st.tuples(st.just("value"), st.text(alphabet="a?:%'\"$-/*b\\ ", max_size=6)),
    st.tuples(st.just("text"), st.text(alphabet="a?:%'$-/*b ", max_size=6)),
    st.tuples(st.just("comment"), st.text(alphabet="a?:%'$- ", max_size=6)),
)


@pytest.mark.parametrize("named", [False, True])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(parts=st.lists(PARTS, min_size=1, max_size=6))
def test_both_databases_return_the_same(db: psycopg.Connection, named: bool, parts: list[tuple[str, str]]) -> None:
    columns, comments, values = [], [], []
    for kind, text in parts:
        if kind == "value":
            columns.append(f"cast({f':p{len(values)}' if named else '?'} as text)")
            values.append(text)
        elif kind == "text":
            columns.append("'{}'".format(text.replace("'", "''")))
        else:
            comments.append(f"/* {text.replace('/', '')} */")
    if not values:
        return
    statement = f"select {', '.join(columns)} {' '.join(comments)}"
    parameters = {f"p{place}": value for place, value in enumerate(values)} if named else values
    with closing(sqlite3.connect(":memory:")) as lite:
        expected = lite.execute(statement, parameters).fetchone()
    assert db.execute(translate(statement, parameters), parameters).fetchone() == expected


def test_the_operators_of_json_can_be_used(db: psycopg.Connection) -> None:
    by_place = "select '{\"a\": 1}'::jsonb ?? ?, '{\"a\": 1}'::jsonb ??| array[?]"
    assert db.execute(translate(by_place, ("a", "b")), ("a", "b")).fetchone() == (True, False)
    by_name = "select '{\"a\": 1}'::jsonb ? :key, '{\"a\": 1}'::jsonb ?| array[:key, 'b']"
    assert db.execute(translate(by_name, {"key": "a"}), {"key": "a"}).fetchone() == (True, True)
    native = "select '{\"a\": 1}'::jsonb ? %s"
    assert db.execute(translate(native, ("a",)), ("a",)).fetchone() == (True,)
