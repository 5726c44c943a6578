"""Documents that really end their process are found within four crashes and parked, and the rest is done once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.exit_codes import DEAD_LETTERS
from holdfast.core.model import DocumentStatus
from holdfast.core.reasons import WORKER_CRASHED
from holdfast.stores.protocol import Store
from tests.crash import poison
from tests.crash.poison import BATCH
from tests.crash.processes import sorted_rows
from tests.support.cgroups import memory_cgroup, oom_kills

PROGRAM = Path(poison.__file__)
HEALTHY = [f"healthy-{number}" for number in range(10)]
MAX_CRASHES = 4
LONG = "HOLDFAST_CRASH_ROUNDS" in os.environ
MEMORY = 200 << 20
SIGNS = {
    "segfault": "SIGSEGV",
    "abort": "SIGABRT",
    "exit": "os._exit(3)",
    "exit in a thread": "os._exit(3)",
    "native exit": "an exit with code 4 in native code",
    "native exit 0": "an exit with code 0 in native code",
    "native exit 2": "an exit with code 2 in native code",
    "memory": "the system killed it because memory ran out",
}
"""What the reason of a document says about its last crash."""


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with holdfast.open(url) as opened:
        poison.prepare(opened)
        yield opened


def submit(store: Store, pipeline: holdfast.Pipeline, *kinds: str) -> None:
    documents = [(key, None) for key in (*kinds, *HEALTHY)]
    holdfast.submit(pipeline, store, batch=BATCH, documents=documents)


def restart_until_done(url: str, pipeline: str, **environment: str) -> list[int]:
    """Start the program as a supervisor would, until it ends by itself. Return how it ended before."""
    ended: list[int] = []
    while not ended or ended[-1]:
        run = subprocess.run(
            [sys.executable, str(PROGRAM), url, pipeline],
            env=os.environ | environment,
            capture_output=True,
            check=False,
            timeout=60,
        )
        ended.append(run.returncode)
        assert len(ended) <= 4 * MAX_CRASHES, (ended, run.stderr.decode())
    return ended[:-1]


def assert_only_poison_is_parked(store: Store, pipeline: str, *kinds: str) -> dict[str, DocumentStatus]:
    assert sorted_rows(store, "select key from swallowed") == [(key,) for key in sorted(HEALTHY)]
    dead = {here.key: here for here in store.documents(pipeline, state="dead")}
    assert sorted(dead) == sorted(kinds)
    assert store.balance(pipeline).done == len(HEALTHY)
    for kind, here in dead.items():
        assert (here.crashes, here.losses) == (3, 0), kind
    return dead


def test_documents_that_end_their_worker_are_found_within_four_crashes(store: Store, url: str) -> None:
    kinds = ("segfault", "exit", "abort")
    submit(store, poison.poison, *kinds)
    ended = restart_until_done(url, "poison")
    assert set(ended) == {-signal.SIGSEGV, -signal.SIGABRT, 3}
    assert max(map(ended.count, ended)) <= MAX_CRASHES
    dead = assert_only_poison_is_parked(store, "poison", *kinds)
    for kind, here in dead.items():
        assert here.code == WORKER_CRASHED
        assert here.reason.endswith(f"crashed at swallow: {SIGNS[kind]}")
    last = [store.journal(dead[kind].id)[-1].detail for kind in kinds]
    assert [detail["evidence"] for detail in last] == ["signal", "exit", "signal"]
    assert all("in _run" in detail["traceback"] for detail in last)


def test_a_document_whose_own_thread_ends_the_worker_is_found_within_four_crashes(store: Store, url: str) -> None:
    submit(store, poison.poison, "exit in a thread")
    ended = restart_until_done(url, "poison")
    assert set(ended) == {3}
    assert len(ended) <= MAX_CRASHES
    (dead,) = assert_only_poison_is_parked(store, "poison", "exit in a thread").values()
    assert (dead.code, SIGNS[dead.key] in dead.reason) == (WORKER_CRASHED, True)


def test_a_document_that_eats_the_memory_is_found_within_four_crashes(store: Store, url: str) -> None:
    submit(store, poison.poison, "memory")
    with memory_cgroup(MEMORY) as group:
        ended = restart_until_done(url, "poison", HOLDFAST_TEST_CGROUP=str(group))
        assert ended == [-signal.SIGKILL] * oom_kills(group)
    assert len(ended) <= MAX_CRASHES
    (dead,) = assert_only_poison_is_parked(store, "poison", "memory").values()
    assert (dead.code, SIGNS["memory"] in dead.reason) == (WORKER_CRASHED, True)


def test_a_document_that_eats_the_memory_of_a_child_process_crashes_only_the_child(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with holdfast.open(url) as store, memory_cgroup(MEMORY) as group:
        poison.prepare(store)
        submit(store, poison.isolated, "memory")
        assert restart_until_done(url, "isolated", HOLDFAST_TEST_CGROUP=str(group)) == []
        assert oom_kills(group) == 3
        (dead,) = assert_only_poison_is_parked(store, "isolated", "memory").values()
        assert "because memory ran out" in dead.reason


SEEN_BY_PARENT = [("native exit", {}), ("segfault", {"PYTHONFAULTHANDLER": "1"})]
"""What only a supervising parent sees: an exit in native code, and a fault if the program uses faulthandler itself."""


@pytest.mark.parametrize(("kind", "environment"), SEEN_BY_PARENT, ids=["exit", "fault"])
def test_a_supervising_parent_sees_how_its_processes_end(
    store: Store, url: str, kind: str, environment: dict[str, str]
) -> None:
    if url.startswith("sqlite") == (kind == "segfault") and not LONG:
        pytest.skip("a short run tries each on one store; `make crash` tries all")
    submit(store, poison.poison, kind)
    drain_in_processes(url, environment)
    (dead,) = assert_only_poison_is_parked(store, "poison", kind).values()
    assert dead.reason.endswith(f"crashed at swallow: {SIGNS[kind]}")


@pytest.mark.parametrize("kind", ["native exit", "native exit 0", "native exit 2"])
def test_a_process_that_a_body_ends_is_replaced_whatever_its_exit_code(tmp_path: Path, kind: str) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with holdfast.open(url) as store:
        poison.prepare(store)
        submit(store, poison.poison, kind)
        drain_in_processes(url, {})
        (dead,) = assert_only_poison_is_parked(store, "poison", kind).values()
        assert dead.reason.endswith(f"crashed at swallow: {SIGNS[kind]}")


def drain_in_processes(url: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "holdfast", "work", f"{PROGRAM}:poison", "--store", url]
    ended = subprocess.run(
        [*command, "--processes", "2", "--drain"],
        env=os.environ | environment,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == DEAD_LETTERS, ended.stderr.decode()
