"""A redrive of items is killed at any moment and run again, while a worker goes on: each item is tried once more."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import pytest

import holdfast
from holdfast.core.reasons import ITEMS_REDRIVEN
from holdfast.stores import open_store

DOCUMENTS = 60

COMMAND = textwrap.dedent("""
    import sys
    import holdfast

    with holdfast.open(sys.argv[1]) as store:
        for item in holdfast.set_aside_items(store, "papers"):
            print("item", flush=True)
            holdfast.redrive_items(store, "papers", [item], who="cat", reason="the service is back")
""")


def kill_in_the_middle(url: str, redrives: int) -> None:
    """Run the command and kill it after some redrives, if it has not ended by then."""
    with subprocess.Popen([sys.executable, "-c", COMMAND, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(redrives):
            if not process.stdout.readline():
                break
        process.kill()


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_redrive_that_runs_again_redrives_each_item_once(url: str, seed: int) -> None:
    chance, store, bad = random.Random(seed), open_store(url), True
    pipeline = holdfast.Pipeline("papers")
    pages = pipeline.step(name="pages")(lambda doc: [1, 2, 3])

    @pipeline.step(over=pages, failure_rate=1.0, retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document, page: int) -> int:
        if page == 2 and bad:
            raise ValueError("bad")
        return page

    pipeline.step(name="count")(lambda doc: len(doc.output(read)))
    holdfast.submit(pipeline, store, batch="b", documents=[(f"doc-{number}", None) for number in range(DOCUMENTS)])
    holdfast.drain(pipeline, store, threads=2)
    bad, kills = False, 0
    while [*holdfast.set_aside_items(store, pipeline)]:
        kills += 1
        assert kills < DOCUMENTS
        kill_in_the_middle(url, chance.randint(1, 30))
        holdfast.drain(pipeline, store, threads=2)
    assert kills > 1
    for document in store.documents("papers", limit=DOCUMENTS):
        assert document.state == "done"
        assert holdfast.output(store, pipeline, "b", document.key, "read") == [1, 2, 3]
        assert holdfast.output(store, pipeline, "b", document.key, "count") == 3
        redrives = [entry for entry in store.journal(document.id) if entry.code == ITEMS_REDRIVEN]
        assert [entry.detail["items"] for entry in redrives] == [[1]]
    store.close()
