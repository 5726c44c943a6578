"""An error that cannot be read, or that asks for something absurd, is the failure of its own document only.

Each error is raised in every place where user code runs, on every store, between documents that must still be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import holdfast
from holdfast.core.moves import Tx
from holdfast.core.waits import LONGEST
from holdfast.observe.events import Committed, GaveBack
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness

ONCE = holdfast.Retry(attempts=1)


def _changed(error: Exception, **attributes: Any) -> Exception:
    """Return an error whose attributes were changed after it was made, as careless code does."""
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def _raising(name: str, what: BaseException) -> Exception:
    """Return an error of which one attribute or method raises."""

    def fail(*_: object) -> Any:
        raise what

    member: Any = fail if name.startswith("__") and name != "__class__" else property(fail)
    kind: type[Exception] = type("Hostile", (Exception,), {name: member})
    return kind("a message")


class _LawlessZone(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        raise RuntimeError("no offset")


class _NoText:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class _Untruthful(Exception):
    """An error that calls itself a RetryLater, and has nothing of one."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return holdfast.RetryLater


NO = RuntimeError("no")
FAILURES: dict[str, Callable[[], BaseException]] = {
    "after is text": lambda: holdfast.RetryLater("later", after="5"),  # type: ignore[arg-type]
    "after is a bool": lambda: holdfast.RetryLater("later", after=True),
    "after is not a number": lambda: holdfast.RetryLater("later", after=float("nan")),
    "after is infinite": lambda: holdfast.RetryLater("later", after=float("inf")),
    "after is an object": lambda: holdfast.RetryLater("later", after=object()),  # type: ignore[arg-type]
    "after became text": lambda: _changed(holdfast.RetryLater("later"), after="5"),
    "after became infinite": lambda: _changed(holdfast.RetryLater("later"), after=float("inf")),
    "after raises": lambda: type("Sly", (holdfast.RetryLater,), {"after": property(lambda _: 1 / 0)}).__new__(
        type("Sly", (holdfast.RetryLater,), {"after": property(lambda _: 1 / 0)})
    ),
    "until has no zone": lambda: holdfast.Pause("wait", until=datetime(2030, 1, 1)),  # noqa: DTZ001
    "until is a time": lambda: holdfast.Pause("wait", until=time(12, tzinfo=UTC)),  # type: ignore[arg-type]
    "until is text": lambda: holdfast.Pause("wait", until="tomorrow"),  # type: ignore[arg-type]
    "until has a lawless zone": lambda: holdfast.Pause("wait", until=datetime(2030, 1, 1, tzinfo=_LawlessZone())),
    "until became text": lambda: _changed(holdfast.Pause("wait"), until="tomorrow"),
    "until became naive": lambda: _changed(holdfast.Pause("wait"), until=datetime(2030, 1, 1)),  # noqa: DTZ001
    "reason is no text": lambda: holdfast.Reject(_NoText()),  # type: ignore[arg-type]
    "reason is a number": lambda: holdfast.Reject(404),  # type: ignore[arg-type]
    "reason is bytes": lambda: holdfast.Reject(b"\xff\x00"),  # type: ignore[arg-type]
    "reason has a lone surrogate": lambda: holdfast.Reject("torn \ud800 name"),
    "reason has a NUL": lambda: holdfast.Reject("torn \x00 name"),
    "message has a NUL and a surrogate": lambda: ValueError("torn \x00\udcff name"),
    "retry_after is an object": lambda: _changed(ValueError("no"), retry_after=object()),
    "__str__ raises": lambda: _raising("__str__", NO),
    "__str__ exits": lambda: _raising("__str__", SystemExit(3)),
    "__str__ interrupts": lambda: _raising("__str__", KeyboardInterrupt()),
    "__str__ recurses": lambda: _raising("__str__", RecursionError()),
    "__repr__ exits": lambda: _raising("__repr__", SystemExit(3)),
    "__class__ raises": lambda: _raising("__class__", NO),
    "__class__ exits": lambda: _raising("__class__", SystemExit(3)),
    "__class__ is untrue": _Untruthful,
    "retry_after raises": lambda: _raising("retry_after", NO),
    "retry_after exits": lambda: _raising("retry_after", SystemExit(3)),
    "response exits": lambda: _raising("response", SystemExit(3)),
    "remote_failure exits": lambda: _raising("remote_failure", SystemExit(3)),
    "__notes__ exits": lambda: _raising("__notes__", SystemExit(3)),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "generator exit": GeneratorExit,
    "stop iteration": StopIteration,
    "out of memory": MemoryError,
}
"""By key of the document: errors that fail it."""

