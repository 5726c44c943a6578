"""The OpenAPI document and a real server: schemathesis generates valid and invalid requests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

pytest.importorskip("schemathesis", reason="schemathesis is a dependency for developers")

import schemathesis

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
OPERATIONS = (
    "/search",
    "/collections",
    "/collections/{name}",
    "/documents/{collection}",
    "/files/{collection}",
    "/health",
)


@pytest.fixture(scope="module")
def address(database: str) -> Iterator[str]:
    """The address of `holdfast serve`, on loopback."""
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", database]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = re.match(r"Search is served at (http://127\.0\.0\.1:\d+)/", process.stderr.readline())
        assert told is not None
        yield told[1]
        process.terminate()
        assert process.wait(timeout=30) == 143
        assert process.stderr.read() == ""


def test_the_document_names_all_that_is_served(address: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    assert {operation.ok().path for operation in schema.get_all_operations()} == set(OPERATIONS)


@pytest.mark.parametrize("path", OPERATIONS)
def test_what_the_document_allows_is_answered_as_it_says(address: str, path: str) -> None:
    assert asked(address, path, schemathesis.GenerationMode.POSITIVE) <= {200, 404}


@pytest.mark.parametrize("path", ["/search", "/documents/{collection}"])
def test_what_the_document_does_not_allow_is_refused_as_it_says(address: str, path: str) -> None:
    assert 400 in asked(address, path, schemathesis.GenerationMode.NEGATIVE)


def asked(address: str, path: str, mode: schemathesis.GenerationMode) -> set[int]:
    """Send many requests, and compare the status, type and schema of each response with the document."""
    operation = schemathesis.openapi.from_url(f"{address}/openapi.json")[path]["GET"]
    statuses: set[int] = set()

    @QUICK
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        assume(all(value not in ("", [], {}, None) for value in (case.query or {}).values()))  # as forms send: not said
        statuses.add(case.call_and_validate(base_url=address).status_code)

    ask()
    return statuses
