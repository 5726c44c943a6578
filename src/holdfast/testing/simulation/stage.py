"""What is worked on: pipelines with every shape of body, and documents with a temper.

A value says whose it is, of which content, from which step and which place, so a value that is out of place gives
itself away. Effects write it down in a table without any constraint: what is written twice is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from msgspec import Struct

from holdfast import Document, Pause, Pipeline, Reject, Retry, RetryLater, Tx
from holdfast.core.model import NewDocument

TABLE = "create table sim_effect (key text, generation integer, step text, place integer, value text)"

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

ATTEMPTS = 3
CRASHES = 3
RETRY = Retry(attempts=ATTEMPTS, crashes=CRASHES, base=timedelta(seconds=0.3), factor=2.0, jitter=0.0)
TIMEOUT = timedelta(seconds=2)
LIMIT = 1
NAP = timedelta(seconds=3)
"""How long a document sleeps, and how long somebody has to decide."""

TEMPERS = (
    *("fine", "slow", "fails", "poison", "kills", "killer", "later", "asks", "gone", "spoilt", "stuck", "rejected"),
    "naps",
)
"""How a document behaves at one of its places."""
INCURABLE = ("poison", "killer", "rejected")
"""The tempers that never end well."""

Value = tuple[str, int, str, int]
"""Key, version of the content, step and place."""


class Spoilt(Exception):
    """An effect, or one item, that cannot be."""


class Temper(Struct):
    """How one version of a document behaves: at which step and place, and how often."""

    kind: str = "fine"
    step: str = "pages"
    place: int = 0
    times: int = 1


class Stage:
    """Where bodies act: what they are told to do, and what they were seen to do."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],
        wait: Callable[[float], None],
        asked: Callable[..., None],
        die: Callable[[], None],
        tell: Callable[[str], None],
        misread: Callable[[Document, str], None],
        made: Callable[[str, int, str, int], list[int]],
        inside: Callable[[Document, str], AbstractContextManager[None]],
    ) -> None:
        self.clock = clock
        self.wait = wait
        self.asked = asked
        self.die = die
        self.tell = tell
        self.misread = misread
        self.made = made
        self.inside = inside
        self.tempers: dict[tuple[str, int], Temper] = {}
        self.acted: Counter[tuple[str, int]] = Counter()
        self.missed: Counter[tuple[str, int]] = Counter()

    def act(self, doc: Document, step: str, place: int) -> None:
        """Lets a document do what its temper says."""
        who = (doc.key, doc.payload["version"])
        temper = self.tempers.get(who)
        if temper is None or (temper.step, temper.place) != (step, place) or temper.kind in ("fine", "spoilt"):
            return
        self.acted[who] += 1
        if temper.kind not in INCURABLE and self.acted[who] > temper.times:
            return
        self.tell(f"{doc.key} at {step} {place}: {temper.kind}")
        _DO[temper.kind](self)

    def is_there(self, doc: Document) -> bool:
        """Answers whether the work of `pages` is still there: of some it is gone, once or twice."""
        who = (doc.key, doc.payload["version"])
        temper = self.tempers.get(who)
        is_there = temper is None or temper.kind != "gone" or self.missed[who] >= temper.times
        self.missed[who] += not is_there
        self.asked(doc, is_there=is_there)
        return is_there

    def write(self, tx: Tx, doc: Document, values: list[Value]) -> None:
        """Writes down what a step made. Of some it cannot be written once."""
        who = (doc.key, doc.payload["version"])
        temper = self.tempers.get(who)
        for key, version, step, place in values:
            row = (doc.key, doc.generation, step, place, f"{key} {version}")
            tx.execute("insert into sim_effect values (?, ?, ?, ?, ?)", row)
            if temper is not None and temper.kind == "spoilt" and (temper.step, temper.place) == (step, place):
                self.acted[who] += 1
                if self.acted[who] <= temper.times:
                    raise Spoilt("the effect cannot be")


def _fail(_: Stage) -> None:
    raise Spoilt("as it was told to")


def _later(_: Stage) -> None:
    raise RetryLater("not now", after=timedelta(seconds=0.7))


def _ask(_: Stage) -> None:
    raise Pause("is this right?")


def _nap(stage: Stage) -> None:
    raise Pause("wait until then", until=stage.clock() + NAP)


def _reject(_: Stage) -> None:
    raise Reject("nobody can read this")


