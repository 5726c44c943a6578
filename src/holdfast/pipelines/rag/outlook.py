"""What an ingest would do, before it does anything: files, pages, chunks to embed, time and cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.pipelines.rag.again import Again, made_again
from holdfast.pipelines.rag.changes import Change
from holdfast.pipelines.rag.ingest import AS_USUAL, Intake, Looking
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.measuring import TOKEN, Measure, guess, measured
from holdfast.pipelines.rag.sources import source_of
from holdfast.pipelines.rag.sources.source import is_url
from holdfast.pipelines.rag.splitters import Splitting

PAGE, PICTURE, WORD = 0.004, 1.0, 0.0003
"""Seconds of one core that a page of text takes, a page that is read off a picture, and a token in the default model,
where there is no history yet."""
ENOUGH = 5
"""How many documents make a history."""


class Outlook(Struct, frozen=True, kw_only=True):
    """What an ingest of one source would do.

    documents, pages  what would be read of the source
    again             what would be made again, of all sources of the collection, because its settings changed
    going_on          documents of the collection that wait already, by the step at which they go on
    chunks, tokens    about what would be embedded of the source and of what is made again, and sent to a service
    seconds           None where nobody can tell yet
    """

    source: str
    changes: dict[str, int]
    documents: int
    pages: int
    again: tuple[Again, ...]
    going_on: dict[str, int]
    chunks: int
    tokens: int
    seconds: float | None
    from_history: bool
    rejected: dict[str, str]
    missed: dict[str, str]


def foresee(library: Library, source: str, looking: Looking = AS_USUAL) -> Outlook:
    """Tells what an ingest would do. Nothing is changed."""
    place = source_of(source)
    intake = Intake(library.pipeline, library.store, library.index, place, looking)
    changes = list(intake.changes())
    to_read = [one for one in changes if one.kind in ("new", "changed", "back")]
    splitting = library.collection.settings.splitting
    files, rejected = _measured(to_read, splitting)
    anew = {one.key for one in changes if one.kind in ("changed", "deleted")}
    again = made_again(library, source=place.root, but=anew)
    pages = sum(one.pages for one in files.values())
    pictures = sum(one.pictures for one in files.values())
    tokens = sum(_tokens(one, splitting) for one in files.values()) + sum(one.tokens for one in again)
    alone = (pages + sum(one.pages for one in again)) * PAGE + pictures * PICTURE + tokens * WORD
    seconds, known = _seconds(library, _through(library, len(files), again), alone)
    return Outlook(
        source=source,
        changes=dict(Counter(one.kind for one in changes)),
        documents=len(to_read),
        pages=pages,
        again=again,
        going_on=_going_on(library),
        chunks=sum(one.chunks for one in files.values()) + sum(one.chunks for one in again),
        tokens=tokens,
        seconds=seconds,
        from_history=known,
        rejected=rejected,
        missed={one.key: one.why for one in intake.missed},
    )


def _tokens(one: Measure, splitting: Splitting) -> int:
    """Answers how many tokens the chunks of a file have, with what they share."""
    shared = max(one.chunks - one.pages, 0) * splitting.overlap * (TOKEN if splitting.how == "tokens" else 1)
    return (one.characters + shared) // TOKEN


def _going_on(library: Library) -> dict[str, int]:
    """Counts what was taken in before and is not done, by step."""
    found: Counter[str] = Counter()
    for batch in library.store.census(library.collection.name):
        for step, counted in batch.steps.items():
            found[step] += counted.waiting + counted.running
    return {step.name: found[step.name] for step in library.pipeline.steps if found[step.name]}


def _through(library: Library, new: int, again: Sequence[Again]) -> dict[str, int]:
    """Answers how many documents go through each step."""
    steps = [step.name for step in library.pipeline.steps]
    return {
        step: new + sum(one.documents for one in again if steps.index(one.step) <= place)
        for place, step in enumerate(steps)
    }


def _seconds(library: Library, through: Mapping[str, int], alone: float) -> tuple[float | None, bool]:
    """Answers how long it may take on this machine, and whether the collection's own history says so.

    What another model took says nothing. `alone` is what it takes one core, as far as one can guess.
    """
    cores = os.cpu_count() or 1
    settings, before = library.collection.settings, library.collection.searched
    paces = library.store.paces(library.collection.name)
    same_model = before is None or before.embedder == settings.embedder
    if same_model and paces and min(many for many, _ in paces.values()) >= ENOUGH:
        return sum(through.get(step, 0) * took / many for step, (many, took) in paces.items()) / cores, True
    if settings.embedder != "granite":
        return None, False
    return alone / cores, False


def _measured(changes: Sequence[Change], splitting: Splitting) -> tuple[dict[str, Measure], dict[str, str]]:
    """Measures files, and says which would be rejected. What is elsewhere is not fetched for it."""
    files: dict[str, Measure] = {}
    rejected: dict[str, str] = {}
    local = [(one.key, one.seen.location) for one in changes if one.seen and not is_url(one.seen.location)]
    files.update({one.key: guess(1, splitting) for one in changes if one.seen and is_url(one.seen.location)})
    for key, found in measured(local, splitting):
        if isinstance(found, Measure):
            files[key] = found
        else:
            rejected[key] = found
    return files, rejected
