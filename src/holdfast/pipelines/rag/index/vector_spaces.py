"""Records of vector spaces: where the vectors of collections are in an external vector store, and which.

A vector space holds the vectors of one collection and one model at one place. In Qdrant it is a collection of points.
The database has the record of a space before the space is created, and until it is deleted. So no crash leaves a space
without a record. The name of a space is random and never used again: points that an unreachable space still holds
cannot be taken for those of another.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.values import DocumentName, EmbeddingModel
from holdfast.pipelines.rag.sql_statements import index_statements

Read = Callable[..., list[Any]]
"""`DatabaseIndex.read`: run a statement by its name, with its parameters."""


class VectorSpace(Struct, frozen=True):
    """The record of a vector space.

    Args:
        id: The id of the record.
        collection: The collection, or an empty text if the space is abandoned.
        place: The external vector store, as the `index` setting of the collection names it.
        model: The name of the embedding model.
        name: The name of the space in the external vector store.
    """

    id: int
    collection: str
    place: str
    model: str
    name: str


class MissingVersion(Struct, frozen=True):
    """A version that vector searches may find but that is not in the vector space."""

    document: int
    version: int
    source: str
    key: str


Version = tuple[int, int]
"""The id of a document and the number of a version."""


def add_space(tx: Tx, collection: str, place: str, model: EmbeddingModel) -> None:
    """Record a space before it is created, unless it is recorded already."""
    _run(tx, "add_space", collection=collection, place=place, model=model.name, name=_new_name(model))


def find_spaces(read: Read, place: str, model: EmbeddingModel, collection: str | None = None) -> list[VectorSpace]:
    """Return the spaces of a model at a place: those of one collection, or of all."""
    spaces = [VectorSpace(*row) for row in read("find_spaces", place=place, model=model.name)]
    return [space for space in spaces if collection in (None, space.collection)]


def spaces_in_use(read: Read) -> list[VectorSpace]:
    """Return the spaces of all collections."""
    return [VectorSpace(*row) for row in read("spaces_in_use")]


def abandon_spaces(tx: Tx, collection: str, *, kept_place: str = "", kept_model: str = "") -> None:
    """Abandon the spaces of a collection: all, or all except those at one place.

    Args:
        tx: The transaction to write in.
        collection: The name of the collection.
        kept_place: Spaces at this place are kept.
        kept_model: If given, only those of this model are kept there.
    """
    _run(tx, "abandon_spaces", collection=collection, kept_place=kept_place, kept_model=kept_model)


def abandoned_spaces(read: Read) -> list[VectorSpace]:
    """Return the spaces that no collection uses and that may still exist."""
    return [VectorSpace(*row) for row in read("abandoned_spaces")]


def delete_space(tx: Tx, space: VectorSpace) -> None:
    """Delete the record of a space that does not exist any more."""
    _run(tx, "delete_uploads", space_id=space.id)
    _run(tx, "delete_space", space_id=space.id)


def add_uploads(tx: Tx, space: VectorSpace, versions: Sequence[Version]) -> None:
    """Record that versions are in a space."""
    _run_many(tx, "add_upload", space, versions)


def add_upload_of_visible(tx: Tx, place: str, model: EmbeddingModel, name: DocumentName) -> None:
    """Record that the visible version of a document is in the space of its collection."""
    params = {"collection": name.collection, "source": name.source, "key": name.key}
    _run(tx, "add_upload_of_visible", place=place, model=model.name, **params)


def delete_uploads(tx: Tx, space: VectorSpace, versions: Sequence[Version]) -> None:
    """Record that versions are not in a space any more."""
    _run_many(tx, "delete_upload", space, versions)


def missing_versions(
    read: Read, collection: str, place: str, model: EmbeddingModel, *, after: int = 0, limit: int
) -> list[MissingVersion]:
    """Return versions that vector searches may find but that are not in the space, in the order of their documents."""
    params = {"collection": collection, "place": place, "model": model.name, "after": after, "limit": limit}
    return [MissingVersion(*row) for row in read("missing_versions", **params)]


def outdated_versions(read: Read, space: VectorSpace, *, limit: int) -> list[Version]:
    """Return versions in a space that are neither visible nor the latest."""
    return [(document, version) for document, version in read("outdated_versions", space_id=space.id, limit=limit)]


def uploaded_versions(read: Read, space: VectorSpace) -> list[Version]:
    """Return all versions that are in a space, by the records."""
    return [(document, version) for document, version in read("uploaded_versions", space_id=space.id)]


def has_visible_versions(read: Read, space: VectorSpace) -> bool:
    """Return True if a space has a visible version, by the records."""
    return bool(read("has_visible_versions", space_id=space.id))


def _run(tx: Tx, statement: str, **params: Any) -> None:
    tx.execute(index_statements(tx.dialect)[statement], params)


def _run_many(tx: Tx, statement: str, space: VectorSpace, versions: Sequence[Version]) -> None:
    rows = [{"space_id": space.id, "document_id": document, "version": version} for document, version in versions]
    tx.executemany(index_statements(tx.dialect)[statement], rows)


def _new_name(model: EmbeddingModel) -> str:
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", model.name)[:60]
    return f"holdfast-{readable}-{secrets.token_hex(8)}"
