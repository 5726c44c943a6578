"""Closing a batch: the books first, in one transaction; then its closing steps, as durable as any document's."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.batches import CLOSING, BatchReport, refuse_to_close
from holdfast.core.commands import FILE, WHY, about
from holdfast.core.damage import leads_out_to
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import Standing
from holdfast.core.pipeline import Pipeline
from holdfast.core.refusal import NAMED
from holdfast.engine.api import drain
from holdfast.engine.events import BatchClosed, Committed, Event, Listener
from holdfast.stores.protocol import Store


def close(
    pipeline: Pipeline,
    store: Store,
    *,
    batch: str,
    who: str,
    reason: str = "",
    tolerate: float | None = None,
    listeners: Sequence[Listener] = (),
) -> BatchReport:
    """Closes a batch, does its closing steps here, and gives its report; or raises CloseRefused.

    The batch has to be sealed and to balance, nothing may be open, and its dead letters have to be accepted: by name,
    or because they are no more than the share `tolerate` (the pipeline's `tolerates` otherwise) of what it expects.
    Killed anywhere and called again, it goes on where it stopped. Listeners hear BatchClosed once the steps are done.
    """
    plan = store.declare(pipeline.shape())
    share = pipeline.tolerates if tolerate is None else tolerate
    _refuse_early(store, pipeline.name, batch, share)
    steps = store.declare(pipeline.closing.shape()) if pipeline.closing.steps else None
    closed = store.close_batch(plan, batch, who=who, reason=reason, tolerate=share, closing=steps)
    saying = Saying(BatchClosed(pipeline.name, batch, closed.report), listeners)
    if steps is not None and (last := closing_document(store, pipeline.name, batch)) is not None:
        if last.state in ("waiting", "running"):
            drain(pipeline.closing, store, batch=batch, listeners=(*listeners, saying))
    elif closed.is_new:
        saying.say()
    return closed.report


def _refuse_early(store: Store, pipeline: str, batch: str, share: float) -> None:
    """Refuses before the closing steps are declared, so that a refusal leaves nothing behind."""
    for found in store.census(pipeline, batch):
        if found.state != "closed":
            dead = store.standings(pipeline, batch=batch, state="dead", accepted=False, limit=NAMED)
            missing = [] if found.balances else store.missing(pipeline, batch)
            refuse_to_close(found, tolerate=share, dead=[one.key for one in dead], missing=missing)


def closing_document(store: Store, pipeline: str, batch: str) -> Standing | None:
    """Tells where the closing steps of a batch are; None when it has none, or is not closed."""
    try:
        return store.standing(pipeline + CLOSING, batch, batch)
    except UnknownDocument:
        return None


def are_over(last: Standing) -> bool:
    """Answers whether closing steps have ended for good: done, cancelled, or a dead letter that somebody accepted."""
    return last.state in ("done", "cancelled") or (last.state == "dead" and bool(last.accepted_by))


def ways_on(last: Standing, *, file: str = FILE) -> list[tuple[str, ...]]:
    """Gives the words of the commands that go on with closing steps, one after the other."""
    again = about(("close",), file, last.batch)
    here = ("--pipeline", last.pipeline)
    if are_over(last):
        return []
    if last.state == "dead":
        return [about(("dead", "redrive"), last.key, options=(*here, *WHY)), again]
    if last.state == "paused" and (to := leads_out_to(last.reason)):
        return [about(("rewind",), last.key, options=(*here, "--to", to, *WHY)), again]
    if last.state == "paused":
        return [about(("resume",), last.key, options=(*here, *WHY)), again]
    return [again]


class Saying:
    """Says that a batch is closed when the document of its closing steps is done."""

    def __init__(self, event: BatchClosed, listeners: Sequence[Listener]) -> None:
        self._event = event
        self._listeners = listeners

    def __call__(self, event: Event) -> None:
        if isinstance(event, Committed) and any(move.state == "done" for move in event.moves):
            self.say()

    def say(self) -> None:
        """Says it to everybody who listens."""
        for listener in self._listeners:
            listener(self._event)
