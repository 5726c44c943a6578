"""holdfast: document pipelines that go on exactly where they were killed."""

from __future__ import annotations

from holdfast.core.document import Document
from holdfast.core.errors import (
    BodyError,
    CannotKeep,
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
from holdfast.core.model import Balance, NewDocument, Receipt
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import At, Step
from holdfast.engine.api import drain, submit, work
from holdfast.engine.api import opened as open  # noqa: A004 - `holdfast.open` reads as what it does
from holdfast.engine.budget import Budget
from holdfast.engine.report import Report

__all__ = [
    "At",
    "Balance",
    "BodyError",
    "Budget",
    "CannotKeep",
    "DefinitionError",
    "Document",
    "DuplicateKey",
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
    "drain",
    "open",
    "submit",
    "work",
]
