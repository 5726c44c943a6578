"""Options that make a worker observable: logs, notifications, OpenTelemetry, and Prometheus metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from typing import Any, TextIO

import click

from holdfast.cli.options import option_group, parse_pairs
from holdfast.cli.output import print_line
from holdfast.cli.param_types import AddressType, host_in_url
from holdfast.observe.events import Listener
from holdfast.observe.notifications import KINDS

LEVELS = ("debug", "info", "warning", "error")
NAMES = ("log", "log_level", "labels", "notify", "notify_on", "otel", "metrics")
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def _import_if_used(module: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that imports a module, so that a missing package is reported before any work is done."""

    def import_it(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value:
            import_module(module)
        return value

    return import_it


def _check_targets(_context: click.Context, _parameter: click.Parameter, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a wrong target before any work is done."""
    if targets:
        from holdfast.observe.notification_targets import open_target

        for target in targets:
            open_target(target)
    return targets


log_options = option_group(
    click.option("--log", type=click.Choice(["text", "json"]), help="Log events to stderr, one line each."),
    click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="Lowest level that is logged; debug logs every commit.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda _, __, given: parse_pairs(given, "--label"),
        help="An identifier of this run, such as run_id=1234, for log records and notifications. Repeatable.",
    ),
)
"""The options of logs."""

notify_options = option_group(
    click.option(
        "--notify",
        multiple=True,
        metavar="TARGET",
        envvar="HOLDFAST_NOTIFY",
        callback=_check_targets,
        help="Send notifications as JSON to an http(s) URL, or to command:PROGRAM. Repeatable. [env: HOLDFAST_NOTIFY]",
    ),
    click.option(
        "--notify-on",
        multiple=True,
        type=click.Choice(KINDS),
        metavar="KIND",
        help=f"Only notifications of this kind: {', '.join(KINDS)}. Repeatable. [default: all]",
    ),
)
"""The options of notifications."""

observe_options = option_group(
    log_options,
    notify_options,
    click.option(
        "--otel",
        is_flag=True,
        callback=_import_if_used("holdfast.observe.opentelemetry"),
        help="Send OpenTelemetry traces and metrics to OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    click.option(
        "--metrics",
        type=AddressType(),
        metavar="[HOST]:PORT",
        callback=_import_if_used("holdfast.observe.prometheus"),
        help="Serve this worker's metrics for Prometheus. Without HOST, only on loopback.",
    ),
)


@contextmanager
def open_listeners(options: Mapping[str, Any]) -> Iterator[list[Listener]]:
    """Return the listeners that the options ask for, and close them at the end of the block."""
    with ExitStack() as stack:
        listeners: list[Listener] = []
        if options.get("log"):
            log = _log_listener(options["log"], options["log_level"], options.get("labels") or {})
            listeners.append(stack.enter_context(log))
        if options.get("notify"):
            listeners.append(stack.enter_context(_notifier(options)))
        if options.get("otel"):
            from holdfast.observe.opentelemetry import exporting

            listeners.append(stack.enter_context(exporting()))
        if options.get("metrics"):
            listeners.append(stack.enter_context(_metrics_listener(*options["metrics"])))
        yield listeners


def split_observe_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a command into those of this module and the others."""
    observe = {name: value for name, value in options.items() if name in NAMES}
    return observe, {name: value for name, value in options.items() if name not in NAMES}


def args_for_process(options: Mapping[str, Any], number: int) -> list[str]:
    """Return the same options as arguments for one of several processes. Each serves metrics on its own port."""
    args = ["--log", options["log"], "--log-level", options["log_level"]] if options["log"] else []
    args += [word for name, value in options["labels"].items() for word in ("--label", f"{name}={value}")]
    args += [word for target in options["notify"] for word in ("--notify", target)]
    args += [word for kind in options["notify_on"] for word in ("--notify-on", kind)]
    args += ["--otel"] if options["otel"] else []
    if options["metrics"]:
        host, port = options["metrics"]
        args += ["--metrics", f"[{host}]:{port + number - 1 if port else 0}"]
    return args


@contextmanager
def _log_listener(form: str, level: str, labels: Mapping[str, Any]) -> Iterator[Listener]:
    """Log to stderr during a block, including what step functions log."""
    import logging

    from holdfast.observe.logs import JsonFormatter, TextFormatter, log_events

    handler = logging.StreamHandler(_stderr())
    handler.setFormatter(JsonFormatter(labels=labels) if form == "json" else TextFormatter(LOG_FORMAT, labels=labels))
    root = logging.getLogger()
    level_before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield log_events
    finally:
        root.setLevel(level_before)
        root.removeHandler(handler)


def _notifier(options: Mapping[str, Any]) -> AbstractContextManager[Listener]:
    from holdfast.observe.notifier import Notifier

    return Notifier(*options["notify"], kinds=options["notify_on"] or KINDS, labels=options.get("labels"))


def _stderr() -> TextIO:
    """Return stderr. On a terminal, rich replaces it; if stderr is a file, return the file itself."""
    if sys.stderr.isatty():
        return sys.stderr
    file: TextIO = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    return file


@contextmanager
def _metrics_listener(host: str, port: int) -> Iterator[Listener]:
    from holdfast.observe.metrics import MetricCounter
    from holdfast.observe.prometheus import WorkerCollector, serve

    counter = MetricCounter()
    with serve(host, port, WorkerCollector(counter)) as bound:
        print_line(f"Metrics are served at http://{host_in_url(host)}:{bound}/metrics", err=True)
        yield counter
