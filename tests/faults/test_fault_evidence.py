"""A case is green only if its fault was seen to happen. These tests run cases without their fault."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.faults import contention_faults
from tests.faults.cases import Case, Kind, all_cases
from tests.faults.environment import CaseRun, run_case
from tests.soak.fleet import Fleet
from tests.support import tcp_proxy
from tests.support.postgres import Postgres

Patch = Callable[[pytest.MonkeyPatch], None]


def nothing_is_suspended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fleet, "suspend_one", lambda self, random, *, seconds: os.getpid())


def nothing_is_locked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(contention_faults, "_hold_everything", lambda env, *, seconds: contention_faults._wait(env, seconds))


def nothing_is_killed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subprocess.Popen, "kill", lambda self: self.wait())


def the_server_is_not_killed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Postgres, "kill", lambda self: None)


def the_server_is_not_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Postgres, "stop", lambda self: None)


def the_network_is_fast(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tcp_proxy, "sleep", lambda seconds: None)


WITHOUT_FAULT: list[tuple[str, Kind, Patch, str]] = [
    ("stop", "sqlite", nothing_is_suspended, "no worker was suspended"),
    ("locked", "sqlite", nothing_is_locked, "something was written while the database was locked"),
    ("locked", "postgres", nothing_is_locked, "something was written while the database was locked"),
    ("submit-killed", "sqlite", nothing_is_killed, "a process that was killed ended with 0"),
    ("server-killed", "postgres", the_server_is_not_killed, "the server still runs after its end"),
    ("server-restarted", "postgres", the_server_is_not_stopped, "the server still runs after its end"),
    ("failover", "postgres", the_server_is_not_killed, "the server still runs after its end"),
    ("slow", "postgres", the_network_is_fast, "a statement and its answer took"),
]


@pytest.mark.parametrize(
    ("name", "kind", "remove_fault", "message"),
    WITHOUT_FAULT,
    ids=[f"{name}-{kind}" for name, kind, *_ in WITHOUT_FAULT],
)
def test_a_case_whose_fault_does_not_happen_is_red(
    name: str,
    kind: Kind,
    remove_fault: Patch,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if kind == "postgres":
        request.getfixturevalue("postgres_server")  # skips the test if there is no PostgreSQL
    remove_fault(monkeypatch)
    outcome = run_case(all_cases()[name], kind, effort=0.2)
    assert outcome.verdict == "RED"
    assert outcome.seen.startswith(message)


def test_a_case_that_records_no_fault_is_red() -> None:
    outcome = run_case(Case("harmless", "nothing happens", lambda case_run: "all is well"), "sqlite")
    assert outcome.verdict == "RED"
    assert outcome.violations == ["nothing shows that the fault of harmless happened"]


def test_a_fault_that_happened_no_time_is_red() -> None:
    def kills_nobody(case_run: CaseRun) -> str:
        case_run.record_fault("workers killed", 0)
        return "all is well"

    outcome = run_case(Case("harmless", "nothing happens", kills_nobody), "sqlite")
    assert outcome.verdict == "RED"
    assert outcome.seen == "nothing shows that there were workers killed"


def test_recorded_faults_are_in_the_outcome() -> None:
    def kills(case_run: CaseRun) -> str:
        case_run.record_fault("workers killed", 2)
        case_run.record_fault("workers killed")
        return "all is well"

    outcome = run_case(Case("harmful", "workers die", kills), "sqlite")
    assert outcome.verdict == "green"
    assert "faults: 3 workers killed" in outcome.seen
