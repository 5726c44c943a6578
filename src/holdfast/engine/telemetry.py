"""OpenTelemetry: traces and metrics of a worker, through whatever SDK you configured. Needs the extra `otel`.

    holdfast.work(papers, store, listeners=[Telemetry()])

One document's generation is one trace, whoever works on it: the trace's id is derived from pipeline, batch, key and
generation, so that the trace goes on after a kill, on another machine. A span is what one worker did with one claim;
inside it is a span for each step. What a killed worker had begun to tell is lost with it. A batch that was closed is a
span in the trace of its closing steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import time_ns
from typing import Any

from msgspec import Struct

from holdfast.core.batches import CLOSING, BatchReport
from holdfast.core.codec import encode_json
from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Checkpoint, Claim, Failure
from holdfast.core.moves import Ending, Move
from holdfast.engine.events import BatchClosed, Claimed, Committed, Event, GaveBack, LostClaim, Rewound
from holdfast.engine.measures import WORKER_MEASURES, Measure, measured

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
    raise HoldfastError("traces and metrics for OpenTelemetry need its API: pip install 'holdfast[otel]'") from missing

NAME = "holdfast"
WHOLE = 1 << 64


class Telemetry:
    """A listener that makes spans and metrics of what a worker does.

    Without providers it uses the global ones. `share` says of how many documents there are traces: 0.01 is one in a
    hundred, always the same ones, whichever worker has them. Metrics count all.
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
        for measure, labels, value in measured(event):
            self._instruments[measure.name](value, dict(zip(measure.labels, labels, strict=True)))
        self._spans(event)


def context_of(document: Document, *, share: float = 1.0) -> Context:
    """Gives the context of a document's trace, for spans of your own in a body. `share` is that of the listener."""
    return _context(document.pipeline, document.batch, document.key, document.generation, share=share)


def _context(pipeline: str, batch: str, key: str, generation: int, *, share: float = 1.0) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(_root(pipeline, batch, key, generation, share=share)), Context())


def _root(pipeline: str, batch: str, key: str, generation: int, *, share: float = 1.0) -> SpanContext:
    """Gives the root of a trace: a span that nobody made and everybody can name."""
    said = encode_json([pipeline, batch, key, generation]).encode()
    digest = blake2b(said, digest_size=24, person=b"holdfast-trace").digest()
    trace_id, span_id = int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1
    sampled = trace_id % WHOLE < share * WHOLE
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)


# metrics


def _instruments(provider: MeterProvider) -> Mapping[str, Callable[[float, dict[str, Any]], None]]:
    meter = provider.get_meter(NAME)

    def made(measure: Measure) -> Callable[[float, dict[str, Any]], None]:
        if measure.kind == "histogram":
            buckets = list(measure.buckets)
            return meter.create_histogram(
                measure.dotted, measure.unit, measure.means, explicit_bucket_boundaries_advisory=buckets
            ).record
        return meter.create_counter(measure.dotted, measure.unit, measure.means).add

    return {measure.name: made(measure) for measure in WORKER_MEASURES}


# spans


class Working(Struct):
    """The spans that are open for a document: of the claim, and of the step it is in."""

    claim: Span
    step: Span
    items: int = 0


class Spans:
    """Begins and ends spans as documents are claimed, moved and given back."""

    def __init__(self, provider: TracerProvider, *, share: float, clock: Callable[[], int]) -> None:
        self._tracer = provider.get_tracer(NAME)
        self._share = share
        self._clock = clock
        self._open: dict[int, Working] = {}

    def __call__(self, event: Event) -> None:
        now = self._clock()
        match event:
            case Claimed(claims):
                for claim in claims:
                    self._begin(event, claim, claim.checkpoint, now)
            case Committed(moves):
                for move in moves:
                    self._move(move, now)
            case GaveBack(endings):
                for ending in endings:
                    if working := self._open.pop(ending.claim.document_id, None):
                        _give_back(working, ending, now)
            case LostClaim(claim):
                if working := self._open.pop(claim.document_id, None):
                    _end(working, now, Status(StatusCode.ERROR, "another worker holds it now; nothing was written"))
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
        self._open[claim.document_id] = Working(span, self._step(span, at, now))

    def _step(self, claim: Span, at: Checkpoint, now: int) -> Span:
        attributes = {"holdfast.step": at.step or "", "holdfast.cursor": _cursor(at)}
        context = trace.set_span_in_context(claim, Context())
        return self._tracer.start_span(at.step or "", context, attributes=attributes, start_time=now)

    def _move(self, move: Move, now: int) -> None:
        working = self._open.get(move.claim.document_id)
        if working is None:
            return
        working.items += len(move.items)
        if move.after.step == move.before.step:
            told: dict[str, Any] = {"holdfast.cursor": _cursor(move.after), "holdfast.items": len(move.items)}
            working.step.add_event("committed", told, timestamp=now)
            return
        _end_step(working, now)
        if move.state == "running":
            working.step, working.items = self._step(working.claim, move.after, now), 0
            return
        del self._open[move.claim.document_id]
        working.claim.set_attribute("holdfast.state", move.state)
        working.claim.set_status(Status(StatusCode.OK))
        working.claim.end(now)

    def _rewind(self, event: Rewound, claim: Claim, to: str, reason: str, now: int) -> None:
        """A rewind opens a new generation, which is a trace of its own."""
        if working := self._open.pop(claim.document_id, None):
            told = {"holdfast.step": to, "holdfast.reason": reason}
            working.claim.add_event("rewound", told, timestamp=now)
            _end(working, now, Status(StatusCode.OK))
        self._begin(event, claim, Checkpoint(claim.checkpoint.generation + 1, to, None, 0), now)

    def _close(self, pipeline: str, batch: str, report: BatchReport, now: int) -> None:
        """Batches are few: whatever the share of documents is, each is told of, unless it is none."""
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
        books = now if report.closed_at is None else min(now, int(report.closed_at.timestamp() * 1_000_000) * 1000)
        span = self._tracer.start_span("close", context, attributes=attributes, start_time=books)
        span.set_status(Status(StatusCode.OK))
        span.end(now)


def _give_back(working: Working, ending: Ending, now: int) -> None:
    told = {"holdfast.verb": ending.verb, "holdfast.state": ending.state, "holdfast.reason": ending.reason}
    working.claim.set_attributes(told)
    if ending.failure is None:
        _end(working, now, Status(StatusCode.UNSET))
        return
    working.step.add_event("exception", _exception(ending.failure), timestamp=now)
    _end(working, now, Status(StatusCode.ERROR, str(ending.failure)))


def _exception(failure: Failure) -> dict[str, str]:
    """Gives an error under the names that OpenTelemetry has for it."""
    return {
        "exception.type": failure.kind,
        "exception.message": failure.message,
        "exception.stacktrace": failure.traceback,
    }


def _end(working: Working, now: int, status: Status) -> None:
    working.step.set_status(status)
    _end_step(working, now)
    working.claim.set_status(status)
    working.claim.end(now)


def _end_step(working: Working, now: int) -> None:
    working.step.set_attribute("holdfast.items", working.items)
    working.step.end(now)


def _cursor(at: Checkpoint) -> str:
    return "" if at.cursor is None else encode_json(at.cursor)
