"""What an ingest would do, before it does anything: files, pages, chunks to embed, time and cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.again import TOKEN, Again, made_again
from holdfast.pipelines.rag.changes import Change
from holdfast.pipelines.rag.ingest import AS_USUAL, Intake, Looking
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.sources import source_of
from holdfast.pipelines.rag.sources.source import is_url

CHARACTERS = 2200
"""About how many characters a page has."""
PAGE, CHUNK = 0.004, 0.07
"""Seconds of one core that a page of text and a vector of the default model take, where there is no history yet."""
ENOUGH = 5
"""How many documents make a history."""
TOO_FAR = 60.0
"""Seconds that counting the pages of one file may take."""


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
    """Tells what an ingest would do. Nothing is read but what tells files apart, and nothing is changed."""
    place = source_of(source)
    intake = Intake(library.pipeline, library.store, library.index, place, looking)
    changes = list(intake.changes())
    to_read = [one for one in changes if one.kind in ("new", "changed")]
    pages, rejected = _pages(to_read)
    anew = {one.key for one in changes if one.kind in ("changed", "deleted")}
    again = made_again(library, source=place.root, but=anew)
    chunks, tokens = _to_embed(library, pages)
    chunks += sum(one.chunks for one in again)
    pages_again = sum(one.pages for one in again)
    seconds, known = _seconds(library, _through(library, len(pages), again), sum(pages.values()) + pages_again, chunks)
    return Outlook(
        source=source,
        changes=dict(Counter(one.kind for one in changes)),
        documents=len(to_read),
        pages=sum(pages.values()),
        again=again,
        going_on=_going_on(library),
        chunks=chunks,
        tokens=tokens + sum(one.tokens for one in again),
        seconds=seconds,
        from_history=known,
        rejected=rejected,
        missed={one.key: one.why for one in intake.missed},
    )


def _to_embed(library: Library, pages: Mapping[str, int]) -> tuple[int, int]:
    """Guesses how many chunks and tokens files give, by their pages."""
    split = library.collection.settings.splitting
    step = max(split.size - split.overlap, 1) * (TOKEN if split.how == "tokens" else 1)
    chunks = sum(max(round(number * CHARACTERS / step), 1) for number in pages.values())
    return chunks, chunks * split.size // (1 if split.how == "tokens" else TOKEN)


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


def _seconds(library: Library, through: Mapping[str, int], pages: int, chunks: int) -> tuple[float | None, bool]:
    """Answers how long it may take on this machine, and whether the collection's own history says so.

    What another model took says nothing.
    """
    cores = os.cpu_count() or 1
    settings, before = library.collection.settings, library.collection.searched
    paces = library.store.paces(library.collection.name)
    same_model = before is None or before.embedder == settings.embedder
    if same_model and paces and min(many for many, _ in paces.values()) >= ENOUGH:
        return sum(through.get(step, 0) * took / many for step, (many, took) in paces.items()) / cores, True
    if settings.embedder != "granite":
        return None, False
    return (pages * PAGE + chunks * CHUNK) / cores, False


def _pages(changes: Sequence[Change]) -> tuple[dict[str, int], dict[str, str]]:
    """Counts the pages of files, in processes of their own: a hostile file breaks nothing here either."""
    pages: dict[str, int] = {}
    rejected: dict[str, str] = {}
    local = [(one.key, one.seen.location) for one in changes if one.seen and not is_url(one.seen.location)]
    pages.update({one.key: 1 for one in changes if one.seen and is_url(one.seen.location)})
    for key, counted in _counted(local):
        if isinstance(counted, int):
            pages[key] = counted
        else:
            rejected[key] = counted
    return pages, rejected


def _counted(files: Sequence[tuple[str, str]]) -> Iterator[tuple[str, int | str]]:
    done = 0
    while done < len(files):
        with ProcessPoolExecutor(max_workers=2, mp_context=get_context("forkserver")) as pool:
            for (key, _), counted in zip(files[done:], _asked(pool, files[done:]), strict=True):
                done += 1
                try:
                    yield key, counted.result(TOO_FAR)
                except (BrokenProcessPool, TimeoutError):
                    yield key, "its pages could not be counted; it may be broken or hostile"
                    pool.shutdown(wait=False, cancel_futures=True)
                    break


def _asked(pool: ProcessPoolExecutor, files: Sequence[tuple[str, str]]) -> list[Future[int | str]]:
    return [pool.submit(count_pages, location) for _, location in files]


def count_pages(location: str) -> int | str:
    """Counts the pages of a file, or says why it would be rejected."""
    from holdfast.pipelines.rag.parsers import page_count

    try:
        return page_count(Path(location))
    except Reject as error:
        return str(error)
