"""Get a file for reading: the file itself if it is on this machine, otherwise a temporary copy.

Fetching has limits: size, time and retries.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import blake2b
from io import RawIOBase
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.sources.safe_open import open_inside, path_to
from holdfast.sources.source import SourceFile, Unreachable, is_url

SLICE = 1 << 20
"""Bytes that are read at once."""


class FetchLimits(Struct, frozen=True, kw_only=True):
    """Limits for fetching one file.

    Attributes:
        size: Bytes of the file.
        time: Time for the whole file.
        silence: Time without a byte.
        redirects: How many redirects are followed.
        resumptions: How often a broken download is resumed.
    """

    size: int = 1 << 30
    time: timedelta = timedelta(minutes=10)
    silence: timedelta = timedelta(seconds=30)
    redirects: int = 5
    resumptions: int = 3


DEFAULT_LIMITS = FetchLimits()


class Deadline:
    """The time at which fetching one file has taken too long."""

    def __init__(self, limits: FetchLimits) -> None:
        self.limits = limits
        self._at = monotonic() + limits.time.total_seconds()

    def remaining(self) -> float:
        """Return the seconds that are left. Never 0, because that would mean no timeout."""
        return max(self._at - monotonic(), 0.001)

    def check(self, url: str) -> None:
        """Raise Unreachable if the time is over."""
        if monotonic() >= self._at:
            raise Unreachable(f"{url} was not there after {self.limits.time}")


def too_large(url: str, limits: FetchLimits) -> Reject:
    """Return the error for a file that is larger than allowed."""
    return Reject(f"{url} is larger than {limits.size:,} bytes, more than is fetched; fetch it by hand if you want it")


class FileGone(Reject):
    """A file is no longer where it was listed. When it is listed again, its document is retried."""


@contextmanager
def local_copy(
    seen: SourceFile, *, root: str | None = None, allow_private: bool = False, limits: FetchLimits = DEFAULT_LIMITS
) -> Iterator[Path]:
    """Yield the path of a file, or of a copy that is deleted afterwards.

    With a root, the path leads to the file that was opened and checked, and may be temporary too.

    Args:
        seen: The file.
        root: The folder that a file of this machine must be in. None: it may be anywhere.
        allow_private: Allow addresses in private networks.
        limits: Limits of size and time.

    Raises:
        FileGone: The file is not there any more.
        OutsideSource: A link leads out of the root.
        Reject: The file can never be fetched.
        RetryLater: The server asked to be asked later.
        Unreachable: The server does not answer, or the connection broke. This costs an attempt.
    """
    if not is_url(seen.location):
        with _open_file(seen.location, root) as opened:
            if root in (None, seen.location):
                yield Path(seen.location)
            else:
                with path_to(opened, seen.location) as path:
                    yield path
        return
    with TemporaryDirectory(prefix="holdfast-") as folder:
        copy = Path(folder) / _file_name(seen.location)
        with copy.open("w+b") as into:
            if seen.location.lower().startswith(("http://", "https://")):
                from holdfast.sources.http_source import fetch_url

                fetch_url(seen.location, into, allow_private=allow_private, limits=limits)
            else:
                from holdfast.sources.fsspec_source import fetch_object

                fetch_object(seen.location, into, allow_private=allow_private, limits=limits)
        yield copy


def hash_file(
    seen: SourceFile, *, root: str | None = None, allow_private: bool = False, limits: FetchLimits = DEFAULT_LIMITS
) -> str:
    """Return the hash of a file's content. The arguments and errors are those of `local_copy`."""
    if not is_url(seen.location):
        with _open_file(seen.location, root) as opened, open(opened, "rb", 0, closefd=False) as content:
            return _hash(content)
    with local_copy(seen, allow_private=allow_private, limits=limits) as path, path.open("rb", 0) as content:
        return _hash(content)


def _hash(content: RawIOBase) -> str:
    digest = blake2b(digest_size=32)
    buffer = memoryview(bytearray(SLICE))
    while size := content.readinto(buffer):
        digest.update(buffer[:size])
    return digest.hexdigest()


@contextmanager
def _open_file(path: str, root: str | None) -> Iterator[int]:
    try:
        opened = open_inside(path, root)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileGone(f"{path} is not there any more") from error
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENXIO, errno.ELOOP):  # a folder, a pipe or a link is there now
            raise FileGone(f"{path} is not a file any more") from error
        raise
    try:
        yield opened
    finally:
        os.close(opened)


def _file_name(url: str) -> str:
    """Return a file name for the copy: with the same suffix, and valid on every operating system."""
    name = os.path.basename(unquote(urlsplit(url).path))  # noqa: PTH119
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-80:].lstrip(".") or "document"
