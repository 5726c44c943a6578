"""`holdfast doc items`: list items that were set aside, over all documents, and let them be tried again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click
from msgspec.structs import asdict

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import (
    batch_option,
    common_options,
    dry_run_option,
    limit_option,
    option_group,
    pipeline_option,
    who_and_reason,
)
from holdfast.cli.output import print_json, print_line
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.core.formatting import format_count, format_table, one_line, printable
from holdfast.core.model import SetAsideItem
from holdfast.ops.set_aside import redrive_items, set_aside_items
from holdfast.stores.protocol import Store

FILTERS = ("batch", "key", "step", "error", "text")

item_filters = option_group(
    click.argument("key", required=False),  # a key with * or ? is a pattern
    pipeline_option,
    batch_option,
    click.option("--step", help="Only items that failed in this step."),
    click.option("--error", metavar="CLASS", help="Only items whose last error is of this class."),
    click.option("--text", help="Only items whose error contains this text."),
)


@click.group(cls=CommandGroup)
@common_options
def items() -> None:
    """List items that were set aside, and let them be tried again."""


@items.command("list")
@item_filters
@limit_option(100)
@common_options
@click.pass_obj
def list_(cli: CliContext, /, *, limit: int, **given: Any) -> None:
    """List items that steps over items have set aside: all of them, or those that KEY or the options select.

    Items of documents that are done are among them. KEY is the key of a document, or a pattern with * and ?.
    """
    with open_existing_store(cli) as store:
        found = [*islice(_selected(store, given), limit + 1)]
    shown = found[:limit]
    if cli.json:
        print_json({"items": [_as_json(item) for item in shown], "more": len(found) > limit})
        return
    if not shown:
        print_line("No items are set aside.")
        return
    more = f"; there are more than --limit {limit:,}" if len(found) > limit else ""
    print_line(f"{format_count(len(shown), 'item is', 'items are')} set aside{more}:")
    for line in format_table([_row(item) for item in shown], indent="  "):
        print_line(line)
    first = shown[0]
    print_line(f"  why:       {cli.command('show', first.key, '--pipeline', first.pipeline, '--batch', first.batch)}")
    again = ("redrive", first.key, "--pipeline", first.pipeline, "--batch", first.batch, "--reason", "repaired")
    print_line(f"  try again: {cli.command('doc', 'items', *again)}")


@items.command()
@item_filters
@click.option("--all", "everything", is_flag=True, help="All items. Needed if no other option selects some.")
@click.option("--position", "positions", type=click.IntRange(0), multiple=True, help="Only this item. Repeatable.")
@who_and_reason
@dry_run_option
@common_options
@click.pass_obj
def redrive(
    cli: CliContext,
    /,
    *,
    everything: bool,
    positions: Sequence[int],
    who: str,
    reason: str,
    dry_run: bool,
    **given: Any,
) -> None:
    """Let items that were set aside be tried again. Workers do it.

    Only these items run again, and then the later steps of their documents. Until a document is done again, readers
    see its earlier output. It is safe to run this command again.
    """
    if not everything and not positions and not any(given[name] for name in FILTERS):
        raise CliError("say which items: give the key of a document, --batch, --step, --error, --text, or --all")
    with open_existing_store(cli) as store:
        selected = [one for one in _selected(store, given) if not positions or one.position in positions]
        names = sorted({one.pipeline for one in selected})
        redriven: list[SetAsideItem] = []
        for name in names if not dry_run else ():
            ours = [one for one in selected if one.pipeline == name]
            redriven += redrive_items(store, name, ours, who=who, reason=reason)
    if cli.json:
        counts = {"would_change": len(selected)} if dry_run else {"changed": len(redriven), "selected": len(selected)}
        print_json(counts | {"items": [_as_json(item) for item in (selected if dry_run else redriven)]})
        return
    if dry_run:
        print_line(f"{format_count(len(selected), 'item')} would be tried again; nothing was changed.")
        return
    documents = len({one.document_id for one in redriven})
    print_line(f"{format_count(len(redriven), 'item')} of {format_count(documents, 'document')} will be tried again.")
    if left := len(selected) - len(redriven):
        print_line(
            f"{format_count(left, 'item')} not changed: the document is on hold, in a closed batch, or was done with "
            "another version of the step (rewind it), or an earlier step of it is tried again."
        )


def _selected(store: Store, given: dict[str, Any]) -> Iterator[SetAsideItem]:
    """Return the items that the arguments select, in the pipeline that is named, or in all."""
    names = [require_pipeline(store, given["pipeline"])] if given["pipeline"] else store.pipelines()
    if given["pipeline"] and given["batch"]:
        require_batch(store, names[0], given["batch"])
    which = {name: given[name] for name in FILTERS if given[name]}
    for name in names:
        yield from set_aside_items(store, name, **which)


def _row(item: SetAsideItem) -> list[str]:
    where = printable(f"{item.batch}/{item.key}")
    return [where, f"{item.step}[{item.position}]", item.state, one_line(str(item.error), 100)]


def _as_json(item: SetAsideItem) -> dict[str, Any]:
    return {"id": item.id, **asdict(item)}
