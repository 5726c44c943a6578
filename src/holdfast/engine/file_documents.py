"""Documents that are files or URLs: their keys, their payloads, and fingerprints that are computed when needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec.structs import replace

from holdfast.core.errors import Signal
from holdfast.core.fingerprints import payload_fingerprint, with_fingerprint
from holdfast.core.model import NewDocument
from holdfast.sources import (
    SourceFile,
    SourceRefused,
    Unreachable,
    canonical_key,
    fingerprint_of,
    is_hashed,
    is_url,
    list_files,
    parse_source,
    stat_file,
)
from holdfast.sources.source import missing_package
from holdfast.stores.protocol import Store

Submittable = NewDocument | SourceFile | str | os.PathLike[str] | tuple[str, Any]

SLICE = 1000
"""How many documents are submitted in one transaction."""

HASHED_BYTES = 1 << 30
"""How many bytes of files are hashed before the documents are committed. After a kill, only these are hashed again."""


def slices(
    documents: Iterable[Submittable], store: Store, pipeline: str, batch: str, *, priority: int
) -> Iterator[list[NewDocument]]:
    """Yield documents with their fingerprints, as many as are committed together.

    A file is read only if its size or time differ from those that the store knows.
    """
    entries = (entry for document in documents for entry in _entries(document))
    while taken := list(islice(entries, SLICE)):
        keys = [entry.key for entry in taken if isinstance(entry, SourceFile)]
        known = (
            {found.key: found.fingerprint for found in store.documents_by_key(pipeline, batch, keys)} if keys else {}
        )
        part: list[NewDocument] = []
        hashed = 0
        for entry in taken:
            before = known.get(entry.key, "")
            hashed += entry.size if isinstance(entry, SourceFile) and is_hashed(entry, before) else 0
            part.append(_marked(entry, before, priority))
            if hashed >= HASHED_BYTES:
                yield part
                part, hashed = [], 0
        if part:
            yield part


def new_document(document: Submittable, priority: int = 0) -> NewDocument:
    """Return what was submitted as one document, without looking at what a store knows."""
    (entry,) = _entries(document)
    return _marked(entry, "", priority)


def documents_of_url(url: str, *, allow_private: bool = False) -> Iterator[NewDocument]:
    """Yield the document of a URL, or those of all objects below it.

    Raises:
        SourceRefused: There is nothing at the URL, or it cannot be reached.
    """
    scheme, colon, rest = url.partition(":")
    try:
        for seen in list_files(parse_source(scheme.lower() + colon + rest), allow_private=allow_private):
            mark = fingerprint_of(seen, allow_private=allow_private)
            yield NewDocument(canonical_key(seen.location), {"url": seen.location}, mark)
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    except (Unreachable, Signal) as error:
        raise SourceRefused(f"{error}; documents before it were submitted, so submit all again later") from error


def _entries(document: Submittable) -> Iterator[NewDocument | SourceFile]:
    """Yield documents, or the files whose fingerprints are not known yet. A URL may have many."""
    if isinstance(document, NewDocument):
        yield with_fingerprint(document)
    elif isinstance(document, SourceFile):
        yield document
    elif isinstance(document, tuple):
        key, payload = document
        yield NewDocument(str(key), payload, payload_fingerprint(key, payload))
    elif isinstance(document, str) and is_url(document) and not _is_file_url(document):
        yield from documents_of_url(document)
    elif isinstance(document, str) and not names_file(document):
        yield NewDocument(document, {"path": document})
    else:
        yield stat_file(canonical_key(document))


def names_file(text: str) -> bool:
    """Return True if a text names something that exists, or is a `file:` URL. Any other text is a key."""
    home = os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111
    return _is_file_url(text) or os.path.lexists(text) or os.path.lexists(home)


def _is_file_url(text: str) -> bool:
    return text[:5].lower() == "file:" and is_url(text)


def _marked(entry: NewDocument | SourceFile, known: str, priority: int) -> NewDocument:
    if isinstance(entry, SourceFile):
        return NewDocument(entry.key, {"path": entry.location}, fingerprint_of(entry, known), priority)
    return replace(entry, priority=priority) if priority else entry
