"""For those who test: documents for unit tests, a clock that is moved by hand, and kills at every commit point.

`holdfast.testing.conformance` is a suite that every store has to pass. It needs pytest, and its `lockstep` needs
hypothesis; this module needs neither.
"""

from holdfast.testing.clock import ManualClock
from holdfast.testing.crash import CrashReport, Differs, crash_everywhere
from holdfast.testing.documents import document

__all__ = ["CrashReport", "Differs", "ManualClock", "crash_everywhere", "document"]
