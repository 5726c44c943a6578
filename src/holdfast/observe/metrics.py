"""Metrics: what is counted, and under which name. Prometheus and OpenTelemetry use the same definitions.

Worker metrics are computed from events, in the process of the worker. Store metrics are read from the store, and cover
all workers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.model import DocumentStatus
from holdfast.core.moves import Move, Release
from holdfast.observe.events import (
    BatchExpired,
    CircuitOpened,
    Claimed,
    Committed,
    Event,
    GaveBack,
    LostClaim,
    Reclaimed,
    Rewound,
    StepsTimed,
)

LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class MetricSpec(Struct, frozen=True):
    """The definition of one metric: its name, description, labels, unit and buckets."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    description: str
    labels: tuple[str, ...] = ("pipeline",)
    unit: str = "1"
    buckets: tuple[float, ...] = ()

    @property
    def dotted(self) -> str:
        """The name for OpenTelemetry: with a dot, and without the unit, which is a separate field there."""
        return self.name.replace("_", ".", 1).removesuffix("_seconds")


CLAIMS = MetricSpec("holdfast_claims", "counter", "Documents that the worker claimed.")
COMMITS = MetricSpec("holdfast_commits", "counter", "Commits, each with the moves of many documents.")
MOVES = MetricSpec(
    "holdfast_moves", "counter", "Committed moves, by the step in which they were made.", ("pipeline", "step")
)
ITEMS = MetricSpec("holdfast_items", "counter", "Items that were kept.", ("pipeline", "step"))
SET_ASIDE = MetricSpec(
    "holdfast_items_set_aside", "counter", "Items that failed and were set aside.", ("pipeline", "step", "error")
)
GROUP_SIZE = MetricSpec("holdfast_group_size", "histogram", "Moves in one commit.", unit="{move}", buckets=SIZES)
COMMIT_SECONDS = MetricSpec(
    "holdfast_commit_seconds", "histogram", "How long one commit took.", unit="s", buckets=LATENCIES
)
DONE = MetricSpec("holdfast_done", "counter", "Documents that passed the last step.")
RETRIES = MetricSpec(
    "holdfast_retries", "counter", "Attempts that failed and will be repeated.", ("pipeline", "step", "error")
)
DEATHS = MetricSpec("holdfast_deaths", "counter", "Documents that became dead letters.", ("pipeline", "step", "error"))
GIVEN_BACK = MetricSpec(
    "holdfast_given_back",
    "counter",
    "Documents that were given back without a move: fail, defer, release or pause.",
    ("pipeline", "verb"),
)
LOST = MetricSpec(
    "holdfast_lost_claims", "counter", "Claims that were lost: another worker took the document, or a person decided."
)
RECLAIMED = MetricSpec(
    "holdfast_reclaimed", "counter", "Documents that the worker took from dead workers or overdue steps."
)
REWINDS = MetricSpec(
    "holdfast_rewinds", "counter", "Documents that the worker rewound to a step.", ("pipeline", "step")
)
CIRCUITS_OPENED = MetricSpec(
    "holdfast_circuits_opened",
    "counter",
    "Steps that the worker paused for all documents, because a service was away.",
    ("pipeline", "step", "category"),
)
PASSED = MetricSpec("holdfast_passed", "counter", "Documents that passed the step.", ("pipeline", "step"))
BODY_SECONDS = MetricSpec(
    "holdfast_body_seconds", "counter", "Seconds for which the bodies of the step ran.", ("pipeline", "step"), unit="s"
)

WORKER_METRICS = (
    CLAIMS,
    COMMITS,
    MOVES,
    ITEMS,
    SET_ASIDE,
    GROUP_SIZE,
    COMMIT_SECONDS,
    DONE,
    RETRIES,
    DEATHS,
    GIVEN_BACK,
    LOST,
    RECLAIMED,
    REWINDS,
    CIRCUITS_OPENED,
    PASSED,
    BODY_SECONDS,
)

DOCUMENTS = MetricSpec("holdfast_documents", "gauge", "Documents by state and step.", ("pipeline", "state", "step"))
OLDEST_WAITING = MetricSpec(
    "holdfast_oldest_waiting_seconds",
    "gauge",
    "How long the longest waiting document has been due.",
    unit="s",
)
RUNNING_CLAIMS = MetricSpec("holdfast_running_claims", "gauge", "Documents that workers hold.")
DEAD_LETTERS = MetricSpec(
    "holdfast_dead_letters", "gauge", "Dead letters by step and class of error.", ("pipeline", "step", "error")
)
ORPHANS = MetricSpec("holdfast_orphans", "gauge", "Documents whose worker is dead or silent, or whose step is overdue.")
PAUSED_STEPS = MetricSpec(
    "holdfast_paused_steps", "gauge", "1 for each step that is paused for all documents.", ("pipeline", "step")
)
WORKERS = MetricSpec("holdfast_workers", "gauge", "Workers that have not retired: alive or silent.", ("state",))
STORE_UP = MetricSpec("holdfast_store_up", "gauge", "1 if the store answered, else 0.", ())
STORE_SECONDS = MetricSpec("holdfast_store_survey_seconds", "gauge", "How long the store took to answer.", (), unit="s")

