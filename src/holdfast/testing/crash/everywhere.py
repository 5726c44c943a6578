"""Kills a pipeline everywhere, and tells what came of it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from time import monotonic

from holdfast.core.pipeline import Pipeline
from holdfast.engine.api import Submittable
from holdfast.testing.crash.compare import differences
from holdfast.testing.crash.databases import Databases, databases
from holdfast.testing.crash.report import CrashReport, Difference, Differs, Finding, Point, Progress
from holdfast.testing.crash.runs import Prepare, Ran, Trial
from holdfast.testing.crash.snapshot import Snapshot


def crash_everywhere(
    pipeline: Pipeline,
    documents: Iterable[Submittable],
    *,
    store: str = "sqlite",
    prepare: Prepare | None = None,
    points: Collection[int] | None = None,
    ignore: Collection[str] = (),
) -> CrashReport:
    """Raises Differs unless a run that is killed at any commit point and resumed ends like one that is not.

    store    sqlite, in files of its own; or the URL of a PostgreSQL server, on which databases are made and dropped
    prepare  is called with a transaction, to create the tables that effects write to
    points   only these commit points, by number: to try one again
    ignore   what changes by nature: "table.column" or "step.field", or a whole "table" or "step"
    """
    report = crashtest(pipeline, documents, store=store, prepare=prepare, points=points, ignore=ignore)
    if not report.passed:
        raise Differs(report)
    return report


def crashtest(
    pipeline: Pipeline,
    documents: Iterable[Submittable],
    *,
    store: str = "sqlite",
    prepare: Prepare | None = None,
    points: Collection[int] | None = None,
    ignore: Collection[str] = (),
    progress: Callable[[Progress], object] = lambda _: None,
) -> CrashReport:
    """Does what `crash_everywhere` does, answers what it found, good or bad, and says meanwhile how far it is."""
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as name:
        folder = Path(name)
        trial = Trial(pipeline, list(documents), prepare=prepare, ignore=ignore, folder=folder)
        with databases(store, folder, prepare=trial.prepare) as fresh:
            return _Test(pipeline.name, trial, fresh, progress).run(points)


class _Test:
    """One crash test: what it expects, and what it has found so far."""

    def __init__(
        self, pipeline: str, trial: Trial, databases: Databases, progress: Callable[[Progress], object]
    ) -> None:
        self._pipeline = pipeline
        self._trial = trial
        self._databases = databases
        self._progress = progress
        self._began = monotonic()
        self._kills = 0
        self._slowest = 0.0
        self._findings: list[Finding] = []

    def run(self, points: Collection[int] | None) -> CrashReport:
        """Twice undisturbed, to see that there is one result; then killed at one point after the other."""
        undisturbed = self._trial.undisturbed(self._databases.fresh())
        again = self._trial.undisturbed(self._databases.fresh())
        expected = undisturbed.snapshot
        if unsteady := differences(expected, again.snapshot):
            return self._report(undisturbed, unsteady)
        chosen = [point for point in undisturbed.points if points is None or point.number in points]
        for done, point in enumerate(chosen, start=1):
            found = self._kill(point, expected)
            self._progress(Progress(done, len(chosen), point, found))
        return self._report(undisturbed)

    def _kill(self, planned: Point, expected: Snapshot) -> list[Difference]:
        killed_at, ended = self._trial.killed(self._databases.fresh(), (planned.number, planned.side))
        point = killed_at or planned
        self._kills += killed_at is not None
        if isinstance(ended, Ran):
            self._slowest = max(self._slowest, (killed_at and ended.waited) or 0.0)
            found = differences(expected, ended.snapshot)
        else:
            found = [Difference(f"pipeline {self._pipeline!r}", "failed", ended)]
        if found:
            self._findings.append(Finding(point, found))
        return found

    def _report(self, undisturbed: Ran, unsteady: list[Difference] | None = None) -> CrashReport:
        return CrashReport(
            pipeline=self._pipeline,
            states=dict(Counter(document.state for document in undisturbed.snapshot.documents.values())),
            points=max((point.number for point in undisturbed.points), default=0),
            kills=self._kills,
            seconds=monotonic() - self._began,
            slowest_resume=self._slowest,
            findings=self._findings,
            unsteady=unsteady or (),
        )
