"""`holdfast review`: list documents that wait for a person's decision, and decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
import msgspec

from holdfast.cli.bulk_decision import get_plan
from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import (
    batch_option,
    common_options,
    limit_option,
    option_group,
    pipeline_option,
    who_and_reason,
)
from holdfast.cli.output import print_json, print_line
from holdfast.cli.selection import find_document, state_since
from holdfast.cli.shown_keys import shown_key, shown_place
from holdfast.cli.store_access import open_existing_store, require_pipeline
from holdfast.core.codec import encode_json
from holdfast.core.formatting import format_ago, format_count, format_table, one_line, printable
from holdfast.core.model import DocumentStatus
from holdfast.core.reasons import ON_HOLD, ORPHAN_CODES
from holdfast.core.suggested_commands import command_args
from holdfast.ops.explain.context import document_options, rewind_step
from holdfast.stores.protocol import DocumentFilter, Store


@click.group(cls=CommandGroup)
@common_options
def review() -> None:
    """Decide about documents that wait for a person.

    They wait at a gate, or because a step paused them.
    """


@review.command("list")
@pipeline_option
@batch_option
@click.option("--step", help="Only documents at this step or gate.")
@click.option("--orphans", is_flag=True, help="Only orphans that are kept for review.")
@limit_option(100)
@common_options
@click.pass_obj
def list_(
    cli: CliContext, *, pipeline: str | None, batch: str | None, step: str | None, orphans: bool, limit: int
) -> None:
    """List the documents that wait for a decision. The one that moved last comes first."""
    with open_existing_store(cli) as store:
        names = [require_pipeline(store, pipeline)] if pipeline else store.pipelines()
        _require_known(store, names, batch, step)
        paused: DocumentFilter = {"batch": batch, "step": step, "state": "paused"}
        waiting, total = (_find_orphans if orphans else _find_all)(store, names, paused, limit)
        if cli.json:
            rows = [_as_json(document, state_since(store, document)) for document in waiting]
            print_json({"total": total, "documents": rows})
        else:
            _print_list(cli, store, waiting, total)


def _find_all(store: Store, names: list[str], paused: DocumentFilter, limit: int) -> tuple[list[DocumentStatus], int]:
    """Return the documents that wait for a decision, and how many there are. Those on hold wait for none."""
    on_hold: DocumentFilter = {**paused, "code": ON_HOLD}
    documents = [document for name in names for document in store.documents(name, limit=limit, **paused)]
    waiting = [document for document in documents if document.code != ON_HOLD]
    return waiting, sum(store.count(name, **paused) - store.count(name, **on_hold) for name in names)


def _find_orphans(
    store: Store, names: list[str], paused: DocumentFilter, limit: int
) -> tuple[list[DocumentStatus], int]:
    """Return the orphans that are kept for review, and how many there are."""
    filters: list[DocumentFilter] = [{**paused, "code": code} for code in ORPHAN_CODES]
    found = [one for name in names for which in filters for one in store.documents(name, limit=limit, **which)]
    return found[:limit], sum(store.count(name, **which) for name in names for which in filters)


def _require_known(store: Store, names: list[str], batch: str | None, step: str | None) -> None:
    """Raise CliError for an unknown batch or step: a typing error would look as if nothing waited."""
    batches = {known.name for name in names for known in store.batches(name)}
    steps = {step for name in names if (shape := store.shape(name)) for step in shape.names}
    for kind, given, known in (("batch", batch, batches), ("step", step, steps)):
        if given and given not in known:
            raise CliError(f"there is no {kind} {given!r}; there are: {', '.join(sorted(known)) or 'none yet'}")


def _as_json(document: DocumentStatus, paused_at: datetime) -> dict[str, Any]:
    return {
        "pipeline": document.pipeline,
        "batch": document.batch,
        "key": document.key,
        "at": document.checkpoint.step,
        "reason": document.reason,
        "code": document.code,
        "recoverable": document.recoverable,
        "since": paused_at,
        "until": document.due_at,
        "payload": document.payload,
        "orphan": document.code in ORPHAN_CODES,
        "cursor": document.checkpoint.cursor,
        "generation": document.checkpoint.generation,
        "error": document.error,
        "attempts": document.attempts,
        "crashes": document.crashes,
        "losses": document.losses,
        "worked_by": document.worked_by,
    }


def _print_list(cli: CliContext, store: Store, waiting: list[DocumentStatus], total: int) -> None:
    if not waiting:
        print_line("No document waits for a decision.")
        return
    more = f", the last moved {len(waiting):,}" if total > len(waiting) else ""
    print_line(f"{format_count(total, 'document waits', 'documents wait')} for a decision{more}:")
    now = store.now()
    rows = [
        [
            printable(shown_place(document.batch, document.key)),
            f"at {document.checkpoint.step}",
            format_ago(state_since(store, document), now),
            f"decided automatically {format_ago(document.due_at, now)}" if document.due_at else "",
            f"{one_line(document.reason)}{_format_context(document)}",
        ]
        for document in waiting
    ]
    for line in format_table(rows, indent="  "):
        print_line(line)
    first, options = waiting[0], document_options(store, waiting[0])
    print_line(f"  show:   {cli.command(*command_args(('show',), first.key, options=(*options, '--items')))}")
    print_line(f"  decide: {cli.command(*_suggested_decision(store, first, options))}")


def _format_context(document: DocumentStatus) -> str:
    """Return what a person needs to know about an orphan: where it was, and how often it failed."""
    if document.code not in ORPHAN_CODES:
        return ""
    at = document.checkpoint
    cursor = "" if at.cursor is None else f"cursor {one_line(encode_json(at.cursor), 60)}, "
    tries = f"{format_count(document.attempts, 'attempt')}, {format_count(document.crashes, 'crash', 'crashes')}"
    return f" ({cursor}{tries}, {format_count(document.losses, 'loss', 'losses')})"


def _suggested_decision(store: Store, document: DocumentStatus, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that decides. A damaged document must be rewound: approved, it would be paused again."""
    if step := rewind_step(store, document):
        return command_args(("doc", "rewind"), document.key, options=(*options, "--to", step, "--reason", "damaged"))
    return command_args(("review", "approve"), document.key, options=(*options, "--reason", "looks good"))