FAR = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
WAITS: dict[str, Callable[[], BaseException]] = {
    "after is long": lambda: holdfast.RetryLater("later", after=1e300),
    "after is very long": lambda: holdfast.RetryLater("later", after=10**400),
    "after is the longest": lambda: holdfast.RetryLater("later", after=timedelta.max),
    "until is the last moment": lambda: holdfast.Pause("wait", until=FAR),
    "until became the last moment": lambda: _changed(holdfast.Pause("wait"), until=FAR),
}
"""By key of the document: signals that are obeyed as far as a calendar goes. The document is not due for long."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = request.param
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/a.db"}.get(kind)
    with holdfast.open(url or request.getfixturevalue("postgres_url")) as opened:
        yield opened


class _StopWhenAllWereTried:
    """Stops the worker when it has finished or given back every document: some of them wait for a year."""

    def __init__(self, count: int) -> None:
        self.budget = holdfast.Budget()
        self._count = count
        self._tried: set[int] = set()

    def __call__(self, event: Any) -> None:
        if isinstance(event, Committed):
            self._tried |= {move.claim.document_id for move in event.moves if move.state != "running"}
        elif isinstance(event, GaveBack):
            self._tried |= {release.claim.document_id for release in event.releases}
        if len(self._tried) == self._count:
            self.budget.stop("every document was tried")


def _check(store: Store, pipeline: holdfast.Pipeline, *, set_aside: bool = False) -> None:
    """Run all errors between two healthy documents. The worker must live, and each error costs one document."""
    harness = PipelineHarness(store, pipeline)
    harness.submit("first", *FAILURES, *WAITS, "last")
    watch = _StopWhenAllWereTried(len(FAILURES) + len(WAITS) + 2)
    harness.drain(budget=watch.budget, listeners=[watch])
    assert watch.budget.reason == "every document was tried"
    found = {key: harness.document(key) for key in ("first", "last", *FAILURES, *WAITS)}
    assert (found["first"].state, found["last"].state) == ("done", "done")
    ends = ("done", "dead") if set_aside else ("dead",)  # a signal is about the document, not about the item
    assert {key: found[key].state for key in FAILURES if found[key].state not in ends} == {}
    assert {key: found[key].state for key in WAITS if found[key].state not in ("waiting", "paused")} == {}
    for key in WAITS:
        due = found[key].due_at
        assert due is not None, key
        assert due - store.now() > LONGEST / 2, key
    for key in FAILURES:
        if found[key].state == "done":
            ((_, item),) = store.failed_items(found[key].id)
            assert item.error.kind, key
        else:
            entry = store.journal(found[key].id)[-1]
            assert entry.verb == "fail", key
            assert found[key].reason, key


def _raise_by_key(doc: holdfast.Document) -> None:
    make = FAILURES.get(doc.key) or WAITS.get(doc.key)
    if make is not None:
        raise make()


def test_a_value_body_raises_it(store: Store, pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(retry=ONCE)
    def read(doc: holdfast.Document) -> int:
        _raise_by_key(doc)
        return 1

    _check(store, pipeline)


def test_an_async_body_raises_it(store: Store, pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(retry=ONCE)
    async def read(doc: holdfast.Document) -> int:
        _raise_by_key(doc)
        return 1

    _check(store, pipeline)


def test_a_stream_raises_it_after_its_first_item(store: Store, pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(retry=ONCE)
    def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield 1
        _raise_by_key(doc)

    _check(store, pipeline)


def test_a_body_over_items_raises_it(store: Store, pipeline: holdfast.Pipeline) -> None:
    @pipeline.step
    def numbers(doc: holdfast.Document) -> list[int]:
        return [1]

    @pipeline.step(over=numbers, retry=ONCE, failure_rate=1.0)
    def read(doc: holdfast.Document, number: int) -> int:
        _raise_by_key(doc)
        return number

    _check(store, pipeline, set_aside=True)


def test_an_effect_raises_it(store: Store, pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(retry=ONCE)
    def read(doc: holdfast.Document) -> int:
        return 1

    @read.effect
    def write(tx: Tx, doc: holdfast.Document, value: int) -> None:
        if doc.key == "interrupt":  # in the main thread an effect cannot be told from a person who pressed Ctrl-C
            raise SystemExit
        _raise_by_key(doc)

    _check(store, pipeline)


def test_a_body_in_a_child_process_raises_it(tmp_path: Path, pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(retry=ONCE, runs_in="process")
    def read(doc: holdfast.Document) -> int:
        _raise_by_key(doc)
        return 1

    with holdfast.open(f"sqlite:///{tmp_path}/a.db") as store:
        _check(store, pipeline)


def test_clean_up_code_of_a_stream_that_exits_ends_nothing(store: Store, pipeline: holdfast.Pipeline) -> None:
    rejected = Event()

    @pipeline.step(retry=ONCE, commit_every=1)
    def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise SystemExit(3)

    @read.effect
    def write(tx: Tx, doc: holdfast.Document, values: list[int]) -> None:
        rejected.set()
        raise holdfast.Reject("refused, so that the stream is closed before its end")

    harness = PipelineHarness(store, pipeline)
    harness.submit("a", "b")
    assert harness.drain().dead == 2
    assert rejected.is_set()
