"""The examples of the README and of the quickstart leave the rows of a fresh run, whatever happens to their documents.

Documents change, are rewound, redriven and cancelled. All of it is killed at every commit point, and run again from the
start, as a person would do it. The code is taken from the pages. Only its waiting is left out, and documents are short.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.stores.protocol import Store
from holdfast.testing.crash.child_process import run_in_child
from holdfast.testing.crash.databases import Databases, databases
from holdfast.testing.crash.report import Point
from holdfast.testing.crash.snapshot import take_snapshot
from holdfast.testing.crash.watched_store import KillMoment, WatchedStore
from tests.docs.pages import ROOT, blocks

EVERY = {"sqlite": 5, "postgresql": 13} if "HOLDFAST_CRASH_ROUNDS" not in os.environ else {}
"""`make crash` kills at every commit point. Other runs do so at every fifth or thirteenth one."""


class Example(NamedTuple):
    """A page with its pipeline, the step that is made to fail half-way, the rows to compare, and two documents."""

    page: str
    file: str
    pipeline: str
    failing: str
    rows: str
    keys: tuple[str, str]


README = Example(
    "README.md",
    "papers.py",
    "papers",
    "embed",
    "select d.key, v.size from vector v join hf_documents d on d.id = v.document_id",
    ("tides.pdf", "moorings.pdf"),
)
QUICKSTART = Example(
    "docs/quickstart.md",
    "notes.py",
    "notes",
    "count",
    "select d.key, w.words from word_count w join hf_documents d on d.id = w.document_id",
    ("texts/harbour.txt", "texts/island.txt"),
)


def document_keys(example: Example) -> tuple[str, str]:
    """Return the keys of the two documents in their store. A file has its absolute path."""
    if example is README:
        return example.keys
    first, second = (str(Path(key).resolve()) for key in example.keys)
    return first, second


class Outcome(NamedTuple):
    """What is there in the end: documents with their states, the items of those that are done, and the rows."""

    documents: dict[str, tuple[str, dict[str, str]]]
    rows: list[tuple[str, float]]
    points: list[Point]


class World:
    """The documents of an example in a store, and what people do with them. Each has an old and a new version."""

    def __init__(self, example: Example, code: dict[str, Any], store: Store) -> None:
        self.example = example
        self.store = store
        self.is_failing = False
        self.pipeline = self._made_testable(code[example.pipeline])
        self.first, self.second = document_keys(example)

    def submit(self, **versions: str) -> None:
        """Submit the versions of the first and of the second document."""
        number = {"old": 0, "new": 1}
        documents: list[Any] = []
        for key, version in zip(self.example.keys, (versions.get("first"), versions.get("second")), strict=True):
            if version is not None:
                documents.append(self._document(key, number[version]))
        holdfast.submit(self.pipeline, self.store, batch="b", documents=documents)

    def _document(self, key: str, version: int) -> Any:
        if self.example is README:
            return key, {"pages": 34 + 2 * version}  # chunks for two windows
        path = Path(key)
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(f"line {n} of a {'new ' * version}story" for n in range(13 + version)) + "\n")
        return key

    def drain(self, *, failing: bool = False) -> None:
        """Process all documents. If so, the last window of each fails, and they become dead letters half-way."""
        self.is_failing = failing
        holdfast.drain(self.pipeline, self.store, threads=1, concurrency=1)

    def rewind(self, key: str, to: str) -> None:
        plan = self.store.declare(self.pipeline.shape())
        self.store.rewind_to(plan, [self._id(key)], to=to, who="ann", reason="again")

    def redrive(self, *keys: str) -> None:
        self.store.redrive([self._id(key) for key in keys], who="ann", reason="mended")

    def cancel(self, key: str) -> None:
        self.store.cancel([self._id(key)], who="ann", reason="not now")

    def withdraw(self, key: str) -> None:
        holdfast.withdraw(self.pipeline, self.store, [self._id(key)], who="ann", reason="taken back")

    def _id(self, key: str) -> int:
        return self.store.document(self.pipeline.name, "b", key).id

    def _made_testable(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline with few commits and without second attempts. One of its steps can be made to fail."""
        changed = copy(pipeline)
        changed.steps = [self._without_waiting(step) for step in pipeline.steps]
        return changed

    def _without_waiting(self, step: AnyStep) -> AnyStep:
        changed = copy(step)
        every = 20 if step.kind == "stream" else None
        changed.options = replace(step.options, commit_every=every, retry=holdfast.Retry(attempts=1))
        if step.name == self.example.failing:
            changed.body = self._failing_at_the_end(step)
        return changed

    def _failing_at_the_end(self, step: AnyStep) -> Callable[..., Any]:
        """Return a body that returns nothing for a window that is not full, as long as the step is made to fail."""
        body, size = step.body, step.options.size

        async def asynchronous(doc: holdfast.Document, items: list[Any]) -> Any:
            return [] if self.is_failing and len(items) < size else await body(doc, items)

        def plain(doc: holdfast.Document, items: list[Any]) -> Any:
            return [] if self.is_failing and len(items) < size else body(doc, items)

        return asynchronous if step.is_async else plain


