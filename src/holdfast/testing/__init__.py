"""Tools for tests of your own.

- `document` makes a document for a unit test of a step.
- `ManualClock` is a clock that a test moves, so that no test has to sleep.
- `crash_everywhere` kills a pipeline at every commit point and checks the result.
- `holdfast.testing.conformance` is the suite that every store has to pass. It needs pytest; its `lockstep` needs
  hypothesis too. This module needs neither.
"""

from holdfast.testing.clock import ManualClock
from holdfast.testing.crash import CrashReport, Differs, crash_everywhere
from holdfast.testing.documents import document

__all__ = ["CrashReport", "Differs", "ManualClock", "crash_everywhere", "document"]
