"""Every deliberate mistake is found."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import HINTS, MOST, MUTANTS, Mutant, found_in


def test_there_are_many_different_mistakes() -> None:
    assert len({mutant.mistake for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_the_mistake_is_found(mutant: Mutant) -> None:
    first = HINTS.get(mutant.mistake, 0)
    seen = found_in(mutant, range(first, first + MOST))
    assert seen.broken, f"{seen.schedules} schedules did not notice that {mutant.mistake}"
