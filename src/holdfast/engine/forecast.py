"""What would happen if a pipeline ran now: who goes on where, what is stale, and what waits for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from holdfast.core.decisions import AT_A_GATE
from holdfast.core.model import ON_HOLD, Standing
from holdfast.core.orphans import last_progress
from holdfast.core.pins import Gathering, KnownPlan
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import Shape
from holdfast.core.stale import Stale, as_declared, differences, stale_work
from holdfast.stores.protocol import Store

SLICE = 2000
"""How many documents are looked at together."""


class Forecast(Struct, frozen=True):
    """What a pipeline, as it is written now, would do with the documents of a store. Settled ones are left alone.

    Of those that are paused, `until` are so for a time only; `wakes` says when the first and the last of them go on.
    `late` are decided by the first worker, as their gates say, because nobody did in time.
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
        return _forecast(shape, [], (), {}, Sleepers())
    store.check(shape)
    kept = store.plans(pipeline.name, batch=batch)
    plans = as_declared(kept, shape)
    changes = (*_renames(shape, kept), *_changes(shape, plans))
    paces = store.paces(pipeline.name)
    paces = {shape.renamed.get(step, step): pace for step, pace in paces.items()} | dict(paces)
    sleepers = _sleepers(pipeline, store, batch)
    seconds = {step: took / many for step, (many, took) in paces.items() if many}
    return _forecast(shape, plans, changes, seconds, sleepers)


class Sleepers(Struct, frozen=True):
    """Documents that are paused for a time only, by step: until when, whose time is over, and who is decided about."""

    until: dict[str, list[datetime]] = field(default_factory=dict)
    over: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)

    def at(self, step: str) -> int:
        """Counts those that stand at a step."""
        return len(self.until.get(step, ())) + self.over[step] + self.late[step]


def _sleepers(pipeline: Pipeline, store: Store, batch: str | None) -> Sleepers:
    """Finds the documents that are paused for a time only. Looks at them only if there are any."""
    found, now, after = Sleepers(), store.now(), 0
    gates = {step.name: within for step in pipeline.steps if (within := step.options.within) is not None}
    names = pipeline.shape().renamed
    causes = store.causes(pipeline.name, batch=batch)
    if not any(one.kind == "until" or (one.kind == "person" and one.step in {*gates, *names}) for one in causes):
        return found
    while some := store.select(pipeline.name, after=after, limit=SLICE, batch=batch, state="paused"):
        after = some[-1]
        for here in store.look(some):
            step = names.get(here.checkpoint.step or "", here.checkpoint.step or "")
            due = _due(here, gates.get(step))
            if due is None:
                continue
            if due > now:
                found.until.setdefault(step, []).append(due)
            elif step in gates and here.error != ON_HOLD:
                found.late[step] += 1
            else:
                found.over[step] += 1
    return found


def _due(here: Standing, within: timedelta | None) -> datetime | None:
    """Says until when a document is paused. A gate that got a time has it for those that are there, too."""
    waits = here.error != ON_HOLD and here.reason.startswith(AT_A_GATE)
    if here.due_at is None and within is not None and waits:
        return last_progress(here) + within
    return here.due_at


def _renames(shape: Shape, kept: Sequence[KnownPlan]) -> Iterator[str]:
    """Says what `renamed` would still do."""
    known = {name for plan in kept for name in plan.shape.names}
    for old, new in shape.renamed.items():
        standing = sum(one.documents for plan in kept for one in plan.documents if one.step == old)
        if old in known and new not in known:
            yield f"{old} is called {new} now"
            known.add(new)
        elif old in known and standing:
            yield f"documents at {old} go on at {new}"


def _changes(shape: Shape, plans: Sequence[KnownPlan]) -> Iterator[str]:
    """Says how the pipeline differs from what was declared last."""
    last = next((plan.shape for plan in reversed(plans) if plan.declared_at), shape)
    return (one.why for one in differences(last, shape))


def _forecast(
    shape: Shape,
    plans: Sequence[KnownPlan],
    changes: tuple[str, ...],
    seconds: dict[str, float],
    sleepers: Sleepers,
) -> Forecast:
    documents = [one for plan in plans for one in plan.documents]
    open_to_change = [one for one in documents if not one.settled]
    paused = _at(shape, open_to_change, "paused")
    times = [one for some in sleepers.until.values() for one in some]
    return Forecast(
        pipeline=shape.pipeline,
        steps=shape.names,
        known=bool(plans),
        changes=changes,
        runs=_at(shape, open_to_change, "waiting", "running", also=sleepers.over),
        people={step: left for step, number in paused.items() if (left := number - sleepers.at(step)) > 0},
        until={step: len(sleepers.until[step]) for step in paused if step in sleepers.until},
        wakes=(min(times), max(times)) if times else None,
        late={step: sleepers.late[step] for step in paused if sleepers.late[step]},
        dead=_at(shape, open_to_change, "dead"),
        done=sum(one.documents for one in open_to_change if one.state == "done"),
        cancelled=sum(one.documents for one in open_to_change if one.state == "cancelled"),
        settled=sum(one.documents for one in documents if one.settled),
        stale=tuple(stale_work(plans, shape)),
        seconds={step: seconds[step] for step in shape.names if step in seconds},
    )


def _at(shape: Shape, documents: Iterable[Gathering], *states: str, also: Counter[str] | None = None) -> dict[str, int]:
    """Counts documents by the step at which they stand, in the order of the steps; at steps that are gone last."""
    counts: Counter[str] = Counter(also)
    for one in (one for one in documents if one.state in states):
        counts[one.step or ""] += one.documents
    order = [*shape.names, *sorted(counts.keys() - set(shape.names))]
    return {step: counts[step] for step in order if counts[step]}
