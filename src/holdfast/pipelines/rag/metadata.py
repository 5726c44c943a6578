"""What people say of a source: names and values that its documents are filtered by.

It is kept for the source, not for each file, so that saying something else is one transaction and reads no file again:
searches see all of it or none. What a source brings later, and what its messages carry, is under it from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.dialects import run
from holdfast.pipelines.rag.index import plain_metadata

Metadata = Mapping[str, str | int | float | bool | None]

_TABLE = """
create table if not exists rag_source (
  collection text not null,
  source text not null,
  metadata text not null default '{}',
  primary key (collection, source)
)
"""
_SAY = """
insert into rag_source (collection, source, metadata) values (?, ?, ?)
on conflict (collection, source) do update
   set metadata = excluded.metadata
"""
_SAID = "select metadata from rag_source where collection = ? and source = ?"
_WHICH = "collection_id = (select id from rag_collection where name = ?) and source = ? and key is not null"
_DESCRIBE = {
    "sqlite": "update rag_document set metadata = ?, coming = json_set(coming, '$.metadata', json(?))",
    "postgresql": "update rag_document set metadata = ?::jsonb, coming = jsonb_set(coming, '{metadata}', ?::jsonb)",
}


def prepare(tx: Tx) -> None:
    """Makes the table where it is missing."""
    tx.execute(_TABLE)


def metadata_of(tx: Tx, collection: str, source: str) -> dict[str, Any]:
    """Gives what is said of a source, to whoever adds a document. Until that is committed nobody says anything else."""
    if tx.dialect == "postgresql":
        tx.execute("lock table rag_document in row exclusive mode")
    return _said(tx, collection, source)


def describe(tx: Tx, collection: str, source: str, metadata: Metadata) -> int:
    """Says this of a source, and nothing else any more. Answers how many of its documents are found by it now.

    A value of None is not said. To be called in a transaction of its own: it waits for documents that are just being
    added, or they for it.
    """
    told = _told(metadata)
    if tx.dialect == "postgresql":
        tx.execute("lock table rag_document in share row exclusive mode")
    if told == _said(tx, collection, source):
        return 0
    said = encode_json(told)
    run(tx, _SAY, collection, source, said)
    described: int = run(tx, f"{_DESCRIBE[tx.dialect]} where {_WHICH}", said, said, collection, source).rowcount
    return described


def forget(tx: Tx, collection: str, *, source: str | None = None) -> None:
    """Forgets what was said of all sources of a collection, or of one."""
    run(tx, "delete from rag_source where collection = ? and source = coalesce(?, source)", collection, source)


def _said(tx: Tx, collection: str, source: str) -> dict[str, Any]:
    row = run(tx, _SAID, collection, source).fetchone()
    return decode_json(row[0]) if row else {}


def _told(metadata: Metadata) -> dict[str, Any]:
    for name, value in metadata.items():
        if not isinstance(value, str | int | float | bool | None):
            raise HoldfastError(f"metadata {name!r} is {value!r}: texts, numbers, true and false can be filtered by")
    return plain_metadata({name: value for name, value in metadata.items() if value is not None})
