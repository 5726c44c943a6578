"""Fingerprints of files and URLs: they change when the content changes."""

from __future__ import annotations

import os
from hashlib import blake2b
from stat import S_ISREG
from time import time_ns

from msgspec.structs import replace

from holdfast.core.errors import Reject
from holdfast.core.fingerprints import FileFingerprint, parse_file_fingerprint
from holdfast.sources.fetch import FileGone, hash_file
from holdfast.sources.source import SourceFile, is_url

LARGEST_HASHED = 1 << 30
"""Bytes of the largest file that is hashed. To hash more would take a submit from seconds to minutes for one file."""

MTIME_GRANULARITY_NS = 2_000_000_000
"""The coarsest time stamps of file systems (FAT: 2 s). A file may change twice within one of them."""

LONGEST_ETAG = 200


def has_known_time(seen: SourceFile, known: str) -> bool:
    """Return True if a file has the size and time that its known fingerprint has. It is not read then."""
    before = parse_file_fingerprint(known)
    return before is not None and (seen.size, seen.mtime_ns) == (before.size, before.mtime_ns) and seen.mtime_ns > 0


def fingerprint_of(seen: SourceFile, known: str = "", *, allow_private: bool = False) -> str:
    """Return the fingerprint of a file or URL.

    - A file: size, time and a hash of its content. It is read only if its size or time differ from the known ones.
    - A file that is not there: the known fingerprint, so that its document stays as it is.
    - A URL: the ETag of its server, otherwise size and time, otherwise a hash of its content.

    Args:
        seen: The file as it was listed.
        known: The fingerprint that its document has in the store. Empty: none.
        allow_private: Allow addresses in private networks.

    Raises:
        Reject: A URL can never be fetched.
        Unreachable: The server of a URL does not answer.
    """
    if is_url(seen.location):
        return _of_url(seen, allow_private=allow_private)
    is_missing = seen.size < 0 and not seen.mtime_ns
    return known if is_missing or has_known_time(seen, known) else _of_file(seen, known)


def is_hashed(seen: SourceFile, known: str) -> bool:
    """Return True if the content of a file of this machine has to be read for its fingerprint."""
    return not is_url(seen.location) and 0 <= seen.size <= LARGEST_HASHED and not has_known_time(seen, known)


def stat_file(path: str) -> SourceFile:
    """Return a file as it is now. Its size is -1 if it has no content to hash, and its time 0 if it is not there."""
    try:
        stat = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return SourceFile(path, path, -1, 0)
    size = stat.st_size if S_ISREG(stat.st_mode) else -1
    return SourceFile(path, path, size, max(stat.st_mtime_ns, 0))


def _of_file(seen: SourceFile, known: str) -> str:
    is_young = seen.mtime_ns > time_ns() - MTIME_GRANULARITY_NS
    found = FileFingerprint(seen.size, seen.mtime_ns, "")
    if not 0 <= seen.size <= LARGEST_HASHED:
        return str(found)
    try:
        content = hash_file(seen)
    except FileGone:  # it was removed since it was listed
        return known
    except (OSError, Reject):  # this user may not read it; the user of the worker may
        return str(found)
    return str(replace(found, content=content, mtime_ns=0 if is_young else seen.mtime_ns))


def _of_url(seen: SourceFile, *, allow_private: bool) -> str:
    if seen.etag:
        is_long = len(seen.etag) > LONGEST_ETAG
        return f"etag:{blake2b(seen.etag.encode(), digest_size=16).hexdigest() if is_long else seen.etag}"
    if seen.mtime_ns:
        return f"version:{seen.size}:{seen.mtime_ns}"
    return f"content:{hash_file(seen, allow_private=allow_private)}"
