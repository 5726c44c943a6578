"""Forecast what would happen if a pipeline ran now: which documents go on, what is stale, what waits for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from holdfast.core.model import DocumentStatus
from holdfast.core.orphans import last_progress
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import DocumentCount, KnownPlan, Shape
from holdfast.core.reasons import AT_GATE, ON_HOLD
from holdfast.core.staleness import Stale, as_declared, differences, stale_work
from holdfast.stores.protocol import MAX_PER_TRANSACTION, Store


class Forecast(Struct, frozen=True):
    """What a pipeline, as it is written now, would do with the documents of a store.

    Attributes:
        pipeline: The name of the pipeline.
        steps: The names of its steps.
        known: True if the store knows the pipeline.
        changes: How the pipeline differs from the one that was declared last.
        runs: How many documents go on, by step.
        people: How many are paused until a person decides, by step.
        until: How many are paused until a time, by step.
        wakes: When the first and the last of these go on.
        late: How many wait at a gate whose time is over, by gate. The first worker decides about them.
        dead: How many are dead letters, by step.
        done: How many are done.
        cancelled: How many are cancelled.
        settled: How many belong to closed batches or were cleaned up. They are left as they are.
        stale: The documents whose work is stale.
        seconds: How long the body of each step takes for one document, for the steps that have a history.
    """

    pipeline: str
    steps: tuple[str, ...]
    known: bool
    changes: tuple[str, ...]
    runs: dict[str, int]
    people: dict[str, int]
    until: dict[str, int]
    wakes: tuple[datetime, datetime] | None
    late: dict[str, int]
    dead: dict[str, int]
    done: int
    cancelled: int
    settled: int
    stale: tuple[Stale, ...]
    seconds: dict[str, float]

    def time_for(self, documents: int, steps: Iterable[str]) -> float | None:
        """Return how many seconds bodies take for these documents and steps. None if a step has no history."""
        seconds = [self.seconds.get(step) for step in steps]
        return None if None in seconds else documents * sum(one for one in seconds if one is not None)

    def time_to_run(self) -> float | None:
        """Return how many seconds bodies take for all documents that go on. None if a step has no history."""
        times = [self.time_for(count, self.steps[self.steps.index(step) :]) for step, count in self.runs.items()]
        return None if None in times else sum(one for one in times if one is not None)


def make_forecast(pipeline: Pipeline, store: Store | None, *, batch: str | None = None) -> Forecast:
    """Return what a pipeline would do with the documents of a store. It changes nothing.

    Args:
        pipeline: The pipeline.
        store: The store. Without one everything is new.
        batch: Look only at this batch.

    Returns:
        The forecast.

    Raises:
        PlanRefused: The store would refuse the pipeline.
    """
    shape = pipeline.shape()
    if store is None:
        return _forecast(shape, [], (), {}, TimedPauses())
    store.check(shape)
    kept = store.plans(pipeline.name, batch=batch)
    plans = as_declared(kept, shape)
    changes = pipeline_changes(shape, kept)
    times = store.step_times(pipeline.name)
    times = {shape.renamed.get(step, step): time for step, time in times.items()} | dict(times)
    pauses = _timed_pauses(pipeline, store, batch)
    seconds = {step: total / documents for step, (documents, total) in times.items() if documents}
    return _forecast(shape, plans, changes, seconds, pauses)


def stale_groups(store: Store, pipeline: Pipeline, *, batch: str | None = None) -> list[Stale]:
    """Return which documents have stale work by a pipeline as it is written now. It changes and declares nothing.

    Args:
        store: The store.
        pipeline: The pipeline.
        batch: Look only at this batch.

    Returns:
        Groups of documents. Each group is pinned to one plan and is redone from one step on, `to`. `counts` has the
        states and steps of its documents. Other documents of that plan have not reached `to`, or are settled.
    """
    shape = pipeline.shape()
    return stale_work(as_declared(store.plans(pipeline.name, batch=batch), shape), shape)


def pipeline_changes(shape: Shape, kept: Sequence[KnownPlan]) -> tuple[str, ...]:
    """Return how a pipeline differs from the one that was declared last, among the plans that a store keeps."""
    return (*_renames(shape, kept), *_changes(shape, as_declared(kept, shape)))


class TimedPauses(Struct, frozen=True):
    """Documents that are paused until a time, by step.

    `until` has the times that are in the future. `over` counts documents whose time is over. `late` counts documents at
    gates whose time is over: the first worker decides about them.
    """

    until: dict[str, list[datetime]] = field(default_factory=dict)
    over: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)

    def at(self, step: str) -> int:
        """Count those at a step."""
        return len(self.until.get(step, ())) + self.over[step] + self.late[step]


def _timed_pauses(pipeline: Pipeline, store: Store, batch: str | None) -> TimedPauses:
    """Find the documents that are paused until a time. Read documents only if there are any."""
    found, now, after = TimedPauses(), store.now(), 0
    gates = {step.name: within for step in pipeline.steps if (within := step.options.within) is not None}
    names = pipeline.shape().renamed
    causes = store.wait_causes(pipeline.name, batch=batch)
    if not any(one.kind == "until" or (one.kind == "person" and one.step in {*gates, *names}) for one in causes):
        return found
    while ids := store.select(pipeline.name, after=after, limit=MAX_PER_TRANSACTION, batch=batch, state="paused"):
        after = ids[-1]
        for document in store.documents_by_id(ids):
            step = names.get(document.checkpoint.step or "", document.checkpoint.step or "")
            due = _due(document, gates.get(step))
            if due is None:
                continue
            if due > now:
                found.until.setdefault(step, []).append(due)
            elif step in gates and document.code != ON_HOLD:
                found.late[step] += 1
            else:
                found.over[step] += 1
    return found


def _due(document: DocumentStatus, within: timedelta | None) -> datetime | None:
    """Return until when a document is paused. A new time limit of a gate applies to documents that wait there."""
    if document.due_at is None and within is not None and document.code == AT_GATE:
        return last_progress(document) + within
    return document.due_at


def _renames(shape: Shape, kept: Sequence[KnownPlan]) -> Iterator[str]:
    """Yield what `renamed` would do to steps and documents."""
    known = {name for plan in kept for name in plan.shape.names}
    for old, new in shape.renamed.items():
        documents = sum(one.documents for plan in kept for one in plan.documents if one.step == old)
        if old in known and new not in known:
            yield f"{old} is renamed to {new}"
            known.add(new)
        elif old in known and documents:
            yield f"documents at {old} go on at {new}"


def _changes(shape: Shape, plans: Sequence[KnownPlan]) -> Iterator[str]:
    """Yield how the pipeline differs from the one that was declared last."""
    last = next((plan.shape for plan in reversed(plans) if plan.declared_at), shape)
    yield from (one.why for one in differences(last, shape))
    common = [name for name in last.names if name in shape.names]
    if common != [name for name in shape.names if name in common]:
        yield f"the steps are in another order: {' → '.join(shape.names)}"


def _forecast(
    shape: Shape,
    plans: Sequence[KnownPlan],
    changes: tuple[str, ...],
    seconds: dict[str, float],
    pauses: TimedPauses,
) -> Forecast:
    documents = [one for plan in plans for one in plan.documents]
    open_to_change = [one for one in documents if not one.settled]
    paused = _at(shape, open_to_change, "paused")
    times = [time for times in pauses.until.values() for time in times]
    return Forecast(
        pipeline=shape.pipeline,
        steps=shape.names,
        known=bool(plans),
        changes=changes,
        runs=_at(shape, open_to_change, "waiting", "running", also=pauses.over),
        people={step: left for step, number in paused.items() if (left := number - pauses.at(step)) > 0},
        until={step: len(pauses.until[step]) for step in paused if step in pauses.until},
        wakes=(min(times), max(times)) if times else None,
        late={step: pauses.late[step] for step in paused if pauses.late[step]},
        dead=_at(shape, open_to_change, "dead"),
        done=sum(one.documents for one in open_to_change if one.state == "done"),
        cancelled=sum(one.documents for one in open_to_change if one.state == "cancelled"),
        settled=sum(one.documents for one in documents if one.settled),
        stale=tuple(stale_work(plans, shape)),
        seconds={step: seconds[step] for step in shape.names if step in seconds},
    )


def _at(
    shape: Shape, documents: Iterable[DocumentCount], *states: str, also: Counter[str] | None = None
) -> dict[str, int]:
    """Count documents by step, in the order of the steps. Steps that the pipeline no longer has come last."""
    counts: Counter[str] = Counter(also)
    for one in (one for one in documents if one.state in states):
        counts[one.step or ""] += one.documents
    order = [*shape.names, *sorted(counts.keys() - set(shape.names))]
    return {step: counts[step] for step in order if counts[step]}
