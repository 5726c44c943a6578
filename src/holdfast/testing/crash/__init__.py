"""The crash test: kills a pipeline at every commit point, lets it go on, and compares with an undisturbed run.

In a test of yours:

    from holdfast.testing.crash import crash_everywhere

    def test_my_pipeline_survives_a_kill_anywhere():
        crash_everywhere(papers, ["a.pdf", "b.pdf"], prepare=create_tables)

Every run has a database of its own and a process of its own. The kill is a real SIGKILL: inside the transaction, when
everything of the documents is written and nothing is committed, or right after COMMIT. Compared is what holdfast kept
for each document, and every row of every table of yours. What lies outside of the database is not seen:
put its id into a row.
"""

from holdfast.testing.crash.everywhere import crash_everywhere, crashtest
from holdfast.testing.crash.report import CrashReport, Difference, Differs, Finding, Point, Progress, RunFailed

__all__ = [
    "CrashReport",
    "Difference",
    "Differs",
    "Finding",
    "Point",
    "Progress",
    "RunFailed",
    "crash_everywhere",
    "crashtest",
]
