"""Close a batch: first its state and report, in one transaction; then its closing steps; then it may be cleaned up."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.batches import CLOSING, BatchReport
from holdfast.core.close_refusal import refuse_to_close
from holdfast.core.errors import UnknownDocument
from holdfast.core.formatting import MAX_NAMED
from holdfast.core.model import DocumentStatus, Plan
from holdfast.core.pipeline import Pipeline
from holdfast.core.suggested_commands import PIPELINE_FILE, REASON_ARGS, command_args
from holdfast.engine.api import drain
from holdfast.engine.maintenance import WHO
from holdfast.observe.events import BatchCleaned, BatchClosed, BatchExpired, Committed, Event, Listener
from holdfast.ops.cleanup import clean_closed_batch
from holdfast.ops.explain.context import rewind_step
from holdfast.stores.protocol import Store


def close(
    pipeline: Pipeline,
    store: Store,
    *,
    batch: str,
    who: str,
    reason: str = "",
    tolerate: float | None = None,
    cleanup: bool = False,
    listeners: Sequence[Listener] = (),
) -> BatchReport:
    """Close a batch, run its closing steps in this process, and return its report.

    The batch must be sealed, all its documents must be there and have ended, and its dead letters must be accepted: by
    a person, or because there are no more than `tolerate` allows. It is safe to call it again after a crash: it goes
    on where it stopped. Listeners get the event BatchClosed after the closing steps, and BatchCleaned after a cleanup.

    Args:
        pipeline: The pipeline of the batch.
        store: The store that holds it.
        batch: The name of the batch.
        who: Who closes it. It is written to the journal and the report.
        reason: Why.
        tolerate: The share of dead letters that need no acceptance. `Pipeline(tolerates=)` by default.
        cleanup: True to delete the documents of the batch when its closing steps have ended. The batch, its report and
            its journal stay.
        listeners: Functions that are called with every event.

    Returns:
        The report of the batch. If the batch was closed before, the report of that time.

    Raises:
        CloseRefused: The batch cannot be closed yet. The message and `refusal` say why.
        UnknownBatch: There is no such batch.
        DefinitionError: The pipeline has no steps, or its `renamed` is wrong.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        StoreError: The store cannot be reached or used.

    Example:
        report = holdfast.close(papers, store, batch="march", who="Ada", reason="all letters are in")
        print(report.in_all.done, "done")
    """
    plan = store.declare(pipeline.shape())
    share = pipeline.tolerates if tolerate is None else tolerate
    _expire_batches(store, plan, listeners)
    _refuse_early(store, pipeline.name, batch, share)
    steps = store.declare(pipeline.closing.shape()) if pipeline.closing.steps else None
    closed = store.close_batch(plan, batch, who=who, reason=reason, tolerate=share, closing=steps)
    announcer = ClosedAnnouncer(BatchClosed(pipeline.name, batch, closed.report), listeners)
    if steps is not None and (last := closing_document(store, pipeline.name, batch)) is not None:
        if last.state in ("waiting", "running"):
            drain(pipeline.closing, store, batch=batch, listeners=(*listeners, announcer))
    elif closed.is_new:
        announcer.announce()
    if cleanup:
        _clean_up(store, pipeline.name, batch, who=who, listeners=listeners)
    return closed.report


def _clean_up(store: Store, pipeline: str, batch: str, *, who: str, listeners: Sequence[Listener]) -> None:
    """Delete the documents of a closed batch. The store leaves a batch alone whose closing steps have not ended."""
    cleaned = clean_closed_batch(store, pipeline, batch, who=who)
    if cleaned.documents:
        for listener in listeners:
            listener(BatchCleaned(pipeline, batch, cleaned.documents, cleaned.items))


def _expire_batches(store: Store, plan: Plan, listeners: Sequence[Listener]) -> None:
    """End what is open in batches whose deadline has passed. Workers do it too, but perhaps none runs."""
    while (expired := store.expire_batch(plan, who=WHO)) is not None:
        for listener in listeners:
            listener(BatchExpired(expired, pipeline=plan.pipeline))


def _refuse_early(store: Store, pipeline: str, batch: str, share: float) -> None:
    """Raise CloseRefused before the closing steps are declared, so that a refusal leaves nothing behind."""
    for found in store.batch_counts(pipeline, batch):
        if found.state != "closed":
            dead = store.documents(pipeline, batch=batch, state="dead", accepted=False, limit=MAX_NAMED)
            missing = [] if found.balances else store.missing(pipeline, batch)
            refuse_to_close(found, tolerate=share, dead=[one.key for one in dead], missing=missing)


def closing_document(store: Store, pipeline: str, batch: str) -> DocumentStatus | None:
    """Return the document of a batch's closing steps. None if the batch has none, or is not closed."""
    try:
        return store.document(pipeline + CLOSING, batch, batch)
    except UnknownDocument:
        return None


def are_over(last: DocumentStatus) -> bool:
    """Return True if closing steps have ended for good: done, cancelled, or an accepted dead letter."""
    return last.state in ("done", "cancelled") or (last.state == "dead" and bool(last.accepted_by))


def resume_commands(store: Store, last: DocumentStatus, *, file: str = PIPELINE_FILE) -> list[tuple[str, ...]]:
    """Return the commands, as words, with which a person goes on with closing steps, in order."""
    again = command_args(("batch", "close"), file, last.batch)
    options = ("--pipeline", last.pipeline)
    if are_over(last):
        return []
    if last.state == "dead":
        return [command_args(("dead", "redrive"), last.key, options=(*options, *REASON_ARGS)), again]
    if last.state == "paused" and (to := rewind_step(store, last)):
        return [command_args(("doc", "rewind"), last.key, options=(*options, "--to", to, *REASON_ARGS)), again]
    if last.state == "paused":
        return [command_args(("doc", "resume"), last.key, options=(*options, *REASON_ARGS)), again]
    return [again]


class ClosedAnnouncer:
    """Emit BatchClosed when the document of the closing steps is done."""

    def __init__(self, event: BatchClosed, listeners: Sequence[Listener]) -> None:
        self._event = event
        self._listeners = listeners

    def __call__(self, event: Event) -> None:
        if isinstance(event, Committed) and any(move.state == "done" for move in event.moves):
            self.announce()

    def announce(self) -> None:
        """Pass the event to all listeners."""
        for listener in self._listeners:
            listener(self._event)
