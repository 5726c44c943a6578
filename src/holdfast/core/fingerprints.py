"""Fingerprints of documents that were submitted without one."""

from __future__ import annotations

from typing import Any

from holdfast.core.codec import checked_json
from holdfast.core.model import NewDocument


def payload_fingerprint(key: str, payload: Any) -> str:
    """Return a hash of a payload. Raise CannotKeep, with the key, if the payload is not JSON."""
    from hashlib import blake2b

    text = checked_json(payload, f"the payload of {key!r}")
    return blake2b(text.encode(), digest_size=16).hexdigest()


def with_fingerprint(document: NewDocument) -> NewDocument:
    """Return a document with a fingerprint: its own, or a hash of its payload."""
    if document.fingerprint:
        return document
    mark = payload_fingerprint(document.key, document.payload)
    return NewDocument(document.key, document.payload, mark, document.priority)