STORE_METRICS = (
    DOCUMENTS,
    OLDEST_WAITING,
    RUNNING_CLAIMS,
    DEAD_LETTERS,
    ORPHANS,
    PAUSED_STEPS,
    WORKERS,
    STORE_UP,
    STORE_SECONDS,
)

Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

Measurement = tuple[MetricSpec, Labels, float]


def measurements_of(event: Event) -> Iterator[Measurement]:
    """Yield what an event adds to which metric."""
    match event:
        case Committed(moves, seconds):
            yield from _of_commit(event.pipeline, moves, seconds)
        case Claimed(claims):
            yield CLAIMS, (event.pipeline,), len(claims)
        case GaveBack(releases):
            yield from _of_releases(event.pipeline, releases)
        case StepsTimed(times):
            for step, (documents, seconds) in times.items():
                yield PASSED, (event.pipeline, step), documents
                yield BODY_SECONDS, (event.pipeline, step), seconds
        case LostClaim():
            yield LOST, (event.pipeline,), 1
        case Reclaimed(documents):
            yield RECLAIMED, (event.pipeline,), len(documents)
            yield from _of_deaths(event.pipeline, documents)
        case BatchExpired(expired):
            yield from _of_deaths(event.pipeline, expired.documents)
        case Rewound(_, to):
            yield REWINDS, (event.pipeline, to), 1
        case CircuitOpened(step, failure):
            yield CIRCUITS_OPENED, (event.pipeline, step, failure.category), 1
        case _:
            pass


def _of_commit(pipeline: str, moves: Sequence[Move], seconds: float) -> Iterator[Measurement]:
    yield COMMITS, (pipeline,), 1
    yield COMMIT_SECONDS, (pipeline,), seconds
    yield GROUP_SIZE, (pipeline,), len(moves)
    for step, count in Counter([move.before.step for move in moves]).items():
        yield MOVES, (pipeline, step or ""), count
    items: defaultdict[str, int] = defaultdict(int)
    for move in moves:
        if move.items:
            items[move.before.step or ""] += len(move.items)
        for item in move.asides:
            yield SET_ASIDE, (pipeline, move.before.step or "", item.error.kind), 1
    for step, kept in items.items():
        yield ITEMS, (pipeline, step), kept
    if done := sum([move.state == "done" for move in moves]):
        yield DONE, (pipeline,), done


def _of_releases(pipeline: str, releases: Sequence[Release]) -> Iterator[Measurement]:
    for release in releases:
        yield GIVEN_BACK, (pipeline, release.verb), 1
        if release.verb == "fail":
            error = release.failure.kind if release.failure else ""
            yield DEATHS if release.state == "dead" else RETRIES, (pipeline, release.step, error), 1


def _of_deaths(pipeline: str, documents: Sequence[DocumentStatus]) -> Iterator[Measurement]:
    for document in documents:
        if document.state == "dead":
            yield DEATHS, (pipeline, document.checkpoint.step or "", document.error), 1


class Histogram:
    """Count values by bucket."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, int]]:
        """Return the buckets as Prometheus expects them: each counts all smaller values too."""
        buckets, total = [], 0
        for bound, count in zip([*map(str, map(float, self._bounds)), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets


class MetricCounter:
    """A listener that counts events for Prometheus. Any thread may read the counts."""

    def __init__(self) -> None:
        self._counts: dict[str, defaultdict[Labels, float]] = {
            metric.name: defaultdict(float) for metric in WORKER_METRICS if metric.kind == "counter"
        }
        self._histograms: dict[str, dict[Labels, Histogram]] = {
            metric.name: {} for metric in WORKER_METRICS if metric.kind == "histogram"
        }

    def __call__(self, event: Event) -> None:
        for metric, labels, value in measurements_of(event):
            if metric.kind == "counter":
                self._counts[metric.name][labels] += value
                continue
            histograms = self._histograms[metric.name]
            if labels not in histograms:
                histograms[labels] = Histogram(metric.buckets)
            histograms[labels].add(value)

    def counts(self, metric: MetricSpec) -> Mapping[Labels, float]:
        """Return the current values of a counter, by labels."""
        return self._counts[metric.name].copy()

    def histograms(self, metric: MetricSpec) -> Mapping[Labels, Histogram]:
        """Return the current histograms of a metric, by labels."""
        return self._histograms[metric.name].copy()
