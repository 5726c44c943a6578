"""Taking documents out: nobody works on them any more, and nothing of them counts as done, whatever became of them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.model import Plan, Standing
from holdfast.pipelines.rag.collections import entries
from holdfast.pipelines.rag.files import Files
from holdfast.pipelines.rag.index import Index, Name
from holdfast.stores.protocol import Store, Which

DELETED = "its file was deleted"
NOT_CARRIED = "its message does not carry it any more"
FORGOTTEN = "its source was forgotten"
OUT = (DELETED, NOT_CARRIED, FORGOTTEN)
"""Why documents are no more, while their collection is."""
SLICE = 2000


def is_out(one: Standing) -> bool:
    """Answers whether a document was withdrawn, and not cancelled by somebody."""
    return one.state == "cancelled" and one.reason in OUT


def withdraw(store: Store, plan: Plan, document_ids: Sequence[int], *, who: str, reason: str) -> int:
    """Has documents end as cancelled, also those that were done, which other settings would redo, and dead letters.

    They are set back first and held, so that no worker takes one up meanwhile. Killed between, it can be called again.
    Says how many there were.
    """
    here = [one.id for one in store.look(document_ids) if one.state != "cancelled"]
    store.rewind_to(plan, here, to=next(iter(plan.step_ids)), who=who, reason=reason, parked=reason)
    store.cancel(here, who=who, reason=reason)
    return len(here)


def withdraw_all(
    store: Store, index: Index, collection: str, *, source: str | None = None, who: str, reason: str
) -> int:
    """Takes all documents of a collection out of the index, or all that came from one source. Says how many.

    Killed in the middle, it can be called again; ingested instead, what was withdrawn is taken in anew.
    """
    plan = last_plan(store, collection)
    which: Which = {} if source is None else {"batch": source}
    after = withdrawn = 0
    while plan is not None and (some := store.select(collection, after=after, limit=SLICE, **which)):
        after = some[-1]
        here = _by_place(store.look(some))
        for place, keys in here.items():
            with store.transaction() as tx:
                Files(*place).doubt(tx, keys)
        withdrawn += withdraw(store, plan, some, who=who, reason=reason)
        for place, keys in here.items():
            with store.transaction() as tx:
                for key in keys:
                    index.forget(tx, Name(*place, key))
                Files(*place).forget(tx, keys)
    while _forgot_what_the_store_does_not_know(store, index, collection, source):
        pass
    return withdrawn


def last_plan(store: Store, pipeline: str) -> Plan | None:
    """Gives the plan that was declared last, also where nobody can make the pipeline any more. None: there is none."""
    known = store.plans(pipeline) if pipeline in store.pipelines() else []
    return store.declare(known[-1].shape) if known else None


def _by_place(documents: Sequence[Standing]) -> dict[tuple[str, str], list[str]]:
    """Gives the keys of documents by their collection and source."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in documents:
        found.setdefault((one.pipeline, one.batch), []).append(one.key)
    return found


def _forgot_what_the_store_does_not_know(store: Store, index: Index, collection: str, source: str | None) -> int:
    """Takes documents out of the index that a cleanup took out of the store."""
    with store.transaction() as tx:
        some = entries(tx, collection, source=source, limit=SLICE)
        for one in some:
            index.forget(tx, one)
        return len(some)
