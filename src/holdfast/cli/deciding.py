"""Deciding about documents from the command line: with a name and a reason, in slices, and told in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import click
from msgspec import Struct

from holdfast.cli.asked import Asked, Trouble
from holdfast.cli.chosen import Chosen, Place
from holdfast.cli.saying import say, tell
from holdfast.cli.who import named, not_empty
from holdfast.cli.words import count, span
from holdfast.core.model import Plan
from holdfast.stores.protocol import Store

Command = TypeVar("Command", bound=Callable[..., Any])
Decide = Callable[[list[int]], list[int]]
"""Decides about a slice of documents. Answers those that were changed by it."""


def named_and_reasoned(command: Command) -> Command:
    """Adds who decides, and why: both go into the journal."""
    reason = click.option("--reason", required=True, callback=not_empty, help="Why; kept in the journal.")
    return named(reason(command))


def trying_out(command: Command) -> Command:
    """Adds --dry-run."""
    return click.option("--dry-run", is_flag=True, help="Only count what would be done.")(command)


def plan_of(store: Store, pipeline: str) -> Plan:
    """Gives the plan that the pipeline has in the store."""
    plan = store.plan(pipeline)
    if plan is None:
        raise Trouble(f"the pipeline {pipeline!r} was never declared")
    return plan


class Verb(Struct, frozen=True):
    """What is done to documents, in words: "3 documents cancelled", and why others are left alone.

    `places` are the states, and steps, in which it can be done to them.
    """

    done: str
    otherwise: str
    places: tuple[Place, ...]


def decide(asked: Asked, documents: Chosen, act: Decide, verb: Verb, *, dry_run: bool) -> int:
    """Decides about all documents that were chosen, and tells how many. Killed and repeated, it goes on."""
    began = monotonic()
    if dry_run:
        return _tell_what_would_be(asked, documents, verb)
    changed, left = 0, Counter[str]()
    for ids in documents.slices():
        done = act(ids)
        changed += len(done)
        left += _why_left(documents, sorted({*ids} - {*done}), verb)
    seconds = monotonic() - began
    if asked.json:
        told = {"changed": changed, "left_alone": left.total(), "why": left, "seconds": round(seconds, 3)}
        tell(told)
        return changed
    took = f" in {span(seconds)}" if seconds > 1 else ""
    say(f"{count(changed, 'document')} {verb.done}{took}.")
    for why, many in left.items():
        say(f"{count(many, 'document')} left alone: {why}.")
    return changed


def _why_left(documents: Chosen, ids: list[int], verb: Verb) -> Counter[str]:
    if not ids:
        return Counter()
    closed = {one.name for one in documents.store.batches(documents.pipeline) if one.state == "closed"}
    here = documents.store.look(ids)
    return Counter("their batch is closed" if one.batch in closed else verb.otherwise for one in here)


def _tell_what_would_be(asked: Asked, documents: Chosen, verb: Verb) -> int:
    number, meant = documents.count_in(verb.places), documents.count()
    if asked.json:
        tell({"would_change": number, "meant": meant})
        return number
    others = f" {meant - number:,} would be left alone." if meant > number else ""
    say(f"{count(number, 'document')} would be {verb.done}; nothing was changed.{others}")
    return number
