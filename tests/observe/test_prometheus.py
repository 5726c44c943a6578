"""The metrics of workers and stores, as Prometheus reads them."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.errors import HoldfastError, StoreGone
from holdfast.core.model import Checkpoint
from holdfast.observe.events import Claimed, Event, LostClaim, Reclaimed, Rewound
from holdfast.observe.metrics import STORE_METRICS, WORKER_METRICS, Histogram, MetricCounter
from tests.support.pipeline_harness import SOON, PipelineHarness

pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install 'holdfast-pipelines[prometheus]'")

from prometheus_client.parser import text_string_to_metric_families

from holdfast.observe import prometheus
from holdfast.observe.prometheus import StoreCollector, WorkerCollector, page, serve


def read(text: str) -> dict[tuple[str, ...], float]:
    """Return every sample by its name and the values of its labels, the pipeline first."""
    order = ("pipeline", "state", "step", "error", "verb", "le")
    return {
        (sample.name, *[sample.labels[name] for name in order if name in sample.labels]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def worked(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> dict[tuple[str, ...], float]:
    """The metrics of a run with items, a retry, a dead letter and a gate."""
    tried: list[str] = []

    @pipeline.step
    def read_it(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3]

    @pipeline.step(retry=holdfast.Retry(attempts=2, base=SOON.base, permanent=(KeyError,)))
    def judge(doc: holdfast.Document) -> None:
        tried.append(doc.key)
        if doc.key == "bad":
            raise KeyError("bad")
        if doc.key == "weak" and tried.count("weak") == 1:
            raise OSError("busy")

    harness.submit("good", "weak", "bad")
    counter = MetricCounter()
    harness.drain(listeners=[counter], threads=1)
    return read(page(WorkerCollector(counter)))


def test_a_worker_counts_claims_moves_and_items(worked: dict[tuple[str, ...], float]) -> None:
    assert worked["holdfast_claims_total", "p"] == 4
    assert worked["holdfast_moves_total", "p", "read_it"] == 3
    assert worked["holdfast_moves_total", "p", "judge"] == 2
    assert worked["holdfast_items_total", "p", "read_it"] == 9
    assert worked["holdfast_done_total", "p"] == 2
    assert worked["holdfast_passed_total", "p", "judge"] == 2


def test_a_worker_counts_what_went_wrong_by_step_and_error(worked: dict[tuple[str, ...], float]) -> None:
    assert worked["holdfast_retries_total", "p", "judge", "OSError"] == 1
    assert worked["holdfast_deaths_total", "p", "judge", "KeyError"] == 1
    assert worked["holdfast_given_back_total", "p", "fail"] == 2


def test_items_that_are_set_aside_are_counted_by_step_and_error(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def read_it(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3]

    @pipeline.step(over=read_it, failure_rate=0.5, retry=holdfast.Retry(permanent=(ValueError,)))
    def check(doc: holdfast.Document, number: int) -> None:
        if number == 2:
            raise ValueError("two")

    harness.submit("a", "b")
    counter = MetricCounter()
    harness.drain(listeners=[counter])
    assert read(page(WorkerCollector(counter)))["holdfast_items_set_aside_total", "p", "check", "ValueError"] == 2


def test_group_sizes_and_latencies_are_histograms(worked: dict[tuple[str, ...], float]) -> None:
    commits = worked["holdfast_commits_total", "p"]
    assert worked["holdfast_group_size_count", "p"] == commits == worked["holdfast_commit_seconds_count", "p"]
    assert worked["holdfast_group_size_sum", "p"] == 5
    assert worked["holdfast_group_size_bucket", "p", "+Inf"] == commits
    assert 0 < worked["holdfast_commit_seconds_sum", "p"] < 10


def test_a_value_is_in_the_bucket_that_it_fits() -> None:
    histogram = Histogram((1, 5))
    for value in (0.5, 1, 2, 5, 6):
        histogram.add(value)
    assert histogram.cumulative() == [("1.0", 2), ("5.0", 4), ("+Inf", 5)]


def test_orphans_are_counted_and_those_that_die_of_it_as_deaths(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    plan = harness.store.declare(pipeline.shape())
    gone = harness.store.register_worker(name="gone", host="x", pid=1, born="b", lease=timedelta(microseconds=1))
    assert harness.store.claim(plan, gone, limit=1)
    counter = MetricCounter()
    harness.drain(listeners=[counter])
    here = replace(harness.document(), state="dead", error="WorkerGone", checkpoint=Checkpoint(0, "work", None, 0))
    counter(Reclaimed([here, here], pipeline="p"))
    counted = read(page(WorkerCollector(counter)))
    assert counted["holdfast_reclaimed_total", "p"] == 3
    assert counted["holdfast_deaths_total", "p", "work", "WorkerGone"] == 2


def test_lost_claims_and_rewinds_are_counted(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    counter, said = MetricCounter(), list[Event]()
    harness.drain(listeners=[said.append])
    (claimed,) = [event for event in said if isinstance(event, Claimed)]
    counter(LostClaim(claimed.claims[0], pipeline="p"))
    counter(Rewound(claimed.claims[0], "work", "its work is gone", pipeline="p"))
    counted = read(page(WorkerCollector(counter)))
    assert counted["holdfast_lost_claims_total", "p"] == counted["holdfast_rewinds_total", "p", "work"] == 1


@pytest.mark.parametrize("kind", ["worker", "store"])
def test_every_metric_is_there_from_the_start_with_its_description(harness: PipelineHarness, kind: str) -> None:
    collector, specs = {
        "worker": (WorkerCollector(MetricCounter()), WORKER_METRICS),
        "store": (StoreCollector(harness.store), STORE_METRICS),
    }[kind]
    families = {family.name: family.documentation for family in text_string_to_metric_families(page(collector))}
    assert families == {spec.name: spec.description for spec in specs}


def test_the_gauges_show_where_documents_are(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def judge(doc: holdfast.Document) -> None:
        if doc.key == "bad":
            raise ValueError("no")

    harness.submit("good", "bad")
    harness.drain()
    harness.submit("later")
    seen = read(page(StoreCollector(harness.store)))
    assert seen["holdfast_documents", "p", "done", ""] == 1
    assert seen["holdfast_documents", "p", "dead", "judge"] == 1
    assert seen["holdfast_documents", "p", "waiting", "judge"] == 1
    assert seen["holdfast_dead_letters", "p", "judge", "ValueError"] == 1
    assert seen["holdfast_oldest_waiting_seconds", "p"] > 0
    assert (seen["holdfast_running_claims", "p"], seen["holdfast_orphans", "p"]) == (0, 0)
    assert (seen["holdfast_workers", "alive"], seen["holdfast_workers", "silent"]) == (0, 0)
    assert seen["holdfast_store_up",] == 1


def test_silent_workers_and_their_orphans_are_seen(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    plan = harness.store.declare(pipeline.shape())
    silent = harness.store.register_worker(name="silent", host="x", pid=1, born="b", lease=timedelta(microseconds=1))
    harness.store.register_worker(name="alive", host="x", pid=1, born="b", lease=timedelta(hours=1))
    harness.store.claim(plan, silent, limit=1)
    seen = read(page(StoreCollector(harness.store)))
    assert (seen["holdfast_workers", "alive"], seen["holdfast_workers", "silent"]) == (1, 1)
    assert (seen["holdfast_orphans", "p"], seen["holdfast_running_claims", "p"]) == (1, 1)


class Asked:
    """Overview reads that count the calls and take some time."""

    def __init__(self, *, takes: float = 0.0) -> None:
        self.times = 0
        self.now = 0.0
        self.takes = takes
        self.gone = False

    def pipelines(self) -> list[str]:
        self.times += 1
        self.now += self.takes
        if self.gone:
            raise StoreGone("it is gone")
        return []

    def workers(self) -> list[Any]:
        return []

    def collector(self) -> StoreCollector:
        return StoreCollector(self, clock=lambda: self.now)  # type: ignore[arg-type]


def test_the_store_is_asked_once_in_a_few_seconds_however_many_ask() -> None:
    ledger = Asked()
    collector = ledger.collector()
    for _ in range(10):
        page(collector)
    assert ledger.times == 1
    ledger.now = prometheus.MIN_CACHE_SECONDS
    page(collector)
    assert ledger.times == 2


def test_a_store_that_takes_long_is_asked_less_often() -> None:
    ledger = Asked(takes=2.0)
    collector = ledger.collector()
    page(collector)
    ledger.now += 99
    page(collector)
    assert ledger.times == 1
    ledger.now += 1
    page(collector)
    assert ledger.times == 2


def test_an_answer_is_never_older_than_a_few_minutes() -> None:
    ledger = Asked(takes=60.0)
    collector = ledger.collector()
    page(collector)
    ledger.now += prometheus.MAX_CACHE_SECONDS
    page(collector)
    assert ledger.times == 2


def test_a_store_that_is_back_is_seen_soon_however_long_it_was_knocked_at() -> None:
    ledger = Asked(takes=30.0)
    ledger.gone = True
    collector = ledger.collector()
    assert read(page(collector))["holdfast_store_up",] == 0
    ledger.gone = False
    ledger.now += prometheus.MIN_CACHE_SECONDS
    assert read(page(collector))["holdfast_store_up",] == 1


def test_a_store_that_does_not_answer_is_only_shown_as_down() -> None:
    ledger = Asked()
    collector = ledger.collector()
    assert read(page(collector))["holdfast_store_up",] == 1
    ledger.gone, ledger.now = True, 100
    seen = read(page(collector))
    assert seen == {("holdfast_store_up",): 0, ("holdfast_store_survey_seconds",): 0}
    ledger.gone, ledger.now = False, 200
    assert read(page(collector))["holdfast_store_up",] == 1


def test_metrics_are_served_for_the_length_of_the_block() -> None:
    with serve("127.0.0.1", 0, WorkerCollector(MetricCounter())) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url) as answer:
            assert "holdfast_claims_total" in answer.read().decode()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_an_address_that_is_in_use_is_refused_with_a_message() -> None:
    with serve("127.0.0.1", 0) as port:
        again = serve("127.0.0.1", port)
        with pytest.raises(HoldfastError, match=f"cannot be served at 127.0.0.1:{port}"):
            again.__enter__()
