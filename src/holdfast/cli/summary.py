"""The closing words of a run: what became of the documents, and which command comes next."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from holdfast.cli.asked import DEAD_LETTERS, FINE, INTERRUPTED, SOURCE_AWAY, TERMINATED, Asked
from holdfast.cli.progress import SIGNALS
from holdfast.cli.saying import say
from holdfast.cli.words import count, harmless, one_line, rate, span
from holdfast.core.commands import about
from holdfast.core.model import Balance, Receipt, Standing
from holdfast.engine.case import where
from holdfast.engine.report import Report
from holdfast.stores.protocol import Store

SHOWN = 5


class Summary:
    """What a run did, what is left, and what to do about it."""

    def __init__(
        self,
        store: Store,
        pipeline: str,
        batch: str | None,
        *,
        report: Report,
        stopped_by: str,
        goes_on: str,
        retry: str = "",
        begins: str = "submit some with `holdfast run` or `submit`",
        away: Sequence[str] = (),
    ) -> None:
        self.pipeline = pipeline
        self.batch = batch
        self.report = replace(report, stopped_by=stopped_by)
        self.goes_on = goes_on
        self.retry = retry
        self.begins = begins
        self.away = away
        self.balance: Balance = store.balance(pipeline, batch)
        self.dead: list[Standing] = (
            store.standings(pipeline, batch=batch, state="dead", limit=SHOWN) if self.balance.dead else []
        )
        self.where = where(store, self.dead[0]) if self.dead else ()

    @property
    def exit_code(self) -> int:
        """What the process ends with."""
        stopped = {"SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}
        ended = SOURCE_AWAY if self.away else DEAD_LETTERS if self.balance.dead else FINE
        return stopped.get(self.report.stopped_by, ended)

    def as_json(self, receipt: Receipt | None) -> dict[str, object]:
        """Gives it for programs."""
        return {
            "pipeline": self.pipeline,
            "batch": self.batch,
            "submitted": None if receipt is None else asdict(receipt),
            "report": asdict(self.report),
            "balance": {**asdict(self.balance), "balances": self.balance.balances},
            "dead_letters": [{"key": one.key, "batch": one.batch, "reason": one.reason} for one in self.dead],
            "sources_away": [*self.away],
            "exit_code": self.exit_code,
        }

    def tell(self, asked: Asked) -> None:
        """Tells it to a person."""
        if not self.balance.expected:
            where = f"Batch {self.batch} of pipeline" if self.batch else "Pipeline"
            say(f"{where} {self.pipeline} has no documents yet; {self.begins}.")
            self._tell_away()
            return
        say(self._what_was_done())
        self._tell_dead_letters(asked)
        if self.balance.paused:
            say(f"{count(self.balance.paused, 'document')} paused: {self._list(asked, 'review')}")
        self._tell_away()
        if self.report.stopped_by:
            self._tell_how_to_go_on()

    def _tell_away(self) -> None:
        if self.away:
            say(f"{count(len(self.away), 'source')} could not be reached. Look again with the same command:")
            say(f"  {self.goes_on}")

    def _what_was_done(self) -> str:
        report = self.report
        said = [f"{count(report.done, 'document')} done"]
        said += [f"{count(report.items, 'item')} kept"] if report.items else []
        said += [f"{report.dead:,} dead"] if report.dead else []
        said += [f"{report.paused:,} paused"] if report.paused else []
        said += [f"tried again {count(report.tried_again, 'time')}"] if report.tried_again else []
        said += [f"{count(report.reclaimed, 'document')} taken over from a dead worker"] if report.reclaimed else []
        per_second = report.done / report.seconds if report.seconds > 0 else 0.0
        speed = f" ({rate(per_second)})" if report.done > 1 else ""
        return f"{', '.join(said)} in {span(report.seconds)}{speed}. {self._now()}"

    def _now(self) -> str:
        done, wanted = self.balance.done, self.balance.expected - self.balance.cancelled
        if done == wanted:
            return f"All {wanted:,} are done." if wanted > 1 else "All is done."
        return f"{done:,} of {wanted:,} are done."

    def _tell_dead_letters(self, asked: Asked) -> None:
        if not self.dead:
            return
        more = f", the newest {SHOWN}" if self.balance.dead > SHOWN else ""
        say(f"{count(self.balance.dead, 'dead letter')}{more}:", fg="red")
        for one in self.dead:
            say(f"  {harmless(one.key)} at {one.checkpoint.step}: {one_line(one.reason, 160)}")
        say(f"  why:      {asked.command(*about(('show',), self.dead[0].key, options=self.where))}")
        say(f"  them all: {self._list(asked, 'dead')}")
        if self.retry:
            say(f"  again:    {self.retry}")

    def _list(self, asked: Asked, what: str) -> str:
        batch = ("--batch", self.batch) if self.batch else ()
        return asked.command(what, "list", "--pipeline", self.pipeline, *batch)

    def _tell_how_to_go_on(self) -> None:
        by = SIGNALS.get(self.report.stopped_by)
        left = self.balance.waiting + self.balance.running
        why = f"Stopped by {by}" if by else f"Stopped: {self.report.stopped_by}"
        if not left:
            say(f"{why}.")
            return
        say(f"{why}; everything is saved, {count(left, 'document')} to go. Go on with the same command:")
        say(f"  {self.goes_on}")
