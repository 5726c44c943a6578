"""Fingerprints of documents: of payloads, and of files."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

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


FILE = "file"


class FileFingerprint(Struct, frozen=True):
    """The fingerprint of a file.

    Attributes:
        size: Its bytes.
        mtime_ns: When it was last modified, in ns since 1970. 0: it may have changed again with the same time.
        content: A hash of its content. Empty: the file is too large to be hashed.
    """

    size: int
    mtime_ns: int
    content: str

    def __str__(self) -> str:
        return f"{FILE}:{self.size}:{self.mtime_ns}:{self.content}"


def parse_file_fingerprint(fingerprint: str) -> FileFingerprint | None:
    """Return the parts of the fingerprint of a file. None: it is another fingerprint."""
    kind, *parts = fingerprint.split(":")
    if kind != FILE or len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return FileFingerprint(int(parts[0]), int(parts[1]), parts[2])


def has_same_content(one: str, other: str) -> bool:
    """Return True if two fingerprints are of the same content. The time of a file is not its content."""
    if one == other:
        return True
    first, second = parse_file_fingerprint(one), parse_file_fingerprint(other)
    return first is not None and second is not None and first.content == second.content != ""
