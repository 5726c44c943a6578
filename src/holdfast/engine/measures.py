"""Measures: what is counted for people who watch from afar, and under which name. Prometheus and OpenTelemetry read it.

Worker measures are made of events, in the process that works. Store measures are what the store says of everybody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.model import Standing
from holdfast.core.moves import Ending, Move
from holdfast.engine.events import Claimed, Committed, Event, GaveBack, LostClaim, Paced, Reclaimed, Rewound

LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Measure(Struct, frozen=True):
    """One thing that is measured: its name, what it means, and what it is told apart by."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    means: str
    labels: tuple[str, ...] = ("pipeline",)
    unit: str = "1"
    buckets: tuple[float, ...] = ()

    @property
    def dotted(self) -> str:
        """The name as OpenTelemetry writes it: without the unit, which it has apart."""
        return self.name.replace("_", ".", 1).removesuffix("_seconds")


CLAIMS = Measure("holdfast_claims", "counter", "Documents that the worker claimed.")
COMMITS = Measure("holdfast_commits", "counter", "Commits, each with the moves of many documents.")
MOVES = Measure(
    "holdfast_moves", "counter", "Moves that became durable, by the step they were made in.", ("pipeline", "step")
)
ITEMS = Measure("holdfast_items", "counter", "Items that were kept.", ("pipeline", "step"))
GROUP_SIZE = Measure("holdfast_group_size", "histogram", "Moves that shared a commit.", unit="{move}", buckets=SIZES)
COMMIT_SECONDS = Measure("holdfast_commit_seconds", "histogram", "How long a commit took.", unit="s", buckets=LATENCIES)
DONE = Measure("holdfast_done", "counter", "Documents that came to their end.")
RETRIES = Measure(
    "holdfast_retries", "counter", "Tries that failed and will be made again.", ("pipeline", "step", "error")
)
DEATHS = Measure("holdfast_deaths", "counter", "Documents that became dead letters.", ("pipeline", "step", "error"))
GIVEN_BACK = Measure(
    "holdfast_given_back",
    "counter",
    "Claims that ended without a move, by how: fail, defer, release or pause.",
    ("pipeline", "verb"),
)
LOST = Measure(
    "holdfast_lost_claims", "counter", "Claims that were lost: taken over by other workers, or decided about."
)
RECLAIMED = Measure("holdfast_reclaimed", "counter", "Documents that the worker took from others, gone or stuck.")
REWINDS = Measure("holdfast_rewinds", "counter", "Documents that were set back to a step.", ("pipeline", "step"))
PASSED = Measure("holdfast_passed", "counter", "Documents that got past the step.", ("pipeline", "step"))
BODY_SECONDS = Measure(
    "holdfast_body_seconds", "counter", "How long the bodies of the step ran.", ("pipeline", "step"), unit="s"
)

WORKER_MEASURES = (
    CLAIMS,
    COMMITS,
    MOVES,
    ITEMS,
    GROUP_SIZE,
    COMMIT_SECONDS,
    DONE,
    RETRIES,
    DEATHS,
    GIVEN_BACK,
    LOST,
    RECLAIMED,
    REWINDS,
    PASSED,
    BODY_SECONDS,
)

DOCUMENTS = Measure("holdfast_documents", "gauge", "Documents by state and step.", ("pipeline", "state", "step"))
OLDEST_WAITING = Measure(
    "holdfast_oldest_waiting_seconds",
    "gauge",
    "How long the document that has waited longest could have been worked on.",
    unit="s",
)
RUNNING_CLAIMS = Measure("holdfast_running_claims", "gauge", "Documents that workers hold.")
DEAD_LETTERS = Measure(
    "holdfast_dead_letters", "gauge", "Dead letters by step and class of error.", ("pipeline", "step", "error")
)
ORPHANS = Measure("holdfast_orphans", "gauge", "Documents whose worker is gone or silent, or whose step is overdue.")
WORKERS = Measure("holdfast_workers", "gauge", "Workers that did not leave: alive, or silent.", ("state",))
STORE_UP = Measure("holdfast_store_up", "gauge", "Whether the store answered: 1 or 0.", ())
STORE_SECONDS = Measure(
    "holdfast_store_survey_seconds", "gauge", "How long the store took to say all this.", (), unit="s"
)

