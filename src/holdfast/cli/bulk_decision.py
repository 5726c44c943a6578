"""Apply a decision to many documents, in slices, and print how many were changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic

from msgspec import Struct

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.output import print_json, print_line
from holdfast.cli.selection import DocumentSelection, StateAndStep
from holdfast.core.formatting import format_count, format_duration
from holdfast.core.model import Plan
from holdfast.stores.protocol import Store

Apply = Callable[[list[int]], list[int]]
"""Applies a decision to documents with these ids. Returns the ids of those that were changed."""


def get_plan(store: Store, pipeline: str) -> Plan:
    """Return the current plan of a pipeline. Raise CliError if there is none."""
    plan = store.plan(pipeline)
    if plan is None:
        raise CliError(f"the pipeline {pipeline!r} was never declared; `holdfast run` declares it")
    return plan


class Action(Struct, frozen=True):
    """The words for a decision: "3 documents cancelled", and why other documents were not changed.

    `places` are the states and steps in which a document can be changed.
    """

    done: str
    otherwise: str
    places: tuple[StateAndStep, ...]


def apply_action(cli: CliContext, documents: DocumentSelection, act: Apply, action: Action, *, dry_run: bool) -> int:
    """Apply a decision to all selected documents and print how many were changed. It can be killed and repeated."""
    began = monotonic()
    if dry_run:
        return _print_dry_run(cli, documents, action)
    changed, unchanged = 0, Counter[str]()
    for ids in documents.slices():
        done = act(ids)
        changed += len(done)
        unchanged += _count_unchanged(documents, sorted({*ids} - {*done}), action)
    seconds = monotonic() - began
    if cli.json:
        print_json(
            {"changed": changed, "left_alone": unchanged.total(), "why": unchanged, "seconds": round(seconds, 3)}
        )
        return changed
    took = f" in {format_duration(seconds)}" if seconds > 1 else ""
    print_line(f"{format_count(changed, 'document')} {action.done}{took}.")
    for reason, number in unchanged.items():
        print_line(f"{format_count(number, 'document')} not changed: {reason}.")
    return changed


def _count_unchanged(documents: DocumentSelection, ids: list[int], action: Action) -> Counter[str]:
    """Count documents by the reason why they were not changed."""
    if not ids:
        return Counter()
    closed = {batch.name for batch in documents.store.batches(documents.pipeline) if batch.state == "closed"}
    statuses = documents.store.documents_by_id(ids)
    return Counter("their batch is closed" if one.batch in closed else action.otherwise for one in statuses)


def _print_dry_run(cli: CliContext, documents: DocumentSelection, action: Action) -> int:
    number, selected = documents.count_in(action.places), documents.count()
    if cli.json:
        print_json({"would_change": number, "meant": selected})
        return number
    others = f" {selected - number:,} would not be changed." if selected > number else ""
    print_line(f"{format_count(number, 'document')} would be {action.done}; nothing was changed.{others}")
    return number
