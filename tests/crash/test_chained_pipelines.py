"""A pipeline that feeds another one is killed on both sides of every commit point, on both stores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import holdfast
from holdfast.observe.events import Committed
from holdfast.testing.crash import crash_everywhere

index = holdfast.Pipeline("index")


@index.step
def look_up(doc):
    return doc.payload["number"]


def chain():
    books = holdfast.Pipeline("books")

    @books.step(commit_every=1)
    def pages(doc, cursor=0):
        for number in range(cursor, doc.payload["pages"]):
            yield {"number": number}

    @pages.effect
    def index_pages(tx, doc, found):
        for page in found:
            tx.submit(index, f"{doc.key}/{page['number']}", page, priority=page["number"])

    @books.step
    def title(doc):
        return len(doc.output(pages))

    @title.effect
    def index_title(tx, doc, count):
        mark = "?" if tx.dialect == "sqlite" else "%s"
        tx.execute(f"insert into title values ({mark}, {mark})", (doc.key, count))
        result = tx.submit(index, doc.key, {"number": count}, batch="titles")
        assert result.new == 1  # a second time it would be unchanged

    return books


def prepare(tx):
    tx.execute("create table title (key text, pages integer)")


def test_documents_for_another_pipeline_are_submitted_once_whatever_is_killed(server):
    points = range(1, 100)  # all of them, but no change of the document: what it submitted would be there already
    report = crash_everywhere(chain(), [("one", {"pages": 1})], store=server, prepare=prepare, points=points)
    assert report.states == {"done": 1}
    assert report.kills > report.points


def test_the_other_pipeline_does_each_of_them_once(url):
    with holdfast.open(url) as store:
        with store.transaction() as tx:
            prepare(tx)
        books = chain()
        holdfast.submit(books, store, batch="march", documents=[("one", {"pages": 3}), ("two", {"pages": 2})])
        holdfast.drain(books, store)
        holdfast.drain(index, store)
        batches = {batch.name: batch.balance for batch in store.batches("index")}
        assert {name: (balance.expected, balance.done) for name, balance in batches.items()} == {
            "march": (5, 5),
            "titles": (2, 2),
        }


def test_a_running_worker_of_the_other_pipeline_finds_them(url):
    budget = holdfast.Budget(timedelta(seconds=60))

    def stop_when_done(event):
        if isinstance(event, Committed) and any(move.state == "done" for move in event.moves):
            budget.stop("the document is done")

    with holdfast.open(url) as store, ThreadPoolExecutor(1) as threads:
        with store.transaction() as tx:
            prepare(tx)
        worker = threads.submit(holdfast.work, index, store, budget=budget, batch="titles", listeners=(stop_when_done,))
        books = chain()
        holdfast.submit(books, store, batch="march", documents=[("one", {"pages": 0})])
        holdfast.drain(books, store)
        assert worker.result(timeout=90).done == 1


def test_an_effect_that_opens_the_store_to_submit_is_told_to_use_its_transaction(url):
    books = holdfast.Pipeline("books")

    @books.step
    def title(doc):
        return doc.key

    @title.effect
    def index_title(tx, doc, key):
        if doc.key == "bad":
            with holdfast.open(url) as again:
                holdfast.submit(index, again, batch="b", documents=[(key, None)])

    with holdfast.open(url) as store:
        holdfast.submit(books, store, batch="b", documents=[("good", None), ("bad", None)])
        report = holdfast.drain(books, store)
        assert (report.done, report.dead) == (1, 1)
        assert "tx.submit" in store.document("books", "b", "bad").reason
        assert "index" not in store.pipelines()
