"""The progress display: a thread shows the counts of a run on a terminal, as plain lines, or as JSON lines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, Protocol, Self, TextIO

import msgspec

from holdfast.cli.context import CliContext
from holdfast.cli.output import print_json, print_line
from holdfast.cli.ui.progress_counts import FailedAttempt, ProgressCounts
from holdfast.core.errors import StoreError
from holdfast.core.formatting import format_count, format_duration, format_rate, one_line, printable
from holdfast.engine.budget import Budget

SIGNALS = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM", "SIGHUP": "SIGHUP"}
STOPPING_MESSAGE = "Stopping at the next item; press Ctrl-C again to stop at once."
MAX_FAILURES_SHOWN = 20


class Display(Protocol):
    """One way to show progress."""

    interval: float
    """Seconds between two updates of the counts."""

    def show_counts(self, counts: ProgressCounts) -> None:
        """Show the counts."""

    def show_failure(self, failed: FailedAttempt) -> None:
        """Show one failed attempt."""

    def show_message(self, text: str) -> None:
        """Show a message."""

    def close(self) -> None:
        """Show nothing more."""


class TextDisplay:
    """Plain lines, for pipes and logs. A worker that waits for documents does not repeat the same line."""

    interval = 5.0

    def __init__(self) -> None:
        self._last = ""

    def show_counts(self, counts: ProgressCounts) -> None:
        if counts.total or counts.submitted:
            line = format_progress(counts) if counts.total else _format_submitting(counts)
            if line != self._last:
                print_line(line)
            self._last = line

    def show_failure(self, failed: FailedAttempt) -> None:
        print_line(one_line(f"{'dead' if failed.dead else 'failed'}: {failed}", 400))

    def show_message(self, text: str) -> None:
        print_line(printable(text))

    def close(self) -> None:
        return


class JsonDisplay:
    """JSON lines, for programs."""

    interval = 5.0

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show_counts(self, counts: ProgressCounts) -> None:
        self.write_event("progress", submitted=counts.submitted, **progress_as_json(counts))

    def show_failure(self, failed: FailedAttempt) -> None:
        self.write_event("failed", **msgspec.structs.asdict(failed))

    def show_message(self, text: str) -> None:
        self.write_event("notice", text=text)

    def write_event(self, event: str, **fields: Any) -> None:
        """Write one line of JSON."""
        print_json({"event": event, **fields}, file=self._out)

    def close(self) -> None:
        return


class Progress:
    """A thread that updates a display while a worker runs. Used as a context manager."""

    def __init__(self, display: Display, counts: ProgressCounts, budget: Budget) -> None:
        self.display = display
        self.counts = counts
        self._failures_shown: set[str] = set()
        self._budget = budget
        self._stopping_shown = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._update, name="holdfast-progress", daemon=True)

    def _update(self) -> None:
        with suppress(BrokenPipeError):  # nobody reads the output any more; the work goes on
            self._update_until_end()

    def _update_until_end(self) -> None:
        pause = min(self.display.interval, 0.25)
        waited = 0.0
        while not self._end.wait(pause):
            waited += pause
            self._show_news()
            if waited >= self.display.interval:
                waited = 0.0
                if not self.counts.submitting:
                    self.counts.recount_if_due()
                self.display.show_counts(self.counts)

    def _show_news(self) -> None:
        while self.counts.failures:
            self._show_failure(self.counts.failures.popleft())
        while self.counts.notices:
            self.display.show_message(self.counts.notices.popleft())
        if self._budget.reason in SIGNALS and not self._stopping_shown:
            self._stopping_shown = True
            self.display.show_message(STOPPING_MESSAGE)

    def _show_failure(self, failed: FailedAttempt) -> None:
        """Show a document's first failure and its death, but not more than a maximum. Programs get all failures."""
        if isinstance(self.display, JsonDisplay):
            self.display.show_failure(failed)
            return
        failure = f"{failed.batch}/{failed.key}/{failed.dead}"
        maximum = MAX_FAILURES_SHOWN if failed.dead else MAX_FAILURES_SHOWN // 2  # keep lines free for dead letters
        if failure in self._failures_shown or len(self._failures_shown) > maximum:
            return
        self._failures_shown.add(failure)
        if len(self._failures_shown) > MAX_FAILURES_SHOWN:
            self.display.show_message("More failures are counted, not shown.")
        else:
            self.display.show_failure(failed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=2)
        self._show_news()
        if kind is None:
            with suppress(StoreError):  # there are no events for what people decided meanwhile
                self.counts.recount()
            self.display.show_counts(self.counts)
        self.display.close()


