"""The simulator: a fixed set of seeds, exact replays, and small schedules for failures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation import replay, run_slice
from tests.simulation.explorer import StoreKind
from tests.simulation.mutants import MUTANTS, applied
from tests.simulation.shrinking import shrink


@pytest.mark.parametrize("first", range(0, 600, 150))
def test_no_schedule_violates_an_invariant(first: int) -> None:
    results = run_slice(range(first, first + 150))
    assert results.violations == {}
    assert results.schedules == 150


@pytest.mark.parametrize("seed", [83160, 216872, 242529, 345647])
def test_a_schedule_that_once_violated_an_invariant_violates_none(seed: int) -> None:
    assert run_slice(range(seed, seed + 1)).violations == {}


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_no_schedule_violates_an_invariant_on_sqlite(first: int) -> None:
    assert run_slice(range(first, first + 50), "sqlite").violations == {}


def test_every_kind_of_fault_happens_and_many_states_are_reached() -> None:
    results = run_slice(range(150))
    assert len(results.faults) == 24
    assert min(results.faults.values()) > 5
    assert len(results.states) > 500


SCRIPT = """
import hashlib, sys
from tests.simulation import replay
lines = []
for seed in range(20):
    outcome = replay(seed, store=sys.argv[1], output=lines.append)
    lines += [repr((outcome.choices, outcome.turns, outcome.violation))]
print(hashlib.blake2b("".join(lines).encode()).hexdigest())
"""


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_seed_has_the_same_log_in_another_process(store: StoreKind) -> None:
    def digest(hash_seed: str) -> bytes:
        arguments = [sys.executable, "-c", SCRIPT, store]
        return subprocess.run(
            arguments, env=os.environ | {"PYTHONHASHSEED": hash_seed}, check=True, capture_output=True
        ).stdout

    assert digest("1") == digest("2")


def test_a_failing_seed_is_shrunk_and_logged() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.mistake == "the fence is not checked")
    with applied(mutant):
        (seed,) = run_slice(range(2000)).violations
        whole: list[str] = []
        small: list[str] = []
        first = replay(seed, output=whole.append)
        repeat = replay(seed, small=True, output=small.append)
    assert first.violation
    assert repeat.violation
    assert len(small) < len(whole)
    assert sum(map(bool, repeat.choices)) < sum(map(bool, first.choices)), "the small schedule has fewer events"
    assert "holds" in repeat.violation, "the violation is still about the holder of a document"


def test_shrinking_finds_the_choices_that_matter() -> None:
    choices = [(7 * place) % 5 for place in range(200)]
    choices[40], choices[150] = 9, 8

    def fails(play: list[int]) -> bool:
        return 9 in play and 8 in play[play.index(9) :]

    assert shrink(choices, fails) == [9, 8]


def test_shrinking_ends_when_nothing_smaller_fails() -> None:
    assert shrink([1, 2, 3], lambda play: play == [1, 2, 3]) == [1, 2, 3]
