"""holdfast: document pipelines that go on exactly where they were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.batches import BatchReport
from holdfast.core.document import Document
from holdfast.core.errors import (
    BodyError,
    CannotKeep,
    CloseRefused,
    DefinitionError,
    DuplicateKey,
    HoldfastError,
    LeaseLost,
    Pause,
    PlanRefused,
    Reject,
    RetryLater,
    StoreError,
)
from holdfast.core.model import Balance, Decision, NewDocument, Receipt
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import At, Step, last
from holdfast.engine.api import drain, submit, verify, work
from holdfast.engine.api import opened as open  # noqa: A004 - `holdfast.open` reads as what it does
from holdfast.engine.budget import Budget
from holdfast.engine.report import Report

if TYPE_CHECKING:
    from holdfast.engine.closing import close
    from holdfast.engine.explain import Explanation, explain
    from holdfast.engine.explain_batch import explain_batch
    from holdfast.engine.findings import Finding, Verification

__all__ = [
    "At",
    "Balance",
    "BatchReport",
    "BodyError",
    "Budget",
    "CannotKeep",
    "CloseRefused",
    "Decision",
    "DefinitionError",
    "Document",
    "DuplicateKey",
    "Explanation",
    "Finding",
    "HoldfastError",
    "LeaseLost",
    "NewDocument",
    "Pause",
    "Pipeline",
    "PlanRefused",
    "Receipt",
    "Reject",
    "Report",
    "Retry",
    "RetryLater",
    "Step",
    "StoreError",
    "Tx",
    "Verification",
    "close",
    "drain",
    "explain",
    "explain_batch",
    "last",
    "open",
    "submit",
    "verify",
    "work",
]

__version__: str

_LATE = {
    "close": "holdfast.engine.closing",
    "Explanation": "holdfast.engine.explain",
    "explain": "holdfast.engine.explain",
    "explain_batch": "holdfast.engine.explain_batch",
    "Finding": "holdfast.engine.findings",
    "Verification": "holdfast.engine.findings",
}
"""What is imported when it is asked for: workers start without it."""

if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for one of ours

    def __getattr__(name: str) -> object:
        """Looks up what is seldom asked for. The version alone takes a sixth of the time of the whole import."""
        if name in _LATE:
            from importlib import import_module

            return getattr(import_module(_LATE[name]), name)
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("holdfast")