def decision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments of a decision about one document."""
    options = option_group(
        click.argument("key"),
        pipeline_option,
        batch_option,
        click.option("--step", help="Decide only if the document still waits at this step or gate."),
        who_and_reason,
        common_options,
    )
    return options(click.pass_obj(command))


@review.command()
@decision_options
def approve(cli: CliContext, *, key: str, who: str, reason: str, **place: Any) -> None:
    """Let the document KEY continue: past the gate, or with the step that paused it."""
    with open_existing_store(cli) as store:
        document = _find_waiting(cli, store, key, place)
        plan = get_plan(store, document.pipeline)
        changed = store.resume(plan, [document.id], who=who, reason=reason, at=_seen_moves(document))
        _print_decision(cli, store, document, "approved", changed)


@review.command()
@decision_options
def reject(cli: CliContext, *, key: str, who: str, reason: str, **place: Any) -> None:
    """Make the document KEY a dead letter, with the reason."""
    with open_existing_store(cli) as store:
        document = _find_waiting(cli, store, key, place)
        changed = store.reject([document.id], who=who, reason=reason, at=_seen_moves(document))
        _print_decision(cli, store, document, "rejected", changed)


@review.command()
@decision_options
@click.argument("answer")
def answer(cli: CliContext, *, key: str, answer: str, who: str, reason: str, **place: Any) -> None:
    """Let the document KEY continue with an ANSWER. Later steps read it with doc.decision(). It is JSON or text."""
    with open_existing_store(cli) as store:
        document = _find_waiting(cli, store, key, place)
        plan = get_plan(store, document.pipeline)
        value = _parse_answer(answer)
        changed = store.resume(plan, [document.id], who=who, reason=reason, answer=value, at=_seen_moves(document))
        _print_decision(cli, store, document, "answered", changed)


def _parse_answer(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _seen_moves(document: DocumentStatus) -> dict[int, int]:
    """Return what the person has seen. The store refuses the decision if the document has moved since."""
    return {document.id: document.checkpoint.moves}


def _find_waiting(cli: CliContext, store: Store, key: str, place: dict[str, Any]) -> DocumentStatus:
    """Return the document. Raise CliError if it does not wait, or not at the step that was given."""
    document = find_document(cli, store, key, pipeline=place["pipeline"], batch=place["batch"])
    if document.state != "paused":
        decided = _last_decision(store, document)
        raise CliError(f"{shown_key(document.key)} does not wait for a decision: it is {document.state}{decided}")
    if place["step"] and document.checkpoint.step != place["step"]:
        waits = f"it waits at {document.checkpoint.step}, not at {place['step']}"
        raise CliError(f"{shown_key(document.key)}: {waits}{_last_decision(store, document)}")
    return document


def _last_decision(store: Store, document: DocumentStatus) -> str:
    decisions = [entry for entry in store.journal(document.id) if entry.verb in ("resume", "reject", "cancel")]
    if not decisions:
        return ""
    last = decisions[-1]
    return f"; {last.who} decided ({last.verb}) at {last.step}: {one_line(encode_json(last.detail.get('reason')))}"


def _print_decision(cli: CliContext, store: Store, document: DocumentStatus, done: str, changed: list[int]) -> None:
    if not changed:
        decided = _last_decision(store, document)
        raise CliError(f"{shown_key(document.key)} was decided meanwhile{decided}; nothing was changed")
    now = store.document(document.pipeline, document.batch, document.key)
    if cli.json:
        print_json({"key": document.key, "decision": done, "state": now.state, "step": now.checkpoint.step})
    else:
        place = f" at {now.checkpoint.step}" if now.checkpoint.step else ""
        print_line(f"{shown_key(document.key)} is {done} at {document.checkpoint.step}; it is {now.state}{place} now.")
