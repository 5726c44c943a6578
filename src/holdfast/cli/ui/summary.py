"""The summary at the end of a run: what was done, what is left, and which command is next."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from holdfast.cli.context import DEFAULT_STORE, CliContext
from holdfast.cli.exit_codes import BY_SIGNAL, DEAD_LETTERS, OK, SOURCE_UNREACHABLE
from holdfast.cli.output import print_line
from holdfast.cli.shown_keys import shown_key
from holdfast.cli.ui.progress import SIGNALS
from holdfast.core.formatting import format_count, format_duration, format_rate, one_line, printable
from holdfast.core.model import Balance, DocumentStatus, SubmitResult
from holdfast.core.suggested_commands import command_args
from holdfast.observe.report import Report
from holdfast.ops.explain.context import describe_circuit, document_options, open_circuits
from holdfast.stores.protocol import Store

MAX_DEAD_SHOWN = 5
MAX_REASON = 300
"""Characters of a reason. The end of a message says what to do."""
MEMORY_STORE = "memory://"
KEPT_STORE = f"--store {DEFAULT_STORE}"


class RunSummary:
    """What a run did, what is left, and what to do next."""

    def __init__(
        self,
        store: Store,
        pipeline: str,
        batch: str | None,
        *,
        report: Report,
        stopped_by: str,
        resume_command: str,
        retry_command: str = "",
        empty_hint: str = "submit some with `holdfast run` or `holdfast submit`",
        unreachable: Sequence[str] = (),
        withdrawn: int = 0,
        idle_hint: str = "",
        spent: str = "",
    ) -> None:
        """Read the counts from the store.

        Args:
            store: The store.
            pipeline: The name of the pipeline.
            batch: The batch that was worked on; None for all.
            report: What the worker reported.
            stopped_by: Why it stopped: a signal or a sentence. Empty if all work was done.
            resume_command: The command that continues.
            retry_command: The command that tries dead letters again, if there is one.
            empty_hint: What to do if there are no documents.
            unreachable: The sources that could not be reached.
            withdrawn: How many of the cancelled documents are not shown, because they were removed.
            idle_hint: What to say if there was nothing to do.
            spent: What was spent of the budget of the collection, if work stopped because of it.
        """
        self.pipeline = pipeline
        self.batch = batch
        self.is_lost = store.url == MEMORY_STORE
        self.report = replace(report, stopped_by=stopped_by or report.stopped_by)
        self.circuits = open_circuits(store, pipeline)
        self.now = store.now()
        self.resume_command = resume_command
        self.retry_command = retry_command
        self.empty_hint = empty_hint
        self.unreachable = unreachable
        self.withdrawn = withdrawn
        self.idle_hint = idle_hint
        self.spent = spent
        self.balance: Balance = store.balance(pipeline, batch)
        self.dead: list[DocumentStatus] = (
            store.documents(pipeline, batch=batch, state="dead", limit=MAX_DEAD_SHOWN) if self.balance.dead else []
        )
        self.where = document_options(store, self.dead[0]) if self.dead else ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        is_away = self.unreachable or (self.circuits and self.balance.waiting)
        by_result = SOURCE_UNREACHABLE if is_away else DEAD_LETTERS if self.balance.dead else OK
        return BY_SIGNAL.get(self.report.stopped_by, by_result)

    def as_json(self, submitted: SubmitResult | None) -> dict[str, object]:
        """Return the summary for programs."""
        return {
            "pipeline": self.pipeline,
            "batch": self.batch,
            "submitted": None if submitted is None else asdict(submitted),
            "report": asdict(self.report),
            "balance": {**asdict(self.balance), "balances": self.balance.balances},
            "paused_steps": [one.step for one in self.circuits],
            "dead_letters": [
                {"key": dead.key, "batch": dead.batch, "reason": dead.reason, "recoverable": dead.recoverable}
                for dead in self.dead
            ],
            "sources_away": [*self.unreachable],
            "exit_code": self.exit_code,
        }

    def print(self, cli: CliContext) -> None:
        """Print the summary."""
        if not self.balance.expected:
            where = f"Batch {self.batch} of pipeline" if self.batch else "Pipeline"
            hint = cli.with_program(self.empty_hint)
            print_line(f"{where} {self.pipeline} has no documents yet; {hint}.")
            self._print_unreachable()
            return
        print_line(self._format_work())
        if self.idle_hint:
            print_line(self.idle_hint)
        self._print_dead_letters(cli)
        if self.balance.paused:
            paused = f"{format_count(self.balance.paused, 'document')} paused"
            print_line(f"{paused}." if self.is_lost else f"{paused}: {self._list_command(cli, 'review')}")
        self._print_unreachable()
        for circuit in self.circuits:
            print_line(describe_circuit(circuit, self.now, cli.command), fg="red")
        for warning in self.report.warnings:
            print_line(f"Warning: {warning}", fg="yellow")
        if self.report.stopped_by:
            self._print_how_to_continue()
        if self.is_lost and self.balance.done < self.balance.expected:
            print_line(f"{MEMORY_STORE} is lost now. To keep the work, to look at it and to go on: {KEPT_STORE}")

    def _print_unreachable(self) -> None:
        if self.unreachable:
            number = format_count(len(self.unreachable), "source")
            print_line(f"{number} could not be reached. Try again with the same command:")
            print_line(f"  {self.resume_command}")

    def _format_work(self) -> str:
        report = self.report
        if not (report.claimed or report.done or report.dead or report.stopped_by):
            return f"Nothing to do. {self._format_state()}"
        parts = [f"{format_count(report.done, 'document')} done"]
        parts += [f"{format_count(report.items, 'item')} kept"] if report.items else []
        parts += [f"{report.set_aside:,} set aside"] if report.set_aside else []
        parts += [f"{report.dead:,} dead"] if report.dead else []
        parts += [f"{report.paused:,} paused"] if report.paused else []
        parts += [f"tried again {format_count(report.tried_again, 'time')}"] if report.tried_again else []
        if report.reclaimed:
            parts.append(f"{format_count(report.reclaimed, 'document')} taken over from a dead worker")
        per_second = report.done / report.seconds if report.seconds > 0 else 0.0
        speed = f" ({format_rate(per_second)})" if report.done > 1 else ""
        return f"{', '.join(parts)} in {format_duration(report.seconds)}{speed}. {self._format_state()}"

    def _format_state(self) -> str:
        cancelled = self.balance.cancelled - self.withdrawn
        done, wanted = self.balance.done, self.balance.expected - self.balance.cancelled
        if not wanted and cancelled:
            return "The document is cancelled." if cancelled == 1 else f"All {cancelled:,} are cancelled."
        others = f" {cancelled:,} more {'is' if cancelled == 1 else 'are'} cancelled." if cancelled else ""
        if done == wanted:
            return (f"All {wanted:,} are done." if wanted > 1 else "All is done.") + others
        return f"{done:,} of {wanted:,} are done.{others}"

    def _print_dead_letters(self, cli: CliContext) -> None:
        if not self.dead:
            return
        more = f", the newest {MAX_DEAD_SHOWN}" if self.balance.dead > MAX_DEAD_SHOWN else ""
        print_line(f"{format_count(self.balance.dead, 'dead letter')}{more}:", fg="red")
        for dead in self.dead:
            print_line(
                f"  {printable(shown_key(dead.key))} at {dead.checkpoint.step}: {one_line(dead.reason, MAX_REASON)}"
            )
        if self.is_lost:
            return
        print_line(f"  why:   {cli.command(*command_args(('show',), self.dead[0].key, options=self.where))}")
        print_line(f"  list:  {self._list_command(cli, 'dead')}")
        if self.retry_command:
            print_line(f"  again: {self.retry_command}")

    def _list_command(self, cli: CliContext, group: str) -> str:
        batch = ("--batch", self.batch) if self.batch else ()
        return cli.command(group, "list", "--pipeline", self.pipeline, *batch)

    def _print_how_to_continue(self) -> None:
        by = SIGNALS.get(self.report.stopped_by)
        left = self.balance.waiting + self.balance.running
        why = f"Stopped by {by}" if by else f"Stopped: {self.report.stopped_by}"
        if not left:
            print_line(f"{why}.")
            return
        documents = format_count(left, "document")
        if self.spent:
            print_line(f"{why} ({self.spent}); everything is saved, {documents} left. Continue with a larger budget:")
            print_line(f"  {self.resume_command}")
            return
        if self.is_lost:
            print_line(f"{why}; {documents} left.")
            return
        print_line(f"{why}; everything is saved, {documents} left. Continue with the same command:")
        print_line(f"  {self.resume_command}")
