"""The pipelines of the simulation, with every shape of body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast import At, Circuit, Document, Pipeline, Retry, Tx
from tests.simulation.bodies import SLEEP_TIME, TIMEOUT, SimulatedBodies, Value, undo

ORDER = ("pages", "lines", "pairs", "notes", "look", "late", "total", "after")
"""Every step of all pipelines, in the only order in which they occur."""

SHAPES: tuple[tuple[str, ...], ...] = (
    ("pages", "lines", "total"),
    ("total",),
    ("pages", "total"),
    ("pages", "lines"),
    ("notes", "total"),
    ("pages", "notes", "total"),
    ("pages", "look", "total"),
    ("pages", "lines", "look", "total"),
    ("pages", "pairs", "total"),
    ("pages", "late", "total"),
)
GATES = ("look", "late")
"""The steps at which a person decides. At the second one, time decides if no person did."""
OVER = ("lines", "pairs")
"""The steps over items, which set failed items aside."""
ADDITIONS: tuple[tuple[str, ...], ...] = (("after",), ("notes",), ("look",), ("notes", "after"))
"""Steps that a later version may add."""
REMOVABLE = ("notes", "look", "late", "after")
"""Steps that a later version may remove: no other step reads what they kept."""
WITH_TIMEOUT = ("lines", "total")
"""The steps with a timeout."""
EFFECT_ONLY = ("notes",)
"""The steps that keep nothing and have only an effect."""

ATTEMPTS = 3
CRASHES = 3
LOSSES = 6
BACKOFF, FACTOR = timedelta(seconds=0.3), 2.0
RETRY = Retry(attempts=ATTEMPTS, crashes=CRASHES, losses=LOSSES, base=BACKOFF, factor=FACTOR, jitter=0.0)
CIRCUIT = Circuit(failures=3, probe=timedelta(seconds=1), ceiling=timedelta(seconds=4))
LIMIT = 1
COMMIT_TIME = timedelta(seconds=0.5)
"""After this time a stream is committed, also while its body is slow."""

Made = dict[str, Any]
"""The steps of a pipeline so far, by name."""
Add = Callable[[Pipeline, Made, int], Any]
"""Adds one revision of a step to a pipeline."""

_bodies: SimulatedBodies


def use_bodies(bodies: SimulatedBodies) -> None:
    """Let these simulated bodies run in all pipelines."""
    global _bodies  # noqa: PLW0603 - pipelines are built once and used by every schedule
    _bodies = bodies


def places(step: str, pages: int) -> range:
    """Return the places at which a step makes values."""
    if step in GATES:
        return range(0)
    return range(pages) if step in ("pages", *OVER) else range(1)


class PipelineVersion(NamedTuple):
    """A deployed pipeline: its steps, and the revision of each."""

    steps: tuple[str, ...]
    revisions: tuple[int, ...]

    def with_steps(self, revisions: Mapping[str, int]) -> PipelineVersion:
        """Return the pipeline with these steps added or changed."""
        return PipelineVersion.of({**dict(zip(*self, strict=True)), **revisions})

    def without(self, step: str) -> PipelineVersion:
        """Return the pipeline without a step."""
        return PipelineVersion.of({name: revision for name, revision in zip(*self, strict=True) if name != step})

    @classmethod
    def of(cls, revisions: Mapping[str, int]) -> PipelineVersion:
        """Return the pipeline with these revisions of steps."""
        steps = tuple(step for step in ORDER if step in revisions)
        return cls(steps, tuple(revisions[step] for step in steps))

    def revision(self, step: str) -> int:
        """Return the revision of a step."""
        return self.revisions[self.steps.index(step)]


@cache
def pipeline_of(pipeline_version: PipelineVersion) -> Pipeline:
    """Return the pipeline of a version."""
    pipeline = Pipeline("simulated")
    made: dict[str, Any] = {}
    for step, revision in zip(*pipeline_version, strict=True):
        made[step] = _ADD[step](pipeline, made, revision)
        if step not in GATES:
            made[step].undo(undo)
    return pipeline


def _value(doc: Document, step: str, place: int) -> Value:
    return (doc.key, doc.payload["version"], step, place)


def _check(doc: Document, step: str, got: list[Any]) -> None:
    """Compare what was read of an earlier step with what that step must have made."""
    version, pages = doc.payload["version"], doc.payload["pages"]
    made = [list(_value(doc, step, place)) for place in _bodies.expected_places(doc.key, version, step, pages)]
    if got != made:
        _bodies.on_misread(doc, f"read {got} of {step}, where {made} was made")


def _pages(pipeline: Pipeline, _: Made, revision: int) -> Any:
    @pipeline.step(retry=RETRY, circuit=CIRCUIT, commit_every=(2, COMMIT_TIME), version=revision)
    def pages(doc: Document, cursor: int | None = None) -> Iterator[Any]:
        pages = doc.payload["pages"]
        _bodies.call_service()
        for place in range(cursor or 0, pages):
            _bodies.run_behaviour(doc, "pages", place)
            value = _value(doc, "pages", place)
            if place == pages - 1 and pages % 2:
                yield At(None, value)
                yield _value(doc, "pages", pages)  # never reached: the stream is closed
            yield value

    @pages.effect
    def write(tx: Tx, doc: Document, values: list[Value]) -> None:
        _bodies.write(tx, doc, values)

    @pages.verify
    def is_there(doc: Document) -> bool:
        return _bodies.is_there(doc)

    return pages


def _lines(pipeline: Pipeline, made: Made, revision: int) -> Any:
    @pipeline.step(
        over=made["pages"],
        parallel=2,
        retry=RETRY,
        circuit=CIRCUIT,
        failure_rate=1.0,
        timeout=TIMEOUT,
        settings=[revision],
    )
    def lines(doc: Document, page: Any) -> Any:
        key, version, step, place = page
        if (key, version, step) != (doc.key, doc.payload["version"], "pages"):
            _bodies.on_misread(doc, f"was given {page} to make a line of")
        _bodies.run_behaviour(doc, "lines", place)
        return _value(doc, "lines", place)

    @lines.effect
    def write(tx: Tx, doc: Document, value: Value) -> None:
        _bodies.write(tx, doc, [value])

    return lines


def _pairs(pipeline: Pipeline, made: Made, revision: int) -> Any:
    @pipeline.step(
        over=made["pages"], size=2, parallel=2, retry=RETRY, circuit=CIRCUIT, failure_rate=1.0, settings=[revision]
    )
    def pairs(doc: Document, pages: list[Any]) -> Any:
        for _, _, _, place in pages:
            _bodies.run_behaviour(doc, "pairs", place)
        return [_value(doc, "pairs", place) for _, _, _, place in pages]

    @pairs.effect
    def write(tx: Tx, doc: Document, values: list[Value]) -> None:
        _bodies.write(tx, doc, values)

    return pairs


def _total(pipeline: Pipeline, made: Made, revision: int) -> Any:
    @pipeline.step(retry=RETRY, circuit=CIRCUIT, limit=LIMIT, timeout=TIMEOUT, version=revision)
    def total(doc: Document) -> Any:
        with _bodies.inside(doc, "total"):
            for step in [step for step in ("pages", *OVER) if step in made]:
                _check(doc, step, list(doc.each(made[step])))
            _bodies.run_behaviour(doc, "total", 0)
            return _value(doc, "total", 0)

    return _with_effect(total)


def _simple(name: str, *, keep: bool) -> Add:
    def add(pipeline: Pipeline, _: Made, revision: int) -> Any:
        def body(doc: Document) -> Any:
            _bodies.run_behaviour(doc, name, 0)
            return _value(doc, name, 0)

        body.__name__ = name
        return _with_effect(pipeline.step(retry=RETRY, circuit=CIRCUIT, keep=keep, version=revision)(body))

    return add


def _with_effect(step: Any) -> Any:
    @step.effect  # type: ignore[untyped-decorator]
    def write(tx: Tx, doc: Document, value: Value) -> None:
        _bodies.write(tx, doc, [value])

    return step


def _look(pipeline: Pipeline, _: Made, _revision: int) -> Any:
    return _without_jitter(pipeline.gate("look"))


def _late(pipeline: Pipeline, _: Made, _revision: int) -> Any:
    return _without_jitter(pipeline.gate("late", within=SLEEP_TIME, otherwise="approve"))


def _without_jitter(gate: Any) -> Any:
    """Give a gate a retry without jitter, so that the wait after a crash at the gate can be checked."""
    gate.options = replace(gate.options, retry=RETRY)
    return gate


_ADD: dict[str, Add] = {
    "pages": _pages,
    "lines": _lines,
    "pairs": _pairs,
    "notes": _simple("notes", keep=False),
    "look": _look,
    "late": _late,
    "total": _total,
    "after": _simple("after", keep=True),
}
