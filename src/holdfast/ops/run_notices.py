"""What a person should know before a pipeline runs again: what changed, what is stale, and where the work goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.errors import PlanRefused
from holdfast.core.formatting import format_count
from holdfast.core.model import DocumentStatus
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import KnownPlan, Shape
from holdfast.core.staleness import as_declared, stale_work
from holdfast.ops.forecast import pipeline_changes
from holdfast.process_identity import is_gone
from holdfast.stores.protocol import Store

MAX_BEGUN = 20
"""How many documents are read at most to find the one that goes on."""

NO_NOUNS: Mapping[str, str] = {}


# what changed


def change_notices(pipeline: Pipeline, store: Store, *, redo: str, batch: str | None = None) -> list[str]:
    """Return what changed in a pipeline since it was declared last, and what that means: one sentence for each.

    Call it before the pipeline is declared: a submit and a worker do that. It changes nothing.

    Args:
        pipeline: The pipeline as it is written now.
        store: The store.
        redo: The command that redoes stale work.
        batch: Look only at the documents of this batch.

    Returns:
        The sentences. None for a pipeline that the store does not know yet.
    """
    shape = pipeline.shape()
    kept = store.plans(pipeline.name, batch=batch)
    last = store.shape(pipeline.name)
    if last is None:
        return []
    try:
        store.check(shape)
    except PlanRefused:  # the next declaration raises the same error
        return [*_two_pipelines(shape, last, kept)]
    plans = as_declared(kept, shape)
    return [
        *_two_pipelines(shape, last, kept),
        *_changed(shape, last, kept),
        *_stale(shape, plans, redo),
        *_dead_at_renamed(shape, kept, plans),
        *_dead_at_removed(shape, last, plans),
    ]


def rename_hint(pipeline: Pipeline, store: Store | None) -> str:
    """Return how to declare that steps were renamed, if removed steps may have been. Else return nothing."""
    last = store.shape(pipeline.name) if store else None
    return "" if last is None else _rename_hint(pipeline.shape(), last)


def edit_notice(store: Store, pipeline: str, file: Path, *, redo: str, batch: str | None = None) -> str:
    """Return a sentence if the file of a pipeline was written after its last document was done. Else return nothing.

    Whether a body now returns something else, only its version says. A person who has mended a body and forgets the
    version sees a run that does nothing.

    Args:
        store: The store.
        pipeline: The name of the pipeline.
        file: Its file.
        redo: The command that redoes stale work.
        batch: Look only at the documents of this batch.
    """
    done = store.documents(pipeline, batch=batch, state="done", limit=1)
    if not done or datetime.fromtimestamp(file.stat().st_mtime, UTC) <= done[0].moved_at:
        return ""
    return (
        f"{file.name} is newer than the documents that are done. They stay as they are. If a step would now give "
        f"another result, raise its version=, then redo them: {redo}"
    )


def _two_pipelines(shape: Shape, last: Shape, kept: Sequence[KnownPlan]) -> Iterator[str]:
    """Yield a sentence if another file seems to have a pipeline of the same name."""
    if shape.steps == last.steps:
        return
    other_name = "If another file has a pipeline of this name too, give one of them another name."
    steps = " → ".join(last.names)
    if not {*last.names} & {*shape.names, *shape.renamed}:
        yield f"The last run of {shape.pipeline} had other steps ({steps}), none of these. {other_name}"
    elif any(plan.declared_at and plan.shape.steps == shape.steps for plan in kept):
        yield f"{shape.pipeline} is as it was before; only the last run had other steps ({steps}). {other_name}"


def _changed(shape: Shape, last: Shape, kept: Sequence[KnownPlan]) -> Iterator[str]:
    if changes := pipeline_changes(shape, kept):
        text = f"{shape.pipeline} changed since the last run: {'; '.join(changes)}."
        yield f"{text} {_rename_hint(shape, last)}".rstrip()


def _rename_hint(shape: Shape, last: Shape) -> str:
    removed = [step for step in last.names if step not in shape.names and step not in shape.renamed]
    new = {*shape.names} - {*last.names, *shape.renamed.values()}
    renamed = {step: name for step in removed if (name := _successor(step, last, shape)) in new}
    if not renamed:
        return ""
    were = "was" if len(renamed) == 1 else "were"
    return f"If {' and '.join(renamed)} {were} only renamed, write {_renamed(shape, renamed)}."


def _stale(shape: Shape, plans: Sequence[KnownPlan], redo: str) -> Iterator[str]:
    groups = stale_work(plans, shape)
    if groups:
        whys = "; ".join(dict.fromkeys(group.why for group in groups))
        documents = format_count(sum(group.documents for group in groups), "document")
        yield f"The work of {documents} is stale ({whys}) and stays as it is. To redo it: {redo}"


def _dead_at_renamed(shape: Shape, kept: Sequence[KnownPlan], plans: Sequence[KnownPlan]) -> Iterator[str]:
    known = {name for plan in kept for name in plan.shape.names}
    dead = _dead_by_step(plans)
    for old, new in shape.renamed.items():
        if old in known and dead.get(new):
            yield f"{_stand(dead[new])} at {new}, which was called {old}: --retry tries them again there."


def _dead_at_removed(shape: Shape, last: Shape, plans: Sequence[KnownPlan]) -> Iterator[str]:
    for step, number in _dead_by_step(plans).items():
        if step in shape.names or step in shape.renamed:
            continue
        rename = f"If it was renamed, write {_renamed(shape, {step: _successor(step, last, shape)})}"
        yield (
            f"{_stand(number)} at {step}, which {shape.pipeline} no longer has, so they cannot be tried again. "
            f"{rename}; else rewind them to another step."
        )


def _renamed(shape: Shape, renamed: dict[str, str]) -> str:
    return f"Pipeline({shape.pipeline!r}, renamed={shape.renamed | renamed!r})"


def _dead_by_step(plans: Sequence[KnownPlan]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in (one for plan in plans for one in plan.documents):
        if one.state == "dead" and not one.settled and one.step:
            found[one.step] = found.get(one.step, 0) + one.documents
    return found


def _stand(number: int) -> str:
    return "1 dead letter is" if number == 1 else f"{number:,} dead letters are"


def _successor(step: str, last: Shape, now: Shape) -> str:
    """Return the step that has the place of a removed one. A guess, for the person to correct."""
    place = last.names.index(step) if step in last.names else len(now.names) - 1
    new = [name for name in now.names if name not in last.names]
    start = now.names[min(place, len(now.names) - 1)]
    return start if start in new or not new else new[0]


# where the work goes on


def resume_notice(
    store: Store,
    pipeline: str,
    *,
    batch: str | None,
    total: int,
    done: int,
    nouns: Mapping[str, str] = NO_NOUNS,
    shown: Callable[[str], str] = str,
) -> str:
    """Return one line that says what a run resumes: "24 documents, 7 done before, going on at page 6 of letter_12".

    Args:
        store: The store.
        pipeline: The name of the pipeline.
        batch: The batch that is worked on; None for all.
        total: How many documents there are.
        done: How many of them are done.
        nouns: What the items of steps are called.
        shown: Turns a key into text for people.

    Returns:
        The line. Empty if nothing was done before.
    """
    begun = _begun_documents(store, pipeline, batch)
    if not begun and not done:
        return ""
    parts = [format_count(total, "document")] + ([f"{done:,} done before"] if done else [])
    if begun:
        more = f" and of {len(begun) - 1:,} more" if len(begun) > 1 else ""
        parts.append(f"going on at {_place(store, begun[0], nouns)} of {shown(begun[0].key)}{more}")
    return ", ".join(parts)


def _begun_documents(store: Store, pipeline: str, batch: str | None) -> list[DocumentStatus]:
    """Return documents in the middle of their work that no living worker holds: first those inside a step."""
    shape = store.shape(pipeline)
    if shape is None or not shape.names:
        return []
    alive = {worker.name for worker, _, is_late in store.workers() if not is_late and not is_gone(worker)}
    found: list[DocumentStatus] = []
    for state in ("running", "waiting"):
        documents = store.documents(pipeline, batch=batch, state=state, limit=MAX_BEGUN)
        found += [document for document in documents if _is_begun(document, shape) and document.holder not in alive]
    return sorted(found, key=lambda document: (document.checkpoint.cursor is not None, document.moved_at), reverse=True)


def _is_begun(document: DocumentStatus, shape: Shape) -> bool:
    return document.checkpoint.cursor is not None or document.checkpoint.step != shape.names[0]


def _place(store: Store, document: DocumentStatus, nouns: Mapping[str, str]) -> str:
    step = document.checkpoint.step or ""
    if document.checkpoint.cursor is None:
        return f"step {step}"
    kept = next((output.items for output in store.outputs(document.id) if output.step == step), 0)
    return f"{nouns[step]} {kept + 1:,}" if step in nouns else f"item {kept + 1:,} of step {step}"
