"""`holdfast doc cancel`, `pause`, `resume`, `priority` and `rewind`: decisions about many documents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.bulk_decision import Action, apply_action, get_plan
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import DEAD_LETTERS
from holdfast.cli.options import (
    REASON_HELP,
    common_options,
    dry_run_option,
    require_text,
    who_and_reason,
    who_option,
)
from holdfast.cli.output import print_line
from holdfast.cli.param_types import DurationType
from holdfast.cli.pipeline_loader import load_pipeline
from holdfast.cli.selection import (
    FILTERS,
    DocumentSelection,
    StateAndStep,
    filter_options,
    select_documents,
    state_option,
)
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.core.formatting import format_count
from holdfast.core.model import OPEN_STATES, STATES, Plan, State
from holdfast.core.reasons import ON_HOLD
from holdfast.ops.forecast import stale_groups
from holdfast.ops.withdraw import Withdrawal, refuse_if_rows_would_stay
from holdfast.stores.protocol import DocumentFilter, Store


def _at_any_step(*states: State) -> tuple[StateAndStep, ...]:
    return tuple((state, None) for state in states)


WITHDRAW = Action(
    "cancelled, and the rows of their effects removed",
    "they were cancelled before and have no rows, or their rows could not be removed",
    _at_any_step(*(state for state in STATES if state != "cancelled")),
)
CANCEL = Action("cancelled", "they have ended", _at_any_step(*OPEN_STATES))
PAUSE = Action("paused", "they are not waiting or running", _at_any_step("waiting", "running"))
RESUME = Action("resumed", "they are not paused", _at_any_step("paused"))


@click.command()
@filter_options
@state_option
@click.option(
    "--undo",
    metavar="PIPELINE",
    help="Also remove the rows that effects wrote, with the undo functions in this pipeline's file. Documents that "
    "have ended are cancelled too.",
)
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def cancel(cli: CliContext, /, *, undo: str | None, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Cancel documents. Select them by KEYS or a pattern with * and ?, by options, or with --all.

    Documents that have not ended become cancelled. A worker that holds one stops at the next item, and can commit
    nothing more. The rows that effects wrote stay, unless --undo is given.
    """
    with open_existing_store(cli) as store:
        if undo:
            _withdraw(cli, store, undo, given, who=who, reason=reason, dry_run=dry_run)
            return
        documents = select_documents(cli, store, given)
        act = lambda ids: store.cancel(ids, who=who, reason=reason)  # noqa: E731
        apply_action(cli, documents, act, CANCEL, dry_run=dry_run)


def _withdraw(
    cli: CliContext, store: Store, undo: str, given: dict[str, Any], *, who: str, reason: str, dry_run: bool
) -> None:
    """Cancel documents of any state, and remove the rows of their effects."""
    pipeline = load_pipeline(undo).pipeline
    if given["pipeline"] not in (None, pipeline.name, undo):
        raise CliError(f"--undo names the pipeline {pipeline.name!r}, and --pipeline names {given['pipeline']!r}")
    require_pipeline(store, pipeline.name)
    refuse_if_rows_would_stay(pipeline)
    documents = select_documents(cli, store, given | {"pipeline": pipeline.name})
    withdrawal = Withdrawal(pipeline, store, who=who, reason=reason)
    apply_action(cli, documents, withdrawal.withdraw, WITHDRAW, dry_run=dry_run)
    for failure in withdrawal.failures:
        print_line(failure, err=True)
    if withdrawal.failures:
        raise click.exceptions.Exit(DEAD_LETTERS)


@click.command()
@filter_options
@state_option
@click.option("--for", "duration", type=DurationType(), help="Resume automatically after this time, such as 2h.")
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def pause(
    cli: CliContext, /, *, who: str, reason: str, duration: timedelta | None, dry_run: bool, **given: Any
) -> None:
    """Pause documents until `holdfast doc resume`, or for some time. A worker that holds one stops at the next item.

    Select them by KEYS or a pattern with * and ?, by options, or with --all.
    """
    with open_existing_store(cli) as store:
        until = store.now() + duration if duration else None
        documents = select_documents(cli, store, given)
        act = lambda ids: store.pause(ids, who=who, reason=reason, until=until)  # noqa: E731
        apply_action(cli, documents, act, PAUSE, dry_run=dry_run)


