"""holdfast: document pipelines that resume exactly where they were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.batches import BatchReport
from holdfast.core.circuit import Circuit
from holdfast.core.document import Document
from holdfast.core.error_categories import error_category, is_recoverable
from holdfast.core.errors import (
    BatchSealed,
    BodyError,
    CannotKeep,
    CloseRefused,
    DefinitionError,
    DuplicateKey,
    HeldByAnother,
    HoldfastError,
    LeaseLost,
    OutputMissing,
    Pause,
    PlanRefused,
    Reject,
    RetryLater,
    SchemaNewer,
    SchemaOutdated,
    SealRefused,
    StoreError,
    UndoFailed,
    UnknownBatch,
    UnknownDocument,
    UnknownStep,
)
from holdfast.core.model import Balance, Decision, NewDocument, SetAsideItem, SubmitResult
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import At, Step, last, total
from holdfast.engine.api import drain, submit, work
from holdfast.engine.api import opened as open  # noqa: A004 - `holdfast.open` reads as what it does
from holdfast.engine.budget import Budget
from holdfast.observe.report import DocumentResult, Report
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.ops.close_batch import close
    from holdfast.ops.explain.batch import explain_batch
    from holdfast.ops.explain.document import Explanation, explain
    from holdfast.ops.maintenance_scan import MaintenanceScan
    from holdfast.ops.set_aside import redrive_items, set_aside_items
    from holdfast.ops.step_output import iter_output, output
    from holdfast.ops.verify import Finding, Verification, verify
    from holdfast.ops.withdraw import withdraw
    from holdfast.sources.fetch import local_file

__all__ = [
    "At",
    "Balance",
    "BatchReport",
    "BatchSealed",
    "BodyError",
    "Budget",
    "CannotKeep",
    "Circuit",
    "CloseRefused",
    "Decision",
    "DefinitionError",
    "Document",
    "DocumentResult",
    "DuplicateKey",
    "Explanation",
    "Finding",
    "HeldByAnother",
    "HoldfastError",
    "LeaseLost",
    "MaintenanceScan",
    "NewDocument",
    "OutputMissing",
    "Pause",
    "Pipeline",
    "PlanRefused",
    "Reject",
    "Report",
    "Retry",
    "RetryLater",
    "SchemaNewer",
    "SchemaOutdated",
    "SealRefused",
    "SetAsideItem",
    "Step",
    "Store",
    "StoreError",
    "SubmitResult",
    "Tx",
    "UndoFailed",
    "UnknownBatch",
    "UnknownDocument",
    "UnknownStep",
    "Verification",
    "close",
    "drain",
    "error_category",
    "explain",
    "explain_batch",
    "is_recoverable",
    "iter_output",
    "last",
    "local_file",
    "open",
    "output",
    "redrive_items",
    "set_aside_items",
    "submit",
    "total",
    "verify",
    "withdraw",
    "work",
]

__version__: str

Receipt = SubmitResult
"""The old name of SubmitResult, kept for one release."""

_LATE = {
    "close": "holdfast.ops.close_batch",
    "Explanation": "holdfast.ops.explain.document",
    "explain": "holdfast.ops.explain.document",
    "explain_batch": "holdfast.ops.explain.batch",
    "Finding": "holdfast.ops.verify",
    "local_file": "holdfast.sources.fetch",
    "MaintenanceScan": "holdfast.ops.maintenance_scan",
    "iter_output": "holdfast.ops.step_output",
    "output": "holdfast.ops.step_output",
    "redrive_items": "holdfast.ops.set_aside",
    "set_aside_items": "holdfast.ops.set_aside",
    "Verification": "holdfast.ops.verify",
    "verify": "holdfast.ops.verify",
    "withdraw": "holdfast.ops.withdraw",
}
"""Names that are imported when they are first used: workers start faster without them."""

if not TYPE_CHECKING:  # a type checker that saw it would accept every misspelt name

    def __getattr__(name: str) -> object:
        """Import names that are rarely used. Reading the version takes a sixth of the time of the whole import."""
        if name in _LATE:
            from importlib import import_module

            return getattr(import_module(_LATE[name]), name)
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from holdfast.core.distribution import installed_version

        return installed_version()
