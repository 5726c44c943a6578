"""The simulator finds every mutant."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import FIRST_SEEDS, MAX_SCHEDULES, MUTANTS, Mutant, applied, find


def test_there_are_many_different_mutants() -> None:
    assert len({mutant.mistake for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_the_text_that_a_mutant_changes_is_in_the_source(mutant: Mutant) -> None:
    with applied(mutant):
        pass


IN_PROCESSES = [mutant for mutant in MUTANTS if "::" in mutant.test]
"""Mutants whose test runs in its own process, with a server. The first is tried here, and all by `make mutants`."""
HERE = [mutant for mutant in MUTANTS if mutant not in IN_PROCESSES[1:]]


@pytest.mark.parametrize("mutant", HERE, ids=lambda mutant: mutant.mistake)
def test_the_simulator_finds_the_mutant(mutant: Mutant, request: pytest.FixtureRequest) -> None:
    if mutant.store == "postgres":
        request.getfixturevalue("postgres_server")  # skips the test if there is no PostgreSQL
    first = FIRST_SEEDS.get(mutant.mistake, 0)
    results = find(mutant, range(first, first + MAX_SCHEDULES))
    assert results.violations, f"{results.schedules} schedules did not find the mutant: {mutant.mistake}"
