"""Spaces: where the vectors of a collection are that are searched outside the database, and what is in them.

The database knows a space before it is made and until it is gone, so none is forgotten by a kill. Its name was never
given before: whatever a space that could not be reached still holds, nobody takes it for something else.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.dialects import marked, run
from holdfast.pipelines.rag.index import Model, Name

Ask = Callable[..., list[Any]]
"""Reads what is committed: a statement written with ?, and its values."""

_COLUMNS = "select id, coalesce(collection, ''), place, model, name from rag_space"
_PUBLISH = "insert into rag_published (space_id, document_id, version) values (?, ?, ?) on conflict do nothing"
_PUBLISH_SEEN = """
insert into rag_published (space_id, document_id, version)
select s.id, d.id, d.version
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  join rag_space s on s.collection = c.name
 where s.place = ?
   and s.model = ?
   and c.name = ?
   and d.source = ?
   and d.key = ?
   and d.version is not null
on conflict do nothing
"""
_UNPUBLISHED = """
select d.id, d.version, d.source, d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  join rag_model o on o.name = ?
  join rag_meaning m on m.document_id = d.id and m.model_id = o.id and m.version = d.version
 where c.name = ?
   and not exists (select 1
                     from rag_published p
                     join rag_space s on s.id = p.space_id
                    where s.collection = c.name
                      and s.place = ?
                      and s.model = o.name
                      and p.document_id = d.id
                      and p.version = d.version)
   and d.id > ?
 order by d.id
 limit ?
"""
_OUTDATED = """
select p.document_id, p.version
  from rag_published p
  left join rag_document d on d.id = p.document_id
 where p.space_id = ?
   and p.version not in (coalesce(d.version, -1), coalesce(d.chunked, -1))
 limit ?
"""
_ALIVE = """
select 1
  from rag_published p
  join rag_document d on d.id = p.document_id and d.version = p.version
 where p.space_id = ?
 limit 1
"""


class Space(Struct, frozen=True):
    """The vectors of one model and one collection, at one place. The collection of one that nobody needs is empty."""

    number: int
    collection: str
    place: str
    model: str
    name: str


class Unpublished(Struct, frozen=True):
    """A version that is seen and is not in a space."""

    document: int
    version: int
    source: str
    key: str


def enter(tx: Tx, collection: str, place: str, model: Model) -> None:
    """Enters a space before it is made, unless it is known."""
    statement = "insert into rag_space (collection, place, model, name) values (?, ?, ?, ?) on conflict do nothing"
    run(tx, statement, collection, place, model.name, _new_name(model))


def spaces_at(ask: Ask, place: str, model: Model, collection: str | None = None) -> list[Space]:
    """Gives the spaces of a model at a place: of one collection, or of all."""
    rows = ask(f"{_COLUMNS} where place = ? and model = ? and collection is not null order by id", place, model.name)
    spaces = [Space(*row) for row in rows]
    return [one for one in spaces if collection in (None, one.collection)]


def publish(tx: Tx, space: Space, versions: Sequence[tuple[int, int]]) -> None:
    """Says that versions of documents are in a space."""
    tx.executemany(marked(tx, _PUBLISH), [(space.number, *one) for one in versions])


def publish_seen(tx: Tx, place: str, model: Model, name: Name) -> None:
    """Says that the version of a document that is seen is in its space."""
    run(tx, _PUBLISH_SEEN, place, model.name, name.collection, name.source, name.key)


def unpublished(
    ask: Ask, collection: str, place: str, model: Model, *, after: int = 0, limit: int
) -> list[Unpublished]:
    """Gives documents that are seen by their meaning and that are not in the space of their collection, by number."""
    return [Unpublished(*row) for row in ask(_UNPUBLISHED, model.name, collection, place, after, limit)]


def outdated(ask: Ask, space: Space, *, limit: int) -> list[tuple[int, int]]:
    """Gives versions in a space that are not seen any more, nor to be seen next: document and version."""
    return [(document, version) for document, version in ask(_OUTDATED, space.number, limit)]


def published(ask: Ask, space: Space) -> list[tuple[int, int]]:
    """Gives all versions that are in a space, for all that the database knows."""
    rows = ask("select document_id, version from rag_published where space_id = ?", space.number)
    return [(document, version) for document, version in rows]


def should_have_some(ask: Ask, space: Space) -> bool:
    """Answers whether anything is in a space that is seen, for all that the database knows."""
    return bool(ask(_ALIVE, space.number))


def withdraw(tx: Tx, space: Space, versions: Sequence[tuple[int, int]]) -> None:
    """Says that versions are not in a space any more."""
    statement = "delete from rag_published where space_id = ? and document_id = ? and version = ?"
    tx.executemany(marked(tx, statement), [(space.number, *one) for one in versions])


def abandon(tx: Tx, collection: str, *, but_place: str = "", but_model: str = "") -> None:
    """Gives up the spaces of a collection: all, those at other places, or also those there of other models."""
    statement = (
        "update rag_space set collection = null where collection = ? and (place <> ? or (? <> '' and model <> ?))"
    )
    run(tx, statement, collection, but_place, but_model, but_model)


def in_use(ask: Ask) -> list[Space]:
    """Gives the spaces of all collections."""
    return [Space(*row) for row in ask(f"{_COLUMNS} where collection is not null order by id")]


def abandoned(ask: Ask) -> list[Space]:
    """Gives the spaces that nobody needs any more, and that are still there."""
    return [Space(*row) for row in ask(f"{_COLUMNS} where collection is null order by id")]


def remove(tx: Tx, space: Space) -> None:
    """Forgets a space that is gone."""
    run(tx, "delete from rag_published where space_id = ?", space.number)
    run(tx, "delete from rag_space where id = ?", space.number)


def _new_name(model: Model) -> str:
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", model.name)[:60]
    return f"holdfast-{readable}-{secrets.token_hex(8)}"
