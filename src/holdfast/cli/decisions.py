"""`holdfast cancel`, `pause`, `resume`, `priority` and `rewind`: what people decide about documents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.chosen import FILTERS, Chosen, Place, choosing, chosen, in_a_state
from holdfast.cli.deciding import Verb, decide, named_and_reasoned, plan_of, trying_out
from holdfast.cli.pipelines import load
from holdfast.cli.saying import say
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.who import named, not_empty
from holdfast.cli.words import count
from holdfast.cli.working import Duration
from holdfast.core.model import ON_HOLD, OPEN_STATES, Plan, State
from holdfast.engine.stale import stale_groups
from holdfast.stores.protocol import Store, Which


def _anywhere(*states: State) -> tuple[Place, ...]:
    return tuple((state, None) for state in states)


CANCEL = Verb("cancelled", "they had ended", _anywhere(*OPEN_STATES))
PAUSE = Verb("paused", "they do not wait or run", _anywhere("waiting", "running"))
RESUME = Verb("resumed", "they were not paused", _anywhere("paused"))


@click.command()
@choosing
@in_a_state
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
        decide(asked, documents, act, CANCEL, dry_run=dry_run)


@click.command()
@choosing
@in_a_state
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
        decide(asked, documents, act, PAUSE, dry_run=dry_run)


@click.command()
@choosing
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def resume(asked: Asked, /, *, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Lets documents go on that were paused, from the very item where they stopped.

    Those that wait for a decision, at a gate or because a step asked, are left to `holdfast review`, unless they are
    meant: by KEYS, by --step or by --error.
    """
    with store_that_exists(asked) as store:
        meant = bool(given["step"] or given["error"])
        always = {"state": "paused"} if meant else {"state": "paused", "error": ON_HOLD}
        documents = chosen(asked, store, given, **always)
        plan = plan_of(store, documents.pipeline)
        act = lambda ids: store.resume(plan, ids, who=who, reason=reason)  # noqa: E731
        decide(asked, documents, act, RESUME, dry_run=dry_run)
        if not meant and not given["keys"]:
            _tell_who_waits(asked, store, documents.pipeline, given["batch"])


def _tell_who_waits(asked: Asked, store: Store, pipeline: str, batch: str | None) -> None:
    """Says who is paused and was not meant: being resumed is being decided about."""
    waiting = store.count(pipeline, batch=batch, state="paused") - store.count(
        pipeline, batch=batch, state="paused", error=ON_HOLD
    )
    if waiting and not asked.json:
        command = asked.command("review", "list", "--pipeline", pipeline)
        say(f"{count(waiting, 'document waits', 'documents wait')} for a decision: {command}")


@click.command()
@click.argument("priority", type=click.IntRange(-(2**31), 2**31 - 1))
@choosing
@in_a_state
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def priority(asked: Asked, /, *, priority: int, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Gives documents another PRIORITY: a higher one is worked on first. Those in hand go on."""
    with store_that_exists(asked) as store:
        documents = chosen(asked, store, given)
        act = lambda ids: store.prioritise(ids, priority=priority, who=who, reason=reason)  # noqa: E731
        verb = Verb(f"of priority {priority}", "they had it, or have ended", _anywhere(*OPEN_STATES, "dead"))
        decide(asked, documents, act, verb, dry_run=dry_run)


@click.command()
@choosing
@in_a_state
@click.option("--to", metavar="STEP", help="The step to go back to.")
@click.option("--stale", metavar="PIPELINE", help="All whose work is out of date by this file, to where it is.")
@named
@click.option("--reason", callback=not_empty, help="Why; kept in the journal. [default with --stale: what changed]")
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
            others = [name for name in (*FILTERS, "keys", "everything") if name != "batch" and given.get(name)]
            if others:
                raise Trouble("--stale finds the documents itself; only --batch may narrow it down")
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
    decide(asked, documents, act, _rewinding(plan, to), dry_run=dry_run)


def _rewinding(plan: Plan, to: str) -> Verb:
    names = list(plan.step_ids)
    states: tuple[State, ...] = (*OPEN_STATES, "dead", "cancelled")
    behind = [(state, step) for state in states for step in names[names.index(to) :]]
    otherwise = f"they stand before {to}, or what they kept was cleaned up"
    return Verb(f"rewound to {to}", otherwise, (("done", None), *behind))


def _rewind_stale(
    asked: Asked, store: Store, stale: str, batch: str | None, *, who: str, reason: str | None, dry_run: bool
) -> None:
    pipeline = load(stale).pipeline
    if batch:
        known_batch(store, known_pipeline(store, pipeline.name), batch)
    groups = stale_groups(store, pipeline, batch=batch)
    if not groups:
        say('{"changed":0}' if asked.json else f"Nothing of {pipeline.name} is out of date.")
        return
    plan = store.declare(pipeline.shape())
    for group in groups:
        say(f"{count(group.documents, 'document')}: {group.why}", err=asked.json)
        for one in group.counts:
            which: Which = {"plan": group.plan_id, "state": one.state, "step": one.step, "batch": batch}
            documents = Chosen(store, pipeline.name, which)
            _rewind(asked, store, plan, documents, group.to, who=who, reason=reason or group.why, dry_run=dry_run)
