"""Fault cases: each has a name, what is expected, and a function that injects the fault and checks the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from tests.faults.environment import CaseRun

Kind = Literal["sqlite", "postgres"]
STORES: tuple[Kind, ...] = ("sqlite", "postgres")


class NotAsExpected(AssertionError):
    """The result of a case is not the expected one."""


class CannotRun(Exception):
    """A case cannot run on this machine. The message has the reason."""


class Case(msgspec.Struct, frozen=True):
    """One kind of fault, on real processes and a real database."""

    name: str
    expected: str
    run: Callable[[CaseRun], str]
    does_not_apply: dict[Kind, str] = {}


CASES: dict[str, Case] = {}


def case(
    name: str, expected: str, **does_not_apply: str
) -> Callable[[Callable[[CaseRun], str]], Callable[[CaseRun], str]]:
    """Register a function as a case. It injects a fault and returns a summary of what was seen.

    Args:
        name: The name of the case.
        expected: What must be true although the fault happens.
        does_not_apply: By store, the reason why the case does not apply there.
    """

    def register(run: Callable[[CaseRun], str]) -> Callable[[CaseRun], str]:
        CASES[name] = Case(name, expected, run, does_not_apply)
        return run

    return register


def require(condition: object, otherwise: str) -> None:
    """Raise NotAsExpected with this message unless the condition is true."""
    if not condition:
        raise NotAsExpected(otherwise)


def all_cases() -> dict[str, Case]:
    """Return all cases by name, in the order of the report."""
    from tests.faults import (
        contention_faults,  # noqa: F401  # each module registers its cases
        disk_faults,  # noqa: F401  # each module registers its cases
        network_faults,  # noqa: F401  # each module registers its cases
        process_faults,  # noqa: F401  # each module registers its cases
        server_faults,  # noqa: F401  # each module registers its cases
        upgrades,  # noqa: F401  # each module registers its cases
    )

    return CASES
