"""What messages carry: their attachments, which are documents of their own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.document import Document
from holdfast.core.model import NewDocument, Standing

CARRIED = "#"
"""Stands between the key of a message and the name of what it carries."""


def attached_documents(doc: Document, names: Sequence[str]) -> list[NewDocument]:
    """Gives what a message carries as documents of their own: read out of it when their turn comes."""
    inside: list[int] = doc.payload.get("inside", [])
    return [
        NewDocument(
            f"{doc.key}{CARRIED}{name}", doc.payload | {"inside": [*inside, place], "name": name}, doc.fingerprint
        )
        for place, name in enumerate(names)
    ]


def is_carried_by(one: Standing, key: str) -> bool:
    """Answers whether a document came inside another. A file may be called as if it had."""
    return one.key.startswith(key + CARRIED) and "inside" in one.payload
