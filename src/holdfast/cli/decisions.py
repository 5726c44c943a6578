"""`holdfast cancel`, `pause`, `resume`, `priority` and `rewind`: what people decide about documents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.chosen import Chosen, choosing, chosen
from holdfast.cli.deciding import decide, named_and_reasoned, plan_of, trying_out
from holdfast.cli.pipelines import load
from holdfast.cli.stores import store_that_exists
from holdfast.cli.who import login
from holdfast.cli.words import count
from holdfast.cli.working import Duration
from holdfast.core.model import Plan
from holdfast.engine.stale import stale_groups
from holdfast.stores.protocol import Store, Which


@click.command()
@choosing
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def cancel(asked: Asked, /, *, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Cancels documents: those named by KEYS, or all that the options describe.

    Open documents end for good. A worker that is at one of them stops at the next item, and cannot write any more.
    """
    with store_that_exists(asked) as store:
        documents = chosen(asked, store, given)
        act = lambda ids: store.cancel(ids, who=who, reason=reason)  # noqa: E731
        decide(asked, documents, act, done="cancelled", else_="they had ended", dry_run=dry_run)


@click.command()
@choosing
@click.option("--for", "span", type=Duration(), help="Go on by themselves after so long, such as 2h.")
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def pause(asked: Asked, /, *, who: str, reason: str, span: timedelta | None, dry_run: bool, **given: Any) -> None:
    """Pauses documents, until `holdfast resume` or for a while. A worker that is at one stops at the next item."""
    with store_that_exists(asked) as store:
        until = store.now() + span if span else None
        documents = chosen(asked, store, given)
        act = lambda ids: store.pause(ids, who=who, reason=reason, until=until)  # noqa: E731
        decide(asked, documents, act, done="paused", else_="they do not wait or run", dry_run=dry_run)


@click.command()
@choosing
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def resume(asked: Asked, /, *, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Lets paused documents go on, from the very item where they stopped; past the gate if they stand at one."""
    with store_that_exists(asked) as store:
        documents = chosen(asked, store, given, state="paused")
        plan = plan_of(store, documents.pipeline)
        act = lambda ids: store.resume(plan, ids, who=who, reason=reason)  # noqa: E731
        decide(asked, documents, act, done="resumed", else_="they were not paused", dry_run=dry_run)


@click.command()
@click.argument("priority", type=int)
@choosing
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def priority(asked: Asked, /, *, priority: int, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Gives documents another PRIORITY: a higher one is worked on first. Those in hand go on."""
    with store_that_exists(asked) as store:
        documents = chosen(asked, store, given)
        act = lambda ids: store.prioritise(ids, priority=priority, who=who, reason=reason)  # noqa: E731
        done, else_ = f"of priority {priority} now", "they had it, or have ended"
        decide(asked, documents, act, done=done, else_=else_, dry_run=dry_run)


@click.command()
@choosing
@click.option("--to", metavar="STEP", help="The step to go back to.")
@click.option("--stale", metavar="PIPELINE", help="All whose work is out of date by this file, to where it is.")
@click.option("--who", default=login, help="Who decides; in the journal. [env: HOLDFAST_WHO; default: you]")
@click.option("--reason", help="Why; in the journal. With --stale: what changed, unless you say something else.")
@trying_out
@common
@click.pass_obj
def rewind(
    asked: Asked, /, *, to: str | None, stale: str | None, who: str, reason: str | None, dry_run: bool, **given: Any
) -> None:
    """Sets documents back to a step, as a new generation.

    What earlier steps kept is used again; what this and later steps kept is replaced, and stays readable until the
    new generation is done. Documents that did not come as far as the step are left alone.
    """
    if bool(to) == bool(stale):
        raise Trouble("say where to: --to STEP, or --stale PIPELINE.py for work that is out of date")
    with store_that_exists(asked) as store:
        if stale:
            _rewind_stale(asked, store, stale, given["batch"], who=who, reason=reason, dry_run=dry_run)
            return
        if not reason:
            raise Trouble("say why, for the journal: --reason")
        documents = chosen(asked, store, given)
        plan = plan_of(store, documents.pipeline)
        _rewind(asked, store, plan, documents, str(to), who=who, reason=reason, dry_run=dry_run)


def _rewind(
    asked: Asked, store: Store, plan: Plan, documents: Chosen, to: str, *, who: str, reason: str, dry_run: bool
) -> None:
    if to not in plan.step_ids:
        raise Trouble(f"{documents.pipeline!r} has no step {to!r}; it has: {', '.join(plan.step_ids)}")
    act = lambda ids: store.rewind_to(plan, ids, to=to, who=who, reason=reason)  # noqa: E731
    decide(asked, documents, act, done=f"rewound to {to}", else_=f"they stand before {to}", dry_run=dry_run)


def _rewind_stale(
    asked: Asked, store: Store, stale: str, batch: str | None, *, who: str, reason: str | None, dry_run: bool
) -> None:
    pipeline = load(stale).pipeline
    groups = stale_groups(store, pipeline, batch=batch)
    if not groups:
        click.echo(f"Nothing of {pipeline.name} is out of date.")
        return
    plan = store.declare(pipeline.shape())
    for group in groups:
        click.echo(f"{count(group.documents, 'document')}: {group.why}", err=asked.json)
        for one in group.counts:
            which: Which = {"plan": group.plan_id, "state": one.state, "step": one.step, "batch": batch}
            documents = Chosen(store, pipeline.name, which)
            _rewind(asked, store, plan, documents, group.to, who=who, reason=reason or group.why, dry_run=dry_run)
