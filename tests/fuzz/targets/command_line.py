"""Arguments of the command line: durations, rates, shares, filters and whole commands."""

from __future__ import annotations

import os
from contextlib import chdir
from datetime import timedelta
from functools import cache
from typing import Any

from click import ClickException
from click.testing import CliRunner
from hypothesis import strategies as st

import holdfast
from holdfast.cli.app import app
from holdfast.cli.options import parse_pairs
from holdfast.cli.param_types import AddressType, DurationType, RateType, SampleType, ShareType
from holdfast.core.formatting import format_duration, one_line
from holdfast.core.suggested_commands import command_args, format_command
from tests.fuzz.inputs import scratch_folder, texts
from tests.fuzz.target import takes
from tests.fuzz.targets.store_urls import check_exit, fits_environment
from tests.fuzz.targets.values import _pipeline

NUMBER = st.sampled_from(
    ("0", "1", "12", "0.5", "5.", ".5", "9" * 20, "9" * 400, "1e9", "-1", "٣", "²", "0.000000001", "nan")
)
UNIT = st.sampled_from(("", "s", "m", "min", "h", "d", "ms", "%", "/s", "/min", "/h", "/", ":", " ", "S"))
HOST = st.sampled_from(("", ":", "[::1]:", "0.0.0.0:", "a:b:", "]:"))
DIGITS = st.tuples(HOST | st.just(""), NUMBER, UNIT, st.just("") | NUMBER, st.just("") | UNIT)
TYPED = DIGITS.map("".join) | texts
UNDERSTOOD = "A typed value is understood, or refused with an example of how to write it."


@takes(TYPED, UNDERSTOOD, refusals=[ClickException], sealed=True)
def durations(text: str) -> None:
    assert timedelta(0) < DurationType().convert(text, None, None) <= timedelta(days=36525)


@takes(TYPED, UNDERSTOOD, refusals=[ClickException], sealed=True)
def rates(text: str) -> None:
    assert timedelta(0) <= RateType().convert(text, None, None)


@takes(TYPED, UNDERSTOOD, refusals=[ClickException], sealed=True)
def shares(text: str) -> None:
    assert 0 <= ShareType().convert(text, None, None) <= 1


@takes(TYPED, UNDERSTOOD, refusals=[ClickException], sealed=True)
def samples(text: str) -> None:
    assert SampleType().convert(text, None, None) > 0


@takes(TYPED, UNDERSTOOD, refusals=[ClickException], sealed=True)
def addresses(text: str) -> None:
    host, port = AddressType().convert(text, None, None)
    assert host
    assert 0 <= port < 65536


@takes(
    st.lists(texts | st.tuples(texts, TYPED).map("=".join), max_size=3),
    UNDERSTOOD,
    refusals=[ClickException],
    sealed=True,
)
def pairs(given: list[str]) -> None:
    for name in parse_pairs(given, "--where"):
        assert name


@takes(st.tuples(texts, st.floats(-1e12, 1e12), texts), "Any text can be shown in one line.", sealed=True)
def sentences(given: tuple[str, float, str]) -> None:
    text, seconds, more = given
    assert "\n" not in one_line(text)
    format_duration(seconds)
    format_command(command_args(("show",), text, options=("--batch", more)), store=("--store", more))


@cache
def _store() -> str:
    """Return the URL of a store with a few documents."""
    url = f"sqlite:///{scratch_folder()}/words.db"
    pipeline = _pipeline()
    with holdfast.open(url) as store:
        holdfast.submit(pipeline, store, batch="b", documents=[("k", {"a": 1}), ("dead letter", 2), ("*", None)])
        holdfast.drain(pipeline, store)
    return url


COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("status",): ("--pipeline", "--batch", "--limit"),
    ("show",): ("--pipeline", "--batch"),
    ("explain",): ("--pipeline", "--batch"),
    ("dead", "list"): ("--batch", "--step", "--error", "--text", "--idle", "--limit", "--pipeline"),
    ("dead", "redrive"): ("--rate", "--text", "--who", "--reason", "--dry-run"),
    ("doc", "cancel"): ("--batch", "--step", "--who", "--reason", "--dry-run", "--all"),
    ("doc", "pause"): ("--for", "--batch", "--idle", "--who", "--reason", "--dry-run"),
    ("doc", "priority"): ("--batch", "--text", "--dry-run"),
    ("doc", "rewind"): ("--to", "--batch", "--dry-run", "--who", "--reason"),
    ("review", "list"): ("--batch", "--step"),
    ("doc", "orphans"): ("--patience", "--older"),
    ("batch", "reconcile"): ("--manifest", "--output"),
    ("batch", "seal"): (),
    ("batch", "cleanup"): ("--older", "--keep", "--dry-run"),
    ("doc", "pack"): ("-o", "--batch"),
    ("plan",): ("--batch",),
}
ARGUMENT = st.sampled_from(("k", "b", "fuzz", "*", "dead letter", "read")) | texts
LINE = st.sampled_from(tuple(COMMANDS)).flatmap(
    lambda command: st.tuples(
        st.just(command),
        st.lists(ARGUMENT, max_size=3),
        st.lists(
            st.tuples(st.sampled_from((*COMMANDS[command], "--json", "--nonsense")), TYPED | ARGUMENT), max_size=3
        ),
    )
)


@takes(LINE, "Any command with any arguments ends with a known exit code and a message; it writes only where it may.")
def commands(given: tuple[tuple[str, ...], list[str], list[tuple[str, str]]]) -> None:
    command, arguments, options = given
    line = [*command, *arguments]
    for option, value in options:
        line += [option] if option in ("--json", "--dry-run", "--all") else [option, value]
    if any("/" in word or "\0" in word for word in line):
        return  # a path could overwrite a file outside the scratch folder, and no system passes a zero byte
    with _in_a_folder():
        check_exit(CliRunner().invoke(app, [*line, "--store", _store()], prog_name="holdfast"))


VARIABLES = (
    "HOLDFAST_STORE",
    "HOLDFAST_WHO",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "COLUMNS",
    "NO_COLOR",
    "TZ",
    "LANG",
)
SETTING = TYPED.filter(lambda text: "/" not in text and fits_environment(text))


@takes(
    st.dictionaries(st.sampled_from(VARIABLES), SETTING, max_size=3),
    "With any environment variables, a command succeeds or ends with a message.",
)
def environment(given: dict[str, str]) -> None:
    with _in_a_folder():
        runner = CliRunner(env={"HOLDFAST_STORE": _store(), **given})
        check_exit(runner.invoke(app, ["doc", "pause", "k", "--dry-run"], prog_name="holdfast"))
        check_exit(runner.invoke(app, ["status"], prog_name="holdfast"))
        before = dict(os.environ)
        os.environ.update({name: value for name, value in given.items() if name.startswith("OTEL")})
        try:
            _share()
        finally:
            os.environ.clear()
            os.environ.update(before)


def _share() -> Any:
    try:
        from holdfast.observe.opentelemetry import share_of_documents
    except holdfast.HoldfastError:
        return None
    share = share_of_documents()
    assert 0 <= share <= 1, share
    return share


def _in_a_folder() -> chdir[str]:
    folder = scratch_folder() / "words"
    folder.mkdir(exist_ok=True)
    return chdir(str(folder))