@click.command()
@filter_options
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def resume(cli: CliContext, /, *, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Let paused documents continue, from the item where they stopped.

    Select them by KEYS or a pattern with * and ?, by options, or with --all.

    Documents that wait for a decision, at a gate or because a step paused them, are not resumed: decide with `holdfast
    review`. To resume them anyway, select them by KEYS, --step or --error.
    """
    with open_existing_store(cli) as store:
        with_waiting = bool(given["step"] or given["error"])
        always = {"state": "paused"} if with_waiting else {"state": "paused", "code": ON_HOLD}
        documents = select_documents(cli, store, given, **always)
        plan = get_plan(store, documents.pipeline)
        act = lambda ids: store.resume(plan, ids, who=who, reason=reason)  # noqa: E731
        apply_action(cli, documents, act, RESUME, dry_run=dry_run)
        if not with_waiting and not given["keys"]:
            _print_waiting(cli, store, documents.pipeline, given["batch"])


def _print_waiting(cli: CliContext, store: Store, pipeline: str, batch: str | None) -> None:
    """Print how many paused documents were not resumed because they wait for a decision."""
    waiting = store.count(pipeline, batch=batch, state="paused") - store.count(
        pipeline, batch=batch, state="paused", code=ON_HOLD
    )
    if waiting and not cli.json:
        command = cli.command("review", "list", "--pipeline", pipeline)
        print_line(f"{format_count(waiting, 'document waits', 'documents wait')} for a decision: {command}")


@click.command()
@click.argument("priority", type=click.IntRange(-(2**31), 2**31 - 1))
@filter_options
@state_option
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def priority(cli: CliContext, /, *, priority: int, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Set the PRIORITY of documents. Those with a higher priority are processed first.

    Select them by KEYS or a pattern with * and ?, by options, or with --all. Documents that a worker holds are
    not interrupted.
    """
    with open_existing_store(cli) as store:
        documents = select_documents(cli, store, given)
        act = lambda ids: store.prioritise(ids, priority=priority, who=who, reason=reason)  # noqa: E731
        action = Action(
            f"set to priority {priority}", "they have it already, or have ended", _at_any_step(*OPEN_STATES, "dead")
        )
        apply_action(cli, documents, act, action, dry_run=dry_run)


@click.command()
@filter_options
@state_option
@click.option("--to", metavar="STEP", help="The step to go back to. Required without --stale.")
@click.option(
    "--stale",
    metavar="PIPELINE",
    help="Rewind all documents whose work is stale according to this pipeline's file, to the first stale step.",
)
@who_option
@click.option(
    "--reason",
    callback=require_text,
    help=f"{REASON_HELP} Required without --stale. [default with --stale: what changed]",
)
@dry_run_option
@common_options
@click.pass_obj
def rewind(
    cli: CliContext,
    /,
    *,
    to: str | None,
    stale: str | None,
    who: str,
    reason: str | None,
    dry_run: bool,
    **given: Any,
) -> None:
    """Move documents back to a step, as a new generation.

    Select them by KEYS or a pattern with * and ?, by options, or with --all, and give --to; or use --stale.

    The items of earlier steps are used again. The items of this step and later ones are replaced, but they can be read
    until the new generation is done. Documents that have not reached the step are not changed.
    """
    if bool(to) == bool(stale):
        raise CliError("say where to go back to: --to STEP, or --stale PIPELINE.py for stale work")
    with open_existing_store(cli) as store:
        if stale:
            others = [name for name in (*FILTERS, "keys", "everything") if name != "batch" and given.get(name)]
            if others:
                raise CliError("--stale selects the documents itself; only --batch can be added")
            _rewind_stale(cli, store, stale, given["batch"], who=who, reason=reason, dry_run=dry_run)
            return
        if not reason:
            raise CliError("give a reason for the journal with --reason")
        documents = select_documents(cli, store, given)
        plan = get_plan(store, documents.pipeline)
        _rewind(cli, store, plan, documents, str(to), who=who, reason=reason, dry_run=dry_run)


def _rewind(
    cli: CliContext,
    store: Store,
    plan: Plan,
    documents: DocumentSelection,
    to: str,
    *,
    who: str,
    reason: str,
    dry_run: bool,
) -> None:
    if to not in plan.step_ids:
        raise CliError(f"{documents.pipeline!r} has no step {to!r}; it has: {', '.join(plan.step_ids)}")
    act = lambda ids: store.rewind_to(plan, ids, to=to, who=who, reason=reason)  # noqa: E731
    apply_action(cli, documents, act, _rewind_action(plan, to), dry_run=dry_run)


def _rewind_action(plan: Plan, to: str) -> Action:
    names = list(plan.step_ids)
    states: tuple[State, ...] = (*OPEN_STATES, "dead", "cancelled")
    reached = [(state, step) for state in states for step in names[names.index(to) :]]
    otherwise = f"they have not reached {to}, or were cleaned up"
    return Action(f"rewound to {to}", otherwise, (("done", None), *reached))


def _rewind_stale(
    cli: CliContext, store: Store, stale: str, batch: str | None, *, who: str, reason: str | None, dry_run: bool
) -> None:
    pipeline = load_pipeline(stale).pipeline
    if batch:
        require_batch(store, require_pipeline(store, pipeline.name), batch)
    groups = stale_groups(store, pipeline, batch=batch)
    if not groups:
        print_line('{"changed":0}' if cli.json else f"No work of {pipeline.name} is stale.")
        return
    plan = store.declare(pipeline.shape())
    for group in groups:
        print_line(f"{format_count(group.documents, 'document')}: {group.why}", err=cli.json)
        for count in group.counts:
            which: DocumentFilter = {"plan": group.plan_id, "state": count.state, "step": count.step, "batch": batch}
            documents = DocumentSelection(store, pipeline.name, which)
            _rewind(cli, store, plan, documents, group.to, who=who, reason=reason or group.why, dry_run=dry_run)
