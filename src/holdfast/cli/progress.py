"""Progress: a thread that tells how far a run is, in one of three ways, while the engine works undisturbed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, Protocol, Self, TextIO

import msgspec

from holdfast.cli.asked import Asked
from holdfast.cli.counts import Counts, Failed
from holdfast.cli.saying import say, tell
from holdfast.cli.words import count, harmless, one_line, rate, span
from holdfast.core.errors import StoreError
from holdfast.engine.budget import Budget

SIGNALS = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM"}
STOPPING = "Stopping at the next item; press Ctrl-C again to stop at once."
MOST_FAILURES = 20


class Display(Protocol):
    """One way of showing progress."""

    every: float
    """Seconds between pictures."""

    def picture(self, counts: Counts) -> None:
        """Shows how far it is."""

    def failure(self, failed: Failed) -> None:
        """Tells one failure."""

    def say(self, text: str) -> None:
        """Tells a person something."""

    def close(self) -> None:
        """Shows nothing more."""


class Lines:
    """Plain lines, for pipes and logs."""

    every = 5.0

    def picture(self, counts: Counts) -> None:
        if counts.total or counts.submitted:
            say(in_a_line(counts) if counts.total else _submitting(counts))

    def failure(self, failed: Failed) -> None:
        say(_worded(failed))

    def say(self, text: str) -> None:
        say(harmless(text))

    def close(self) -> None:
        return


class JsonLines:
    """JSON lines, for programs."""

    every = 5.0

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def picture(self, counts: Counts) -> None:
        self.tell("progress", submitted=counts.submitted, **numbers(counts))

    def failure(self, failed: Failed) -> None:
        self.tell("failed", **msgspec.structs.asdict(failed))

    def say(self, text: str) -> None:
        self.tell("notice", text=text)

    def tell(self, event: str, **more: Any) -> None:
        """Writes one line."""
        tell({"event": event, **more}, file=self._out)

    def close(self) -> None:
        return


class Progress:
    """Looks at the counts now and then, and shows them."""

    def __init__(self, display: Display, counts: Counts, budget: Budget) -> None:
        self.display = display
        self.counts = counts
        self._told: set[str] = set()
        self._budget = budget
        self._told_stopping = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, name="holdfast-progress", daemon=True)

    def _look(self) -> None:
        with suppress(BrokenPipeError):  # nobody looks any more; the work goes on
            self._look_until_the_end()

    def _look_until_the_end(self) -> None:
        pause = min(self.display.every, 0.25)
        waited = 0.0
        while not self._end.wait(pause):
            waited += pause
            self._tell_news()
            if waited >= self.display.every:
                waited = 0.0
                if not self.counts.submitting:
                    self.counts.recount_now_and_then()
                self.display.picture(self.counts)

    def _tell_news(self) -> None:
        while self.counts.failures:
            self._tell_failure(self.counts.failures.popleft())
        if self._budget.reason in SIGNALS and not self._told_stopping:
            self._told_stopping = True
            self.display.say(STOPPING)

    def _tell_failure(self, failed: Failed) -> None:
        """Tells a document's first failure and its end, of the first few; programs are told all."""
        if isinstance(self.display, JsonLines):
            self.display.failure(failed)
            return
        this = f"{failed.batch}/{failed.key}/{failed.dead}"
        if this in self._told or len(self._told) > (MOST_FAILURES if failed.dead else MOST_FAILURES // 2):
            return  # tries that failed leave room for what is dead in the end
        self._told.add(this)
        if len(self._told) > MOST_FAILURES:
            self.display.say("More failures are counted, not shown.")
        else:
            self.display.failure(failed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=2)
        self._tell_news()
        if kind is None:
            with suppress(StoreError):  # what people decided meanwhile no event tells
                self.counts.recount()
            self.display.picture(self.counts)
        self.display.close()


@contextmanager
def showing(asked: Asked, counts: Counts, budget: Budget) -> Iterator[Progress]:
    """Shows progress for the length of a block: drawn on a terminal, lines in a pipe, JSON for programs."""
    out = sys.stdout
    if asked.json:
        with redirect_stdout(sys.stderr), Progress(JsonLines(out), counts, budget) as progress:  # bodies may print
            yield progress
        return
    display: Display = Lines()
    if out.isatty():
        from holdfast.cli.terminal import Terminal

        display = Terminal()
    with Progress(display, counts, budget) as progress:
        yield progress


def in_a_line(counts: Counts) -> str:
    """Gives all that a display shows, in one line."""
    speed, items = counts.rates()
    left = counts.seconds_left(speed)
    share = f" ({counts.ended / counts.total:.0%})" if counts.total else ""
    said = [f"{counts.ended:,} of {count(counts.total, 'document')}{share}: {counts.done:,} done"]
    said += [f"{number:,} {word}" for number, word in also(counts)]
    said += [pace(speed, items)] if speed or items else []
    said += [f"about {span(left)} left"] if left else []
    steps = ", ".join(f"{step} {at:,}" for step, at in counts.at_step.items() if at)
    kinds = ", ".join(said_of for step in counts.nouns if (said_of := kept(counts, step)))
    return ", ".join(said) + (f"; at steps: {steps}" if steps else "") + (f"; {kinds}" if kinds else "")


def kept(counts: Counts, step: str) -> str:
    """Gives how much a step has kept, in the words of the pipeline."""
    number = counts.items[step]
    if not number:
        return ""
    return count(number, counts.nouns[step]) if step in counts.nouns else f"{count(number, 'item')} kept"


def pace(documents: float, items: float) -> str:
    """Gives the rate in documents, or in items while no document has ended."""
    return rate(documents) if documents or not items else rate(items, "items")


def also(counts: Counts) -> Sequence[tuple[int, str]]:
    """Gives what else is worth a word, where there is any."""
    counted = (
        (counts.dead, "dead"),
        (counts.paused, "paused"),
        (counts.later, "due later"),
        (counts.cancelled, "cancelled"),
        (counts.again, "tries failed"),
    )
    return [one for one in counted if one[0]]


def numbers(counts: Counts) -> dict[str, Any]:
    """Gives the counts for programs."""
    speed, items = counts.rates()
    left = counts.seconds_left(speed)
    names = ("total", "done", "dead", "paused", "cancelled")
    more = {"due_later": counts.later, "at_step": counts.at_step, "items": counts.items, "tried_again": counts.again}
    said = {name: getattr(counts, name) for name in names} | more
    said |= {name: said[name] + counts.withdrawn for name in ("total", "cancelled")}  # programs add up what there was
    pace = {"per_second": round(speed, 2), "items_per_second": round(items, 2)}
    return said | pace | {"seconds_left": None if left is None else round(left, 1)}


def _submitting(counts: Counts) -> str:
    return f"submitting: {count(counts.submitted, 'document')} so far"


def _worded(failed: Failed) -> str:
    return one_line(f"{'dead' if failed.dead else 'failed'}: {failed}", 300)
