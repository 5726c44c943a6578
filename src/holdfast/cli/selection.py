"""Select the documents that a command is for: by their keys, or by options such as --batch, --step and --error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import batch_option, option_group, pipeline_option
from holdfast.cli.param_types import DurationType
from holdfast.cli.shown_keys import path_pattern, possible_keys, shown_key
from holdfast.cli.store_access import require_batch, require_pipeline
from holdfast.core.batches import CLOSING
from holdfast.core.model import STATES, DocumentStatus, State
from holdfast.core.suggested_commands import command_args
from holdfast.stores.protocol import DocumentFilter, Store

if TYPE_CHECKING:
    from holdfast.pipelines.rag.collections.settings import Collection

Command = TypeVar("Command", bound=Callable[..., Any])

FILTERS = ("batch", "state", "step", "error", "text", "idle")

SLICE_SIZE = 2000
"""How many documents are changed in one transaction. It is small, so that workers do not wait long."""

StateAndStep = tuple[State, str | None]
"""A state, and a step; None for any step."""

MAX_KEYS_COMPARED = 10_000
"""How many keys are compared to find one that is similar: those of the documents that moved last."""


class DocumentSelection:
    """The documents of one pipeline that match a filter, or a list of single documents."""

    def __init__(
        self, store: Store, pipeline: str, which: DocumentFilter, named: Sequence[DocumentStatus] = ()
    ) -> None:
        self.store = store
        self.pipeline = pipeline
        self.named = named
        self._which = which

    def count(self) -> int:
        """Count all selected documents, in any state."""
        return len(self.named) or self.store.count(self.pipeline, **self._which)

    def count_in(self, places: Sequence[StateAndStep]) -> int:
        """Count the selected documents in these states and steps, without those in closed batches."""
        open_batches = [batch.name for batch in self.store.batches(self.pipeline) if batch.state != "closed"]
        if self.named:
            documents = [document for document in self.named if document.batch in open_batches]
            return sum(any(_is_at(document, place) for place in places) for document in documents)
        return sum(
            self.store.count(self.pipeline, **self._which | {"batch": batch, "state": state, "step": step})
            for batch in open_batches
            for state, step in places
            if self._which.get("batch") in (None, batch)
            and self._which.get("state") in (None, state)
            and (step is None or self._which.get("step") in (None, step))
        )

    def slices(self) -> Iterator[list[int]]:
        """Yield the ids of the selected documents in slices. Changing one slice does not affect the next."""
        if self.named:
            yield sorted({document.id for document in self.named})
            return
        after = 0
        while ids := self.store.select(self.pipeline, after=after, limit=SLICE_SIZE, **self._which):
            yield ids
            after = ids[-1]

    def documents(self, limit: int) -> list[DocumentStatus]:
        """Return the status of the newest selected documents."""
        return list(self.named) or self.store.documents(self.pipeline, limit=limit, **self._which)


filter_options = option_group(
    click.argument("keys", nargs=-1),  # a key with * or ? is a pattern
    pipeline_option,
    batch_option,
    click.option("--step", help="Only documents at this step."),
    click.option("--error", metavar="CLASS", help="Only documents whose last error is of this class."),
    click.option("--text", help="Only documents whose reason contains this text."),
    click.option("--idle", type=DurationType(), help="Only documents that have not moved for this long, such as 2h."),
    click.option(
        "--all",
        "everything",
        is_flag=True,
        help="All documents. A command that changes them needs it if nothing else selects some.",
    ),
)
"""The arguments that select documents. `select_documents` reads them."""

state_option = click.option("--state", type=click.Choice(STATES), help="Only documents in this state.")
"""For commands that work on documents in several states."""


def select_documents(cli: CliContext, store: Store, given: dict[str, Any], **always: Any) -> DocumentSelection:
    """Return the documents that the arguments of `filter_options` select.

    Args:
        cli: The context of the command.
        store: The store.
        given: The values of the arguments.
        always: Filters of the command itself. They apply in any case.
    """
    pipeline = _pipeline(store, given["pipeline"])
    if given["batch"] and pipeline:
        require_batch(store, pipeline, given["batch"])
    filters = {name: given[name] for name in FILTERS if given.get(name)}
    patterns = [key for key in given["keys"] if "*" in key or "?" in key]
    if given["keys"] and not patterns:
        if filters.keys() - {"batch"}:
            raise CliError(f"give keys of documents, or --{' --'.join(filters)}, but not both")
        where = {"pipeline": given["pipeline"], "batch": given["batch"]}
        named = [find_document(cli, store, key, **where) for key in given["keys"]]
        return DocumentSelection(store, _same_pipeline(named), {}, named)
    if patterns and len(given["keys"]) > 1:
        raise CliError(f"give one pattern at a time: {patterns[0]} alone, or with options such as --batch and --step")
    if not filters and not patterns and not given["everything"]:
        raise CliError("say which documents: give their keys, --batch, --step, --error, --text, --idle, or --all")
    if pipeline is None:
        raise CliError(f"say which pipeline with --pipeline: {', '.join(store.pipelines())}")
    key = {"key": _pattern(store, pipeline, patterns[0])} if patterns else {}
    which: DocumentFilter = {**filters, **key, **always}  # type: ignore[typeddict-item]
    return DocumentSelection(store, pipeline, which)


def _pattern(store: Store, pipeline: str, typed: str) -> str:
    """Return a pattern of keys. If no key matches it as it was typed, it is one of files from the current folder."""
    return typed if store.count(pipeline, key=typed) else path_pattern(typed)


def _is_at(document: DocumentStatus, place: StateAndStep) -> bool:
    state, step = place
    return document.state == state and step in (None, document.checkpoint.step)


def _pipeline(store: Store, name: str | None) -> str | None:
    if name:
        return require_pipeline(store, name)
    names = store.pipelines()
    known = [name for name in names if not name.endswith(CLOSING)] or names
    return known[0] if len(known) == 1 else None


def _same_pipeline(documents: Sequence[DocumentStatus]) -> str:
    pipelines = {document.pipeline for document in documents}
    if len(pipelines) > 1:
        raise CliError(
            f"these documents are in several pipelines ({', '.join(sorted(pipelines))}); run the command once for each"
        )
    return pipelines.pop()


def find_document(
    cli: CliContext, store: Store, key: str, *, pipeline: str | None, batch: str | None, file: str | None = None
) -> DocumentStatus:
    """Return the one document with this key. Raise CliError with suggestions if there is none, or more than one.

    Args:
        cli: The context of the command.
        store: The store.
        key: The key of the document.
        pipeline: Only in this pipeline: its name or its file.
        batch: Only in this batch.
        file: The pipeline's file, for commands that take it before the key.
    """
    pipeline = require_pipeline(store, pipeline) if pipeline else None
    if pipeline and batch:
        require_batch(store, pipeline, batch)
    finds = (_find(store, possible, pipeline, batch) for possible in possible_keys(key))
    found = next(filter(None, finds), [])
    if len(found) == 1:
        return found[0]
    if not found:
        where = _describe_place(cli, pipeline, batch)
        raise CliError(f"there is no document {key!r} in {where}{_similar_keys(store, key, pipeline)}")
    verb = click.get_current_context().command_path.split()[1:]
    commands = "\n".join(f"  {cli.command(*_exact_command(verb, one, file))}   # {one.state}" for one in found)
    raise CliError(f"{len(found)} documents have the key {key!r}; say which:\n{commands}")


def _exact_command(verb: Sequence[str], document: DocumentStatus, file: str | None) -> tuple[str, ...]:
    batch = ("--batch", document.batch)
    if file:
        return command_args(verb, file, document.key, options=batch)
    return command_args(verb, document.key, options=("--pipeline", document.pipeline, *batch))


def _find(store: Store, key: str, pipeline: str | None, batch: str | None) -> list[DocumentStatus]:
    return [one for one in store.find(key) if pipeline in (None, one.pipeline) and batch in (None, one.batch)]


def _describe_place(cli: CliContext, pipeline: str | None, batch: str | None) -> str:
    parts = [f"batch {batch!r} of"] if batch else []
    parts += [f"pipeline {pipeline!r} of"] if pipeline else []
    return " ".join([*parts, cli.shown_store])


def _similar_keys(store: Store, key: str, pipeline: str | None) -> str:
    names = [pipeline] if pipeline else store.pipelines()
    keys = {document.key for name in names for document in store.documents(name, limit=MAX_KEYS_COMPARED)}
    similar = sorted(known for known in keys if key.lower() in known.lower())[:5] or get_close_matches(key, keys, n=5)
    if similar:
        return f"; similar keys: {', '.join(map(shown_key, similar))}"
    return "; `holdfast status` shows what the store has"


def state_since(store: Store, document: DocumentStatus) -> datetime:
    """Return when the document got its state. It may have died or been paused long after its last move."""
    entries = [entry for entry in store.journal(document.id) if entry.verb not in ("accept", "prioritise", "rename")]
    return max([document.moved_at, *[entry.last_at or entry.at for entry in entries]])


def list_collections(store: Store) -> list[Collection]:
    """Return all collections of a store. Reading creates no table and takes no write lock."""
    from holdfast.pipelines.rag.collections.settings import list_collections
    from holdfast.pipelines.rag.sql_statements import has_table

    with store.reading() as tx:
        return list(list_collections(tx)) if has_table(tx, "rag_collection") else []


def find_collection(store: Store, name: str) -> Collection:
    """Return a collection by its name, or raise an error that lists the collections there are."""
    from holdfast.pipelines.rag.collections.settings import no_such_collection

    known = {collection.name: collection for collection in list_collections(store)}
    if name not in known:
        raise no_such_collection(name, known)
    return known[name]
