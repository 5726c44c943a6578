"""Run the crash test: one undisturbed run, one killed run for each commit point, and runs in which documents change."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from time import monotonic

from holdfast.core.errors import TransactionEnded
from holdfast.core.pipeline import Pipeline
from holdfast.engine.file_documents import Submittable
from holdfast.testing.crash.databases import Databases, databases
from holdfast.testing.crash.report import (
    CrashReport,
    CrashTestProgress,
    Difference,
    DifferingRun,
    Differs,
    Point,
    Scenario,
)
from holdfast.testing.crash.runs import CompletedRun, Prepare, Trial, spread, steps_without_undo
from holdfast.testing.crash.snapshot import Snapshot, compare_snapshots


def crash_everywhere(
    pipeline: Pipeline,
    documents: Iterable[Submittable],
    *,
    store: str = "sqlite",
    prepare: Prepare | None = None,
    points: Collection[int] | None = None,
    ignore: Collection[str] = (),
) -> CrashReport:
    """Kill a pipeline at every commit point, resume it, and check that the result is that of an undisturbed run.

    If it is, change documents: half-way at a few points, and when they are done. Rewind them too. The result must be
    that of a fresh run, so the rows of the earlier version must be gone.

    Args:
        pipeline: The pipeline under test.
        documents: What to submit, as for `holdfast.submit`.
        store: `sqlite`, or the URL of a PostgreSQL server. On the server a database is created and dropped.
        prepare: Is called with a transaction, to create the tables that effects write to.
        points: Numbers of the commit points to try; by default all. If given, no documents are changed.
        ignore: What may differ from run to run: "table.column", "step.field", or a whole "table" or "step".

    Returns:
        The report of a test without differences.

    Raises:
        Differs: A killed and resumed run had another result, or a run in which documents changed.
        RunFailed: A run that was not killed failed.
        StoreError: The store does not outlive its process, or its database cannot be created.

    Example:
        def test_papers_survive_a_kill_anywhere():
            crash_everywhere(papers, ["a.pdf", "b.pdf"], prepare=create_tables)
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
    progress: Callable[[CrashTestProgress], object] = lambda _: None,
) -> CrashReport:
    """Run the test of `crash_everywhere` and return the report, also if runs differ.

    Args:
        pipeline: The pipeline under test.
        documents: What to submit, as for `holdfast.submit`.
        store: `sqlite`, or the URL of a PostgreSQL server.
        prepare: Is called with a transaction, to create the tables that effects write to.
        points: Numbers of the commit points to try; by default all. If given, no documents are changed.
        ignore: What may differ from run to run.
        progress: Is called after every run.

    Returns:
        The report. `report.passed` is False if a run differed.

    Raises:
        RunFailed: A run that was not killed failed.
        StoreError: The store does not outlive its process, or its database cannot be created.

    Example:
        report = crashtest(papers, ["a.pdf"], progress=lambda kill: print(f"{kill.done} of {kill.total}"))
        print(report)
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as name:
        folder = Path(name)
        trial = Trial(pipeline, list(documents), prepare=prepare, ignore=ignore, folder=folder)
        with databases(store, folder, prepare=trial.prepare) as fresh:
            return _Test(pipeline, trial, fresh, progress).run(points)


class _Test:
    """One crash test: the expected result, and the findings so far."""

    def __init__(
        self, pipeline: Pipeline, trial: Trial, databases: Databases, progress: Callable[[CrashTestProgress], object]
    ) -> None:
        self._pipeline = pipeline
        self._trial = trial
        self._databases = databases
        self._progress = progress
        self._began = monotonic()
        self._kills = self._changes = self._done = self._total = 0
        self._slowest = 0.0
        self._findings: list[DifferingRun] = []

    def run(self, points: Collection[int] | None) -> CrashReport:
        """Run twice undisturbed, to see that the result is stable. Then kill at one point after the other."""
        undisturbed = self._trial.undisturbed(self._databases.fresh())
        again = self._trial.undisturbed(self._databases.fresh())
        expected = undisturbed.snapshot
        if ended := _ended_transactions(expected):
            return self._report(undisturbed, ended=ended)
        if unstable := compare_snapshots(expected, again.snapshot):
            return self._report(undisturbed, unstable)
        chosen = [point for point in undisturbed.points if points is None or point.number in points]
        self._total = len(chosen)
        for point in chosen:
            self._kill(point, expected)
        if points is None and not self._findings:
            self._change(expected)
        return self._report(undisturbed)

    def _kill(self, planned: Point, expected: Snapshot) -> None:
        killed_at, ended = self._trial.killed(self._databases.fresh(), (planned.number, planned.side))
        self._kills += killed_at is not None
        if isinstance(ended, CompletedRun):
            self._slowest = max(self._slowest, (killed_at and ended.waited) or 0.0)
        self._compare(expected, ended, killed_at or planned, "resumed")

    def _change(self, expected: Snapshot) -> None:
        """Change documents half-way, at some points. Change and rewind done ones, and kill that at some points too."""
        earlier = self._trial.run_earlier_versions(self._databases.fresh, expected)
        if earlier is None:
            return
        half_way = spread([point for point in earlier.points if (point.verb, point.side) == ("commit", "after")])
        self._total += len(half_way) + 1
        for point in half_way:
            killed_at, ended = self._trial.changed(self._databases.fresh(), (point.number, point.side))
            self._compare(expected, ended, killed_at or point, "changed")
        _, again = self._trial.redone(self._databases.fresh(), None)
        self._compare(expected, again, None, "redone")
        if self._findings or isinstance(again, str):
            return
        undoing = spread([point for point in again.points if point.undoes])
        self._total += len(undoing)
        for point in undoing:
            killed_at, ended = self._trial.redone(self._databases.fresh(), (point.number, point.side))
            self._compare(expected, ended, killed_at or point, "redone")

    def _compare(self, expected: Snapshot, ended: CompletedRun | str, point: Point | None, scenario: Scenario) -> None:
        """Compare the end of a run with the expected one, and report it."""
        if isinstance(ended, CompletedRun):
            found = compare_snapshots(expected, ended.snapshot)
        else:
            found = [Difference(f"pipeline {self._pipeline.name!r}", "failed", ended)]
        if found:
            self._findings.append(DifferingRun(point, found, scenario))
        self._changes += scenario != "resumed"
        self._done += 1
        self._progress(CrashTestProgress(self._done, self._total, point, found))

    def _report(
        self,
        undisturbed: CompletedRun,
        unstable: Sequence[Difference] = (),
        *,
        ended: Sequence[Difference] = (),
    ) -> CrashReport:
        return CrashReport(
            pipeline=self._pipeline.name,
            states=dict(Counter(document.state for document in undisturbed.snapshot.documents.values())),
            points=max((point.number for point in undisturbed.points), default=0),
            kills=self._kills,
            changes=self._changes,
            seconds=monotonic() - self._began,
            slowest_resume=self._slowest,
            findings=self._findings,
            unstable=unstable,
            without_undo=steps_without_undo(self._pipeline),
            ended=ended,
        )


def _ended_transactions(snapshot: Snapshot) -> list[Difference]:
    """Return the documents whose effect ended the transaction that it was given, or tried to."""
    return [
        Difference(f"document {key!r}", "failed", document.reason)
        for key, document in snapshot.documents.items()
        if document.error == TransactionEnded.__name__
    ]