STORE_MEASURES = (
    DOCUMENTS,
    OLDEST_WAITING,
    RUNNING_CLAIMS,
    DEAD_LETTERS,
    ORPHANS,
    WORKERS,
    STORE_UP,
    STORE_SECONDS,
)

Labels = tuple[str, ...]
"""The values of a measure's labels, in their order."""

Measured = tuple[Measure, Labels, float]


def measured(event: Event) -> Iterator[Measured]:
    """Gives what an event adds to which measure."""
    match event:
        case Committed(moves, seconds):
            yield from _of_commit(event.pipeline, moves, seconds)
        case Claimed(claims):
            yield CLAIMS, (event.pipeline,), len(claims)
        case GaveBack(endings):
            yield from _of_endings(event.pipeline, endings)
        case Paced(spent):
            for step, (documents, seconds) in spent.items():
                yield PASSED, (event.pipeline, step), documents
                yield BODY_SECONDS, (event.pipeline, step), seconds
        case LostClaim():
            yield LOST, (event.pipeline,), 1
        case Reclaimed(standings):
            yield from _of_reclaimed(event.pipeline, standings)
        case Rewound(_, to):
            yield REWINDS, (event.pipeline, to), 1
        case _:
            pass


def _of_commit(pipeline: str, moves: Sequence[Move], seconds: float) -> Iterator[Measured]:
    yield COMMITS, (pipeline,), 1
    yield COMMIT_SECONDS, (pipeline,), seconds
    yield GROUP_SIZE, (pipeline,), len(moves)
    for step, many in Counter([move.before.step for move in moves]).items():
        yield MOVES, (pipeline, step or ""), many
    items: defaultdict[str, int] = defaultdict(int)
    for move in moves:
        if move.items:
            items[move.before.step or ""] += len(move.items)
    for step, kept in items.items():
        yield ITEMS, (pipeline, step), kept
    if done := sum([move.state == "done" for move in moves]):
        yield DONE, (pipeline,), done


def _of_endings(pipeline: str, endings: Sequence[Ending]) -> Iterator[Measured]:
    for ending in endings:
        yield GIVEN_BACK, (pipeline, ending.verb), 1
        if ending.verb == "fail":
            error = ending.failure.kind if ending.failure else ""
            yield DEATHS if ending.state == "dead" else RETRIES, (pipeline, ending.step, error), 1


def _of_reclaimed(pipeline: str, standings: Sequence[Standing]) -> Iterator[Measured]:
    yield RECLAIMED, (pipeline,), len(standings)
    for here in standings:
        if here.state == "dead":
            yield DEATHS, (pipeline, here.checkpoint.step or "", here.error), 1


class Histogram:
    """How often a value was at most so large, for each bucket."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Counts one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, int]]:
        """Gives the buckets as Prometheus wants them: each with all that is smaller, the last with everything."""
        told, total = [], 0
        for bound, count in zip([*map(str, map(float, self._bounds)), "+Inf"], self._counts, strict=True):
            total += count
            told.append((bound, total))
        return told


class Meter:
    """Adds up what events bring, cheaply. A listener; what it has is read by whoever serves it."""

    def __init__(self) -> None:
        self._counts: dict[str, defaultdict[Labels, float]] = {
            measure.name: defaultdict(float) for measure in WORKER_MEASURES if measure.kind == "counter"
        }
        self._histograms: dict[str, dict[Labels, Histogram]] = {
            measure.name: {} for measure in WORKER_MEASURES if measure.kind == "histogram"
        }

    def __call__(self, event: Event) -> None:
        for measure, labels, value in measured(event):
            if measure.kind == "counter":
                self._counts[measure.name][labels] += value
                continue
            histograms = self._histograms[measure.name]
            if labels not in histograms:
                histograms[labels] = Histogram(measure.buckets)
            histograms[labels].add(value)

    def counts(self, measure: Measure) -> Mapping[Labels, float]:
        """Gives a counter as it is now."""
        return self._counts[measure.name].copy()

    def histograms(self, measure: Measure) -> Mapping[Labels, Histogram]:
        """Gives a histogram as it is now."""
        return self._histograms[measure.name].copy()
