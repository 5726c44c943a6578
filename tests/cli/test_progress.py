from __future__ import annotations

import threading

import holdfast
from holdfast.cli.counts import Counts, Failed
from holdfast.cli.progress import Progress, in_a_line
from holdfast.engine.budget import Budget


class Seen:
    """A display that remembers."""

    every = 0.01

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.said: list[str] = []
        self.failed: list[Failed] = []
        self.news = threading.Event()

    def picture(self, counts: Counts) -> None:
        self.totals.append(counts.total)
        if counts.total:
            self.news.set()

    def failure(self, failed: Failed) -> None:
        self.failed.append(failed)

    def say(self, text: str) -> None:
        self.said.append(text)
        self.news.set()

    def close(self) -> None:
        return


def pipeline() -> holdfast.Pipeline:
    made = holdfast.Pipeline("counted")

    @made.step
    def read(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3]

    @made.step(retry=holdfast.Retry(attempts=1))
    def judge(doc: holdfast.Document) -> int:
        if doc.key == "bad":
            raise ValueError("no")
        return 1

    return made


def test_events_lead_to_the_same_counts_as_the_store() -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[(key, None) for key in ("a", "b", "bad")])
        heard = Counts(pipeline(), store, batch=None)
        heard.recount()
        assert (heard.total, heard.done, heard.at_step) == (3, 0, {"read": 3, "judge": 0})
        holdfast.drain(pipeline(), store, listeners=[heard])
        asked = Counts(pipeline(), store, batch=None)
        asked.recount()
        for name in ("total", "done", "dead", "paused", "at_step"):
            assert getattr(heard, name) == getattr(asked, name), name
        assert heard.items == {"read": 9, "judge": 2}
        assert [str(failed) for failed in heard.failures] == ["bad at judge: ValueError: no"]
        assert in_a_line(asked) == "3 of 3 documents (100%): 2 done, 1 dead"


def test_documents_that_come_later_are_seen() -> None:
    with holdfast.open("memory://") as store:
        counts = Counts(pipeline(), store, batch=None)
        counts.looks_every = 0.0
        display = Seen()
        with Progress(display, counts, Budget()):
            holdfast.submit(pipeline(), store, batch="b", documents=[("a", None)])
            assert display.news.wait(5)
        assert display.totals[-1] == 1


def test_what_somebody_decided_meanwhile_is_in_the_last_picture() -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[("a", None), ("b", None)])
        counts, display = Counts(pipeline(), store, batch=None), Seen()
        counts.recount()
        with Progress(display, counts, Budget()):
            store.cancel(store.select("counted"), who="ann", reason="never mind")
        assert in_a_line(counts) == "2 of 2 documents (100%): 0 done, 2 cancelled"


def test_the_first_signal_is_answered_by_the_thread_that_draws() -> None:
    with holdfast.open("memory://") as store:
        budget, display = Budget(), Seen()
        with Progress(display, Counts(pipeline(), store, batch=None), budget):
            budget.stop("SIGINT")
            assert display.news.wait(5)
    assert display.said == ["Stopping at the next item; press Ctrl-C again to stop at once."]


def test_a_step_is_left_by_what_was_never_counted_there_and_nothing_falls_below_zero() -> None:
    with holdfast.open("memory://") as store:
        counts = Counts(pipeline(), store, batch=None)  # as when a message carried what nobody counted yet
        lowest: list[int] = []
        holdfast.submit(pipeline(), store, batch="b", documents=[("good", None), ("bad", None)])
        holdfast.drain(pipeline(), store, listeners=[counts, lambda _: lowest.append(min(counts.at_step.values()))])
        assert min(lowest) == 0
