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
from holdfast.core.step import At, Step
from holdfast.engine.api import drain, submit, verify, work
from holdfast.engine.api import opened as open  # noqa: A004 - `holdfast.open` reads as what it does
from holdfast.engine.budget import Budget
from holdfast.engine.closing import close
from holdfast.engine.explain import Explanation, explain
from holdfast.engine.explain_batch import explain_batch
from holdfast.engine.findings import Finding, Verification
from holdfast.engine.report import Report

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
    "open",
    "submit",
    "verify",
    "work",
]

__version__: str

if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for one of ours

    def __getattr__(name: str) -> str:
        """Looks the version up when it is asked for: that takes a sixth of the time of the whole import."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("holdfast")