_DO: dict[str, Callable[[Stage], None]] = {
    "slow": lambda stage: stage.wait(1.6),
    "stuck": lambda stage: stage.wait(TIMEOUT.total_seconds() + 2),
    "fails": _fail,
    "poison": _fail,
    "kills": lambda stage: stage.die(),
    "killer": lambda stage: stage.die(),
    "later": _later,
    "gone": _later,  # so that somebody takes it up in the middle, and asks
    "asks": _ask,
    "naps": _nap,
    "rejected": _reject,
}

_stage: Stage


def play_on(stage: Stage) -> None:
    """Lets bodies act on this stage."""
    global _stage  # noqa: PLW0603 - pipelines are made once, and acted on by every schedule
    _stage = stage


def new_document(key: str, version: int, pages: int) -> NewDocument:
    """Gives a document to submit."""
    return NewDocument(key, {"version": version, "pages": pages}, fingerprint=f"version {version}")


UNKEPT = ("notes",)
"""The steps of which only the effect matters."""


def places(step: str, pages: int) -> range:
    """Gives the places at which a step makes something."""
    if step in GATES:
        return range(0)
    return range(pages) if step in ("pages", *OVER) else range(1)


@cache
def pipeline_of(steps: tuple[str, ...]) -> Pipeline:
    """Gives the pipeline with these steps."""
    pipeline = Pipeline("simulated")
    made: dict[str, Any] = {}
    for step in steps:
        made[step] = _ADD[step](pipeline, made)
    return pipeline


def _value(doc: Document, step: str, place: int) -> Value:
    return (doc.key, doc.payload["version"], step, place)


def _check(doc: Document, step: str, got: list[Any]) -> None:
    """Compares what an earlier step kept with what it must have made."""
    version, pages = doc.payload["version"], doc.payload["pages"]
    made = [list(_value(doc, step, place)) for place in _stage.made(doc.key, version, step, pages)]
    if got != made:
        _stage.misread(doc, f"read {got} of {step}, where {made} was made")


def _pages(pipeline: Pipeline, _: dict[str, Any]) -> Any:
    @pipeline.step(retry=RETRY, commit_every=2)
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


def _lines(pipeline: Pipeline, made: dict[str, Any]) -> Any:
    @pipeline.step(over=made["pages"], parallel=2, retry=RETRY, failure_rate=1.0, timeout=TIMEOUT)
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


def _pairs(pipeline: Pipeline, made: dict[str, Any]) -> Any:
    @pipeline.step(over=made["pages"], size=2, parallel=2, retry=RETRY, failure_rate=1.0)
    def pairs(doc: Document, some: list[Any]) -> Any:
        for _, _, _, place in some:
            _stage.act(doc, "pairs", place)
        return [_value(doc, "pairs", place) for _, _, _, place in some]

    @pairs.effect
    def write(tx: Tx, doc: Document, values: list[Value]) -> None:
        _stage.write(tx, doc, values)

    return pairs


def _total(pipeline: Pipeline, made: dict[str, Any]) -> Any:
    @pipeline.step(retry=RETRY, limit=LIMIT, timeout=TIMEOUT)
    def total(doc: Document) -> Any:
        with _stage.inside(doc, "total"):
            for step in [one for one in ("pages", *OVER) if one in made]:
                _check(doc, step, list(doc.each(made[step])))
            _stage.act(doc, "total", 0)
            return _value(doc, "total", 0)

    return _with_effect(total)


def _simple(name: str, *, keep: bool) -> Callable[[Pipeline, dict[str, Any]], Any]:
    def add(pipeline: Pipeline, _: dict[str, Any]) -> Any:
        def body(doc: Document) -> Any:
            _stage.act(doc, name, 0)
            return _value(doc, name, 0)

        body.__name__ = name
        return _with_effect(pipeline.step(retry=RETRY, keep=keep)(body))

    return add


def _with_effect(step: Any) -> Any:
    @step.effect  # type: ignore[untyped-decorator]
    def write(tx: Tx, doc: Document, value: Value) -> None:
        _stage.write(tx, doc, [value])

    return step


def _look(pipeline: Pipeline, _: dict[str, Any]) -> Any:
    return pipeline.gate("look")


def _late(pipeline: Pipeline, _: dict[str, Any]) -> Any:
    return pipeline.gate("late", within=NAP, otherwise="approve")


_ADD: dict[str, Callable[[Pipeline, dict[str, Any]], Any]] = {
    "pages": _pages,
    "lines": _lines,
    "pairs": _pairs,
    "notes": _simple("notes", keep=False),
    "look": _look,
    "late": _late,
    "total": _total,
    "after": _simple("after", keep=True),
}
