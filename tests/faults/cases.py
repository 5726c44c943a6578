"""What a case is: a name, what is expected of it, and what is done. Modules of cases put theirs on one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from tests.faults.laboratory import Bench

Kind = Literal["sqlite", "postgres"]
STORES: tuple[Kind, ...] = ("sqlite", "postgres")


class NotAsExpected(AssertionError):
    """A case did not go as it should have."""


class CannotRun(Exception):
    """This machine does not let a case run; the reason is told."""


class Case(msgspec.Struct, frozen=True):
    """One kind of trouble, on real processes and a real database."""

    name: str
    expected: str
    run: Callable[[Bench], str]
    does_not_apply: dict[Kind, str] = {}


CASES: dict[str, Case] = {}


def case(name: str, expected: str, **does_not_apply: str) -> Callable[[Callable[[Bench], str]], Callable[[Bench], str]]:
    """Puts a function on the list. It makes trouble and says what was seen; where it does not apply, why not."""

    def put(run: Callable[[Bench], str]) -> Callable[[Bench], str]:
        CASES[name] = Case(name, expected, run, does_not_apply)
        return run

    return put


def require(held: object, otherwise: str) -> None:
    """Raises NotAsExpected unless something held."""
    if not held:
        raise NotAsExpected(otherwise)


def all_cases() -> dict[str, Case]:
    """Gives all cases by their names, in the order in which they are told."""
    from tests.faults import deaths, disks, servers, storms, upgrades, wires  # noqa: F401  # each puts its own on the list

    return CASES
