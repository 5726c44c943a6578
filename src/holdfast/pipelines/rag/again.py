"""What has to be made again because the settings of a collection changed: known from the index, before it is made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.moves import Tx
from holdfast.core.stale import Stale
from holdfast.engine.stale import stale_groups
from holdfast.pipelines.rag.dialects import run
from holdfast.pipelines.rag.index import Model
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.measuring import TOKEN
from holdfast.stores.protocol import Which

SLICE = 2000

_STALE = """
  from hf_documents s
  join rag_collection c on c.name = s.pipeline
  join rag_document d on d.collection_id = c.id and d.source = s.batch and d.key = s.key
  left join rag_chunk k on k.document_id = d.id and k.version = d.chunked
"""
# The contents of documents, and their characters; one without any has a row, too.
_CONTENTS = f"""
select distinct s.batch, s.key, k.hash, k.stop - k.start
{_STALE}
 where s.id in (%ids%)
"""
# Of each document its pages, the chunks that another size gives, and the characters of its text.
_TO_CUT = f"""
select batch, key, count(length), coalesce(sum(length), 0),
       coalesce(sum(case when length <= ? then 1 else 1 + (length - ? + ? - 1) / ? end), 0)
  from (select s.batch, s.key, k.page, max(k.stop) as length
        {_STALE}
         where s.id in (%ids%)
         group by s.batch, s.key, k.page) pages
 group by batch, key
"""  # noqa: S608 - nothing but our own text


class Again(Struct, frozen=True, kw_only=True):
    """Documents that are made again from one step on. `pages` are those that are read again; chunks are embedded."""

    step: str
    why: str
    documents: int
    pages: int
    chunks: int
    tokens: int


def made_again(library: Library, *, source: str, but: Collection[str]) -> tuple[Again, ...]:
    """Tells what the next ingest makes again, of all sources, for settings that changed. Changes nothing.

    `but` are documents of a source that are gone or read anew anyway. What has a vector already is not counted to be
    embedded; what is cut anew may turn out to have one.
    """
    if library.pipeline.name not in library.store.pipelines():
        return ()
    groups = stale_groups(library.store, library.pipeline)
    told = [_counted(library, group, {(source, key) for key in but}) for group in groups]
    return tuple(one for one in told if one.documents)


def _counted(library: Library, group: Stale, but: Collection[tuple[str, str]]) -> Again:
    documents = pages = chunks = tokens = 0
    for some in _slices(library, group):
        with library.store.reading() as tx:
            rows = _to_embed(tx, library, some) if group.to in ("embed", "index") else _to_cut(tx, library, some)
        for batch, key, *numbers in rows:
            if (batch, key) not in but:
                documents += 1
                pages += int(numbers[0]) if group.to == "extract" else 0
                chunks += int(numbers[1])
                tokens += int(numbers[2]) // TOKEN
    return Again(step=group.to, why=group.why, documents=documents, pages=pages, chunks=chunks, tokens=tokens)


def _slices(library: Library, group: Stale) -> Iterator[Sequence[int]]:
    for place in group.counts:
        which: Which = {"plan": group.plan_id, "state": place.state, "step": place.step}
        after = 0
        while some := library.store.select(library.pipeline.name, after=after, limit=SLICE, **which):
            after = some[-1]
            yield some


def _to_embed(tx: Tx, library: Library, some: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Gives documents with their pages to read, of which there are none, chunks and characters to embed."""
    found: dict[tuple[str, str], list[tuple[bytes, int]]] = {}
    for batch, key, content, length in run(tx, _of(_CONTENTS, some), *some).fetchall():
        found.setdefault((batch, key), []).extend([(bytes(content), length)] if content is not None else [])
    known = _known(tx, library, {content for contents in found.values() for content, _ in contents})
    for name, contents in found.items():
        new = {content: length for content, length in contents if content not in known}
        yield *name, 0, len(new), sum(new.values())


def _known(tx: Tx, library: Library, contents: Collection[bytes]) -> set[bytes]:
    """Gives contents that have a vector already. A service is not asked how long its vectors are."""
    name = library.embedder.name
    model = run(tx, "select dimension from rag_model where name = ?", name).fetchone()
    if model is None:
        return set()
    known: set[bytes] = set()
    for start in range(0, len(every := [*contents]), SLICE):
        known |= library.indexes.ground.known(Model(name, model[0]), every[start : start + SLICE])
    return known


def _to_cut(tx: Tx, library: Library, some: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Gives documents with their pages, chunks and characters to embed, those that chunks share counted twice."""
    split = library.collection.settings.splitting
    unit = TOKEN if split.how == "tokens" else 1
    size, step = split.size * unit, max(split.size - split.overlap, 1) * unit
    rows = run(tx, _of(_TO_CUT, some), size, size, step, step, *some).fetchall()
    for batch, key, pages, characters, chunks in rows:
        yield batch, key, pages, chunks, characters + (chunks - pages) * split.overlap * unit


def _of(statement: str, some: Sequence[int]) -> str:
    return statement.replace("%ids%", ", ".join("?" * len(some)))
