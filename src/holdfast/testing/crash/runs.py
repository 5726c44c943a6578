"""One run of a pipeline on a fresh database: undisturbed, or killed at one point and then resumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from copy import copy
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.api import Submittable, drain, opened, submit
from holdfast.engine.events import Claimed
from holdfast.stores.protocol import Store
from holdfast.testing.crash.children import Outcome, in_child
from holdfast.testing.crash.report import Point, RunFailed
from holdfast.testing.crash.snapshot import Snapshot, take
from holdfast.testing.crash.watched import Moment, Watched

BATCH = "crashtest"
PATIENCE = 60.0
"""A run may take so many seconds, or twenty times as long as the first one, if that is more."""

STORE_VARIABLE = "HOLDFAST_STORE"
"""The environment variable in which bodies that open the database by themselves find its URL."""

Prepare = Callable[[Tx], object]


class Ran(Struct, frozen=True):
    """What a run that came to its end tells."""

    points: list[Point]
    snapshot: Snapshot
    waited: float | None
    """Seconds until the first document was in hand; None when there was none left."""


class Interrupted(Struct, frozen=True):
    """A run that was killed."""

    point: Point


class Trial:
    """A pipeline, its documents, and how they are tried."""

    def __init__(
        self,
        pipeline: Pipeline,
        documents: Sequence[Submittable],
        *,
        prepare: Prepare | None,
        ignore: Collection[str],
        folder: Path,
    ) -> None:
        self._pipeline = paced(pipeline)
        self._documents = documents
        self._prepare = prepare
        self._ignore = ignore
        self._last_words = folder / "last-words"
        self._answer = folder / "answer"
        self._patience = PATIENCE

    def prepare(self, url: str) -> None:
        """Makes the tables that a run needs: holdfast's, and the user's."""

        def work() -> bytes:
            with opened(url) as store:
                if self._prepare is not None:
                    with store.transaction() as tx:
                        self._prepare(tx)
            return b""

        outcome = self._child(work)
        if outcome.failure or outcome.killed:
            raise RunFailed(f"the database could not be prepared: {outcome.failure or 'the process was killed'}")

    def undisturbed(self, url: str) -> Ran:
        """Runs everything once."""
        began = monotonic()
        ran = self._run(url, None)
        if not isinstance(ran, Ran):
            raise RunFailed(f"the undisturbed run failed: {ran if isinstance(ran, str) else 'it was killed'}")
        self._patience = max(PATIENCE, 20 * (monotonic() - began))
        return ran

    def killed(self, url: str, at: Moment) -> tuple[Point | None, Ran | str]:
        """Runs until it is killed, and resumes. Tells where that was, and how it ended: well, or why it failed.

        With windows in parallel a run may have a commit less than another: then nobody was killed.
        """
        first = self._run(url, at)
        if not isinstance(first, Interrupted):
            return None, first
        second = self._run(url, None)
        return first.point, "it was killed again" if isinstance(second, Interrupted) else second

    def _run(self, url: str, kill_at: Moment | None) -> Ran | Interrupted | str:
        self._last_words.unlink(missing_ok=True)
        outcome = self._child(lambda: msgspec.json.encode(self._work(url, kill_at)))
        if outcome.killed and self._last_words.exists():
            return Interrupted(msgspec.json.decode(self._last_words.read_bytes(), type=Point))
        if outcome.killed:
            return "something else killed the process; out of memory?"
        return outcome.failure or msgspec.json.decode(outcome.answer, type=Ran)

    def _child(self, work: Callable[[], bytes]) -> Outcome:
        self._answer.unlink(missing_ok=True)
        return in_child(work, answer=self._answer, patience=self._patience)

    def _work(self, url: str, kill_at: Moment | None) -> Ran:
        """What a program that uses holdfast does, the first time as well as the second."""
        os.environ[STORE_VARIABLE] = url
        with opened(url) as store:
            watched = Watched(store, last_words=self._last_words, kill_at=kill_at)
            began = _FirstClaim()
            seen = cast("Store", watched)
            submit(self._pipeline, seen, batch=BATCH, documents=self._documents)
            began.since = monotonic()
            drain(self._pipeline, seen, threads=1, concurrency=1, listeners=(began,))
            return Ran(watched.passed, take(store, self._pipeline.name, ignore=self._ignore), began.after)


class _FirstClaim:
    """Listens for the first claim of a worker."""

    def __init__(self) -> None:
        self.since = monotonic()
        self.after: float | None = None

    def __call__(self, event: Any) -> None:
        if isinstance(event, Claimed) and self.after is None:
            self.after = monotonic() - self.since


def paced(pipeline: Pipeline) -> Pipeline:
    """Gives the pipeline with streams that commit every item where they would commit by the clock.

    Else every run would have its own commit points.
    """
    steady = copy(pipeline)
    steady.steps = [_paced(step) for step in pipeline.steps]
    return steady


def _paced(step: AnyStep) -> AnyStep:
    every = step.options.commit_every
    if step.kind != "stream" or not (every is None or isinstance(every, timedelta)):
        return step
    steady = copy(step)
    steady.options = replace(step.options, commit_every=1)
    return steady
