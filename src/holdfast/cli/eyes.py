"""How a worker is watched from the command line: logs, traces, and metrics to be fetched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, TextIO, TypeVar

import click

from holdfast.cli.saying import say
from holdfast.engine.events import Listener

Command = TypeVar("Command", bound=Callable[..., Any])

LOOPBACK = "127.0.0.1"
PORT = 9464
LEVELS = ("debug", "info", "warning", "error")
OPTIONS = ("log", "log_level", "otel", "metrics")
TEXT = "%(asctime)s %(levelname)s %(message)s"

Address = tuple[str, int]


class AddressType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """Where to listen, as people write it: :9464, 0.0.0.0:9464, [::1]:9464."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not an address; write :{PORT}, or 0.0.0.0:{PORT} for other machines", param, ctx)
        return host.strip("[]") or LOOPBACK, int(port)


def _require(module: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Makes a callback that says what to install before anything is done."""

    def require(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value:
            import_module(module)
        return value

    return require


def how_to_watch(command: Command) -> Command:
    """Adds the options that say how a worker is watched."""
    options = (
        click.option("--log", type=click.Choice(["text", "json"]), help="Log what happens to stderr, line by line."),
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default="info",
            show_default=True,
            help="The least that is worth a line of the log; debug tells of every commit.",
        ),
        click.option(
            "--otel",
            is_flag=True,
            callback=_require("holdfast.engine.otlp"),
            help="Send traces and metrics by OpenTelemetry, to where OTEL_EXPORTER_OTLP_ENDPOINT says.",
        ),
        click.option(
            "--metrics",
            type=AddressType(),
            metavar="[HOST]:PORT",
            callback=_require("holdfast.engine.prometheus"),
            help="Serve this worker's metrics for Prometheus; on loopback, unless a host is named.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def watching(asked_for: Mapping[str, Any]) -> Iterator[list[Listener]]:
    """Gives the listeners that were asked for, and lets go of what they need at the end."""
    with ExitStack() as stack:
        listeners: list[Listener] = []
        if asked_for.get("log"):
            listeners.append(stack.enter_context(_logging(asked_for["log"], asked_for["log_level"])))
        if asked_for.get("otel"):
            from holdfast.engine.otlp import exporting

            listeners.append(stack.enter_context(exporting()))
        if asked_for.get("metrics"):
            listeners.append(stack.enter_context(_serving(*asked_for["metrics"])))
        yield listeners


def split(how: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tells how a worker is watched from how it works."""
    watched = {name: value for name, value in how.items() if name in OPTIONS}
    return watched, {name: value for name, value in how.items() if name not in OPTIONS}


def words_for_process(watched: Mapping[str, Any], number: int) -> list[str]:
    """Gives the same options to one of several processes. Each serves metrics at a port of its own, in a row."""
    words = ["--log", watched["log"], "--log-level", watched["log_level"]] if watched["log"] else []
    words += ["--otel"] if watched["otel"] else []
    if watched["metrics"]:
        host, port = watched["metrics"]
        words += ["--metrics", f"[{host}]:{port + number - 1 if port else 0}"]
    return words


@contextmanager
def _logging(form: str, level: str) -> Iterator[Listener]:
    """Logs to stderr, what bodies log too, for the length of a block."""
    import logging

    from holdfast.engine.logs import JsonFormatter, TextFormatter, log_events

    handler = logging.StreamHandler(_stderr())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(TEXT))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield log_events
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def _stderr() -> TextIO:
    """Gives stderr. What draws on the terminal takes its place there, but a file gets its lines as they are."""
    if sys.stderr.isatty():
        return sys.stderr
    proxied: TextIO = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    return proxied


@contextmanager
def _serving(host: str, port: int) -> Iterator[Listener]:
    from holdfast.engine.measures import Meter
    from holdfast.engine.prometheus import WorkerCollector, serve

    meter = Meter()
    with serve(host, port, WorkerCollector(meter)) as bound:
        say(f"Metrics are served at http://{shown(host)}:{bound}/metrics", err=True)
        yield meter


def shown(host: str) -> str:
    """Gives a host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
