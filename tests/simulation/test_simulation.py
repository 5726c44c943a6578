"""The simulator: a fixed set of seeds, exact replays, and small stories of what fails."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast.testing.simulation import replay, run_slice
from holdfast.testing.simulation.exploring import StoreKind
from holdfast.testing.simulation.shrinking import shrunk
from tests.simulation.mutants import MUTANTS, made


@pytest.mark.parametrize("first", range(0, 600, 150))
def test_no_schedule_breaks_a_promise(first: int) -> None:
    seen = run_slice(range(first, first + 150))
    assert seen.broken == {}
    assert seen.schedules == 150


@pytest.mark.parametrize("seed", [83160, 216872, 242529, 345647])
def test_a_schedule_that_once_broke_a_promise_breaks_none(seed: int) -> None:
    assert run_slice(range(seed, seed + 1)).broken == {}


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_no_schedule_breaks_a_promise_on_sqlite(first: int) -> None:
    assert run_slice(range(first, first + 50), "sqlite").broken == {}


def test_every_kind_of_trouble_comes_and_many_states_are_seen() -> None:
    seen = run_slice(range(150))
    assert len(seen.troubles) == 21
    assert min(seen.troubles.values()) > 5
    assert len(seen.states) > 500


SCRIPT = """
import hashlib, sys
from holdfast.testing.simulation import replay
story = []
for seed in range(20):
    outcome = replay(seed, store=sys.argv[1], story=story.append)
    story += [repr((outcome.choices, outcome.turns, outcome.broken))]
print(hashlib.blake2b("".join(story).encode()).hexdigest())
"""


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_seed_tells_the_same_story_in_another_process(store: StoreKind) -> None:
    def told(hash_seed: str) -> bytes:
        arguments = [sys.executable, "-c", SCRIPT, store]
        return subprocess.run(
            arguments, env=os.environ | {"PYTHONHASHSEED": hash_seed}, check=True, capture_output=True
        ).stdout

    assert told("1") == told("2")


def test_a_seed_that_fails_is_made_small_and_told() -> None:
    mutant = next(one for one in MUTANTS if one.mistake == "the fence is not checked")
    with made(mutant):
        (seed,) = run_slice(range(2000)).broken
        whole: list[str] = []
        small: list[str] = []
        first = replay(seed, story=whole.append)
        again = replay(seed, small=True, story=small.append)
    assert first.broken
    assert again.broken
    assert len(small) < len(whole)
    assert sum(map(bool, again.choices)) < sum(map(bool, first.choices)), "fewer unusual things happen in it"
    assert "holds" in again.broken, "what is left is about who holds a document"


def test_shrinking_finds_the_choices_that_matter() -> None:
    choices = [(7 * place) % 5 for place in range(200)]
    choices[40], choices[150] = 9, 8

    def fails(play: list[int]) -> bool:
        return 9 in play and 8 in play[play.index(9) :]

    assert shrunk(choices, fails) == [9, 8]


def test_shrinking_ends_when_nothing_smaller_fails() -> None:
    assert shrunk([1, 2, 3], lambda play: play == [1, 2, 3]) == [1, 2, 3]
