"""How much was made of a collection: the counters of its documents, in sum, without walking over what they kept."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.dialects import has_table, run
from holdfast.pipelines.rag.states import walked
from holdfast.stores.protocol import Store

# The pages of every document are numbered: the last one of its present generation says how many there are.
_PAGES = """
select sum((select i.position + i.items
              from hf_item i
             where i.document_id = d.id
               and i.step_id = s.id
               and i.generation = coalesce({reused}, d.generation)
             order by i.position desc
             limit 1))
  from hf_document d
  join hf_pipeline p on p.id = d.pipeline_id
  join hf_step s on s.pipeline_id = p.id and s.name = 'extract'
 where p.name = ?
   and d.state <> 'cancelled'
"""
# The chunks of documents by where those stand. What is not chunked to its end has those of its present generation.
_CHUNKS = """
select h.state, h.step, count(*)
  from hf_documents h
  join rag_collection c on c.name = h.pipeline
  join rag_document d on d.collection_id = c.id and d.source = h.batch and d.key = h.key
  join rag_chunk k
    on k.document_id = d.id
   and k.version = case when coalesce(h.step, 'index') in ('embed', 'index') then d.chunked else h.generation end
 where h.pipeline = ?
   and h.state <> 'cancelled'
 group by h.state, h.step
"""
_REUSED = {
    "sqlite": """json_extract(d.reuses, '$."' || s.id || '"')""",
    "postgresql": "cast(d.reuses ->> cast(s.id as text) as integer)",
}
"""Which earlier generation a document has its pages from."""
_ATTEMPTS = "select sum(attempts) from hf_documents where pipeline = ? and state <> 'cancelled'"
_CURSORS = "select cursor from hf_documents where pipeline = ? and step = 'embed' and cursor is not null"


class Counters(Struct, frozen=True, kw_only=True):
    """How many pages and chunks of a collection's documents have each step behind them, and how often these are tried.

    `retry_count` counts attempts at the steps where documents stand now: it begins anew when one gets on.
    """

    pages_extracted: int
    chunks_created: int
    chunks_embedded: int
    chunks_indexed: int
    retry_count: int


def counters_of(store: Store, collection: str) -> Counters:
    """Adds up the counters of a collection's documents. Those whose files are gone are not counted."""
    with store.reading() as tx:
        if not has_table(tx, "rag_chunk"):
            return Counters(pages_extracted=0, chunks_created=0, chunks_embedded=0, chunks_indexed=0, retry_count=0)
        pages = run(tx, _PAGES.replace("{reused}", _REUSED[tx.dialect]), collection).fetchone()[0] or 0
        chunks = [(state, step, int(many)) for state, step, many in run(tx, _CHUNKS, collection).fetchall()]
        attempts = run(tx, _ATTEMPTS, collection).fetchone()[0] or 0
        halfway = sum(walked(_read(tx, cursor)) for (cursor,) in run(tx, _CURSORS, collection).fetchall())
    return Counters(
        pages_extracted=int(pages),
        chunks_created=sum(many for _, _, many in chunks),
        chunks_embedded=halfway + sum(many for _, step, many in chunks if step in ("index", None)),
        chunks_indexed=sum(many for state, _, many in chunks if state == "done"),
        retry_count=int(attempts),
    )


def _read(tx: Tx, cursor: Any) -> Any:
    return msgspec.json.decode(cursor) if tx.dialect == "sqlite" else cursor
