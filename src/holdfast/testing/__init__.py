"""For those who test: a clock that is moved by hand, and (in `conformance`) a suite that every store has to pass.

`holdfast.testing.conformance` needs pytest, and `holdfast.testing.conformance.lockstep` needs hypothesis; this module
needs neither.
"""

from holdfast.testing.clock import ManualClock

__all__ = ["ManualClock"]
