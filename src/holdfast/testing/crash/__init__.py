"""The crash test: kill a pipeline at every commit point, resume it, and compare with an undisturbed run.

In your tests:

    from holdfast.testing.crash import crash_everywhere

    def test_my_pipeline_survives_a_kill_anywhere():
        crash_everywhere(papers, ["a.pdf", "b.pdf"], prepare=create_tables)

Every run has its own database and its own process. The kill is a real SIGKILL, at one of two moments:

- inside the transaction, when everything is written and nothing is committed;
- right after COMMIT.

The test compares what holdfast kept for each document, and every row of your tables. It does not see what is outside
the database. To check that too, write its id into a row.
"""

from typing import TYPE_CHECKING

from holdfast.core.old_names import new_name
from holdfast.testing.crash.report import (
    CrashReport,
    CrashTestProgress,
    Difference,
    DifferingRun,
    Differs,
    Point,
    RunFailed,
)
from holdfast.testing.crash.runner import crash_everywhere, crashtest

__all__ = [
    "CrashReport",
    "CrashTestProgress",
    "Difference",
    "DifferingRun",
    "Differs",
    "Point",
    "RunFailed",
    "crash_everywhere",
    "crashtest",
]

_OLD_NAMES = {"Finding": "DifferingRun", "Progress": "CrashTestProgress"}
"""Names of version 0.1. They still work, with a DeprecationWarning, and go in the next release."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return globals()[new_name(__name__, name, _OLD_NAMES)]
