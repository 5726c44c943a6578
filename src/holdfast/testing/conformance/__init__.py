"""The suite that every store has to pass. Behaviour is proved here, not in one store.

    from holdfast.testing.conformance import StoreConformance

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def open_store(self, tmp_path, clock):
            return lambda: MyStore(f"my://{tmp_path}/test.db", clock=clock)

Two stores that `open_store` opens must see the same database; a store that lives in memory gives the same object twice.
`forbidden` names what the store raises for what a CHECK constraint forbids.
"""

import pytest

_PARTS = (
    "base",
    "batches",
    "books",
    "causes",
    "claims",
    "cleanup",
    "commits",
    "decisions",
    "effects",
    "endings",
    "exchanges",
    "history",
    "intake",
    "integrity",
    "kept",
    "known_plans",
    "ledger",
    "limits",
    "liveness",
    "operators",
    "orphans",
    "pins",
    "plans",
    "races",
    "renames",
    "retention",
    "reviews",
    "rewinds",
    "served",
    "vouching",
    "which",
    "worked",
    "workers",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from holdfast.testing.conformance.base import Conformance, Desk, OpenStore  # noqa: E402
from holdfast.testing.conformance.batches import (  # noqa: E402
    CensusConformance,
    CloseConformance,
    ClosingConformance,
    ReportConformance,
    SealConformance,
)
from holdfast.testing.conformance.causes import CauseConformance  # noqa: E402
from holdfast.testing.conformance.claims import AttemptConformance, ClaimConformance, SuspectConformance  # noqa: E402
from holdfast.testing.conformance.cleanup import (  # noqa: E402
    CleanupConformance,
    CleanupRaceConformance,
)
from holdfast.testing.conformance.commits import CheckConformance, CommitConformance, FenceConformance  # noqa: E402
from holdfast.testing.conformance.decisions import (  # noqa: E402
    CancelConformance,
    DecisionConformance,
    RedriveConformance,
    WakeConformance,
)
from holdfast.testing.conformance.effects import EffectConformance  # noqa: E402
from holdfast.testing.conformance.endings import EndingConformance  # noqa: E402
from holdfast.testing.conformance.exchanges import ExchangeConformance  # noqa: E402
from holdfast.testing.conformance.history import PaceConformance, SurveyConformance  # noqa: E402
from holdfast.testing.conformance.intake import ChangeConformance, IntakeConformance  # noqa: E402
from holdfast.testing.conformance.integrity import IntegrityConformance, ThisOneConformance  # noqa: E402
from holdfast.testing.conformance.kept import AsideConformance, KeptConformance  # noqa: E402
from holdfast.testing.conformance.known_plans import JudgementConformance, KnownPlanConformance  # noqa: E402
from holdfast.testing.conformance.ledger import LedgerConformance  # noqa: E402
from holdfast.testing.conformance.limits import LimitConformance  # noqa: E402
from holdfast.testing.conformance.liveness import LivenessConformance  # noqa: E402
from holdfast.testing.conformance.operators import (  # noqa: E402
    EveryDecisionConformance,
    OperatorConformance,
)
from holdfast.testing.conformance.orphans import (  # noqa: E402
    OrphanConformance,
    ResolveConformance,
)
from holdfast.testing.conformance.pins import (  # noqa: E402
    MovedPinConformance,
    PinConformance,
)
from holdfast.testing.conformance.plans import (  # noqa: E402
    OrderConformance,
    PlanConformance,
    RenameConformance,
    ShapeConformance,
)
from holdfast.testing.conformance.races import RaceConformance  # noqa: E402
from holdfast.testing.conformance.renames import NewKeyConformance  # noqa: E402
from holdfast.testing.conformance.retention import BlobConformance, RetentionConformance  # noqa: E402
from holdfast.testing.conformance.reviews import HoldConformance, ReviewConformance  # noqa: E402
from holdfast.testing.conformance.rewinds import RewindConformance  # noqa: E402
from holdfast.testing.conformance.served import RewindToConformance, ServedConformance  # noqa: E402
from holdfast.testing.conformance.vouching import VouchConformance  # noqa: E402
from holdfast.testing.conformance.which import WhichConformance  # noqa: E402
from holdfast.testing.conformance.worked import WorkedConformance  # noqa: E402
from holdfast.testing.conformance.workers import WorkerConformance  # noqa: E402


class StoreConformance(
    IntakeConformance,
    ChangeConformance,
    NewKeyConformance,
    PlanConformance,
    RenameConformance,
    OrderConformance,
    ShapeConformance,
    PinConformance,
    KnownPlanConformance,
    MovedPinConformance,
    JudgementConformance,
    ClaimConformance,
    AttemptConformance,
    SuspectConformance,
    WorkerConformance,
    WorkedConformance,
    CommitConformance,
    FenceConformance,
    CheckConformance,
    EffectConformance,
    ExchangeConformance,
    EndingConformance,
    RewindConformance,
    KeptConformance,
    AsideConformance,
    LimitConformance,
    LedgerConformance,
    SurveyConformance,
    PaceConformance,
    LivenessConformance,
    OrphanConformance,
    ResolveConformance,
    CauseConformance,
    IntegrityConformance,
    ThisOneConformance,
    DecisionConformance,
    CancelConformance,
    RedriveConformance,
    WakeConformance,
    HoldConformance,
    VouchConformance,
    EveryDecisionConformance,
    OperatorConformance,
    ReviewConformance,
    RewindToConformance,
    ServedConformance,
    WhichConformance,
    CensusConformance,
    SealConformance,
    CloseConformance,
    ClosingConformance,
    ReportConformance,
    CleanupConformance,
    RetentionConformance,
    BlobConformance,
    RaceConformance,
    CleanupRaceConformance,
):
    """All that a store has to do."""


__all__ = [
    "AsideConformance",
    "AttemptConformance",
    "BlobConformance",
    "CancelConformance",
    "CauseConformance",
    "CensusConformance",
    "ChangeConformance",
    "CheckConformance",
    "ClaimConformance",
    "CleanupConformance",
    "CleanupRaceConformance",
    "CloseConformance",
    "ClosingConformance",
    "CommitConformance",
    "Conformance",
    "DecisionConformance",
    "Desk",
    "EffectConformance",
    "EndingConformance",
    "EveryDecisionConformance",
    "ExchangeConformance",
    "FenceConformance",
    "HoldConformance",
    "IntakeConformance",
    "IntegrityConformance",
    "JudgementConformance",
    "KeptConformance",
    "KnownPlanConformance",
    "LedgerConformance",
    "LimitConformance",
    "LivenessConformance",
    "MovedPinConformance",
    "NewKeyConformance",
    "OpenStore",
    "OperatorConformance",
    "OrderConformance",
    "OrphanConformance",
    "PaceConformance",
    "PinConformance",
    "PlanConformance",
    "RaceConformance",
    "RedriveConformance",
    "RenameConformance",
    "ReportConformance",
    "ResolveConformance",
    "RetentionConformance",
    "ReviewConformance",
    "RewindConformance",
    "RewindToConformance",
    "SealConformance",
    "ServedConformance",
    "ShapeConformance",
    "StoreConformance",
    "SurveyConformance",
    "SuspectConformance",
    "ThisOneConformance",
    "VouchConformance",
    "WakeConformance",
    "WhichConformance",
    "WorkedConformance",
    "WorkerConformance",
]
