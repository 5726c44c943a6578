"""Read what a step stored for a document, as values. The Python code of the pipeline is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

from msgspec import Struct, ValidationError

from holdfast.core.codec import ANYTHING, Kept
from holdfast.core.document import PAGE, UNREADABLE, Document
from holdfast.core.errors import (
    BodyError,
    HoldfastError,
    ItemDamaged,
    OutputMissing,
    StoreError,
    UnknownBatch,
    UnknownDocument,
    UnknownStep,
)
from holdfast.core.model import WHOLE, Decision, DocumentStatus, Plan
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import StepShape
from holdfast.core.step import AnyStep, Step
from holdfast.stores.protocol import Store

K = TypeVar("K")
T = TypeVar("T")

MAX_ATTEMPTS = 3
"""How often an output is read that is replaced meanwhile."""


@overload
def output(store: Store, pipeline: Pipeline | str, batch: str, key: str, step: Step[Any, Any, K, Any]) -> K: ...
@overload
def output(store: Store, pipeline: Pipeline | str, batch: str, key: str, step: str) -> Any: ...
def output(store: Store, pipeline: Pipeline | str, batch: str, key: str, step: Step[Any, Any, Any, Any] | str) -> Any:
    """Return what a step stored for a document.

    A document that was done at least once gives its last complete work, also while a new generation of it is
    processed, or after that failed. A document that was never done gives the output of the steps that it has ended.

    Args:
        store: The store that keeps the document.
        pipeline: The pipeline, or its name. With names, the code of the pipeline is not needed.
        batch: The name of the batch.
        key: The key of the document.
        step: The step, or its name. With the step, values have the types that its body is annotated with. With its
            name, they are JSON values or bytes.

    Returns:
        The value that the body returned; for a stream or a step over items, the list of its items. Items that were set
        aside are left out.

    Raises:
        UnknownBatch: There is no such batch.
        UnknownDocument: There is no such document or pipeline.
        UnknownStep: The pipeline has no such step.
        OutputMissing: The step has not ended yet, keeps nothing, or was cleaned up. The message says which.
        ItemDamaged: A stored value cannot be read.
        StoreError: The store cannot be reached, or the output was replaced again and again while it was read.

    Example:
        holdfast.drain(papers, store)
        print(holdfast.output(store, "papers", "march", "a.pdf", "chunk"))
    """
    for _ in range(MAX_ATTEMPTS):
        found = _find(store, pipeline, batch, key, step)
        value = _value(found, step)
        if _find(store, pipeline, batch, key, step).generation == found.generation:
            return value
    raise _replaced(found)


@overload
def iter_output(
    store: Store, pipeline: Pipeline | str, batch: str, key: str, step: Step[Any, Any, Any, T]
) -> Iterator[T]: ...
@overload
def iter_output(store: Store, pipeline: Pipeline | str, batch: str, key: str, step: str) -> Iterator[Any]: ...
def iter_output(
    store: Store, pipeline: Pipeline | str, batch: str, key: str, step: Step[Any, Any, Any, Any] | str
) -> Iterator[Any]:
    """Iterate over the items that a step stored for a document, without loading all of them into memory.

    It gives the items of the same work as `output`. A value that is not a list is one item.

    Args:
        store: The store that keeps the document.
        pipeline: The pipeline, or its name.
        batch: The name of the batch.
        key: The key of the document.
        step: The step, or its name.

    Returns:
        An iterator over the items, in order. Items that were set aside are left out.

    Raises:
        UnknownBatch: There is no such batch.
        UnknownDocument: There is no such document or pipeline.
        UnknownStep: The pipeline has no such step.
        OutputMissing: The step has not ended yet, keeps nothing, or was cleaned up.
        ItemDamaged: A stored value cannot be read.
        StoreError: The store cannot be reached, or the output was replaced during the iteration. Start again.

    Example:
        holdfast.drain(papers, store)
        for text in holdfast.iter_output(store, papers, "march", "a.pdf", chunk):
            print(text)
    """
    found = _find(store, pipeline, batch, key, step)
    return _items(found, step, lambda: _find(store, pipeline, batch, key, step))


class _Found(Struct, frozen=True):
    """The output of one step of one document: the generation that readers see. It reads as documents do."""

    store: Store
    document: DocumentStatus
    step: str
    step_id: int
    generation: int

    def next_position(self, step: str) -> int:  # noqa: ARG002 - it has one step
        return self.store.next_position(self.document.id, self.generation, self.step_id)

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:  # noqa: ARG002 - as above
        try:
            return self.store.read(self.document.id, self.generation, self.step_id, start, stop)
        except ItemDamaged as bad:  # the store knows only the numbers of the step and the document
            raise ItemDamaged(bad.why, position=bad.position, step=self.step, document=self.document.key) from bad

    def decision(self, step: str) -> Decision | None:
        raise BodyError(f"the decision at {step!r} is in the journal: read it with store.journal()")

    @property
    def as_document(self) -> Document:
        document = self.document
        return Document(pipeline=document.pipeline, batch=document.batch, key=document.key, reader=self, id=document.id)


def _value(found: _Found, step: AnyStep | str) -> Any:
    if isinstance(step, str):
        kept = found.read(step, WHOLE, WHOLE + 1)
        if kept:
            return _decoded(found, *kept[0])
        items = [*_plain_items(found)]
        return items if items or _shape_of_step(found).kind != "value" else None
    try:
        return found.as_document.output(step)
    except ValidationError as error:
        raise _other_type(found, error) from error


def _items(found: _Found, step: AnyStep | str, again: Any) -> Iterator[Any]:
    whole = found.read(found.step, WHOLE, WHOLE + 1)
    if isinstance(step, str):
        yield from _plain_items(found) if not whole else [_decoded(found, *whole[0])]
    elif whole:
        yield _value(found, step)
    else:
        try:
            yield from found.as_document.each(step)
        except ValidationError as error:
            raise _other_type(found, error) from error
    if again().generation != found.generation:
        raise _replaced(found)


def _plain_items(found: _Found) -> Iterator[Any]:
    for first in range(0, found.next_position(found.step), PAGE):
        for position, kept in found.read(found.step, first, first + PAGE):
            yield _decoded(found, position, kept)


def _decoded(found: _Found, position: int, kept: Kept) -> Any:
    try:
        return ANYTHING.decode(kept)
    except UNREADABLE as error:
        place = {"step": found.step, "document": found.document.key}
        raise ItemDamaged(f"cannot be read ({error})", position=position, **place) from error


def _find(store: Store, pipeline: Pipeline | str, batch: str, key: str, step: AnyStep | str) -> _Found:
    """Find the output that readers see."""
    name = pipeline if isinstance(pipeline, str) else pipeline.name
    plan = store.plan(name)
    if plan is None:
        raise UnknownDocument(f"the store has no pipeline {name!r}; it has: {', '.join(store.pipelines()) or 'none'}")
    document = _document(store, name, batch, key)
    called = _stored_name(pipeline, plan, step)
    if not isinstance(step, str) and not step.options.keep:
        raise _missing(document, called, "keeps nothing (keep=False)")
    if document.cleaned_at is not None:
        raise _missing(document, called, "has no output any more: it was cleaned up. Rewind the document to make it")
    shape = _known_step(store, document, called)
    if shape is not None and shape.kind == "gate":
        raise _missing(document, called, "is a gate, which keeps nothing: read the decision with store.journal()")
    if shape is not None and not shape.keep:
        raise _missing(document, called, "keeps nothing (keep=False)")
    generation = store.served_generation(document.id, called)
    if generation is None:
        generation = _generation_of_ended(store, plan, document, called)
    elif document.state == "done" and shape is None:
        raise _missing(
            document, called, f"did not exist when the document was done. Rewind the document to {called!r} to make it"
        )
    return _Found(store, document, called, (plan.step_ids | plan.removed)[called], generation)


def _document(store: Store, pipeline: str, batch: str, key: str) -> DocumentStatus:
    try:
        return store.document(pipeline, batch, key)
    except UnknownDocument:
        known = [one.name for one in store.batches(pipeline)]
        if batch not in known:
            raise UnknownBatch(pipeline, batch, known) from None
        raise


def _stored_name(pipeline: Pipeline | str, plan: Plan, step: AnyStep | str) -> str:
    """Return the name under which the store knows a step. A renamed pipeline may not have been declared yet."""
    name = step if isinstance(step, str) else step.name
    known = plan.step_ids | plan.removed
    if name not in known and isinstance(pipeline, Pipeline):
        name = next((old for old, new in pipeline.shape().renamed.items() if new == name and old in known), name)
    if name not in known:
        raise UnknownStep(plan.pipeline, name, [*plan.step_ids])
    return name


def _known_step(store: Store, document: DocumentStatus, step: str) -> StepShape | None:
    """Return a step as the document was done with it. None if its plan does not have the step."""
    shape = store.shape_of(document.plan_id)
    return next((one for one in shape.steps if one.name == step), None) if shape else None


def _shape_of_step(found: _Found) -> StepShape:
    return _known_step(found.store, found.document, found.step) or StepShape(found.step, "value")


def _generation_of_ended(store: Store, plan: Plan, document: DocumentStatus, step: str) -> int:
    """Return the generation of a step that a document has ended which was never done. Raise OutputMissing if not."""
    at = document.checkpoint
    shape = store.shape_of(document.plan_id)
    order = shape.names if shape and at.step in shape.names else tuple(plan.step_ids)
    behind = order[: order.index(at.step)] if at.step in order else ()
    if step not in behind:
        where = f"{document.state} at step {at.step!r}" if at.step != step else f"{document.state} in this step"
        reason = f" ({document.reason})" if document.reason else ""
        raise _missing(document, step, f"has no output yet: the document is {where}{reason}")
    return store.reuses([document.id]).get(document.id, {}).get(step, at.generation)


def _missing(document: DocumentStatus, step: str, why: str) -> OutputMissing:
    return OutputMissing(f"step {step!r} of the document {document.key!r} in batch {document.batch!r} {why}")


def _other_type(found: _Found, error: ValidationError) -> HoldfastError:
    return StoreError(
        f"the output of step {found.step!r} of the document {found.document.key!r} is not of the type that the step "
        f"is annotated with now: {error}. Read it by the name of the step, or rewind the document"
    )


def _replaced(found: _Found) -> StoreError:
    return StoreError(
        f"the output of step {found.step!r} of the document {found.document.key!r} was replaced while it was read: "
        "read it again"
    )
