from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast.cli.ui.progress import Progress, TextDisplay, format_progress
from holdfast.cli.ui.progress_counts import FailedAttempt, ProgressCounts
from holdfast.engine.budget import Budget


class Seen:
    """A display that records its calls."""

    interval = 0.01

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.said: list[str] = []
        self.failed: list[FailedAttempt] = []
        self.news = threading.Event()

    def show_counts(self, counts: ProgressCounts) -> None:
        self.totals.append(counts.total)
        if counts.total:
            self.news.set()

    def show_failure(self, failed: FailedAttempt) -> None:
        self.failed.append(failed)

    def show_message(self, text: str) -> None:
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
        heard = ProgressCounts(pipeline(), store, batch=None, threads=8)
        heard.recount()
        assert (heard.total, heard.done, heard.at_step) == (3, 0, {"read": 3, "judge": 0})
        holdfast.drain(pipeline(), store, listeners=[heard])
        asked = ProgressCounts(pipeline(), store, batch=None, threads=8)
        asked.recount()
        for name in ("total", "done", "dead", "paused", "at_step"):
            assert getattr(heard, name) == getattr(asked, name), name
        assert heard.items == {"read": 9, "judge": 2}
        assert [str(failed) for failed in heard.failures] == ["bad at judge: ValueError: no"]
        assert format_progress(asked) == "3 of 3 documents (100%): 2 done, 1 dead"


def test_documents_that_come_later_are_seen() -> None:
    with holdfast.open("memory://") as store:
        counts = ProgressCounts(pipeline(), store, batch=None, threads=8)
        counts.recount_interval = 0.0
        display = Seen()
        with Progress(display, counts, Budget()):
            holdfast.submit(pipeline(), store, batch="b", documents=[("a", None)])
            assert display.news.wait(5)
        assert display.totals[-1] == 1


def test_a_count_that_is_complete_is_read_again_because_documents_may_have_come_meanwhile() -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[("message", None)])
        counts = ProgressCounts(pipeline(), store, batch=None, threads=8)
        counts.recount()
        holdfast.submit(pipeline(), store, batch="b", documents=[("attachment", None)])
        store.pause(store.select("counted", batch="b", key="attachment"), who="ann", reason="later")
        holdfast.drain(pipeline(), store, listeners=[counts])
        assert format_progress(counts).startswith("1 of 1 document (100%)")
        counts.recount_if_due()
        assert format_progress(counts).startswith("1 of 2 documents (50%)")


def test_a_complete_count_is_read_again_only_after_more_work() -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[("a", None)])
        counts = ProgressCounts(pipeline(), store, batch=None, threads=8)
        holdfast.drain(pipeline(), store)
        counts.recount()
        holdfast.submit(pipeline(), store, batch="b", documents=[("b", None)])
        counts.recount_if_due()
        assert counts.total == 1


def test_the_last_counts_include_decisions_made_meanwhile() -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[("a", None), ("b", None)])
        counts, display = ProgressCounts(pipeline(), store, batch=None, threads=8), Seen()
        counts.recount()
        with Progress(display, counts, Budget()):
            store.cancel(store.select("counted"), who="ann", reason="never mind")
        assert format_progress(counts) == "2 of 2 documents (100%): 0 done, 2 cancelled"


def test_the_progress_thread_reports_the_first_signal() -> None:
    with holdfast.open("memory://") as store:
        budget, display = Budget(), Seen()
        with Progress(display, ProgressCounts(pipeline(), store, batch=None, threads=8), budget):
            budget.stop("SIGINT")
            assert display.news.wait(5)
    assert display.said == ["Stopping at the next item; press Ctrl-C again to stop at once."]


def test_a_step_is_left_by_what_was_never_counted_there_and_nothing_falls_below_zero() -> None:
    with holdfast.open("memory://") as store:
        counts = ProgressCounts(
            pipeline(), store, batch=None, threads=8
        )  # as when a message carried what nobody counted yet
        lowest: list[int] = []
        holdfast.submit(pipeline(), store, batch="b", documents=[("good", None), ("bad", None)])
        holdfast.drain(pipeline(), store, listeners=[counts, lambda _: lowest.append(min(counts.at_step.values()))])
        assert min(lowest) == 0


def test_a_worker_that_has_done_all_does_not_repeat_its_last_line_with_a_rate_that_fades(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = iter(range(0, 1000, 5))
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[("a", None), ("b", None)])
        counts = ProgressCounts(pipeline(), store, batch=None, threads=8, clock=lambda: float(next(seconds)))
        counts.recount()
        display = TextDisplay()
        display.show_counts(counts)
        holdfast.drain(pipeline(), store, listeners=[counts])
        for _ in range(3):
            display.show_counts(counts)
    assert capsys.readouterr().out.splitlines()[1:] == ["2 of 2 documents (100%): 2 done"]


def test_a_worker_that_waits_does_not_repeat_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline(), store, batch="b", documents=[("a", None)])
        counts = ProgressCounts(pipeline(), store, batch=None, threads=8)
        counts.recount()
        display = TextDisplay()
        for _ in range(3):
            display.show_counts(counts)
        assert capsys.readouterr().out == "0 of 1 document (0%): 0 done; at steps: read 1\n"
