"""Which documents of a pipeline were worked on in ways that are no longer its own."""

from __future__ import annotations

from holdfast.core.pipeline import Pipeline
from holdfast.core.stale import Stale, as_declared, stale_work
from holdfast.stores.protocol import Store


def stale_groups(store: Store, pipeline: Pipeline, *, batch: str | None = None) -> list[Stale]:
    """Tells which documents hold stale work by a pipeline as it is written now, and from which step to redo it.

    Each group is pinned to one plan and is redone from one step on, `to`. `counts` tells where its documents stand:
    they are those of the plan in these states at these steps. Others of the plan did not come as far as `to`, or are
    settled. Nothing is changed, and the pipeline need not be declared.
    """
    shape = pipeline.shape()
    return stale_work(as_declared(store.plans(pipeline.name, batch=batch), shape), shape)
