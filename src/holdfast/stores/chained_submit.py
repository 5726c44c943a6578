"""Submit documents inside a transaction: `tx.submit`, which lets one pipeline feed another one."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import BodyError
from holdfast.core.fingerprints import with_fingerprint
from holdfast.core.model import NewDocument, SubmitResult
from holdfast.core.plan import Shape

if TYPE_CHECKING:
    from holdfast.core.pipeline import Pipeline

SubmitWithin = Callable[[Shape, str, NewDocument], SubmitResult]
"""Submits one document to a batch of the pipeline with this shape, within the transaction that is open."""


class SubmittingTx(ABC):
    """A transaction that can submit documents. Each store has its own way to run statements in it.

    `batch` is the batch of the document whose effect runs. It is None outside of effects.
    """

    __slots__ = ("_submit_within", "batch")

    def __init__(self, submit_within: SubmitWithin) -> None:
        self._submit_within = submit_within
        self.batch: str | None = None

    def submit(
        self,
        pipeline: Pipeline,
        key: str,
        payload: Any = None,
        *,
        batch: str | None = None,
        fingerprint: str = "",
        priority: int = 0,
    ) -> SubmitResult:
        """Submit one document within this transaction. `holdfast.Tx` explains it."""
        into = self.batch if batch is None else batch
        if into is None:
            raise BodyError(
                f"tx.submit({pipeline.name!r}, {key!r}) needs batch=: only the effect of a document has a batch of its "
                "own, and this transaction is no effect"
            )
        document = with_fingerprint(NewDocument(str(key), payload, fingerprint, priority))
        with self._statements():
            return self._submit_within(pipeline.shape(), into, document)

    @abstractmethod
    def _statements(self) -> AbstractContextManager[None]:
        """Return a context for statements of the transaction: their errors are the store's."""


def new_submission() -> int:
    """Return a random number for a submission. It fits into a column of the stores."""
    return int.from_bytes(os.urandom(8)) >> 2
