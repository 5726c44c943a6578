"""Commands about many documents are killed and run again."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import pytest

from holdfast.core.model import NewDocument
from holdfast.stores import open_store
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness, after

DOCUMENTS = 600

COMMAND = textwrap.dedent("""
    import sys
    from holdfast.stores import open_store

    store = open_store(sys.argv[1])
    plan = store.declare(store.shape("papers"))
    after = 0
    while ids := store.select("papers", after=after, limit=20, state="done"):
        print("slice", flush=True)
        store.rewind_to(plan, ids, to="chunk", who="cat", reason="a better model")
        after = ids[-1]
    store.close()
""")


def kill_in_the_middle(url: str, slices: int) -> None:
    """Run the command and kill it after some slices, if it has not ended by then."""
    command = [sys.executable, "-c", COMMAND, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(slices):
            if not process.stdout.readline():
                break
        process.kill()


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_rewind_that_runs_again_rewinds_each_document_once(url: str, seed: int) -> None:
    chance = random.Random(seed)
    store = open_store(url)
    harness = StoreHarness(store, ManualClock())
    documents = [NewDocument(f"doc-{number}") for number in range(DOCUMENTS)]
    store.submit(harness.plan, "march", documents, submission=1, part=0)
    claims = harness.claim(limit=DOCUMENTS)
    for _ in harness.plan.step_ids:
        moves = [harness.forward(claim) for claim in claims]
        store.commit(harness.plan, moves)
        claims = [after(claim, move) for claim, move in zip(claims, moves, strict=True)]
    kills = 0
    while store.count("papers", state="done"):
        kills += 1
        kill_in_the_middle(url, chance.randint(1, 12))
    assert kills > 1
    balance = store.balance("papers")
    assert balance.balances
    assert balance.waiting == DOCUMENTS
    assert store.count("papers", step="chunk") == DOCUMENTS
    for claim in claims:
        assert harness.verbs(claim) == ["rewind"]
    assert {claim.checkpoint.generation for claim in harness.claim(limit=DOCUMENTS)} == {1}
    store.close()
