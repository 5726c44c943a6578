"""The metadata of a source: names and values that its documents are filtered by.

Metadata is kept for the source, not for each file. So changing it is one transaction and reads no file again: a search
sees all of the change or none. Files that a source brings later, and their attachments, have it from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import storable_metadata
from holdfast.pipelines.rag.sql_statements import load_statements

Metadata = Mapping[str, str | int | float | bool | None]

SQL = load_statements(Path(__file__).parent / "queries")


def create_table(tx: Tx) -> None:
    """Create the table if it is missing."""
    SQL.run(tx, "create_source_table")


def read_metadata(tx: Tx, collection: str, source: str) -> dict[str, Any]:
    """Return the metadata of a source, to add a document with it. It cannot change until the transaction ends."""
    if tx.dialect == "postgresql":
        SQL.run(tx, "lock_for_adding")
    return _read(tx, collection, source)


def set_metadata(tx: Tx, collection: str, source: str, metadata: Metadata) -> int:
    """Replace the metadata of a source. Return how many of its documents have other metadata now.

    Call this in a transaction of its own. It waits for documents that are being added, and they wait for it.

    Args:
        tx: The transaction.
        collection: The name of the collection.
        source: The root of the source.
        metadata: The new metadata. Names with the value None are left out.

    Raises:
        HoldfastError: A value is not a text, a number, True or False.
    """
    wanted = _plain(metadata)
    if tx.dialect == "postgresql":
        SQL.run(tx, "lock_for_describing")
    if wanted == _read(tx, collection, source):
        return 0
    params = {"collection": collection, "source": source, "metadata": encode_json(wanted)}
    SQL.run(tx, "save_metadata", **params)
    described: int = SQL.run(tx, "describe_documents", **params).rowcount
    return described


def delete_metadata(tx: Tx, collection: str, *, source: str | None = None) -> None:
    """Delete the metadata of one source, or of all sources of a collection."""
    SQL.run(tx, "delete_metadata", collection=collection, source=source)


def _read(tx: Tx, collection: str, source: str) -> dict[str, Any]:
    row = SQL.run(tx, "read_metadata", collection=collection, source=source).fetchone()
    return decode_json(row[0]) if row else {}


def _plain(metadata: Metadata) -> dict[str, Any]:
    for name, value in metadata.items():
        if not isinstance(value, str | int | float | bool | None):
            raise HoldfastError(f"metadata {name!r} is {value!r}: texts, numbers, true and false can be filtered by")
    return storable_metadata({name: value for name, value in metadata.items() if value is not None})
