"""Prometheus: the counters of one worker, and gauges of the store for all workers. Needs the extra `prometheus`.

Both are collectors for a registry of your own. `serve` serves them over HTTP.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic

from holdfast.core.distribution import install_command
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.model import Gauges
from holdfast.core.server_limits import DEFAULT_SERVER_LIMITS, ServerLimits
from holdfast.observe.metrics import (
    DEAD_LETTERS,
    DOCUMENTS,
    OLDEST_WAITING,
    ORPHANS,
    PAUSED_STEPS,
    RUNNING_CLAIMS,
    STORE_METRICS,
    STORE_SECONDS,
    STORE_UP,
    WORKER_METRICS,
    WORKERS,
    Labels,
    MetricCounter,
    MetricSpec,
)
from holdfast.observe.metrics_server import serve_wsgi
from holdfast.process_identity import is_gone
from holdfast.stores.protocol import OverviewReads

try:
    from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise HoldfastError(
        f"Prometheus metrics need the package prometheus-client: {install_command('prometheus')}"
    ) from missing

MIN_CACHE_SECONDS = 5.0
"""Seconds for which an answer of the store is used again."""
CACHE_FACTOR = 50.0
"""A slow store is asked less often: its answer is used for this many times longer than it took."""
MAX_CACHE_SECONDS = 300.0
"""The maximum age of an answer."""

Readings = dict[MetricSpec, list[tuple[Labels, float]]]


class WorkerCollector(Collector):
    """Export the counters and histograms of one worker."""

    def __init__(self, counter: MetricCounter) -> None:
        self._counter = counter

    def collect(self) -> Iterator[Metric]:
        for spec in WORKER_METRICS:
            yield self._histogram(spec) if spec.kind == "histogram" else self._counts(spec)

    def _counts(self, spec: MetricSpec) -> Metric:
        family = CounterMetricFamily(spec.name, spec.description, labels=spec.labels)
        for labels, value in self._counter.counts(spec).items():
            family.add_metric(labels, value)
        return family

    def _histogram(self, spec: MetricSpec) -> Metric:
        family = HistogramMetricFamily(spec.name, spec.description, labels=spec.labels)
        for labels, histogram in self._counter.histograms(spec).items():
            family.add_metric(labels, buckets=histogram.cumulative(), sum_value=histogram.sum)
        return family


class StoreCollector(Collector):
    """Export gauges of all pipelines and workers, read from the store. The answer is cached for some seconds."""

    def __init__(self, store: OverviewReads, *, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._gauges: Readings = {}
        self._expires_at = float("-inf")

    def collect(self) -> Iterator[Metric]:
        gauges = self._current()
        for spec in STORE_METRICS:
            gauge = GaugeMetricFamily(spec.name, spec.description, labels=spec.labels)
            for labels, value in gauges.get(spec, ()):
                gauge.add_metric(labels, value)
            yield gauge

    def describe(self) -> Iterator[Metric]:
        """Return the gauges without values, without asking the store. A registry calls it at registration."""
        for spec in STORE_METRICS:
            yield GaugeMetricFamily(spec.name, spec.description, labels=spec.labels)

    def _current(self) -> Readings:
        with self._lock:
            if self._clock() >= self._expires_at:
                self._read()
            return self._gauges

    def _read(self) -> None:
        began, factor = self._clock(), CACHE_FACTOR
        try:
            self._gauges = store_gauges(self._store)
        except StoreError:  # no values are better than old ones; the store is asked again soon
            self._gauges, factor = {STORE_UP: [((), 0.0)]}, 0.0
        seconds = self._clock() - began
        self._gauges[STORE_SECONDS] = [((), seconds)]
        self._expires_at = self._clock() + min(max(MIN_CACHE_SECONDS, factor * seconds), MAX_CACHE_SECONDS)


def store_gauges(store: OverviewReads) -> Readings:
    """Read all gauges from the store."""
    gauges: Readings = defaultdict(list)
    gauges[STORE_UP].append(((), 1.0))
    for pipeline in store.pipelines():
        _add_gauges(gauges, store.gauges(pipeline))
    silent = [stale or is_gone(worker) for worker, _, stale in store.workers()]
    gauges[WORKERS] = [(("alive",), silent.count(False)), (("silent",), silent.count(True))]
    return dict(gauges)


def _add_gauges(gauges: Readings, found: Gauges) -> None:
    name = found.pipeline
    running = 0
    for (state, step), count in sorted(found.documents.items(), key=str):
        gauges[DOCUMENTS].append(((name, state, step or ""), count))
        running += count if state == "running" else 0
    for (step, error), count in sorted(found.dead.items()):
        gauges[DEAD_LETTERS].append(((name, step, error), count))
    waited = found.oldest_due.total_seconds() if found.oldest_due else 0.0
    gauges[OLDEST_WAITING].append(((name,), waited))
    gauges[RUNNING_CLAIMS].append(((name,), running))
    gauges[ORPHANS].append(((name,), found.orphans))
    gauges[PAUSED_STEPS] += [((name, step), 1.0) for step in found.paused_steps]


def page(*collectors: Collector) -> str:
    """Return the text that Prometheus gets from these collectors."""
    return generate_latest(registry_of(collectors)).decode()


def registry_of(collectors: Sequence[Collector]) -> CollectorRegistry:
    """Return a registry with only these collectors."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return registry


def serve(
    host: str, port: int, *collectors: Collector, limits: ServerLimits = DEFAULT_SERVER_LIMITS
) -> AbstractContextManager[int]:
    """Serve /metrics over HTTP in a `with` block.

    Args:
        host: The address to listen at.
        port: The port; 0 for any free one.
        *collectors: What to serve.
        limits: Limits for slow, endless and too many clients.

    Returns:
        A context manager that yields the port.

    Raises:
        HoldfastError: The address cannot be used.
    """
    return serve_wsgi(make_wsgi_app(registry_of(collectors)), host, port, limits=limits)
