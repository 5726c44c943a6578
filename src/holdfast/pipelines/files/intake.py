"""Find files, and submit those that are complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from time import sleep, time_ns

from msgspec import Struct

from holdfast.core.fingerprints import FileFingerprint
from holdfast.core.model import NewDocument
from holdfast.sources import SourceFile, canonical_key, fingerprint_of, is_url, list_files, parse_source, stat_file

MIN_AGE = timedelta(seconds=2)
"""How long a file must not have changed before it is taken. Some file systems have times of two seconds."""


class Listing(Struct):
    """Counts what was found. `young` are files that may still be being written: they were not taken."""

    found: int = 0
    young: list[str] = []


def list_documents(
    sources: Iterable[str], listing: Listing, *, min_age: timedelta = MIN_AGE, allow_private: bool = False
) -> Iterator[NewDocument]:
    """Yield the documents of sources: files, folders, globs and URLs. No file is read.

    A file is the same version as long as its size and time are the same. A URL is, as long as its server says so.

    Args:
        sources: The sources.
        listing: Counts what is found.
        min_age: Files that were changed more recently are left out.
        allow_private: Allow addresses in private networks.

    Raises:
        SourceRefused: A source does not exist, or cannot be used.
    """
    seen_keys: set[str] = set()
    several = not isinstance(sources, (list, tuple)) or len(sources) > 1
    for source in sources:
        for seen in list_files(parse_source(source), allow_private=allow_private):
            document = _document(seen, listing, min_age, allow_private=allow_private)
            if document is None or (several and document.key in seen_keys):
                continue
            if several:
                seen_keys.add(document.key)
            listing.found += 1
            yield document


def _document(seen: SourceFile, listing: Listing, min_age: timedelta, *, allow_private: bool) -> NewDocument | None:
    key = canonical_key(seen.location)
    if is_url(seen.location):
        return NewDocument(key, {"url": seen.location}, fingerprint_of(seen, allow_private=allow_private))
    if seen.size < 0:
        return None
    if seen.mtime_ns > time_ns() - min_age / timedelta(microseconds=1) * 1000:
        listing.young.append(key)
        return None
    return NewDocument(key, {"path": key}, str(FileFingerprint(seen.size, seen.mtime_ns, "")))


def wait_until_stable(listing: Listing, *, min_age: timedelta = MIN_AGE) -> list[str]:
    """Wait for the files that are young. Return those that did not change meanwhile; the others are still written."""
    before = {key: stat_file(key) for key in listing.young}
    if before:
        sleep(min_age.total_seconds() + 0.01)
    return [key for key, seen in before.items() if stat_file(key) == seen]
