"""The simulator finds every mutant."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import FIRST_SEEDS, MAX_SCHEDULES, MUTANTS, Mutant, applied, find
from tests.simulation.quick_seeds import QUICK_SEEDS


def test_there_are_many_different_mutants() -> None:
    assert len({mutant.mistake for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_the_text_that_a_mutant_changes_is_in_the_source(mutant: Mutant) -> None:
    with applied(mutant):
        pass


IN_PROCESSES = [mutant for mutant in MUTANTS if "::" in mutant.test]
"""Mutants whose test runs in its own process. A quick one is tried here, and all by `make mutants`."""
QUICK = next(mutant for mutant in IN_PROCESSES if mutant.test.startswith("tests/core/"))
HERE = [mutant for mutant in MUTANTS if mutant not in IN_PROCESSES or mutant is QUICK]


@pytest.mark.parametrize("mutant", HERE, ids=lambda mutant: mutant.mistake)
def test_the_simulator_finds_the_mutant(mutant: Mutant, request: pytest.FixtureRequest) -> None:
    if mutant.store == "postgres":
        request.getfixturevalue("postgres_server")  # skips the test if there is no PostgreSQL
    first = QUICK_SEEDS.get(mutant.mistake, FIRST_SEEDS.get(mutant.mistake, 0))
    results = find(mutant, range(first, first + MAX_SCHEDULES))
    assert results.violations, f"{results.schedules} schedules did not find the mutant: {mutant.mistake}"


def test_seeds_belong_to_mutants() -> None:
    assert {*QUICK_SEEDS, *FIRST_SEEDS} <= {mutant.mistake for mutant in MUTANTS}
