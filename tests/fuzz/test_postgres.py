"""What PostgreSQL keeps and finds, for the same inputs: it refuses more characters than SQLite does."""

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
from tests.fuzz.targets.values import Submitted, _memory, came_of

SOME = settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
TARGETS = every_target()


def test_any_document_is_taken_in_or_refused_as_in_memory(postgres_url: str) -> None:
    number = count()

    @seed(7)
    @SOME
    @given(TARGETS["values.submitted"].inputs)
    def submit(one: Submitted) -> None:
        batch, key, *rest = one
        alone = (batch, f"{next(number)}{key}", *rest)  # they share a database
        assert came_of(lambda: open_store(postgres_url), alone) == came_of(_memory, alone)  # type: ignore[arg-type]

    submit()


def test_any_question_finds_some_or_none(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
