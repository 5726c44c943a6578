"""`holdfast status`: what is in the store, and whether it balances."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from holdfast.cli.asked import Asked, common
from holdfast.cli.balance import balances, in_order
from holdfast.cli.chosen import since
from holdfast.cli.hands import Workers
from holdfast.cli.saying import say, styled, tell
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.words import ago, count, harmless, one_line, short
from holdfast.core.batches import CLOSING
from holdfast.core.commands import about
from holdfast.core.model import Batch, Standing
from holdfast.core.plan import Shape
from holdfast.engine.case import where
from holdfast.engine.closing import are_over, closing_document, ways_on
from holdfast.stores.protocol import Store

NEWEST = 10


@click.command()
@click.argument("pipeline", required=False)
@click.option("--batch", help="Only this batch.")
@common
@click.pass_obj
def status(asked: Asked, *, pipeline: str | None, batch: str | None) -> None:
    """Counts the documents of every batch, and says whether the count balances.

    It reads the store only. PIPELINE is a pipeline's name (or its file); all of them otherwise.
    """
    with store_that_exists(asked) as store:
        names = [known_pipeline(store, pipeline)] if pipeline else _pipelines(store)
        if batch:
            for name in names if pipeline else names[:1]:
                known_batch(store, name, batch)
        found = [Overview(store, name, batch) for name in names]
        workers = Workers(store)
        if asked.json:
            tell(_as_json(asked, found, workers))
        else:
            _tell(asked, found, workers, store.now())


def _pipelines(store: Store) -> list[str]:
    """Names all pipelines but closing steps, which are told of with the batches that they close."""
    return [name for name in store.pipelines() if not name.endswith(CLOSING)]


class Overview:
    """One pipeline: its batches, and its newest dead letters."""

    def __init__(self, store: Store, pipeline: str, batch: str | None) -> None:
        self.pipeline = pipeline
        self.shape: Shape | None = store.shape(pipeline)
        self.batches: list[Batch] = [one for one in store.batches(pipeline) if batch in (None, one.name)]
        self.paces = store.paces(pipeline)
        self.closing: dict[str, Standing] = _closing(store, pipeline, self.batches)
        any_dead = any(one.balance.dead for one in self.batches)
        self.dead: list[Standing] = (
            store.standings(pipeline, batch=batch, state="dead", limit=NEWEST) if any_dead else []
        )
        self.died = [since(store, one) for one in self.dead]
        self.where = where(store, self.dead[0]) if self.dead else ()

    def tell(self, asked: Asked, now: datetime) -> None:
        """Tells it to a person."""
        steps = f": {' → '.join(self.shape.names)}" if self.shape else ""
        say(styled(self.pipeline, bold=True) + steps)
        if not self.batches:
            say("  no documents yet")
            return
        for line in balances((one.name, one.state, one.balance) for one in self.batches):
            say(line)
        for one in self.batches:
            self._tell_steps(one)
            self._tell_closing(asked, one)
        self._tell_paces()
        self._tell_dead(asked, now)

    def _tell_steps(self, one: Batch) -> None:
        if not one.at_step:
            return
        steps = in_order(one.at_step, self.shape.names if self.shape else ())
        say(f"  {harmless(one.name)}, at steps: " + ", ".join(f"{step} {one.at_step[step]:,}" for step in steps))

    def _tell_paces(self) -> None:
        if said := [f"{step} {short(average)}" for step, average in self.averages().items()]:
            say("  bodies take, for a document: " + ", ".join(said))

    def averages(self) -> dict[str, float]:
        """Gives the seconds that the bodies of a step took for a document, on average, in the order of the steps."""
        order = self.shape.names if self.shape else tuple(self.paces)
        paces = {step: self.paces[step] for step in order if step in self.paces}
        return {step: seconds / documents for step, (documents, seconds) in paces.items() if documents}

    def _tell_closing(self, asked: Asked, one: Batch) -> None:
        if (last := self.closing.get(one.name)) is None:
            return
        why = f": {one_line(last.reason, 160)}" if last.reason else ""
        say(f"  {one.name} is closed, its closing steps are {last.state} at {last.checkpoint.step}{why}")
        for words in ways_on(last):
            say(f"    go on: {asked.command(*words)}")

    def _tell_dead(self, asked: Asked, now: datetime) -> None:
        if not self.dead:
            return
        total = sum(one.balance.dead for one in self.batches)
        more = f", the newest {NEWEST}" if total > NEWEST else ""
        say(f"  {count(total, 'dead letter')}{more}:", fg="red")
        for one, died_at in zip(self.dead, self.died, strict=True):
            where = f"{one.batch}/{one.key}" if len(self.batches) > 1 else one.key
            died = ago(min(died_at, now), now)
            say(f"    {harmless(where)} at {one.checkpoint.step}, {died}: {one_line(one.reason, 160)}")
        show = about(("show",), self.dead[0].key, options=self.where)
        say(f"    the whole story: {asked.command(*show)}")


def _closing(store: Store, pipeline: str, batches: Sequence[Batch]) -> dict[str, Standing]:
    """Finds the closing steps that are not over, of batches that are closed."""
    if not any(one.state == "closed" for one in batches) or not store.balance(pipeline + CLOSING).expected:
        return {}
    steps = {one.name: closing_document(store, pipeline, one.name) for one in batches if one.state == "closed"}
    return {name: last for name, last in steps.items() if last is not None and not are_over(last)}


def _tell(asked: Asked, found: Sequence[Overview], workers: Workers, now: datetime) -> None:
    if not found:
        say(f"{asked.shown_store} has no pipelines yet.")
    for overview in found:
        overview.tell(asked, now)
        say()
    workers.tell(now)


def _as_json(asked: Asked, found: Sequence[Overview], workers: Workers) -> dict[str, Any]:
    return {
        "store": asked.shown_store,
        "pipelines": [
            {
                "pipeline": one.pipeline,
                "steps": one.shape.names if one.shape else [],
                "batches": [_batch(batch, one.closing.get(batch.name)) for batch in one.batches],
                "paces": {
                    step: {"documents": documents, "seconds": seconds}
                    for step, (documents, seconds) in one.paces.items()
                },
                "dead_letters": [
                    {
                        "batch": dead.batch,
                        "key": dead.key,
                        "step": dead.checkpoint.step,
                        "reason": dead.reason,
                        "moved_at": dead.moved_at,
                    }
                    for dead in one.dead
                ],
            }
            for one in found
        ],
        **workers.as_json(),
    }


def _batch(batch: Batch, closing: Standing | None) -> dict[str, Any]:
    balance = msgspec.structs.asdict(batch.balance) | {"balances": batch.balance.balances}
    return {
        "batch": batch.name,
        "state": batch.state,
        "created_at": batch.created_at,
        **balance,
        "at_step": batch.at_step,
        "closing": None if closing is None else {"state": closing.state, "step": closing.checkpoint.step},
    }
