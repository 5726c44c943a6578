"""One run of a pipeline on a new database: undisturbed, with changed documents, or killed at one point and resumed.

In some runs, documents are changed: an earlier version of each is submitted first, and the real one later.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from copy import copy
from pathlib import Path
from time import monotonic
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model import NewDocument
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.api import drain, opened, submit
from holdfast.engine.file_documents import Submittable, new_document
from holdfast.observe.events import Claimed
from holdfast.stores.protocol import Store
from holdfast.testing.crash.child_process import ChildOutcome, run_in_child
from holdfast.testing.crash.report import Point, RunFailed
from holdfast.testing.crash.snapshot import Snapshot, take_snapshot
from holdfast.testing.crash.watched_store import KillMoment, WatchedStore

MAX_POINTS = 3
"""At how many points documents are changed, and at how many a run that does them again is killed: the first, the last
and one in the middle. All points would take too long: every one needs two or three runs."""

UNCHANGED = ("dead", "waiting")
"""The states of documents that are not changed: their last version does not get to where an earlier one got."""


def earlier_versions(documents: Sequence[NewDocument], result: Snapshot) -> list[NewDocument]:
    """Return documents as they might have been before: each has the payload of another one that ends like it.

    Args:
        documents: The documents as they are.
        result: The result of a run of them. Documents that fail in it are left as they are.
    """
    alike: dict[tuple[str, str], list[NewDocument]] = defaultdict(list)
    for document in documents:
        end = result.documents[document.key]
        if end.state not in UNCHANGED:
            alike[end.state, end.step].append(document)
    earlier = {
        document.key: replace(document, payload=other.payload, fingerprint=f"an earlier version of {document.key}")
        for same in alike.values()
        for document, other in zip(same, [*same[1:], same[0]], strict=True)
    }
    return [earlier.get(document.key, document) for document in documents]


def spread(points: Sequence[Point]) -> list[Point]:
    """Return the first, the middle and the last of these points."""
    if len(points) <= MAX_POINTS:
        return [*points]
    return [points[place * (len(points) - 1) // (MAX_POINTS - 1)] for place in range(MAX_POINTS)]


def step_to_rewind_to(pipeline: Pipeline) -> str:
    """Return the step to which documents are rewound: the one in the middle of those that write rows."""
    writing = [step.name for step in pipeline.steps if step.effect_body is not None]
    steps = writing or [step.name for step in pipeline.steps if step.kind != "gate"]
    return steps[len(steps) // 2]


def steps_without_undo(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the steps that have an effect, and say nothing about how its rows go away."""
    return tuple(step.name for step in pipeline.steps if step.effect_body is not None and not step.can_undo)


BATCH = "crashtest"
TIME_LIMIT_SECONDS = 60.0
"""Time limit of a run in seconds, or twenty times the time of the first run if that is more."""

STORE_VARIABLE = "HOLDFAST_STORE"
"""The environment variable that has the URL, for bodies that open the database themselves."""

Prepare = Callable[[Tx], object]

Program = Literal["run", "run earlier versions", "run again"]
"""What a process does: submit the documents and drain; the same with earlier versions of them; or submit the documents,
drain, rewind all of them, and drain again."""


class CompletedRun(Struct, frozen=True):
    """The result of a run that came to its end."""

    points: list[Point]
    snapshot: Snapshot
    waited: float | None
    """Seconds until the first claim; None if no document was left."""


class KilledRun(Struct, frozen=True):
    """A run that was killed."""

    point: Point


