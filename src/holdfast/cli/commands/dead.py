"""`holdfast dead`: list, show, redrive and accept dead letters."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.cli.bulk_decision import Action, apply_action
from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import (
    batch_option,
    common_options,
    dry_run_option,
    items_option,
    limit_option,
    pipeline_option,
    who_and_reason,
)
from holdfast.cli.output import print_json, print_line
from holdfast.cli.param_types import RateType
from holdfast.cli.selection import DocumentSelection, filter_options, find_document, select_documents, state_since
from holdfast.cli.shown_keys import shown_key, shown_place
from holdfast.cli.store_access import open_existing_store, require_pipeline
from holdfast.cli.ui.document_report import DocumentReport
from holdfast.core.formatting import RECOVERABLE_NOTE, format_ago, format_count, format_table, one_line, printable
from holdfast.core.model import DocumentStatus
from holdfast.core.reasons import ON_HOLD, ORPHAN_CODES
from holdfast.core.suggested_commands import command_args
from holdfast.ops.explain.context import document_options
from holdfast.stores.protocol import DocumentFilter, Store

REDRIVE = Action(
    "redriven", "not dead, cleaned up, or at a step that no longer exists (rewind those)", (("dead", None),)
)
ACCEPT = Action("accepted", "not dead, or already accepted", (("dead", None),))


@click.group(cls=CommandGroup)
@common_options
def dead() -> None:
    """List dead letters, try them again, or accept them.

    A dead letter is a document that failed and is not tried again by itself. Its batch cannot be closed before somebody
    has redriven or accepted it.
    """


@dead.command("list")
@filter_options
@limit_option(100)
@common_options
@click.pass_obj
def list_(cli: CliContext, /, *, limit: int, **given: Any) -> None:
    """List dead letters, newest first: all of them, or those that KEYS or the options select."""
    with open_existing_store(cli) as store:
        selections = _selections(cli, store, given)
        letters = [one for selection in selections for one in selection.documents(limit) if one.state == "dead"]
        total = len(letters) if given["keys"] else sum(selection.count() for selection in selections)
        orphans = 0 if given["keys"] else _count_orphans(store, given)
        undecided = 0 if given["keys"] else _count_undecided(store, given) - orphans
        if cli.json:
            rows = [_as_json(letter, state_since(store, letter)) for letter in letters]
            print_json({"total": total, "dead_letters": rows, "orphans_for_review": orphans, "undecided": undecided})
        else:
            _print_list(cli, store, letters, total)
            _print_orphans(cli, orphans)
            _print_undecided(cli, undecided, given)


def _count_orphans(store: Store, given: dict[str, Any]) -> int:
    """Count the orphans that are kept for review. A person who looks for failed documents should find them too."""
    names = [require_pipeline(store, given["pipeline"])] if given["pipeline"] else store.pipelines()
    batch = given["batch"]
    return sum(store.count(name, batch=batch, state="paused", code=code) for name in names for code in ORPHAN_CODES)


def _count_undecided(store: Store, given: dict[str, Any]) -> int:
    """Count the documents that wait for the decision of a person. Those on hold wait for none."""
    names = [require_pipeline(store, given["pipeline"])] if given["pipeline"] else store.pipelines()
    paused: DocumentFilter = {"batch": given["batch"], "state": "paused"}
    on_hold: DocumentFilter = {**paused, "code": ON_HOLD}
    return sum(store.count(name, **paused) - store.count(name, **on_hold) for name in names)


def _print_undecided(cli: CliContext, undecided: int, given: dict[str, Any]) -> None:
    if undecided:
        wait = format_count(undecided, "document waits", "documents wait")
        options = [word for name in ("pipeline", "batch") if given[name] for word in (f"--{name}", given[name])]
        print_line(f"{wait} for a decision, not dead: {cli.command('review', 'list', *options)}")


def _print_orphans(cli: CliContext, orphans: int) -> None:
    if orphans:
        are = "orphan is" if orphans == 1 else "orphans are"
        print_line(f"{orphans:,} {are} kept for review, not dead: {cli.command('review', 'list', '--orphans')}")


def _selections(cli: CliContext, store: Store, given: dict[str, Any]) -> list[DocumentSelection]:
    """Return a selection for the pipeline that is named, or for each pipeline that has the batch."""
    if given["pipeline"] or (given["keys"] and not any(mark in key for key in given["keys"] for mark in "*?")):
        return [select_documents(cli, store, given | {"everything": True}, state="dead")]
    names = store.pipelines()
    if given["batch"]:
        names = [name for name in names if any(batch.name == given["batch"] for batch in store.batches(name))]
        if not names:
            raise CliError(f"no pipeline has a batch {given['batch']!r}; `holdfast status` shows what the store has")
    return [
        select_documents(cli, store, given | {"pipeline": name, "everything": True}, state="dead") for name in names
    ]


def _as_json(letter: DocumentStatus, died_at: datetime) -> dict[str, Any]:
    return {
        "pipeline": letter.pipeline,
        "batch": letter.batch,
        "key": letter.key,
        "step": letter.checkpoint.step,
        "error": letter.error,
        "reason": letter.reason,
        "recoverable": letter.recoverable,
        "attempts": letter.attempts,
        "crashes": letter.crashes,
        "losses": letter.losses,
        "died_at": died_at,
        "moved_at": letter.moved_at,
        "accepted_by": letter.accepted_by,
    }


def _print_list(cli: CliContext, store: Store, letters: list[DocumentStatus], total: int) -> None:
    if not letters:
        print_line("There are no dead letters.")
        return
    more = f", the newest {len(letters):,}" if total > len(letters) else ""
    print_line(f"{format_count(total, 'dead letter')}{more}:")
    now = store.now()
    rows = [
        [
            printable(shown_place(letter.batch, letter.key)),
            f"at {letter.checkpoint.step}",
            format_ago(state_since(store, letter), now),
            one_line(_format_reason(letter), 140),
        ]
        for letter in letters
    ]
    for line in format_table(rows, indent="  "):
        print_line(line)
    newest = next((letter for letter in letters if not letter.accepted_by), letters[0])
    options = document_options(store, newest)
    for label, command in (
        ("why", command_args(("dead", "show"), newest.key, options=options)),
        ("try again", command_args(("dead", "redrive"), newest.key, options=(*options, "--reason", "repaired"))),
        ("accept", command_args(("dead", "accept"), newest.key, options=(*options, "--reason", "cannot be read"))),
    ):
        print_line(f"  {label + ':':10} {cli.command(*command)}")


def _format_reason(letter: DocumentStatus) -> str:
    reason = f"{one_line(letter.reason, 100)}{RECOVERABLE_NOTE[letter.recoverable]}"
    return f"accepted by {letter.accepted_by}: {reason}" if letter.accepted_by else reason


@dead.command()
@click.argument("key")
@pipeline_option
@batch_option
@items_option
@common_options
@click.pass_obj
def show(cli: CliContext, *, key: str, pipeline: str | None, batch: str | None, items: bool) -> None:
    """Show everything about the dead letter KEY, with its error and traceback."""
    with open_existing_store(cli) as store:
        document = find_document(cli, store, key, pipeline=pipeline, batch=batch)
        if document.state != "dead":
            raise CliError(f"{shown_key(document.key)} is not a dead letter: it is {document.state}")
        DocumentReport(store, document).print(cli, items=items)


@dead.command()
@filter_options
@click.option(
    "--rate", type=RateType(), default=timedelta(0), help="Maximum number per second, minute or hour: 50/s, 10/min."
)
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def redrive(cli: CliContext, /, *, rate: timedelta, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Try dead letters again, from the item where they stopped.

    Select them by KEYS or a pattern with * and ?, by options, or with --all. Accepted dead letters are not
    changed, unless KEYS name them. With --rate, they become due one after the other; the command itself does not wait.
    """
    with open_existing_store(cli) as store:
        documents = select_documents(cli, store, given, state="dead", accepted=False)
        redriven = 0

        def act(ids: list[int]) -> list[int]:
            nonlocal redriven
            changed = store.redrive(ids, who=who, reason=reason, every=rate, after=redriven * rate)
            redriven += len(changed)
            return changed

        apply_action(cli, documents, act, REDRIVE, dry_run=dry_run)


@dead.command()
@filter_options
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def accept(cli: CliContext, /, *, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Accept dead letters: they stay dead, and their batch can be closed. Your name is kept.

    Select them by KEYS or a pattern with * and ?, by options, or with --all.
    """
    with open_existing_store(cli) as store:
        documents = select_documents(cli, store, given, state="dead")
        act = lambda ids: store.accept(ids, who=who, reason=reason)  # noqa: E731
        apply_action(cli, documents, act, ACCEPT, dry_run=dry_run)
