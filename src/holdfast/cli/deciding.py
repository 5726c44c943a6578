"""Deciding about documents from the command line: with a name and a reason, in slices, and told in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli.asked import Asked, Trouble
from holdfast.cli.chosen import Chosen
from holdfast.cli.who import login
from holdfast.cli.words import count, span
from holdfast.core.model import Plan
from holdfast.stores.protocol import Store

Command = TypeVar("Command", bound=Callable[..., Any])
Decide = Callable[[list[int]], list[int]]
"""Decides about a slice of documents. Answers those that were changed by it."""


def named_and_reasoned(command: Command) -> Command:
    """Adds who decides, and why: both go into the journal."""
    options = (
        click.option("--who", default=login, help="Who decides; in the journal. [env: HOLDFAST_WHO; default: you]"),
        click.option("--reason", required=True, help="Why; in the journal."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def trying_out(command: Command) -> Command:
    """Adds --dry-run."""
    return click.option("--dry-run", is_flag=True, help="Only count what would be done.")(command)


def plan_of(store: Store, pipeline: str) -> Plan:
    """Gives the plan that the pipeline has in the store."""
    shape = store.shape(pipeline)
    if shape is None:
        raise Trouble(f"the pipeline {pipeline!r} was never declared")
    return store.declare(shape)


def decide(asked: Asked, documents: Chosen, act: Decide, *, done: str, else_: str, dry_run: bool = False) -> int:
    """Decides about all documents that were chosen, and tells how many. Killed and repeated, it goes on.

    `done` completes the sentence "3 documents ..."; `else_` says why others were left alone.
    """
    began = monotonic()
    if dry_run:
        return _tell_what_would_be(asked, documents, done)
    changed = left = 0
    for ids in documents.slices():
        now = len(act(ids))
        changed, left = changed + now, left + len(ids) - now
    seconds = monotonic() - began
    if asked.json:
        click.echo(msgspec.json.encode({"changed": changed, "left_alone": left, "seconds": round(seconds, 3)}))
        return changed
    took = f" in {span(seconds)}" if seconds > 1 else ""
    click.echo(f"{count(changed, 'document')} {done}{took}.")
    if left:
        click.echo(f"{count(left, 'document')} left alone: {else_}.")
    return changed


def _tell_what_would_be(asked: Asked, documents: Chosen, done: str) -> int:
    number = documents.count()
    if asked.json:
        click.echo(msgspec.json.encode({"would_change": number}))
    else:
        click.echo(f"{count(number, 'document')} would be {done}; nothing was changed.")
    return number
