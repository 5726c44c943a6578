"""What a person named, and what was seen there."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from typing import Literal
from urllib.parse import urldefrag, urlsplit

from msgspec import Struct

from holdfast.core.errors import HoldfastError

Kind = Literal["folder", "file", "glob", "web", "remote"]
"""web is one document behind http or https; remote is whatever else fsspec reaches, an object or all below it."""

SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(?://|(?<=^file:)/)", re.IGNORECASE)
CHAINED = re.compile(r"::[a-z0-9+.-]+://", re.IGNORECASE)


class SourceRefused(HoldfastError):
    """What was named as a source is not there, or cannot be one. The message says why, and what to do."""


class Unreachable(OSError):
    """What was to be looked at or fetched did not answer, or broke off. An ordinary error: it costs an attempt."""


class Source(Struct, frozen=True):
    """What a person named. `root` is where looking begins; `pattern` says what is wanted below it, if not all."""

    word: str
    kind: Kind
    root: str
    pattern: str = ""


class Seen(Struct, frozen=True, gc=False):
    """One file as it was seen: what people call it, where it is, and the signs by which a change is noticed.

    A size of -1 and a time of 0 mean that whoever keeps the file did not say. `etag` is what a server calls this
    version of it.
    """

    key: str
    location: str
    size: int
    mtime_ns: int
    etag: str = ""


def kept_time(mtime_ns: int) -> int:
    """Gives a time as a database can keep it; 0, for one that was not said, where no file can be of that time."""
    return mtime_ns if abs(mtime_ns) < 2**62 else 0


class Missed(Struct, frozen=True):
    """What could not be looked at. A key that ends with a slash stands for everything below it.

    Nothing is known of such files: neither that they are there nor that they are gone.
    """

    key: str
    location: str
    why: str


def source_of(word: str) -> Source:
    """Answers what the word names, or refuses it. A file that exists is that file, whatever its name looks like."""
    if scheme := SCHEME.match(word):
        return _url(word, scheme[1].lower())
    if os.path.isdir(word):  # noqa: PTH112
        return Source(word, "folder", os.path.abspath(word))  # noqa: PTH100
    if os.path.lexists(word):
        return Source(word, "file", os.path.abspath(word))  # noqa: PTH100
    if glob.has_magic(word):
        root, pattern = _split_glob(word.replace(os.sep, "/"))
        if os.path.isdir(root):  # noqa: PTH112
            return Source(word, "glob", os.path.abspath(root), pattern)  # noqa: PTH100
        raise SourceRefused(f"there is no folder {root}, so nothing matches {word}")
    raise SourceRefused(f"there is no file or folder {word}; check the path")


def root_named(word: str, roots: Iterable[str]) -> str:
    """Answers which of these roots a word names, also where nothing is there any more, or refuses it."""
    known = list(roots)
    path = _path_of(word) if word.lower().startswith("file:") else word
    root = _split_glob(path)[0] if glob.has_magic(path) else path
    for name in (word, urldefrag(word).url, root, os.path.abspath(path), os.path.abspath(root)):  # noqa: PTH100
        if name in known:
            return name
    raise SourceRefused(f"nothing came from {word}; sources are: {', '.join(sorted(known)) or 'none yet'}")


def is_url(location: str) -> bool:
    """Answers whether a location is elsewhere, not a path on this machine."""
    return SCHEME.match(location) is not None


def _url(word: str, scheme: str) -> Source:
    try:
        parts = urlsplit(word)
    except ValueError as error:
        raise SourceRefused(f"{word} is no URL: {error}") from error
    if parts.password is not None:
        raise SourceRefused(
            f"the URL for {parts.hostname} has a password in it, which would be kept with every document; leave it out"
        )
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise SourceRefused(f"{word} names the machine {parts.netloc}; a file: URL names a file of this one")
        return source_of(_path_of(word))
    if scheme in ("http", "https"):
        if not parts.hostname:
            raise SourceRefused(f"{word} names no host")
        return Source(word, "web", urldefrag(word).url)
    if CHAINED.search(word):
        raise SourceRefused(f"{word} chains several places; name the one where the documents are")
    root, pattern = _split_glob(word) if glob.has_magic(word) else (word, "")
    return Source(word, "remote", root, pattern)


def _path_of(url: str) -> str:
    """Gives the path that a file: URL names."""
    from urllib.request import url2pathname  # with all of http, which few sources need

    return url2pathname(urlsplit(url).path)


def _split_glob(word: str) -> tuple[str, str]:
    """Splits before the first part that has a wildcard: papers/2024/*/a.pdf is */a.pdf below papers/2024."""
    parts = word.split("/")
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    root = "/".join(parts[:first])
    return root or ("/" if word.startswith("/") else "."), "/".join(parts[first:])
