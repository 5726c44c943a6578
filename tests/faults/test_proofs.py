"""A case is green only when its fault was seen to happen: here each is run with its fault taken away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from holdfast.testing.postgres import Postgres
from tests.faults import storms
from tests.faults.cases import Case, Kind, all_cases
from tests.faults.laboratory import Bench, run_case
from tests.soak.fleet import Fleet
from tests.support import proxy

Takes = Callable[[pytest.MonkeyPatch], None]


def nobody_is_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fleet, "stop_one", lambda self, chance, *, seconds: os.getpid())


def nothing_is_locked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storms, "_hold_everything", lambda lab, *, seconds: storms._wait(lab, seconds))


def nobody_is_killed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subprocess.Popen, "kill", lambda self: self.wait())


def the_server_is_not_killed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Postgres, "kill", lambda self: None)


def the_server_is_not_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Postgres, "stop", lambda self: None)


def the_wire_is_quick(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proxy, "sleep", lambda seconds: None)


TAKEN_AWAY: list[tuple[str, Kind, Takes, str]] = [
    ("stop", "sqlite", nobody_is_stopped, "no worker was stopped"),
    ("locked", "sqlite", nothing_is_locked, "something was written while all was locked"),
    ("locked", "postgres", nothing_is_locked, "something was written while all was locked"),
    ("submit-killed", "sqlite", nobody_is_killed, "a process that was killed ended with 0"),
    ("server-killed", "postgres", the_server_is_not_killed, "the server outlived its end"),
    ("server-restarted", "postgres", the_server_is_not_stopped, "the server outlived its end"),
    ("failover", "postgres", the_server_is_not_killed, "the server outlived its end"),
    ("slow", "postgres", the_wire_is_quick, "a word and its answer took"),
]


@pytest.mark.parametrize(
    ("name", "kind", "take_away", "told"), TAKEN_AWAY, ids=[f"{one[0]}-{one[1]}" for one in TAKEN_AWAY]
)
def test_a_case_whose_fault_does_not_happen_is_red(
    name: str, kind: Kind, take_away: Takes, told: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if kind == "postgres":
        request.getfixturevalue("postgres_server")  # skips where there is none
    take_away(monkeypatch)
    outcome = run_case(all_cases()[name], kind, effort=0.2)
    assert outcome.verdict == "RED"
    assert outcome.seen.startswith(told)


def test_a_case_that_proves_nothing_is_red() -> None:
    outcome = run_case(Case("harmless", "nothing happens", lambda bench: "all is well"), "sqlite")
    assert outcome.verdict == "RED"
    assert outcome.violations == ["nothing shows that the fault of harmless happened"]


def test_a_fault_that_happened_no_time_is_red() -> None:
    def kills_nobody(bench: Bench) -> str:
        bench.prove("workers killed", 0)
        return "all is well"

    outcome = run_case(Case("harmless", "nothing happens", kills_nobody), "sqlite")
    assert outcome.verdict == "RED"
    assert outcome.seen == "nothing shows that there were workers killed"


def test_what_was_proved_is_told() -> None:
    def kills(bench: Bench) -> str:
        bench.prove("workers killed", 2)
        bench.prove("workers killed")
        return "all is well"

    outcome = run_case(Case("harmful", "workers die", kills), "sqlite")
    assert outcome.verdict == "green"
    assert "proved: 3 workers killed" in outcome.seen
