"""Items that were set aside: list them over all documents, and let them be tried again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Unpack

from holdfast.core.errors import UnknownDocument
from holdfast.core.model import Plan, SetAsideItem
from holdfast.core.pipeline import Pipeline
from holdfast.stores.protocol import ItemFilter, Store

SLICE = 100
"""How many documents one transaction changes at most. What a step kept is copied, and it may be much."""
PAGE = 1000
"""How many items are read in one query."""


def set_aside_items(store: Store, pipeline: Pipeline | str, **which: Unpack[ItemFilter]) -> Iterator[SetAsideItem]:
    """Iterate over the items that steps over items have set aside, in all documents of a pipeline.

    Items of documents that are done are among them, and items that are tried again by themselves, because their
    document is still in the step. Items of cancelled documents are left out.

    Args:
        store: The store that keeps the documents.
        pipeline: The pipeline, or its name.
        **which: The keywords below. None selects all items.
        batch: The name of the batch of their document.
        key: The key of their document, or a pattern: `*` matches any text, `?` matches one character.
        step: The name of the step in which they failed.
        error: The class of their error, such as `"ValueError"`.
        text: A text that their error contains.

    Returns:
        An iterator over the items, by document, step and position.

    Raises:
        StoreError: The store cannot be reached or used.

    Example:
        for item in holdfast.set_aside_items(store, "papers", batch="march", text="timeout"):
            print(item.id, item.error)
    """
    name = pipeline if isinstance(pipeline, str) else pipeline.name
    after = None
    while page := store.set_aside_items(name, after=after, limit=PAGE, **which):
        yield from page
        after = (page[-1].document_id, page[-1].step, page[-1].position)


def redrive_items(
    store: Store, pipeline: Pipeline | str, items: Iterable[SetAsideItem], *, who: str, reason: str
) -> list[SetAsideItem]:
    """Let items that were set aside be tried again. Workers do it, as with documents that wait.

    Each document begins a new generation inside the step, with everything that the step kept. So the step runs for
    these items only. The later steps of the document are done again, because their input changes. Until the document
    is done again, readers see its earlier output. If items of several steps of one document are given, the earliest
    step counts: the later ones are done again anyway.

    It is safe to call it again: items that are not set aside any more are left as they are. If an error occurs, the
    documents before it stay changed.

    Args:
        store: The store that keeps the documents.
        pipeline: The pipeline, or its name.
        items: The items, as `set_aside_items` returns them.
        who: Who decided. It is written to the journal of each document.
        reason: Why.

    Returns:
        The items that will be tried again. Left out are items that are not set aside now, and items of documents that
        are cancelled, on hold, cleaned up, in a closed batch, or done with an earlier version of the step.

    Raises:
        UnknownDocument: The store has no such pipeline.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        StoreError: The store cannot be reached or used.

    Example:
        items = holdfast.set_aside_items(store, "papers", step="read", error="TimeoutError")
        again = holdfast.redrive_items(store, "papers", items, who="Ada", reason="the service is back")
    """
    plan = _plan(store, pipeline)
    by_document: dict[int, list[SetAsideItem]] = {}
    for item in list(items):  # reading is over before anything changes
        by_document.setdefault(item.document_id, []).append(item)
    redriven: list[SetAsideItem] = []
    rest = iter(by_document.values())
    while documents := list(islice(rest, SLICE)):
        redriven += _redrive_slice(store, plan, documents, who=who, reason=reason)
    return redriven


def _plan(store: Store, pipeline: Pipeline | str) -> Plan:
    if isinstance(pipeline, Pipeline):
        return store.declare(pipeline.shape())
    plan = store.plan(pipeline)
    if plan is None:
        known = ", ".join(store.pipelines()) or "none"
        raise UnknownDocument(f"the store has no pipeline {pipeline!r}; it has: {known}")
    return plan


def _redrive_slice(
    store: Store, plan: Plan, documents: Iterable[list[SetAsideItem]], *, who: str, reason: str
) -> Iterator[SetAsideItem]:
    """Redrive the items of some documents, those of one step in one transaction."""
    order = [*plan.step_ids]
    by_step: dict[str, dict[int, list[SetAsideItem]]] = {}
    for items in documents:
        known = [item for item in items if item.step in order]
        if known:
            first = min((item.step for item in known), key=order.index)
            by_step.setdefault(first, {})[items[0].document_id] = [item for item in known if item.step == first]
    for step, chosen in by_step.items():
        places = {number: [item.position for item in items] for number, items in chosen.items()}
        changed = store.redrive_items(plan, places, step=step, who=who, reason=reason)
        for number, positions in changed.items():
            yield from [item for item in chosen[number] if item.position in positions]
