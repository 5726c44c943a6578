"""What would happen if a pipeline ran now: who goes on where, what is stale, and what waits for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.core.pins import Gathering, KnownPlan
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import Shape
from holdfast.core.stale import Stale, as_declared, differences, stale_work
from holdfast.stores.protocol import Store


class Forecast(Struct, frozen=True):
    """What a pipeline, as it is written now, would do with the documents of a store. Settled ones are left alone."""

    pipeline: str
    steps: tuple[str, ...]
    known: bool
    changes: tuple[str, ...]
    runs: dict[str, int]
    people: dict[str, int]
    dead: dict[str, int]
    done: int
    cancelled: int
    settled: int
    stale: tuple[Stale, ...]
    seconds: dict[str, float]

    def time_for(self, documents: int, steps: Iterable[str]) -> float | None:
        """Answers how long bodies took for so many documents and these steps; None when a step has no history."""
        took = [self.seconds.get(step) for step in steps]
        return None if None in took else documents * sum(one for one in took if one is not None)

    def time_to_run(self) -> float | None:
        """Answers how long bodies take for the documents that go on, by the history of the steps."""
        times = [self.time_for(count, self.steps[self.steps.index(step) :]) for step, count in self.runs.items()]
        return None if None in times else sum(one for one in times if one is not None)


def foresee(pipeline: Pipeline, store: Store | None, *, batch: str | None = None) -> Forecast:
    """Tells what a pipeline would do with a store's documents, or those of a batch. Changes nothing.

    Raises PlanRefused when the store would refuse the pipeline. Without a store everything is new.
    """
    shape = pipeline.shape()
    if store is None:
        return _forecast(shape, [], None, {})
    store.check(shape)
    plans = as_declared(store.plans(pipeline.name, batch=batch), shape)
    last = next((plan.shape for plan in reversed(plans) if plan.declared_at), None)
    paces = {shape.renamed.get(step, step): pace for step, pace in store.paces(pipeline.name).items()}
    return _forecast(shape, plans, last, {step: took / many for step, (many, took) in paces.items() if many})


def _forecast(shape: Shape, plans: Sequence[KnownPlan], last: Shape | None, seconds: dict[str, float]) -> Forecast:
    documents = [one for plan in plans for one in plan.documents]
    open_to_change = [one for one in documents if not one.settled]
    return Forecast(
        pipeline=shape.pipeline,
        steps=shape.names,
        known=last is not None,
        changes=tuple(one.why for one in differences(last, shape)) if last else (),
        runs=_at(shape, open_to_change, "waiting", "running"),
        people=_at(shape, open_to_change, "paused"),
        dead=_at(shape, open_to_change, "dead"),
        done=sum(one.documents for one in open_to_change if one.state == "done"),
        cancelled=sum(one.documents for one in open_to_change if one.state == "cancelled"),
        settled=sum(one.documents for one in documents if one.settled),
        stale=tuple(stale_work(plans, shape)),
        seconds={step: seconds[step] for step in shape.names if step in seconds},
    )


def _at(shape: Shape, documents: Iterable[Gathering], *states: str) -> dict[str, int]:
    """Counts documents by the step at which they stand, in the order of the steps; at steps that are gone last."""
    counts: Counter[str] = Counter()
    for one in (one for one in documents if one.state in states):
        counts[one.step or ""] += one.documents
    order = [*shape.names, *sorted(counts.keys() - set(shape.names))]
    return {step: counts[step] for step in order if counts[step]}
