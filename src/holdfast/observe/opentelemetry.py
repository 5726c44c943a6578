"""OpenTelemetry: traces and metrics of a worker. Needs the extra `otel`.

    holdfast.work(papers, store, listeners=[Telemetry()])

`Telemetry` uses the SDK that your program has configured. `exporting` is for programs that have none: it configures one
from the environment variables OTEL_...

One generation of a document is one trace, whichever workers process it. The id of the trace is derived from pipeline,
batch, key and generation, so the trace goes on after a kill, on another machine. A span is what one worker did with one
claim; inside it is a span for each step. Spans that a killed worker had not finished are lost. A closed batch is a span
in the trace of its closing steps.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from threading import Thread
from time import time_ns
from typing import Any

from msgspec import Struct

from holdfast.core.batches import CLOSING, BatchReport
from holdfast.core.codec import encode_json
from holdfast.core.distribution import install_command
from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Checkpoint, Claim, Failure
from holdfast.core.moves import Move, Release
from holdfast.observe.events import BatchClosed, Claimed, Committed, Event, GaveBack, LostClaim, Rewound
from holdfast.observe.metrics import WORKER_METRICS, MetricSpec, measurements_of

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import (
        Link,
        NonRecordingSpan,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        TracerProvider,
    )
except ImportError as missing:
    raise HoldfastError(f"traces and metrics for OpenTelemetry need its API: {install_command('otel')}") from missing

NAME = "holdfast"
EXPORTERS = {"http/protobuf": "proto.http", "grpc": "proto.grpc"}
FLUSH_SECONDS = 5.0
"""Maximum seconds for sending what is left at the end. A collector that does not answer must not delay a stop."""


class Telemetry:
    """A listener that creates spans and metrics from the events of a worker.

    Args:
        tracers: The provider of tracers. The global one by default.
        meters: The provider of meters. The global one by default.
        share: The share of documents that have traces: 0.01 is one in a hundred. Every worker chooses the same
            documents. Metrics count all documents.
        clock: Returns the time in nanoseconds.
    """

    def __init__(
        self,
        *,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
        share: float = 1.0,
        clock: Callable[[], int] = time_ns,
    ) -> None:
        self._spans = Spans(tracers or trace.get_tracer_provider(), share=share, clock=clock)
        self._instruments = _instruments(meters or metrics.get_meter_provider())

    def __call__(self, event: Event) -> None:
        for spec, labels, value in measurements_of(event):
            self._instruments[spec.name](value, dict(zip(spec.labels, labels, strict=True)))
        self._spans(event)


def context_of(document: Document, *, share: float = 1.0) -> Context:
    """Return the context of a document's trace, for your own spans in a body.

    Args:
        document: The document that the body got.
        share: The `share` of the listener.

    Returns:
        The context, to be passed to `tracer.start_span`.

    Example:
        with tracer.start_as_current_span("download", context=context_of(doc)):
            ...
    """
    return _context(document.pipeline, document.batch, document.key, document.generation, share=share)


def _context(pipeline: str, batch: str, key: str, generation: int, *, share: float = 1.0) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(_root(pipeline, batch, key, generation, share=share)), Context())


def _root(pipeline: str, batch: str, key: str, generation: int, *, share: float = 1.0) -> SpanContext:
    """Return the root span of a trace. It is never recorded; every worker derives the same one from these names."""
    names = encode_json([pipeline, batch, key, generation]).encode()
    digest = blake2b(names, digest_size=24, person=b"holdfast-trace").digest()
    trace_id, span_id = int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1
    sampled = trace_id % 2**64 < share * 2**64
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)


# metrics


def _instruments(provider: MeterProvider) -> Mapping[str, Callable[[float, dict[str, Any]], None]]:
    meter = provider.get_meter(NAME)

    def instrument(spec: MetricSpec) -> Callable[[float, dict[str, Any]], None]:
        if spec.kind == "histogram":
            buckets = list(spec.buckets)
            return meter.create_histogram(
                spec.dotted, spec.unit, spec.description, explicit_bucket_boundaries_advisory=buckets
            ).record
        return meter.create_counter(spec.dotted, spec.unit, spec.description).add

    return {spec.name: instrument(spec) for spec in WORKER_METRICS}


# spans


class OpenSpans(Struct):
    """The open spans of a document: one for the claim, and one for the current step."""

    claim: Span
    step: Span
    items: int = 0


class Spans:
    """Start and end spans when documents are claimed, moved and given back."""

    def __init__(self, provider: TracerProvider, *, share: float, clock: Callable[[], int]) -> None:
        self._tracer = provider.get_tracer(NAME)
        self._share = share
        self._clock = clock
        self._open: dict[int, OpenSpans] = {}

    def __call__(self, event: Event) -> None:
        now = self._clock()
        match event:
            case Claimed(claims):
                for claim in claims:
                    self._begin(event, claim, claim.checkpoint, now)
            case Committed(moves):
                for move in moves:
                    self._move(move, now)
            case GaveBack(releases):
                for release in releases:
                    if spans := self._open.pop(release.claim.document_id, None):
                        _give_back(spans, release, now)
            case LostClaim(claim):
                if spans := self._open.pop(claim.document_id, None):
                    _end(spans, now, Status(StatusCode.ERROR, "the claim was lost; nothing was written"))
            case Rewound(claim, to, reason):
                self._rewind(event, claim, to, reason, now)
            case BatchClosed(pipeline, batch, report):
                self._close(pipeline, batch, report, now)
            case _:
                pass

    def _begin(self, event: Claimed | Rewound, claim: Claim, at: Checkpoint, now: int) -> None:
        names = (event.pipeline, claim.batch, claim.key)
        context = _context(*names, at.generation, share=self._share)
        if not trace.get_current_span(context).get_span_context().trace_flags.sampled:
            return
        attributes: dict[str, Any] = {
            "holdfast.pipeline": event.pipeline,
            "holdfast.batch": claim.batch,
            "holdfast.key": claim.key,
            "holdfast.generation": at.generation,
            "holdfast.worker": event.worker,
            "holdfast.attempt": claim.attempts,
            "holdfast.crashes": claim.crashes,
            "holdfast.fence": claim.fence,
        }
        links = [Link(_root(*names, at.generation - 1))] if at.generation else []
        span = self._tracer.start_span(
            event.pipeline, context, kind=SpanKind.CONSUMER, attributes=attributes, links=links, start_time=now
        )
        self._open[claim.document_id] = OpenSpans(span, self._step(span, at, now))

    def _step(self, claim: Span, at: Checkpoint, now: int) -> Span:
        attributes = {"holdfast.step": at.step or "", "holdfast.cursor": _cursor(at)}
        context = trace.set_span_in_context(claim, Context())
        return self._tracer.start_span(at.step or "", context, attributes=attributes, start_time=now)

    def _move(self, move: Move, now: int) -> None:
        spans = self._open.get(move.claim.document_id)
        if spans is None:
            return
        spans.items += len(move.items)
        if move.after.step == move.before.step:
            attributes: dict[str, Any] = {"holdfast.cursor": _cursor(move.after), "holdfast.items": len(move.items)}
            spans.step.add_event("committed", attributes, timestamp=now)
            return
        _end_step(spans, now)
        if move.state == "running":
            spans.step, spans.items = self._step(spans.claim, move.after, now), 0
            return
        del self._open[move.claim.document_id]
        spans.claim.set_attribute("holdfast.state", move.state)
        spans.claim.set_status(Status(StatusCode.OK))
        spans.claim.end(now)

    def _rewind(self, event: Rewound, claim: Claim, to: str, reason: str, now: int) -> None:
        """End the spans, and start the trace of the new generation."""
        if spans := self._open.pop(claim.document_id, None):
            spans.claim.add_event("rewound", {"holdfast.step": to, "holdfast.reason": reason}, timestamp=now)
            _end(spans, now, Status(StatusCode.OK))
        self._begin(event, claim, Checkpoint(claim.checkpoint.generation + 1, to, None, 0), now)

    def _close(self, pipeline: str, batch: str, report: BatchReport, now: int) -> None:
        """Record the closing of a batch. Batches are few, so each is recorded, unless `share` is 0."""
        context = _context(pipeline + CLOSING, batch, batch, 0, share=1.0 if self._share else 0.0)
        counts = {state: getattr(report.in_all, state) for state in ("done", "dead", "cancelled")}
        attributes = {
            "holdfast.pipeline": pipeline,
            "holdfast.batch": batch,
            "holdfast.expected": report.expected,
            "holdfast.closed_by": report.closed_by,
            "holdfast.reason": report.reason,
            **{f"holdfast.{state}": count for state, count in counts.items()},
        }
        closed = now if report.closed_at is None else min(now, int(report.closed_at.timestamp() * 1_000_000) * 1000)
        span = self._tracer.start_span("close", context, attributes=attributes, start_time=closed)
        span.set_status(Status(StatusCode.OK))
        span.end(now)


def _give_back(spans: OpenSpans, release: Release, now: int) -> None:
    attributes = {"holdfast.verb": release.verb, "holdfast.state": release.state, "holdfast.reason": release.reason}
    spans.claim.set_attributes(attributes)
    if release.failure is None:
        _end(spans, now, Status(StatusCode.UNSET))
        return
    spans.step.add_event("exception", _exception(release.failure), timestamp=now)
    _end(spans, now, Status(StatusCode.ERROR, str(release.failure)))


def _exception(failure: Failure) -> dict[str, str | bool]:
    """Return an error under the attribute names of OpenTelemetry. What is not known is left out."""
    known: dict[str, str | bool | None] = {
        "exception.type": failure.kind,
        "exception.message": failure.message,
        "exception.stacktrace": failure.traceback,
        "holdfast.recoverable": failure.recoverable,
        "holdfast.error_category": failure.category or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _end(spans: OpenSpans, now: int, status: Status) -> None:
    spans.step.set_status(status)
    _end_step(spans, now)
    spans.claim.set_status(status)
    spans.claim.end(now)


def _end_step(spans: OpenSpans, now: int) -> None:
    spans.step.set_attribute("holdfast.items", spans.items)
    spans.step.end(now)


def _cursor(at: Checkpoint) -> str:
    return "" if at.cursor is None else encode_json(at.cursor)


# export


@contextmanager
def exporting() -> Iterator[Telemetry]:
    """Send traces and metrics to the OTLP endpoint that the environment variables OTEL_... name.

    Returns:
        A context manager that yields the listener. At its end, what is left is sent.

    Raises:
        HoldfastError: The SDK or an exporter is not installed, or an environment variable has a wrong value.
    """
    tracers, meters = _providers()
    try:
        yield Telemetry(tracers=tracers, meters=meters, share=share_of_documents())
    finally:
        flush = Thread(target=_shut_down, args=(tracers, meters), name="holdfast-otel", daemon=True)
        flush.start()
        flush.join(FLUSH_SECONDS)


def _shut_down(tracers: Any, meters: Any) -> None:
    tracers.shutdown()
    meters.shutdown()


def _providers() -> tuple[Any, Any]:
    """Return a TracerProvider and a MeterProvider of the SDK."""
    try:
        from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
    except ImportError as missing:
        raise HoldfastError(f"sending to OpenTelemetry needs its SDK: {install_command('otel')}") from missing

    resource = Resource.create({} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": NAME})
    span_exporter, metric_exporter = _exporters()
    tracers = SdkTracerProvider(sampler=ParentBased(ALWAYS_ON), resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(span_exporter))
    reader = PeriodicExportingMetricReader(metric_exporter)
    return tracers, SdkMeterProvider([reader], resource=resource, shutdown_on_exit=False)


def share_of_documents() -> float:
    """Return the share of documents that have traces, from OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG."""
    sampler = os.environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on").removeprefix("parentbased_")
    if sampler != "traceidratio":
        return 0.0 if sampler == "always_off" else 1.0
    share = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "1.0")
    try:
        return float(share)
    except ValueError:
        raise HoldfastError(f"OTEL_TRACES_SAMPLER_ARG={share!r} is not a number such as 0.01") from None


def _exporters() -> tuple[Any, Any]:
    """Return the exporters of spans and of metrics, for the protocol in OTEL_EXPORTER_OTLP_PROTOCOL."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if protocol not in EXPORTERS:
        raise HoldfastError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r} must be one of {', '.join(EXPORTERS)}")
    module = f"opentelemetry.exporter.otlp.{EXPORTERS[protocol]}"
    try:
        spans = import_module(f"{module}.trace_exporter").OTLPSpanExporter()
        return spans, import_module(f"{module}.metric_exporter").OTLPMetricExporter()
    except ImportError as missing:
        package = f"opentelemetry-exporter-otlp-{EXPORTERS[protocol].replace('.', '-')}"
        raise HoldfastError(f"sending to {protocol} needs the package {package}: pip install {package}") from missing