class Trial:
    """A pipeline with its documents, and how to run them."""

    def __init__(
        self,
        pipeline: Pipeline,
        documents: Sequence[Submittable],
        *,
        prepare: Prepare | None,
        ignore: Collection[str],
        folder: Path,
    ) -> None:
        self._pipeline = with_fixed_commits(pipeline)
        self._documents = [new_document(document) for document in documents]
        self._earlier = self._documents
        self._prepare = prepare
        self._ignore = ignore
        self._kill_record = folder / "killed-at"
        self._answer = folder / "answer"
        self._time_limit = TIME_LIMIT_SECONDS

    def prepare(self, url: str) -> None:
        """Create holdfast's tables and the user's."""

        def work() -> bytes:
            with opened(url) as store:
                if self._prepare is not None:
                    with store.transaction() as tx:
                        self._prepare(tx)
            return b""

        outcome = self._child(work)
        if outcome.failure or outcome.killed:
            raise RunFailed(f"the database could not be prepared: {outcome.failure or 'the process was killed'}")

    def undisturbed(self, url: str, program: Program = "run") -> CompletedRun:
        """Run all documents once, without a kill."""
        began = monotonic()
        ran = self._run(url, None, program)
        if not isinstance(ran, CompletedRun):
            raise RunFailed(f"the undisturbed run failed: {ran if isinstance(ran, str) else 'it was killed'}")
        self._time_limit = max(TIME_LIMIT_SECONDS, 20 * (monotonic() - began))
        return ran

    def run_earlier_versions(self, fresh: Callable[[], str], result: Snapshot) -> CompletedRun | None:
        """Choose an earlier version of each document, and run them. Return None if no document can be changed.

        A pipeline may refuse a document with the payload of another one. Then only the fingerprints are changed.
        """
        self._earlier = earlier_versions(self._documents, result)
        if self._earlier == self._documents:
            return None
        ran = self._run(fresh(), None, "run earlier versions")
        if isinstance(ran, CompletedRun) and _ends(ran.snapshot) == _ends(result):
            return ran
        real = {document.key: document.payload for document in self._documents}
        self._earlier = [replace(document, payload=real[document.key]) for document in self._earlier]
        return self.undisturbed(fresh(), "run earlier versions")

    def killed(self, url: str, at: KillMoment) -> tuple[Point | None, CompletedRun | str]:
        """Run until the kill, then resume. Return where the kill was, and the result or the reason of a failure.

        With windows in parallel a run may have one commit less than another. Then nothing is killed, and the point
        is None.
        """
        first = self._run(url, at, "run")
        return self._resume(url, first, "run") if isinstance(first, KilledRun) else (None, first)

    def changed(self, url: str, at: KillMoment) -> tuple[Point | None, CompletedRun | str]:
        """Run earlier versions of the documents until the kill. Then submit the documents, and resume."""
        first = self._run(url, at, "run earlier versions")
        return (None, first) if isinstance(first, str) else self._resume(url, first, "run")

    def redone(self, url: str, at: KillMoment | None) -> tuple[Point | None, CompletedRun | str]:
        """Run earlier versions to the end. Then submit the documents, drain, rewind and drain, with a kill in it."""
        first = self._run(url, None, "run earlier versions")
        if not isinstance(first, CompletedRun):
            return None, first if isinstance(first, str) else "it was killed"
        second = self._run(url, at, "run again")
        return self._resume(url, second, "run again") if isinstance(second, KilledRun) else (None, second)

    def _resume(
        self, url: str, first: CompletedRun | KilledRun, program: Program
    ) -> tuple[Point | None, CompletedRun | str]:
        second = self._run(url, None, program)
        point = first.point if isinstance(first, KilledRun) else None
        return point, "it was killed again" if isinstance(second, KilledRun) else second

    def _run(self, url: str, kill_at: KillMoment | None, program: Program) -> CompletedRun | KilledRun | str:
        self._kill_record.unlink(missing_ok=True)
        outcome = self._child(lambda: msgspec.json.encode(self._work(url, kill_at, program)))
        if outcome.killed and self._kill_record.exists():
            return KilledRun(msgspec.json.decode(self._kill_record.read_bytes(), type=Point))
        if outcome.killed:
            return "something else killed the process; out of memory?"
        return outcome.failure or msgspec.json.decode(outcome.answer, type=CompletedRun)

    def _child(self, work: Callable[[], bytes]) -> ChildOutcome:
        self._answer.unlink(missing_ok=True)
        return run_in_child(work, answer=self._answer, time_limit=self._time_limit)

    def _work(self, url: str, kill_at: KillMoment | None, program: Program) -> CompletedRun:
        """Do what a program that uses holdfast does, the first time as well as after the kill."""
        os.environ[STORE_VARIABLE] = url
        with opened(url) as store:
            watched = WatchedStore(store, kill_record=self._kill_record, kill_at=kill_at)
            began = _FirstClaimTimer()
            seen = cast("Store", watched)
            documents = self._earlier if program == "run earlier versions" else self._documents
            submit(self._pipeline, seen, batch=BATCH, documents=documents)
            began.since = monotonic()
            drain(self._pipeline, seen, threads=1, concurrency=1, listeners=(began,))
            if program == "run again":
                self._rewind(seen)
                drain(self._pipeline, seen, threads=1, concurrency=1)
            return CompletedRun(
                watched.passed, take_snapshot(store, self._pipeline.name, ignore=self._ignore), began.after
            )

    def _rewind(self, store: Store) -> None:
        """Rewind the documents that were changed. Those that fail were not, and need not be tried again."""
        changed = [new.key for new, old in zip(self._documents, self._earlier, strict=True) if new != old]
        ids = [store.document(self._pipeline.name, BATCH, key).id for key in changed]
        plan = store.declare(self._pipeline.shape())
        to = step_to_rewind_to(self._pipeline)
        store.rewind_to(plan, ids, to=to, who="crashtest", reason="a test of the pipeline")


def _ends(snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    return {key: (document.state, document.step) for key, document in snapshot.documents.items()}


class _FirstClaimTimer:
    """Measures the time until the first claim."""

    def __init__(self) -> None:
        self.since = monotonic()
        self.after: float | None = None

    def __call__(self, event: Any) -> None:
        if isinstance(event, Claimed) and self.after is None:
            self.after = monotonic() - self.since


def with_fixed_commits(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with streams that never commit by time: by number if they have one, else every item.

    Otherwise every run would have other commit points.
    """
    changed = copy(pipeline)
    changed.steps = [_with_fixed_commits(step) for step in pipeline.steps]
    return changed


def _with_fixed_commits(step: AnyStep) -> AnyStep:
    every = step.options.commit_every
    if step.kind != "stream" or isinstance(every, int):
        return step
    changed = copy(step)
    changed.options = replace(step.options, commit_every=every[0] if isinstance(every, tuple) else 1)
    return changed
