"""An SDK for OpenTelemetry, configured by its own environment variables (OTEL_...), for programs that have none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Thread
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.engine.telemetry import Telemetry

try:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
except ImportError as missing:
    raise HoldfastError("sending to OpenTelemetry needs its SDK: pip install 'holdfast[otel]'") from missing

EXPORTERS = {"http/protobuf": "proto.http", "grpc": "proto.grpc"}
PATIENCE = 5.0
"""Seconds in which what is left may be sent at the end. A collector that is gone must not hold up a stop."""


@contextmanager
def exporting() -> Iterator[Telemetry]:
    """Gives a listener whose traces and metrics go to the OTLP endpoint that the environment names."""
    tracers, meters = _providers()
    try:
        yield Telemetry(tracers=tracers, meters=meters, share=share_of_documents())
    finally:
        sending = Thread(target=_send_the_rest, args=(tracers, meters), name="holdfast-otel", daemon=True)
        sending.start()
        sending.join(PATIENCE)


def _send_the_rest(tracers: TracerProvider, meters: MeterProvider) -> None:
    tracers.shutdown()
    meters.shutdown()


def _providers() -> tuple[TracerProvider, MeterProvider]:
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "holdfast"}
    resource = Resource.create(named)
    spans, points = _exporters()
    tracers = TracerProvider(sampler=ParentBased(ALWAYS_ON), resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    reader = PeriodicExportingMetricReader(points)
    return tracers, MeterProvider([reader], resource=resource, shutdown_on_exit=False)


def share_of_documents() -> float:
    """Reads OTEL_TRACES_SAMPLER for documents: all, none, or a share, which is the same one for every worker."""
    sampler = os.environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on").removeprefix("parentbased_")
    if sampler != "traceidratio":
        return 0.0 if sampler == "always_off" else 1.0
    share = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "1.0")
    try:
        return float(share)
    except ValueError:
        raise HoldfastError(f"OTEL_TRACES_SAMPLER_ARG={share!r} is not a number such as 0.01") from None


def _exporters() -> tuple[Any, Any]:
    """Gives the exporters of spans and of metrics, for the protocol that is asked for."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if protocol not in EXPORTERS:
        raise HoldfastError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r} is none of {', '.join(EXPORTERS)}")
    module = f"opentelemetry.exporter.otlp.{EXPORTERS[protocol]}"
    try:
        spans = import_module(f"{module}.trace_exporter").OTLPSpanExporter()
        return spans, import_module(f"{module}.metric_exporter").OTLPMetricExporter()
    except ImportError as missing:
        package = f"opentelemetry-exporter-otlp-{EXPORTERS[protocol].replace('.', '-')}"
        raise HoldfastError(f"sending to {protocol} needs the package {package}: pip install {package}") from missing
