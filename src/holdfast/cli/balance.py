"""The balance of batches as everybody is shown it: expected = done + dead + ..., and whether that is true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from holdfast.cli.words import harmless, table

STATES = ("done", "dead", "cancelled", "running", "waiting", "paused")


class Balanced(Protocol):
    """Counts of one batch, with a number for each of the states."""

    @property
    def expected(self) -> int:
        """How many documents were submitted."""

    @property
    def found(self) -> int:
        """How many there are, in all states."""

    @property
    def balances(self) -> bool:
        """Whether that is the same."""


def balances(batches: Iterable[tuple[str, str, Balanced]]) -> list[str]:
    """Gives one line for each batch: its name, its state, and both sides of its balance."""
    rows = [["batch", "", "expected", "=", *_between(STATES), ""]]
    rows += [
        [harmless(name), state, f"{counted.expected:,}", "=", *_between(numbers(counted, STATES)), _verdict(counted)]
        for name, state, counted in batches
    ]
    return table(rows, indent="  ", right=range(2, len(rows[0]) - 1))


def numbers(counted: object, words: Sequence[str]) -> list[str]:
    """Gives what was counted under these words."""
    return [f"{getattr(counted, word):,}" for word in words]


def in_order(steps: Iterable[str], order: Sequence[str]) -> list[str]:
    """Gives steps in the order of the pipeline; those that are gone last."""
    return sorted(steps, key=lambda step: order.index(step) if step in order else len(order))


def _verdict(counted: Balanced) -> str:
    return "balances" if counted.balances else f"DOES NOT BALANCE: {counted.found:,} found"


def _between(words: Sequence[str]) -> list[str]:
    return [cell for word in words for cell in (word, "+")][:-1]
