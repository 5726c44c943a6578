"""`holdfast status`: count the documents of all batches, and list the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec
from msgspec import Struct

from holdfast.cli.commands.pipeline.circuit import circuit_as_json
from holdfast.cli.context import CliContext
from holdfast.cli.options import batch_option, common_options
from holdfast.cli.output import only_prints, print_json, print_line, styled
from holdfast.cli.selection import state_since
from holdfast.cli.shown_keys import shown_key, shown_place
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.cli.ui.balance import format_balances, sort_steps
from holdfast.core.batches import CLOSING
from holdfast.core.formatting import (
    format_ago,
    format_count,
    format_short_duration,
    format_table,
    format_time,
    one_line,
    printable,
)
from holdfast.core.future_times import FutureTimes
from holdfast.core.model import Batch, DocumentStatus, WorkerRecord
from holdfast.core.plan import Shape
from holdfast.core.suggested_commands import command_args
from holdfast.ops.close_batch import are_over, closing_document, resume_commands
from holdfast.ops.explain.context import describe_circuit, describe_future_times, document_options, open_circuits
from holdfast.process_identity import is_gone
from holdfast.stores.protocol import Store

MAX_DEAD_SHOWN = 10
RECENT = timedelta(hours=1)
"""How long workers that have ended are still counted."""


@click.command()
@click.argument("pipeline", required=False)
@batch_option
@common_options
@click.pass_obj
@only_prints
def status(cli: CliContext, *, pipeline: str | None, batch: str | None) -> None:
    """Count the documents in each state, and list the workers.

    PIPELINE is the name of a pipeline, or its file. Without it, all pipelines are shown.

    The documents of each batch are counted. A batch balances if all documents that were ever submitted are found in one
    of the states. Nothing is changed.
    """
    with open_existing_store(cli) as store:
        names = [require_pipeline(store, pipeline)] if pipeline else _pipelines(store)
        if batch:
            for name in names if pipeline else names[:1]:
                require_batch(store, name, batch)
        pipelines = [PipelineStatus(store, name, batch) for name in names]
        workers = WorkerTable(store)
        if cli.json:
            print_json(_as_json(cli, pipelines, workers))
        else:
            _print_status(cli, pipelines, workers, store.now())


def _pipelines(store: Store) -> list[str]:
    """Return the names of all pipelines. Closing steps are left out: they are shown with their batches."""
    return [name for name in store.pipelines() if not name.endswith(CLOSING)]


class PipelineStatus:
    """The batches of a pipeline, and its newest dead letters."""

    def __init__(self, store: Store, pipeline: str, batch: str | None) -> None:
        self.pipeline = pipeline
        self.shape: Shape | None = store.shape(pipeline)
        self.batches: list[Batch] = [known for known in store.batches(pipeline) if batch in (None, known.name)]
        self.step_times = store.step_times(pipeline)
        self.circuits = open_circuits(store, pipeline)
        self.future_times = store.future_times(pipeline)
        self.closing: dict[str, DocumentStatus] = _unfinished_closing_steps(store, pipeline, self.batches)
        self.next_commands = {name: resume_commands(store, last) for name, last in self.closing.items()}
        any_dead = any(known.balance.dead for known in self.batches)
        self.dead: list[DocumentStatus] = (
            store.documents(pipeline, batch=batch, state="dead", limit=MAX_DEAD_SHOWN) if any_dead else []
        )
        self.died_at = [state_since(store, letter) for letter in self.dead]
        self.where = document_options(store, self.dead[0]) if self.dead else ()

    def print(self, cli: CliContext, now: datetime) -> None:
        """Print the status."""
        steps = f": {' → '.join(self.shape.names)}" if self.shape else ""
        print_line(styled(self.pipeline, bold=True) + steps)
        if not self.batches:
            print_line("  no documents yet")
            return
        for line in format_balances((batch.name, batch.state, batch.balance) for batch in self.batches):
            print_line(line)
        for batch in self.batches:
            self._print_steps(batch)
            self._print_closing(cli, batch)
        self._print_step_times()
        for circuit in self.circuits:
            print_line(f"  {describe_circuit(circuit, now, cli.command)}", fg="red")
        if self.future_times.any:
            print_line(f"  {describe_future_times(self.future_times)}", fg="red")
        self._print_dead(cli, now)

    def _print_steps(self, batch: Batch) -> None:
        if not batch.at_step:
            return
        steps = sort_steps(batch.at_step, self.shape.names if self.shape else ())
        numbers = ", ".join(f"{step} {batch.at_step[step]:,}" for step in steps)
        print_line(f"  {printable(batch.name)}, at steps: {numbers}")

    def _print_step_times(self) -> None:
        order = self.shape.names if self.shape else tuple(self.step_times)
        times = {step: self.step_times[step] for step in order if step in self.step_times}
        averages = {step: seconds / documents for step, (documents, seconds) in times.items() if documents}
        if averages:
            parts = [f"{step} {format_short_duration(seconds)}" for step, seconds in averages.items()]
            print_line("  average time per document: " + ", ".join(parts))

    def _print_closing(self, cli: CliContext, batch: Batch) -> None:
        if (last := self.closing.get(batch.name)) is None:
            return
        why = f": {one_line(last.reason, 160)}" if last.reason else ""
        print_line(f"  {batch.name} is closed, its closing steps are {last.state} at {last.checkpoint.step}{why}")
        for command in self.next_commands[batch.name]:
            print_line(f"    continue: {cli.command(*command)}")

    def _print_dead(self, cli: CliContext, now: datetime) -> None:
        if not self.dead:
            return
        total = sum(batch.balance.dead for batch in self.batches)
        more = f", the newest {MAX_DEAD_SHOWN}" if total > MAX_DEAD_SHOWN else ""
        print_line(f"  {format_count(total, 'dead letter')}{more}:", fg="red")
        for letter, died_at in zip(self.dead, self.died_at, strict=True):
            name = shown_place(letter.batch, letter.key) if len(self.batches) > 1 else shown_key(letter.key)
            died = format_ago(min(died_at, now), now)
            print_line(f"    {printable(name)} at {letter.checkpoint.step}, {died}: {one_line(letter.reason, 160)}")
        show = command_args(("show",), self.dead[0].key, options=self.where)
        print_line(f"    details: {cli.command(*show)}")


def _unfinished_closing_steps(store: Store, pipeline: str, batches: Sequence[Batch]) -> dict[str, DocumentStatus]:
    """Return the closing steps that have not ended, by the names of their closed batches."""
    if not any(batch.state == "closed" for batch in batches) or not store.balance(pipeline + CLOSING).expected:
        return {}
    steps = {batch.name: closing_document(store, pipeline, batch.name) for batch in batches if batch.state == "closed"}
    return {name: last for name, last in steps.items() if last is not None and not are_over(last)}


def _print_status(cli: CliContext, pipelines: Sequence[PipelineStatus], workers: WorkerTable, now: datetime) -> None:
    if not pipelines:
        print_line(f"{cli.shown_store} has no pipelines yet.")
    for pipeline in pipelines:
        pipeline.print(cli, now)
        print_line()
    workers.print(now)


def _as_json(cli: CliContext, pipelines: Sequence[PipelineStatus], workers: WorkerTable) -> dict[str, Any]:
    return {
        "store": cli.shown_store,
        "pipelines": [
            {
                "pipeline": status.pipeline,
                "steps": status.shape.names if status.shape else [],
                "batches": [_batch(batch, status.closing.get(batch.name)) for batch in status.batches],
                "paces": {
                    step: {"documents": documents, "seconds": seconds}
                    for step, (documents, seconds) in status.step_times.items()
                },
                "future_times": _future_times(status.future_times),
                "paused_steps": [circuit_as_json(circuit) for circuit in status.circuits],
                "dead_letters": [
                    {
                        "batch": dead.batch,
                        "key": dead.key,
                        "step": dead.checkpoint.step,
                        "reason": dead.reason,
                        "recoverable": dead.recoverable,
                        "moved_at": dead.moved_at,
                    }
                    for dead in status.dead
                ],
            }
            for status in pipelines
        ],
        **workers.as_json(),
    }


def _future_times(found: FutureTimes) -> dict[str, Any]:
    return msgspec.structs.asdict(found) | {"ahead": found.ahead.total_seconds()}


def _batch(batch: Batch, closing: DocumentStatus | None) -> dict[str, Any]:
    balance = msgspec.structs.asdict(batch.balance) | {"balances": batch.balance.balances}
    return {
        "batch": batch.name,
        "state": batch.state,
        "created_at": batch.created_at,
        **balance,
        "at_step": batch.at_step,
        "closing": None if closing is None else {"state": closing.state, "step": closing.checkpoint.step},
    }


class WorkerStatus(Struct, frozen=True):
    """A worker that is registered: its last heartbeat, how many documents it holds, and how many it has ended."""

    worker: WorkerRecord
    heartbeat_at: datetime
    stale: bool
    holds: int
    done: int
    dead: int

    def row(self, now: datetime) -> list[str]:
        """Return the row of the table."""
        since = f"since {format_time(self.worker.registered_at)}" if self.worker.registered_at else ""
        holds = f"holds {format_count(self.holds, 'document')}"
        ended = _format_ended(self.done, self.dead)
        return [self.worker.name, f"pid {self.worker.pid}", since, holds, ended, self._format_life(now)]

    def _format_life(self, now: datetime) -> str:
        beat = f"heartbeat {format_ago(min(self.heartbeat_at, now), now)}"
        if is_gone(self.worker):
            return f"dead, last {beat}; the next worker takes its documents"
        return f"silent, last {beat}; its documents can be taken" if self.stale else f"alive, {beat}"

    def as_json(self) -> dict[str, Any]:
        """Return the worker for programs."""
        return {
            "name": self.worker.name,
            "host": self.worker.host,
            "pid": self.worker.pid,
            "registered_at": self.worker.registered_at,
            "heartbeat_at": self.heartbeat_at,
            "alive": not (self.stale or is_gone(self.worker)),
            "holds": self.holds,
            "done": self.done,
            "dead": self.dead,
        }


class WorkerTable:
    """All registered workers, and the sum of those that ended in the last hour."""

    def __init__(self, store: Store) -> None:
        held = Counter[int]()
        for pipeline in store.pipelines():
            held.update({holder.worker.id: documents for holder, documents in store.holders(pipeline)})
        totals = store.worker_totals(since=store.now() - RECENT)
        counts = {total.worker.id: (total.done, total.dead) for total in totals}
        self.workers = [
            WorkerStatus(worker, heartbeat_at, stale, held[worker.id], *counts.get(worker.id, (0, 0)))
            for worker, heartbeat_at, stale in store.workers()
        ]
        self.ended = [total for total in totals if total.gone]

    def print(self, now: datetime) -> None:
        """Print the table."""
        print_line("workers:" if self.workers else "workers: none")
        for line in format_table([worker.row(now) for worker in self.workers], indent="  "):
            print_line(line)
        if self.ended:
            done, dead = self._sums()
            number = format_count(len(self.ended), "worker")
            print_line(f"  ended in the last hour: {number}, {_format_ended(done, dead)}")

    def as_json(self) -> dict[str, Any]:
        """Return the table for programs."""
        done, dead = self._sums()
        return {
            "workers": [worker.as_json() for worker in self.workers],
            "gone_in_the_last_hour": {"workers": len(self.ended), "done": done, "dead": dead},
        }

    def _sums(self) -> tuple[int, int]:
        return sum(total.done for total in self.ended), sum(total.dead for total in self.ended)


def _format_ended(done: int, dead: int) -> str:
    return f"{done:,} done, {dead:,} dead"
