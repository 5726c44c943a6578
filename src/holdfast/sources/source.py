"""A source that a person named, and the files in it."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import SplitResult, urldefrag, urlsplit

from msgspec import Struct

from holdfast.core.distribution import install_command
from holdfast.core.errors import HoldfastError
from holdfast.core.passwords import hide_password
from holdfast.core.text_limits import MAX_NAME, shorten, too_long

Kind = Literal["folder", "file", "glob", "web", "remote"]
"""`web` is one document behind http or https. `remote` is what fsspec reads: one object or all below a prefix."""

SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(?://|(?<=^file:)/)", re.IGNORECASE)
CHAINED = re.compile(r"::[a-z0-9+.-]+://", re.IGNORECASE)


class SourceRefused(HoldfastError):
    """The source does not exist, or cannot be used. The message says why, and what to do."""


class Unreachable(OSError):
    """A server does not answer, or a connection broke. An ordinary error: it costs an attempt."""

    error_category = "unreachable"


class Source(Struct, frozen=True):
    """A source.

    Attributes:
        spec: What the person named.
        kind: What it is.
        root: The folder, file or URL where the listing starts.
        pattern: The glob that files below the root must match. Empty: all files.
    """

    spec: str
    kind: Kind
    root: str
    pattern: str = ""


class SourceFile(Struct, frozen=True, gc=False):
    """One file as it was listed.

    Attributes:
        key: The name that people see.
        location: Its path or URL.
        size: Its bytes. -1: unknown.
        mtime_ns: When it was last modified, in ns since 1970. 0: unknown.
        etag: The server's name for this version.
    """

    key: str
    location: str
    size: int
    mtime_ns: int
    etag: str = ""


def missing_package(error: ModuleNotFoundError) -> SourceRefused:
    """Return the error for a URL that needs a package that is not installed."""
    return SourceRefused(f"URLs need a package that is not installed ({error.name}): {install_command('rag')}")


def clamp_mtime(mtime_ns: int) -> int:
    """Return a time that fits into a database column: 0 (unknown) if it is out of range."""
    return mtime_ns if abs(mtime_ns) < 2**62 else 0


class SkippedPath(Struct, frozen=True):
    """A path that could not be read. A key that ends with a slash stands for everything below it.

    It is unknown whether such files are still there, unless they are left out on purpose.

    Attributes:
        key: The name that people see.
        location: Its path or URL.
        why: Why it was skipped.
        left_out: True if it does not belong to the source. What was ingested from it before is removed.
    """

    key: str
    location: str
    why: str
    left_out: bool = False


def parse_source(spec: str) -> Source:
    """Return the source that a path, glob or URL names. An existing file is that file, even if it looks like a glob.

    Raises:
        SourceRefused: There is no such file or folder, or the URL cannot be used.
    """
    source = _parse(spec)
    if why := too_long(source.root):
        raise SourceRefused(f"{shorten(spec, MAX_NAME)} cannot be ingested: it {why}")
    return source


def _parse(spec: str) -> Source:
    if scheme := SCHEME.match(spec):
        return _url(spec, scheme[1].lower())
    if os.path.isdir(spec):  # noqa: PTH112
        return Source(spec, "folder", os.path.abspath(spec))  # noqa: PTH100
    if os.path.lexists(spec):
        return Source(spec, "file", os.path.abspath(spec))  # noqa: PTH100
    if glob.has_magic(spec):
        root, pattern = _split_glob(spec.replace(os.sep, "/"))
        if os.path.isdir(root):  # noqa: PTH112
            return Source(spec, "glob", os.path.abspath(root), pattern)  # noqa: PTH100
        raise SourceRefused(f"there is no folder {root}, so nothing matches {spec}")
    raise SourceRefused(f"there is no file or folder {spec}; check the path")


def find_root(spec: str, roots: Iterable[str]) -> str:
    """Return the one of these roots that a path, glob or URL names, even if it does not exist any more.

    Raises:
        SourceRefused: It is none of them.
    """
    known = list(roots)
    path = path_of_file_url(spec) if spec.lower().startswith("file:") else spec
    root = _split_glob(path)[0] if glob.has_magic(path) else path
    for name in (spec, urldefrag(spec).url, root, os.path.abspath(path), os.path.abspath(root)):  # noqa: PTH100
        if name in known:
            return name
    raise SourceRefused(f"nothing was ingested from {spec}; sources are: {', '.join(sorted(known)) or 'none yet'}")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def is_url(location: str) -> bool:
    """Return True if a location is a URL, not a path on this machine."""
    return SCHEME.match(location) is not None


def refuse_secrets(parts: SplitResult) -> None:
    """Raise SourceRefused if a URL has a password. The user of a web address may be an access token."""
    if parts.password is not None or (parts.username and parts.scheme in ("http", "https")):
        secret = "password" if parts.password is not None else "user name"
        raise SourceRefused(
            f"the URL for {parts.hostname} has a {secret}, which would be stored with every document; leave it out"
        )


def _url(spec: str, scheme: str) -> Source:
    try:
        parts = urlsplit(spec)
    except ValueError:
        raise SourceRefused(f"{hide_password(spec)} is not a URL") from None  # its message may have a part of it
    refuse_secrets(parts)
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise SourceRefused(f"{spec} names the host {parts.netloc}; a file: URL must name a file of this machine")
        return parse_source(path_of_file_url(spec))
    if scheme in ("http", "https"):
        if not parts.hostname:
            raise SourceRefused(f"{spec} names no host")
        return Source(spec, "web", urldefrag(spec).url)
    if CHAINED.search(spec):
        raise SourceRefused(f"{spec} chains several URLs; name the one that has the documents")
    root, pattern = _split_glob(spec) if glob.has_magic(spec) else (spec, "")
    return Source(spec, "remote", root, pattern)


def path_of_file_url(url: str) -> str:
    """Return the path that a file: URL names."""
    from urllib.request import url2pathname  # imports all of http, which few sources need

    return url2pathname(urlsplit(url).path)


def _split_glob(path: str) -> tuple[str, str]:
    """Split before the first part that has a wildcard: papers/2024/*/a.pdf is */a.pdf below papers/2024."""
    parts = path.split("/")
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    root = "/".join(parts[:first])
    return root or ("/" if path.startswith("/") else "."), "/".join(parts[first:])
