"""Working on a pipeline from the command line: with progress, stopped by signals, and closed with a summary."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import click

from holdfast.cli.asked import Asked, Trouble
from holdfast.cli.at_once import Roster, end_at_once, ending_at_once
from holdfast.cli.counts import Counts
from holdfast.cli.eyes import split, watching
from holdfast.cli.pipelines import Loaded, their_frames
from holdfast.cli.progress import JsonLines, Progress
from holdfast.cli.summary import Summary
from holdfast.core.errors import StoreError
from holdfast.core.model import Receipt
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.engine.report import Report
from holdfast.stores.protocol import Store

Command = TypeVar("Command", bound=Callable[..., Any])
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
LONGEST = timedelta(days=36525)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d)?")


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A length of time as people write it: 90, 30s, 15m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        text = str(value).replace(" ", "").lower()
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f"{value!r} is not a length of time; write 30s, 15m or 1h30m", param, ctx)
        seconds = sum(float(number) * UNITS[unit or "s"] for number, unit in parts)
        if seconds > LONGEST.total_seconds():
            self.fail(f"{value!r} is longer than a hundred years", param, ctx)
        span = timedelta(seconds=seconds)
        if span <= timedelta(0):
            self.fail("it has to be longer than nothing", param, ctx)
        return span


in_processes = click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes that work; more than one for bodies that compute in Python.",
)


def how_to_work(*, threads: int = 8, shown: str = "8") -> Callable[[Command], Command]:
    """Adds the options that say how a worker works. `shown` says how many threads there are, on every machine."""
    options = (
        click.option(
            "--threads", type=click.IntRange(1), default=threads, show_default=shown, help="Plain bodies at once."
        ),
        click.option(
            "--concurrency",
            type=click.IntRange(1),
            default=1000,
            show_default=True,
            help="Documents held at once, at most.",
        ),
        click.option(
            "--lease",
            type=Duration(),
            default="30s",
            show_default=True,
            help="How long this worker may be silent before others take its documents.",
        ),
        click.option(
            "--budget", type=Duration(), help="Stop cleanly after this long, such as 15m; work is given back."
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def worked(
    asked: Asked,
    work: Callable[..., Report],
    loaded: Loaded,
    store: Store,
    *,
    progress: Progress,
    budget: Budget,
    how: dict[str, Any],
) -> Report:
    """Drains or works, and shows it. A second Ctrl-C comes out as KeyboardInterrupt, with everything let go."""
    roster = Roster()
    watched, how = split(how)
    with ending_at_once(asked), refusing_exits("the worker"), watching(watched) as watchers:
        listeners = (roster, progress.counts, *watchers)
        try:
            return work(loaded.pipeline, store, budget=budget, listeners=listeners, **how)
        except KeyboardInterrupt:
            if not roster.leave(store):
                progress.display.close()
                end_at_once(asked)  # closing the store would wait for the same lock
            raise


@contextmanager
def refusing_exits(where: str) -> Iterator[None]:
    """Makes an error of a sys.exit in code that is not ours: whatever its code says, the work is not done."""
    try:
        yield
    except SystemExit as error:
        story = "".join(traceback.format_list(their_frames(error.__traceback__))).rstrip()
        said = "".join(traceback.format_exception_only(error)).strip()
        raise Trouble(
            f"something called sys.exit ({said}) inside {where}, so it could not go on; what was committed is safe. "
            f"Raise an error there instead, and run the command again:\n{story}"
        ) from error


def prepared(loaded: Loaded, store: Store) -> None:
    """Lets the pipeline's file make the tables that its effects write to."""
    if loaded.prepare is not None:
        with refusing_exits("prepare()"), store.transaction() as tx:
            loaded.prepare(tx)


def submitted(
    loaded: Loaded, store: Store, *, batch: str, documents: Iterator[api.Submittable], counts: Counts
) -> Receipt:
    """Submits documents, and counts them while it does."""
    counts.submitting = True
    try:
        return api.submit(loaded.pipeline, store, batch=batch, documents=_counted(documents, counts))
    finally:
        counts.submitting = False


def _counted(documents: Iterator[api.Submittable], counts: Counts) -> Iterator[api.Submittable]:
    for document in documents:
        counts.submitted += 1
        yield document


def closed(asked: Asked, summary: Summary, progress: Progress, receipt: Receipt | None = None) -> None:
    """Tells the summary and ends with its exit code."""
    if isinstance(progress.display, JsonLines):
        progress.display.tell("summary", **summary.as_json(receipt))
    else:
        summary.tell(asked)
    raise click.exceptions.Exit(summary.exit_code)


@contextmanager
def going_on_later(asked: Asked, *words: str) -> Iterator[None]:
    """Adds to errors of the store how to go on once it is mended."""
    try:
        yield
    except StoreError as error:
        told = type(error)(
            f"{str(error).rstrip('.')}. What was committed is safe; when that is mended, go on with: "
            f"{asked.same_command(*words)}"
        )
        raise told from error


def words_of(receipt: Receipt) -> str:
    """Gives a receipt in words."""
    return f"submitted: {receipt.new:,} new, {receipt.changed:,} changed, {receipt.unchanged:,} unchanged"