# what happens to documents; each can be run again from the start after a kill


def change_when_done(world: World) -> None:
    world.submit(first="old", second="old")
    world.drain()
    world.submit(first="new", second="new")
    world.drain()


def change_half_way(world: World) -> None:
    world.submit(first="old", second="old")
    world.drain(failing=True)
    world.submit(first="new", second="new")
    world.drain()


def rewind(world: World) -> None:
    world.submit(first="new", second="new")
    world.drain()
    world.rewind(world.first, to=world.pipeline.first.name)
    world.rewind(world.second, to=world.example.failing)
    world.drain()


def redrive(world: World) -> None:
    world.submit(first="new", second="new")
    world.drain(failing=True)
    world.redrive(world.first)
    world.rewind(world.second, to=world.pipeline.first.name)  # a redrive from the start
    world.drain()


def cancel(world: World) -> None:
    """Cancel one document half-way, and submit it again as it is now. Withdraw the other."""
    world.submit(first="old", second="new")
    world.drain(failing=True)
    world.redrive(world.first, world.second)
    world.cancel(world.first)
    world.withdraw(world.second)
    world.submit(first="new")
    world.drain()


def fresh(world: World) -> None:
    world.submit(first="new", second="new")
    world.drain()


Story = Callable[[World], None]
STORIES: tuple[Story, ...] = (change_when_done, change_half_way, rewind, redrive, cancel)


class Page:
    """The code of a page, run in processes that may be killed."""

    def __init__(self, example: Example, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (text,) = [block.text for block in blocks(ROOT / example.page) if block.text.startswith(f"# {example.file}\n")]
        self.example = example
        self.folder = folder
        self.code: dict[str, Any] = {"__name__": "__page__"}
        exec(compile(text, example.file, "exec"), self.code)
        monkeypatch.setitem(self.code, "time", SimpleNamespace(sleep=lambda _: None))
        monkeypatch.chdir(folder)

    def prepare(self, url: str) -> None:
        with holdfast.open(url) as store, store.transaction() as tx:
            self.code["prepare"](tx)

    def run(self, story: Story, url: str, kill_at: KillMoment | None = None) -> Outcome | None:
        """Return the outcome of a story. Return None if the process was killed."""
        work = lambda: msgspec.json.encode(self._work(story, url, kill_at))  # noqa: E731
        ran = run_in_child(work, answer=self.folder / "answer", time_limit=60)
        assert not ran.failure
        return None if ran.killed else msgspec.json.decode(ran.answer, type=Outcome)

    def _work(self, story: Story, url: str, kill_at: KillMoment | None) -> Outcome:
        with holdfast.open(url) as store:
            watched = WatchedStore(store, kill_record=self.folder / "killed-at", kill_at=kill_at)
            world = World(self.example, self.code, cast("Store", watched))
            story(world)
            with store.transaction() as tx:
                rows = sorted(map(tuple, tx.execute(self.example.rows).fetchall()))
            found = take_snapshot(store, world.pipeline.name, ignore=()).documents
            ends = {key: (end.state, end.items if end.state == "done" else {}) for key, end in found.items()}
            return Outcome(ends, rows, watched.passed)


@pytest.fixture(params=[README, QUICKSTART], ids=["readme", "quickstart"])
def page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(request.param, tmp_path, monkeypatch)


@pytest.fixture
def stores(page: Page, server: str, tmp_path: Path) -> Iterator[Databases]:
    with databases(server, tmp_path, prepare=page.prepare) as each:
        yield each


@pytest.mark.timeout(600)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_rows_are_those_of_a_fresh_run(page: Page, stores: Databases, server: str, story: Story) -> None:
    expected = page.run(fresh, stores.fresh())
    undisturbed = page.run(story, stores.fresh())
    assert expected is not None
    assert undisturbed is not None
    expected = _without_withdrawn(expected, page.example, story)
    assert undisturbed[:2] == expected[:2]
    every = EVERY.get(server.partition(":")[0], 1)
    kills = 0
    for point in undisturbed.points[::every]:
        url = stores.fresh()
        ran = page.run(story, url, (point.number, point.side))
        kills += ran is None
        resumed = ran or page.run(story, url)
        assert resumed is not None
        assert resumed[:2] == expected[:2], f"killed at {point}"
    assert kills > len(undisturbed.points) / every / 2


def _without_withdrawn(expected: Outcome, example: Example, story: Story) -> Outcome:
    """Return what a fresh run leaves without the document that the story withdraws."""
    if story is not cancel:
        return expected
    withdrawn = document_keys(example)[1]
    rows = [row for row in expected.rows if row[0] != withdrawn]
    return expected._replace(documents=expected.documents | {withdrawn: ("cancelled", {})}, rows=rows)
