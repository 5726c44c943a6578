"""A few fault cases in a short form. `make faults` runs all cases in full."""

from __future__ import annotations

import pytest

from tests.faults.cases import STORES, Kind, all_cases
from tests.faults.environment import run_case

QUICK: dict[str, tuple[Kind, ...]] = {
    "kill": STORES,
    "commit-killed": STORES,
    "segfault-process": ("sqlite",),
    "disk-full": ("sqlite",),
    "cut": ("postgres",),
    "upgrade": ("sqlite",),
}
"""Cases that take a few seconds each."""


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in QUICK.items() for kind in kinds])
def test_nothing_is_lost_and_nothing_is_done_twice(name: str, kind: Kind, request: pytest.FixtureRequest) -> None:
    if kind == "postgres":
        request.getfixturevalue("postgres_server")  # skips the test if there is no PostgreSQL
    outcome = run_case(all_cases()[name], kind, effort=0.2)
    if outcome.verdict == "-":
        pytest.skip(outcome.seen)
    assert outcome.violations == []
    assert outcome.verdict == "green"


def test_every_case_says_what_is_expected_and_where_it_does_not_apply() -> None:
    for case in all_cases().values():
        assert case.expected
        assert all(case.does_not_apply.values())
        assert len(case.does_not_apply) < len(STORES)
