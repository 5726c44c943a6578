"""Traces that go on after a kill, and metrics, as any SDK of OpenTelemetry sees them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import monotonic
from typing import Any

import pytest

import holdfast
from holdfast.core.errors import HoldfastError
from holdfast.observe.metrics import WORKER_METRICS
from tests.support.pipeline_harness import SOON, PipelineHarness

pytest.importorskip("opentelemetry.sdk", reason="needs OpenTelemetry: pip install 'holdfast-pipelines[otel]'")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from holdfast.observe import opentelemetry
from holdfast.observe.opentelemetry import Telemetry, context_of


class Watch:
    """An SDK that collects everything in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def listener(self, **more: Any) -> Telemetry:
        return Telemetry(tracers=self.tracers, meters=self.meters, **more)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def claims(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == "p"]

    def steps(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def sums(self) -> dict[str, float]:
        data = self.reader.get_metrics_data()
        assert data is not None
        told: dict[str, float] = {}
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points: Any = metric.data.data_points
                    told[metric.name] = sum(getattr(p, "value", getattr(p, "sum", 0)) for p in points)
        return told


@pytest.fixture
def watch() -> Watch:
    return Watch()


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def at(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {})[f"holdfast.{name}"]


def test_a_claim_is_a_span_with_a_span_for_each_step(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)

    pipeline.step(name="count")(lambda doc: 3)
    harness.submit("a")
    harness.drain(listeners=[watch.listener()], name="ann")
    (claim,) = watch.claims()
    assert (at(claim, "key"), at(claim, "batch"), at(claim, "worker"), at(claim, "state")) == ("a", "b", "ann", "done")
    assert claim.status.status_code is StatusCode.OK
    (pages_span,), (count,) = watch.steps("pages"), watch.steps("count")
    assert [step.parent and step.parent.span_id for step in (pages_span, count)] == [ids(claim)[1]] * 2
    assert (at(pages_span, "items"), at(count, "items")) == (3, 1)
    assert [(event.attributes or {})["holdfast.cursor"] for event in pages_span.events] == ["1", "2", "3"]
    assert pages_span.end_time == count.start_time


def test_a_failure_is_recorded_with_its_traceback(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def judge(doc: holdfast.Document) -> None:
        raise ValueError("no")

    harness.submit("a")
    harness.drain(listeners=[watch.listener()])
    (claim,), (step,) = watch.claims(), watch.steps("judge")
    assert claim.status.status_code is step.status.status_code is StatusCode.ERROR
    assert (at(claim, "state"), at(claim, "verb")) == ("dead", "fail")
    (event,) = step.events
    said = event.attributes or {}
    assert (event.name, said["exception.type"], said["exception.message"]) == ("exception", "ValueError", "no")
    assert "in judge" in str(said["exception.stacktrace"])


def test_two_tries_are_two_spans_of_one_trace(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    tried: list[int] = []

    @pipeline.step(retry=SOON)
    def judge(doc: holdfast.Document) -> None:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("busy")

    harness.submit("a")
    harness.drain(listeners=[watch.listener()])
    first, second = watch.claims()
    assert ids(first)[0] == ids(second)[0]
    assert ids(first)[1] != ids(second)[1]
    assert [at(span, "attempt") for span in (first, second)] == [1, 2]


def test_the_trace_of_a_document_goes_on_with_another_worker(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    """The first worker stops in the middle; the second one goes on in the same trace."""
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 6):
            yield number
            if number == 2 and not budget.reason:
                budget.stop("enough")

    harness.submit("a", "b")
    harness.drain(listeners=[watch.listener()], budget=budget, name="ann", threads=1)
    harness.drain(listeners=[watch.listener()], name="bob")
    traces = {key: {ids(span)[0] for span in watch.claims() if at(span, "key") == key} for key in ("a", "b")}
    assert [len(found) for found in traces.values()] == [1, 1]
    assert traces["a"] != traces["b"]
    assert {at(span, "worker") for span in watch.claims() if at(span, "key") == "a"} >= {"bob"}
    begun = [at(span, "cursor") for span in watch.steps("pages")]
    assert any(begun), "one of them went on in the middle"


def test_trace_ids_are_the_same_on_every_machine_and_in_every_version(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    harness.drain(listeners=[watch.listener()])
    (claim,) = watch.claims()
    assert claim.parent is not None
    assert (
        f"{claim.parent.trace_id:032x} {claim.parent.span_id:016x}"
        == "1ab122c06da01d336277fc5d3a90760e 8f966f26f8665742"
    )


def test_a_rewind_begins_a_trace_that_is_linked_to_the_one_before(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    there = {"work": True}
    tried: list[int] = []

    @pipeline.step
    def keep(doc: holdfast.Document) -> int:
        there["work"] = True
        return 1

    @keep.verify
    def kept(doc: holdfast.Document) -> bool:
        return there["work"]

    @pipeline.step(retry=SOON)
    def lose(doc: holdfast.Document) -> None:
        tried.append(1)
        if len(tried) == 1:
            there["work"] = False
            raise OSError("lost")

    harness.submit("a")
    harness.drain(listeners=[watch.listener()])
    before, rewound, after = watch.claims()
    assert ids(before)[0] == ids(rewound)[0] != ids(after)[0]
    assert [event.name for event in rewound.events] == ["rewound"]
    assert [link.context.trace_id for link in after.links] == [ids(before)[0]]
    assert (at(after, "generation"), at(after, "state")) == (1, "done")


def test_a_claim_that_was_lost_ends_its_span_as_an_error(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    @pipeline.step
    def stolen(doc: holdfast.Document) -> None:
        with harness.store.transaction() as tx:
            tx.execute("update hf_document set state = 'cancelled', worker_id = null, fence = fence + 1")

    harness.submit("a")
    harness.drain(listeners=[watch.listener()])
    (claim,) = watch.claims()
    assert claim.status.description == "the claim was lost; nothing was written"


def test_a_gate_ends_the_span_and_nothing_is_left_open(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    pipeline.gate("look")
    harness.submit("a")
    listener = watch.listener()
    harness.drain(listeners=[listener])
    assert [at(span, "state") for span in watch.claims()] == ["paused"]
    assert listener._spans._open == {}


def test_a_closed_batch_is_a_span_in_the_trace_of_its_closing_steps(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    pipeline.closing(name="notify")(lambda doc: None)
    harness.submit("a", "b")
    harness.drain()
    harness.store.seal("p", "b", who="cat")
    holdfast.close(pipeline, harness.store, batch="b", who="cat", reason="the month", listeners=[watch.listener()])
    (closed,), (notify,) = watch.steps("close"), watch.steps("notify")
    assert (at(closed, "pipeline"), at(closed, "batch"), at(closed, "closed_by")) == ("p", "b", "cat")
    assert (at(closed, "expected"), at(closed, "done"), at(closed, "dead"), at(closed, "cancelled")) == (2, 2, 0, 0)
    assert at(closed, "reason") == "the month"
    assert ids(closed)[0] == ids(notify)[0]
    assert (closed.start_time or 0) <= (notify.end_time or 0) <= (closed.end_time or 0)


@pytest.mark.parametrize(("share", "told"), [(0.0, 0), (1e-9, 1)])
def test_every_closed_batch_is_traced_unless_nothing_is(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch, share: float, told: int
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    harness.drain()
    harness.store.seal("p", "b", who="cat")
    holdfast.close(pipeline, harness.store, batch="b", who="cat", listeners=[watch.listener(share=share)])
    assert len(watch.steps("close")) == told


def test_bodies_can_add_spans_of_their_own(pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch) -> None:
    tracer = watch.tracers.get_tracer("mine")

    @pipeline.step
    def call(doc: holdfast.Document) -> None:
        with tracer.start_as_current_span("asking", context=context_of(doc)):
            pass

    harness.submit("a")
    harness.drain(listeners=[watch.listener()])
    (claim,), (mine,) = watch.claims(), watch.steps("asking")
    assert ids(claim)[0] == ids(mine)[0]


def test_a_share_of_the_documents_is_traced_and_always_the_same_one(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit(*[f"d{number}" for number in range(200)])
    other = Watch()
    harness.drain(listeners=[watch.listener(share=0.25), other.listener(share=0.25)])
    keys = [at(span, "key") for span in watch.claims()]
    assert 20 <= len(keys) <= 85
    assert sorted(keys) == sorted(at(span, "key") for span in other.claims())
    assert watch.sums()["holdfast.done"] == 200


def test_metrics_are_the_same_as_for_prometheus(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watch: Watch
) -> None:
    pipeline.step(name="work")(lambda doc: [1, 2])
    pipeline.step(name="judge", retry=holdfast.Retry(attempts=1))(lambda doc: 1 / (doc.key != "bad"))
    harness.submit("good", "bad")
    harness.drain(listeners=[watch.listener()])
    sums = watch.sums()
    assert (sums["holdfast.claims"], sums["holdfast.moves"], sums["holdfast.items"]) == (2, 3, 5)
    assert (sums["holdfast.done"], sums["holdfast.deaths"], sums["holdfast.given_back"]) == (1, 1, 1)
    assert sums["holdfast.group_size"] == 3
    assert sums["holdfast.commit"] > 0
    assert set(sums) <= {spec.dotted for spec in WORKER_METRICS}


def test_without_an_sdk_nothing_is_recorded_and_nothing_breaks(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert harness.drain(listeners=[Telemetry()]).done == 1


# sending


class Collector:
    """An OTLP endpoint that records what it receives."""

    def __init__(self) -> None:
        self.sent: dict[str, bytes] = {}
        heard = self.sent

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard[self.path] = heard.get(self.path, b"") + self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the OTLP exporter")
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_traces_and_metrics_are_sent_where_the_environment_says(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, collector: Collector
) -> None:
    pipeline.step(name="count_them")(lambda doc: None)
    harness.submit("a")
    with opentelemetry.exporting() as telemetry:
        harness.drain(listeners=[telemetry])
    assert b"count_them" in collector.sent["/v1/traces"]
    assert b"holdfast.claims" in collector.sent["/v1/metrics"]


def test_a_collector_that_does_not_answer_does_not_delay_the_end(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the OTLP exporter")
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    monkeypatch.setattr(opentelemetry, "FLUSH_SECONDS", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        began = monotonic()
        with opentelemetry.exporting() as telemetry:
            harness.drain(listeners=[telemetry])
        assert monotonic() - began < 30


@pytest.mark.parametrize(
    ("sampler", "share", "expected"),
    [
        (None, None, 1.0),
        ("always_off", None, 0.0),
        ("parentbased_always_off", None, 0.0),
        ("traceidratio", "0.25", 0.25),
        ("parentbased_traceidratio", "0.5", 0.5),
        ("parentbased_traceidratio", None, 1.0),
    ],
)
def test_the_sampler_of_the_environment_is_a_share_of_documents(
    monkeypatch: pytest.MonkeyPatch, sampler: str | None, share: str | None, expected: float
) -> None:
    for name, value in (("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", share)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert opentelemetry.share_of_documents() == expected


def test_a_share_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "many")
    with pytest.raises(HoldfastError, match="not a number"):
        opentelemetry.share_of_documents()


def test_an_exporter_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.grpc", None)
    with (
        pytest.raises(HoldfastError, match="pip install opentelemetry-exporter-otlp-proto-grpc"),
        opentelemetry.exporting(),
    ):
        pass


def test_an_unknown_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke")
    with pytest.raises(HoldfastError, match=r"must be one of http/protobuf, grpc"), opentelemetry.exporting():
        pass
