"""Read the original file of a document, for a browser: only the very content that was made searchable.

Who may write into a store could name any file of this machine as a document. So the file must be inside its source, and
its content must have the hash that was stored when it was ingested: nothing is shown that was not known then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b

from msgspec import Struct

from holdfast.core.errors import HoldfastError, Reject, UnknownDocument
from holdfast.core.model import DocumentStatus
from holdfast.pipelines.rag.ingest.attachments import ATTACHMENT_MARK
from holdfast.pipelines.rag.ingest.known_files import content_hash
from holdfast.sources import is_url
from holdfast.sources.fetch import HASH_SIZE
from holdfast.sources.safe_open import open_inside
from holdfast.stores.protocol import Store

MAX_SIZE = 64 << 20
"""Bytes of the largest file that is shown. It is read into memory, because exactly what was hashed must be sent."""


class FileNotShown(HoldfastError, LookupError):
    """The original file of a document cannot be shown. The message says why."""


class OriginalFile(Struct, frozen=True):
    """A file as it was made searchable: its name without folders, and its content."""

    name: str
    content: bytes


def read_original(store: Store, collection: str, source: str, key: str) -> OriginalFile:
    """Return the original file of a document. The file of an attachment is its message.

    Raises:
        UnknownDocument: There is no such document.
        FileNotShown: It is not a file of this machine, or has changed, or is too large.
    """
    document = _document_of_file(store, collection, source, key)
    payload = document.payload if isinstance(document.payload, dict) else {}
    location = payload.get("location")
    if not isinstance(location, str) or is_url(location):
        raise FileNotShown(f"{key} is not a file of this machine")
    content = _read(location, source)
    if blake2b(content, digest_size=HASH_SIZE).hexdigest() != content_hash(document.fingerprint):
        raise FileNotShown(f"{document.key} has changed since it was made searchable; ingest it again to open it")
    return OriginalFile(os.path.basename(location), content)  # noqa: PTH119 - the path of another system may be in a store


def _document_of_file(store: Store, collection: str, source: str, key: str) -> DocumentStatus:
    """Return the document itself, or for an attachment that of the file that it is in."""
    document = store.document(collection, source, key)
    if not (isinstance(document.payload, dict) and "inside" in document.payload):
        return document
    for outer in _outer_keys(key):
        try:
            return store.document(collection, source, outer)
        except UnknownDocument:
            continue
    raise FileNotShown(f"the file with the attachment {key} is not there any more")


def _outer_keys(key: str) -> Iterator[str]:
    """Yield what may be the key of the file: the text before each mark, the shortest first."""
    parts = key.split(ATTACHMENT_MARK)
    yield from (ATTACHMENT_MARK.join(parts[:number]) for number in range(1, len(parts)))


def _read(location: str, source: str) -> bytes:
    try:
        with os.fdopen(open_inside(location, source), "rb") as file:
            content = file.read(MAX_SIZE + 1)
    except (OSError, Reject, ValueError) as error:
        raise FileNotShown("the file is not there any more, or cannot be read") from error
    if len(content) > MAX_SIZE:
        raise FileNotShown(f"the file is larger than {MAX_SIZE:,} bytes; open it from its folder")
    return content
