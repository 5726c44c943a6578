"""The balance of batches as a table: expected = done + dead + ..., and whether both sides are equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from holdfast.core.formatting import format_table, printable

STATES = ("done", "dead", "cancelled", "running", "waiting", "paused")
BY_STEP = ("waiting", "running", "orphaned", "paused", "dead", "accepted", "cancelled")
"""The counts that are shown for each step."""


class BalancedCounts(Protocol):
    """Counts of one batch. It also has a number for each of STATES."""

    @property
    def expected(self) -> int:
        """The number of submitted documents."""

    @property
    def found(self) -> int:
        """The number of documents in all states."""

    @property
    def balances(self) -> bool:
        """True if both are the same."""


def format_balances(batches: Iterable[tuple[str, str, BalancedCounts]]) -> list[str]:
    """Return one line for each batch: its name, its state, and both sides of its balance."""
    rows = [["batch", "", "expected", "=", *_join_with_plus(STATES), ""]]
    for name, state, counts in batches:
        right_side = _join_with_plus(format_numbers(counts, STATES))
        rows.append([printable(name), state, f"{counts.expected:,}", "=", *right_side, _verdict(counts)])
    return format_table(rows, indent="  ", right=range(2, len(rows[0]) - 1))


def format_numbers(counts: object, names: Sequence[str]) -> list[str]:
    """Return the counts with these names."""
    return [f"{getattr(counts, name):,}" for name in names]


def sort_steps(steps: Iterable[str], order: Sequence[str]) -> list[str]:
    """Return steps in the order of the pipeline. Steps that the pipeline no longer has come last."""
    return sorted(steps, key=lambda step: order.index(step) if step in order else len(order))


def _verdict(counts: BalancedCounts) -> str:
    return "balances" if counts.balances else f"DOES NOT BALANCE: {counts.found:,} found"


def _join_with_plus(cells: Sequence[str]) -> list[str]:
    return [part for cell in cells for part in (cell, "+")][:-1]
