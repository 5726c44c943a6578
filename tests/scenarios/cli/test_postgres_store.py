from __future__ import annotations

import json

from tests.cli.conftest import Run


def test_the_commands_work_on_postgresql(holdfast: Run, postgres_url: str) -> None:
    assert holdfast("store", "migrate", "--store", postgres_url).exit_code == 0
    assert "2 documents done" in holdfast("run", "papers.py", "docs", "--store", postgres_url).stdout
    answer = json.loads(holdfast("status", "--json", "--store", postgres_url).stdout)
    assert answer["pipelines"][0]["batches"][0]["done"] == 2
    assert "extract  5 items" in holdfast("show", "docs/a.txt", "--store", postgres_url).stdout


def test_a_server_that_does_not_answer_is_shown_without_the_password(holdfast: Run) -> None:
    result = holdfast("status", "--store", "postgresql://me:secret@127.0.0.1:1/x")
    assert result.exit_code == 3
    assert "does not answer" in result.stderr
    assert "secret" not in result.stderr


def test_looking_at_an_empty_database_makes_nothing_in_it(holdfast: Run, postgres_url: str) -> None:
    import psycopg

    result = holdfast("dead", "list", "--store", postgres_url)
    assert result.exit_code == 3
    assert "has no holdfast tables yet" in result.stderr
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)
