"""Prometheus: a worker's own counters, and the store's view of everybody. Needs the extra `prometheus`.

Both are collectors for a registry of yours; `serve` puts one behind an address.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.model import Survey
from holdfast.engine.hosts import is_gone
from holdfast.engine.measures import (
    DEAD_LETTERS,
    DOCUMENTS,
    OLDEST_WAITING,
    ORPHANS,
    RUNNING_CLAIMS,
    STORE_MEASURES,
    STORE_SECONDS,
    STORE_UP,
    WORKER_MEASURES,
    WORKERS,
    Labels,
    Measure,
    Meter,
)
from holdfast.stores.protocol import Ledger

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise HoldfastError(
        "Prometheus metrics need the package prometheus-client: pip install 'holdfast[prometheus]'"
    ) from missing

FRESH = 5.0
"""For so many seconds an answer of the store is good for everybody who asks."""
REST = 50.0
"""A store that takes long is asked less often: it rests so many times longer than it took."""

LONGEST = 300.0
"""Seconds after which any answer is too old."""

Gauges = dict[Measure, list[tuple[Labels, float]]]


class WorkerCollector(Collector):
    """What one worker counted."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        for measure in WORKER_MEASURES:
            yield self._histogram(measure) if measure.kind == "histogram" else self._counter(measure)

    def _counter(self, measure: Measure) -> Metric:
        counter = CounterMetricFamily(measure.name, measure.means, labels=measure.labels)
        for labels, value in self._meter.counts(measure).items():
            counter.add_metric(labels, value)
        return counter

    def _histogram(self, measure: Measure) -> Metric:
        family = HistogramMetricFamily(measure.name, measure.means, labels=measure.labels)
        for labels, histogram in self._meter.histograms(measure).items():
            family.add_metric(labels, buckets=histogram.cumulative(), sum_value=histogram.sum)
        return family


class StoreCollector(Collector):
    """What the store says of all pipelines and workers. Cheap to ask often: an answer is kept for a few seconds."""

    def __init__(self, store: Ledger, *, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._gauges: Gauges = {}
        self._good_until = float("-inf")

    def collect(self) -> Iterator[Metric]:
        gauges = self._asked()
        for measure in STORE_MEASURES:
            gauge = GaugeMetricFamily(measure.name, measure.means, labels=measure.labels)
            for labels, value in gauges.get(measure, ()):
                gauge.add_metric(labels, value)
            yield gauge

    def describe(self) -> Iterator[Metric]:
        """Names the gauges without asking the store, as when the collector is registered."""
        for measure in STORE_MEASURES:
            yield GaugeMetricFamily(measure.name, measure.means, labels=measure.labels)

    def _asked(self) -> Gauges:
        with self._lock:
            if self._clock() >= self._good_until:
                self._ask()
            return self._gauges

    def _ask(self) -> None:
        began, rest = self._clock(), REST
        try:
            self._gauges = store_gauges(self._store)
        except StoreError:  # nothing is better than what was true once; and it is asked again soon
            self._gauges, rest = {STORE_UP: [((), 0.0)]}, 0.0
        took = self._clock() - began
        self._gauges[STORE_SECONDS] = [((), took)]
        self._good_until = self._clock() + min(max(FRESH, rest * took), LONGEST)


def store_gauges(store: Ledger) -> Gauges:
    """Asks the store for everything that its gauges show."""
    gauges: Gauges = defaultdict(list)
    gauges[STORE_UP].append(((), 1.0))
    for pipeline in store.pipelines():
        _add_survey(gauges, store.survey(pipeline))
    silent = [stale or is_gone(worker) for worker, _, stale in store.workers()]
    gauges[WORKERS] = [(("alive",), silent.count(False)), (("silent",), silent.count(True))]
    return dict(gauges)


def _add_survey(gauges: Gauges, survey: Survey) -> None:
    name = survey.pipeline
    running = 0
    for (state, step), count in sorted(survey.documents.items(), key=str):
        gauges[DOCUMENTS].append(((name, state, step or ""), count))
        running += count if state == "running" else 0
    for (step, error), count in sorted(survey.dead.items()):
        gauges[DEAD_LETTERS].append(((name, step, error), count))
    waited = survey.oldest_due.total_seconds() if survey.oldest_due else 0.0
    gauges[OLDEST_WAITING].append(((name,), waited))
    gauges[RUNNING_CLAIMS].append(((name,), running))
    gauges[ORPHANS].append(((name,), survey.orphans))


def page(*collectors: Collector) -> str:
    """Gives what Prometheus would be given."""
    return generate_latest(registry_of(collectors)).decode()


def registry_of(collectors: Sequence[Collector]) -> CollectorRegistry:
    """Makes a registry of these collectors alone."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return registry


@contextmanager
def serve(host: str, port: int, *collectors: Collector) -> Iterator[int]:
    """Serves /metrics for the length of a block. Gives the port; 0 asks for a free one."""
    try:
        server, thread = start_http_server(port, host, registry_of(collectors))
    except (OSError, OverflowError) as error:
        raise HoldfastError(
            f"metrics cannot be served at {host}:{port}: {error}; name another address, or end what is there"
        ) from error
    bound: Any = server.server_address
    try:
        yield bound[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