@contextmanager
def show_progress(cli: CliContext, counts: ProgressCounts, budget: Budget) -> Iterator[Progress]:
    """Show progress during a block: bars on a terminal, plain lines in a pipe, JSON for programs."""
    out = sys.stdout
    if cli.json:
        with redirect_stdout(sys.stderr), Progress(JsonDisplay(out), counts, budget) as progress:  # bodies may print
            yield progress
        return
    display: Display = TextDisplay()
    if out.isatty():
        from holdfast.cli.ui.terminal import TerminalDisplay

        display = TerminalDisplay()
    with Progress(display, counts, budget) as progress:
        yield progress


def format_progress(counts: ProgressCounts) -> str:
    """Return all counts in one line. Without a rate if nothing is active: it would only fade."""
    speed, items = counts.rates()
    left = counts.seconds_left(speed)
    share = f" ({counts.ended / counts.total:.0%})" if counts.total else ""
    parts = [f"{counts.ended:,} of {format_count(counts.total, 'document')}{share}: {counts.done:,} done"]
    parts += [f"{number:,} {word}" for number, word in other_counts(counts)]
    parts += [format_speed(speed, items)] if counts.active and (speed or items) else []
    parts += [f"about {format_duration(left)} left"] if left else []
    steps = ", ".join(f"{step} {number:,}" for step, number in counts.at_step.items() if number)
    kept = ", ".join(text for step in counts.nouns if (text := format_kept_items(counts, step)))
    return ", ".join(parts) + (f"; at steps: {steps}" if steps else "") + (f"; {kept}" if kept else "")


def format_kept_items(counts: ProgressCounts, step: str) -> str:
    """Return how many items a step has kept, with the pipeline's noun for them."""
    number = counts.items[step]
    if not number:
        return ""
    return format_count(number, counts.nouns[step]) if step in counts.nouns else f"{format_count(number, 'item')} kept"


def format_speed(documents: float, items: float) -> str:
    """Return the rate in documents, or in items if no document has ended yet."""
    return format_rate(documents) if documents or not items else format_rate(items, "items")


def other_counts(counts: ProgressCounts) -> Sequence[tuple[int, str]]:
    """Return the counts other than done, with their names, if they are not 0."""
    numbers = (
        (counts.dead, "dead"),
        (counts.paused, "paused"),
        (counts.due_later, "due later"),
        (counts.cancelled, "cancelled"),
        (counts.failed_attempts, "tries failed"),
    )
    return [(number, word) for number, word in numbers if number]


def progress_as_json(counts: ProgressCounts) -> dict[str, Any]:
    """Return the counts for programs."""
    speed, items = counts.rates()
    left = counts.seconds_left(speed)
    names = ("total", "done", "dead", "paused", "cancelled")
    fields: dict[str, Any] = {name: getattr(counts, name) for name in names}
    fields |= {"due_later": counts.due_later, "tried_again": counts.failed_attempts}
    fields |= {"at_step": counts.at_step, "items": counts.items}
    fields |= {name: fields[name] + counts.withdrawn for name in ("total", "cancelled")}  # so that the sum is right
    fields |= {"per_second": round(speed, 2), "items_per_second": round(items, 2)}
    return fields | {"seconds_left": None if left is None else round(left, 1)}


def _format_submitting(counts: ProgressCounts) -> str:
    return f"submitting: {format_count(counts.submitted, 'document')} so far"
