"""Taking documents out: nobody works on them any more, and nothing of them counts as done, whatever became of them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.model import Plan
from holdfast.stores.protocol import Store


def withdraw(store: Store, plan: Plan, document_ids: Sequence[int], *, who: str, reason: str) -> None:
    """Has documents end as cancelled, also those that were done, which other settings would redo, and dead letters.

    They are set back first and held, so that no worker takes one up meanwhile. Killed between, it can be called again.
    """
    here = [one.id for one in store.look(document_ids) if one.state != "cancelled"]
    store.rewind_to(plan, here, to=next(iter(plan.step_ids)), who=who, reason=reason, parked=reason)
    store.cancel(here, who=who, reason=reason)


def last_plan(store: Store, pipeline: str) -> Plan | None:
    """Gives the plan that was declared last, also where nobody can make the pipeline any more. None: there is none."""
    known = store.plans(pipeline) if pipeline in store.pipelines() else []
    return store.declare(known[-1].shape) if known else None
