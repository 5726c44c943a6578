"""Vectors of a new embedder for what is seen of documents that nobody makes anew.

A newer version of theirs failed or is held up, or a cleanup took them out of the store. What is seen of them stays, and
has to be found by its meaning when the collection is searched with another model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from holdfast.core.errors import Reject, Signal
from holdfast.pipelines.rag.asking import ServiceError
from holdfast.pipelines.rag.embedders import Embedder
from holdfast.pipelines.rag.embedders.units import in_halves
from holdfast.pipelines.rag.index import Ground, Model
from holdfast.pipelines.rag.model import under
from holdfast.pipelines.rag.models import model_of
from holdfast.stores.protocol import Store

SLICE = 100
_LACKING = """
select d.id, d.version
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = ?
   and d.id > ?
   and d.version is not null
   and not exists (select 1
                     from rag_meaning m
                     join rag_model o on o.id = m.model_id
                    where m.document_id = d.id
                      and m.version = d.version
                      and o.name = ?)
   and not exists (select 1
                     from hf_documents h
                    where h.pipeline = c.name
                      and h.batch = d.source
                      and h.key = d.key
                      and h.state in ('waiting', 'running', 'done'))
 order by d.id
 limit ?
"""
_CHUNKS = "select id, hash from rag_chunk where document_id = ? and version = ? order by position"


def embed_what_is_seen(store: Store, ground: Ground, collection: str, embedder: Embedder) -> None:
    """Gives vectors to what is seen and has none of this model, of documents that nobody makes anew.

    Killed, or told to come later by whoever makes vectors, it goes on when it is called again.
    """
    after = 0
    with suppress(Signal, ServiceError):
        model = model_of(embedder)
        while some := ground.ask(_LACKING, collection, after, model.name, SLICE):
            for document, version in some:
                vectors = _vectors(ground, document, version, model, embedder)
                with store.transaction() as tx:
                    ground.remember(tx, model, vectors)
                    ground.mean(tx, document, version, model=model)
            after = some[-1][0]


def _vectors(ground: Ground, document: int, version: int, model: Model, embedder: Embedder) -> Mapping[bytes, bytes]:
    """Gives the vectors of a version's contents that are not known yet."""
    hashes = {number: bytes(content) for number, content in ground.ask(_CHUNKS, document, version)}
    known = ground.known(model, [*hashes.values()])
    contents = {
        hashes[number]: under(one.title if one.title not in one.text else "", one.text)
        for number, one in ground.chunks([*hashes]).items()
        if hashes[number] not in known
    }
    return _embedded(contents, embedder)


def _embedded(contents: Mapping[bytes, str], embedder: Embedder) -> Mapping[bytes, bytes]:
    """Gives vectors, window by window. A content that the model refuses has none, and is found by its words."""
    vectors: dict[bytes, bytes] = {}
    hashes = [*contents]
    for first in range(0, len(hashes), embedder.window):
        some = hashes[first : first + embedder.window]
        try:
            vectors |= _made({one: contents[one] for one in some}, embedder)
        except Reject:
            for one in some:
                with suppress(Reject):
                    vectors |= _made({one: contents[one]}, embedder)
    return vectors


def _made(contents: Mapping[bytes, str], embedder: Embedder) -> dict[bytes, bytes]:
    rows = in_halves(embedder.embed([*contents.values()]), embedder, count=len(contents))
    return {one: row.tobytes() for one, row in zip(contents, rows, strict=True)}
