"""`holdfast close`: a batch whose documents have all ended is closed for good, and its closing steps are done."""

from __future__ import annotations

import re
from typing import Any

import click

from holdfast.cli.asked import INTERRUPTED, NOT_IN_ORDER, TERMINATED, Asked, Trouble, common
from holdfast.cli.at_once import Roster, end_at_once, ending_at_once
from holdfast.cli.eyes import how_to_watch, watching
from holdfast.cli.pipelines import Loaded, load
from holdfast.cli.progress import SIGNALS
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import store_that_exists
from holdfast.cli.who import signed
from holdfast.cli.words import count, one_line
from holdfast.cli.working import going_on_later, prepared, refusing_exits
from holdfast.core.batches import CLOSING, BatchReport
from holdfast.core.commands import WHY, about
from holdfast.core.errors import CloseRefused
from holdfast.core.model import Standing
from holdfast.core.refusal import Refusal
from holdfast.engine import closing
from holdfast.engine.events import Event, Stopping
from holdfast.stores.protocol import Store

_SHARE = re.compile(r"(\d+(?:\.\d+)?)(%?)")


class Share(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A share as people write it: 5%, 0.05."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        said = _SHARE.fullmatch(str(value).strip())
        share = float(said[1]) / (100 if said[2] else 1) if said else -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is no share; write 5% or 0.05", param, ctx)
        return share


@click.command()
@click.argument("pipeline")
@click.argument("batch")
@signed()
@click.option(
    "--tolerate",
    type=Share(),
    help="The share of documents that may be dead letters accepted by nobody, such as 5%. [default: the pipeline's]",
)
@click.option("--seal", is_flag=True, help="Seal the batch first if it is open.")
@how_to_watch
@common
@click.pass_obj
def close(
    asked: Asked,
    /,
    *,
    pipeline: str,
    batch: str,
    who: str,
    reason: str,
    tolerate: float | None,
    seal: bool,
    **watched: Any,
) -> None:
    """Closes the batch BATCH for good, files its report, and does its closing steps here.

    PIPELINE is a Python file or module, as for `holdfast run`: the closing steps are in it. The batch has to be sealed
    and to balance, nothing may be open, and its dead letters have to be accepted. A refusal says what is missing.
    Run it again to go on with closing steps that were interrupted: what is closed stays closed, with the same report.
    """
    asked.tell_bodies()
    loaded = load(pipeline)
    name = loaded.pipeline.name
    with store_that_exists(asked) as store, going_on_later(asked, "close", pipeline, batch):
        prepared(loaded, store)
        sealed = seal and store.seal(name, batch, who=who, reason=reason)
        stop = _Stop()
        try:
            how: dict[str, Any] = {"batch": batch, "who": who, "reason": reason, "tolerate": tolerate}
            report = _closed(asked, loaded, store, stop, how=how, watched=watched)
        except CloseRefused as refusal:
            sealing = "\nIt is sealed now: it takes no more documents." if sealed else ""
            raise Trouble(_told(asked, refusal.refusal) + sealing, code=NOT_IN_ORDER) from refusal
        last = closing.closing_document(store, name, batch)
    if asked.json:
        said = {"report": report, "closing": _closing(last), "stopped_by": stop.reason}
        tell(said)
    else:
        _tell(asked, report, last, stop, file=pipeline)
    if last is not None and last.state != "done":
        raise click.exceptions.Exit(stop.exit_code)


class _Stop:
    """Remembers the signal that stopped the closing steps."""

    def __init__(self) -> None:
        self.reason = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stopping):
            self.reason = event.reason

    @property
    def exit_code(self) -> int:
        """What the process ends with when closing steps are not done."""
        return {"SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}.get(self.reason, NOT_IN_ORDER)


def _closed(
    asked: Asked, loaded: Loaded, store: Store, stop: _Stop, *, how: dict[str, Any], watched: dict[str, Any]
) -> BatchReport:
    """Closes the batch for everybody to hear. A second Ctrl-C does not wait for closing steps, and is no crash."""
    roster = Roster()
    with ending_at_once(asked), refusing_exits("the closing steps"), watching(watched) as watchers:
        try:
            return closing.close(loaded.pipeline, store, listeners=(roster, stop, *watchers), **how)
        except KeyboardInterrupt:
            if not roster.leave(store):
                end_at_once(asked)
            raise


def _told(asked: Asked, refusal: Refusal) -> str:
    """Says what is missing, each with the commands that help."""
    batch = ("--pipeline", refusal.pipeline, "--batch", refusal.batch)
    seal = asked.command(*about(("seal",), refusal.pipeline, refusal.batch))
    wrong = [
        (refusal.unsealed(), f"{seal}   # or close it with --seal"),
        (refusal.unbalanced(), asked.command("reconcile", refusal.pipeline, "--batch", refusal.batch)),
        (refusal.unfinished(), asked.command("explain", *batch)),
        (refusal.unaccepted(), asked.command("dead", "redrive", *batch, *WHY)),
        (refusal.unaccepted() and "  or accept them:", asked.command("dead", "accept", *batch, *WHY)),
    ]
    return "\n".join([refusal.headline(), *[f"  {said}\n    {command}" for said, command in wrong if said]])


def _closing(last: Standing | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {"state": last.state, "step": last.checkpoint.step, "reason": last.reason}


def _tell(asked: Asked, report: BatchReport, last: Standing | None, stop: _Stop, *, file: str) -> None:
    counts = report.in_all
    said = [f"{counts.done:,} done"]
    said += [f"{counts.dead:,} dead, {counts.accepted:,} of them accepted"] if counts.dead else []
    said += [f"{counts.cancelled:,} cancelled"] if counts.cancelled else []
    say(
        f"Batch {report.batch} of {report.pipeline} is closed by {report.closed_by}: "
        f"{count(report.expected, 'document')}, {', '.join(said)}."
    )
    if last is not None and last.state == "done":
        say("Its closing steps are done.")
    elif last is not None and stop.reason:
        by = SIGNALS.get(stop.reason, stop.reason)
        say(f"Its closing steps were stopped by {by}{_at(last)}; everything is saved. Run the same command again:")
        say(f"  {asked.same_command('close', report.pipeline, report.batch)}")
    elif last is not None:
        say(f"Its closing steps are not done: {last.state}{_at(last)}: {one_line(last.reason)}")
        show: tuple[str, ...] = about(("show",), report.batch, options=("--pipeline", report.pipeline + CLOSING))
        for words in [show, *closing.ways_on(last, file=file)]:
            say(f"  {asked.command(*words)}")
    filed = ("reconcile", report.pipeline, "--batch", report.batch, "--report", f"{report.batch}.html")
    say(f"A report to file: {asked.command(*filed)}")


def _at(last: Standing) -> str:
    return f" at {last.checkpoint.step}" if last.checkpoint.step else ""
