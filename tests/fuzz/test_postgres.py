"""The same inputs on PostgreSQL, which refuses more characters than SQLite."""

from __future__ import annotations

import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

import holdfast
from holdfast.stores import open_store
from tests.fuzz.target import every_target
from tests.fuzz.targets.values import Submitted, _memory, outcome_of

SOME = settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
TARGETS = every_target()


def test_any_document_is_submitted_or_refused_as_by_the_memory_store(postgres_url: str) -> None:
    number = count()

    @seed(7)
    @SOME
    @given(TARGETS["values.submitted"].inputs)
    def submit(given: Submitted) -> None:
        batch, key, *rest = given
        unique = (batch, f"{next(number)}{key}", *rest)  # all inputs share a database
        assert outcome_of(lambda: open_store(postgres_url), unique) == outcome_of(_memory, unique)  # type: ignore[arg-type]

    submit()


def test_any_search_query_is_answered(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "web.searches" not in TARGETS:
        pytest.skip("document search needs the extras rag and web")
    from holdfast.pipelines import rag
    from tests.fuzz.targets.web import Question, make_searchable, search

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make_searchable(postgres_url)
    with holdfast.open(postgres_url) as store, closing(rag.Library(store)) as library:

        @seed(7)
        @SOME
        @given(TARGETS["web.searches"].inputs)
        def ask(question: Question) -> None:
            search(library, question)

        ask()
