"""What is worked on: pipelines with every shape of body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast import Document, Pipeline, Retry, Tx
from holdfast.testing.simulation.stage import NAP, TIMEOUT, Stage, Value

ORDER = ("pages", "lines", "pairs", "notes", "look", "late", "total", "after")
"""Every step that any of the pipelines has. None has them in another order."""

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
"""The steps at which somebody decides; at the second one time does, when nobody did."""
OVER = ("lines", "pairs")
"""The steps over items, which set single ones aside."""
CHANGES: tuple[tuple[str, ...], ...] = (("after",), ("notes",), ("look",), ("notes", "after"))
"""What a later version may have besides."""
REMOVABLE = ("notes", "look", "late", "after")
"""What a later version may lack: no other step reads what these kept."""
TIMED = ("lines", "total")
"""The steps that may not take for ever."""
UNKEPT = ("notes",)
"""The steps of which only the effect matters."""

ATTEMPTS = 3
CRASHES = 3
BACKOFF, FACTOR = timedelta(seconds=0.3), 2.0
RETRY = Retry(attempts=ATTEMPTS, crashes=CRASHES, base=BACKOFF, factor=FACTOR, jitter=0.0)
LIMIT = 1

Made = dict[str, Any]
"""The steps that a pipeline has so far, by name."""
Add = Callable[[Pipeline, Made, int], Any]
"""Adds a step to a pipeline, as it is when it was written so many times."""

_stage: Stage


def play_on(stage: Stage) -> None:
    """Lets bodies act on this stage."""
    global _stage  # noqa: PLW0603 - pipelines are made once, and acted on by every schedule
    _stage = stage


def places(step: str, pages: int) -> range:
    """Gives the places at which a step makes something."""
    if step in GATES:
        return range(0)
    return range(pages) if step in ("pages", *OVER) else range(1)


class Edition(NamedTuple):
    """The pipeline as it was deployed: its steps, and how often each was written."""

    steps: tuple[str, ...]
    written: tuple[int, ...]

    def having(self, written: Mapping[str, int]) -> Edition:
        """Gives the pipeline with these steps as well, or written so often."""
        return Edition.of({**dict(zip(*self, strict=True)), **written})

    def without(self, step: str) -> Edition:
        """Gives the pipeline without a step."""
        return Edition.of({one: times for one, times in zip(*self, strict=True) if one != step})

    @classmethod
    def of(cls, written: Mapping[str, int]) -> Edition:
        """Gives the pipeline with steps that were written so often."""
        steps = tuple(step for step in ORDER if step in written)
        return cls(steps, tuple(written[step] for step in steps))

    def times(self, step: str) -> int:
        """Answers how often a step was written."""
        return self.written[self.steps.index(step)]


@cache
def pipeline_of(edition: Edition) -> Pipeline:
    """Gives the pipeline as it was deployed."""
    pipeline = Pipeline("simulated")
    made: dict[str, Any] = {}
    for step, times in zip(*edition, strict=True):
        made[step] = _ADD[step](pipeline, made, times)
    return pipeline


def _value(doc: Document, step: str, place: int) -> Value:
    return (doc.key, doc.payload["version"], step, place)


def _check(doc: Document, step: str, got: list[Any]) -> None:
    """Compares what an earlier step kept with what it must have made."""
    version, pages = doc.payload["version"], doc.payload["pages"]
    made = [list(_value(doc, step, place)) for place in _stage.made(doc.key, version, step, pages)]
    if got != made:
        _stage.misread(doc, f"read {got} of {step}, where {made} was made")


def _pages(pipeline: Pipeline, _: Made, times: int) -> Any:
    @pipeline.step(retry=RETRY, commit_every=2, version=times)
    def pages(doc: Document, cursor: int | None = None) -> Iterator[Any]:
        for place in range(cursor or 0, doc.payload["pages"]):
            _stage.act(doc, "pages", place)
            yield _value(doc, "pages", place)

    @pages.effect
    def write(tx: Tx, doc: Document, values: list[Value]) -> None:
        _stage.write(tx, doc, values)

    @pages.verify
    def is_there(doc: Document) -> bool:
        return _stage.is_there(doc)

    return pages


def _lines(pipeline: Pipeline, made: Made, times: int) -> Any:
    @pipeline.step(over=made["pages"], parallel=2, retry=RETRY, failure_rate=1.0, timeout=TIMEOUT, settings=[times])
    def lines(doc: Document, page: Any) -> Any:
        key, version, step, place = page
        if (key, version, step) != (doc.key, doc.payload["version"], "pages"):
            _stage.misread(doc, f"was given {page} to make a line of")
        _stage.act(doc, "lines", place)
        return _value(doc, "lines", place)

    @lines.effect
    def write(tx: Tx, doc: Document, value: Value) -> None:
        _stage.write(tx, doc, [value])

    return lines


def _pairs(pipeline: Pipeline, made: Made, times: int) -> Any:
    @pipeline.step(over=made["pages"], size=2, parallel=2, retry=RETRY, failure_rate=1.0, settings=[times])
    def pairs(doc: Document, some: list[Any]) -> Any:
        for _, _, _, place in some:
            _stage.act(doc, "pairs", place)
        return [_value(doc, "pairs", place) for _, _, _, place in some]

    @pairs.effect
    def write(tx: Tx, doc: Document, values: list[Value]) -> None:
        _stage.write(tx, doc, values)

    return pairs


def _total(pipeline: Pipeline, made: Made, times: int) -> Any:
    @pipeline.step(retry=RETRY, limit=LIMIT, timeout=TIMEOUT, version=times)
    def total(doc: Document) -> Any:
        with _stage.inside(doc, "total"):
            for step in [one for one in ("pages", *OVER) if one in made]:
                _check(doc, step, list(doc.each(made[step])))
            _stage.act(doc, "total", 0)
            return _value(doc, "total", 0)

    return _with_effect(total)


def _simple(name: str, *, keep: bool) -> Add:
    def add(pipeline: Pipeline, _: Made, times: int) -> Any:
        def body(doc: Document) -> Any:
            _stage.act(doc, name, 0)
            return _value(doc, name, 0)

        body.__name__ = name
        return _with_effect(pipeline.step(retry=RETRY, keep=keep, version=times)(body))

    return add


def _with_effect(step: Any) -> Any:
    @step.effect  # type: ignore[untyped-decorator]
    def write(tx: Tx, doc: Document, value: Value) -> None:
        _stage.write(tx, doc, [value])

    return step


def _look(pipeline: Pipeline, _: Made, _times: int) -> Any:
    return _steady(pipeline.gate("look"))


def _late(pipeline: Pipeline, _: Made, _times: int) -> Any:
    return _steady(pipeline.gate("late", within=NAP, otherwise="approve"))


def _steady(gate: Any) -> Any:
    """Whoever dies with a document that came back to its gate lets it wait, and how long is not left to chance."""
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
