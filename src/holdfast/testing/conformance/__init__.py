"""The conformance suite: pytest tests that every store has to pass.

The behaviour of stores is tested here, and not in the tests of one store. To test a store of your own, subclass
`StoreConformance` and override the fixture `open_store`:

    import pytest

    from holdfast.testing.conformance import StoreConformance

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def open_store(self, tmp_path, clock):
            return lambda: MyStore(f"my://{tmp_path}/test.db", clock=clock)

What the suite needs:

- `open_store` returns a function that opens the database of one test. The database is empty at first.
- Each call of the function opens the same database again. A store that lives in memory returns the same object each
  time.
- Each store uses the fixture `clock` as its clock. Tests move it; they do not sleep.
- If your store raises other exceptions than `sqlite3.IntegrityError` when a CHECK constraint is violated, set
  `forbidden` to them.
- To run the tests of damaged rows too, override `corrupt`. Without it they are skipped.
- To run the tests of submits in the transaction of a caller, override the fixture `connect`: it returns a function that
  opens a connection of the driver.

Each part of the suite is a class of this package, named after the verbs that it tests: `ClaimConformance`,
`CommitConformance`, `ReleaseConformance`. To run one part only, subclass that class instead of `StoreConformance`:

    from holdfast.testing.conformance import ClaimConformance

The suite needs pytest. `holdfast.testing.conformance.lockstep` runs random verbs on your store and on the memory store
and compares the two. It needs hypothesis too.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import pytest

_MODULES = sorted(f"{__name__}.{module.name}" for module in iter_modules(__path__))
pytest.register_assert_rewrite(*_MODULES)

from holdfast.core.old_names import new_name  # noqa: E402
from holdfast.testing.conformance.base import Conformance, OpenStore, StoreHarness  # noqa: E402


def _parts() -> dict[str, type[Conformance]]:
    """Return the test classes of all modules of this package, by name."""
    modules = [import_module(name) for name in _MODULES if name != f"{__name__}.lockstep"]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Conformance) and value is not Conformance
    }


_PARTS = _parts()
globals().update(_PARTS)

if TYPE_CHECKING:

    class StoreConformance(Conformance):
        """All tests that a store has to pass. Override the fixture `open_store`; see the package's documentation."""

else:

    class StoreConformance(*_PARTS.values()):
        """All tests that a store has to pass. Override the fixture `open_store`; see the package's documentation."""


_OLD_NAMES = {
    "AsideConformance": "FailedItemsConformance",
    "AttemptConformance": "AttemptCountConformance",
    "BlobConformance": "CleanupBlobsConformance",
    "CauseConformance": "WaitCausesConformance",
    "CensusConformance": "BatchCountsConformance",
    "ChangeConformance": "ChangedContentConformance",
    "CleanupConformance": "CleanupClosedConformance",
    "CloseConformance": "CloseBatchConformance",
    "ClosingConformance": "ClosingStepsConformance",
    "DecisionConformance": "ResumeAndRejectConformance",
    "Desk": "StoreHarness",
    "EndingConformance": "ReleaseConformance",
    "IntakeConformance": "SubmitConformance",
    "IntegrityConformance": "DamagedRowConformance",
    "JudgementConformance": "CheckConformance",
    "KeptConformance": "ItemsConformance",
    "KnownPlanConformance": "PlansConformance",
    "LedgerConformance": "ReadsConformance",
    "LimitConformance": "StepLimitConformance",
    "LivenessConformance": "ReclaimConformance",
    "MovedPinConformance": "PinWithoutClaimConformance",
    "NewKeyConformance": "RenameConformance",
    "OperatorConformance": "BulkDecisionConformance",
    "OrderConformance": "StepOrderConformance",
    "OrphanConformance": "OrphansConformance",
    "PaceConformance": "StepTimesConformance",
    "PlanConformance": "DeclareConformance",
    "ResolveConformance": "ResolveOrphansConformance",
    "RetentionConformance": "CleanupFinishedConformance",
    "ReviewConformance": "GateDecisionConformance",
    "SurveyConformance": "GaugesConformance",
    "SuspectConformance": "ClaimSuspectConformance",
    "ThisOneConformance": "ClaimDocumentConformance",
    "VouchConformance": "RecordVerifiedConformance",
    "WhichConformance": "DocumentFilterConformance",
    "WorkedConformance": "WorkerTotalsConformance",
}
"""Names of version 0.1. They still work, with a DeprecationWarning, and go in the next release."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return globals()[new_name(__name__, name, _OLD_NAMES)]


__all__ = ["Conformance", "OpenStore", "StoreConformance", "StoreHarness"]
