"""Get a file for reading: the file itself if it is on this machine, otherwise a temporary copy.

Fetching has limits: size, time and retries. `local_file` does it for a body, also if the folder of the document has
another path on this machine.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from hashlib import blake2b
from io import RawIOBase
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError, Reject
from holdfast.sources.safe_open import open_inside, path_to
from holdfast.sources.source import SourceFile, Unreachable, is_url, missing_package

HASH_SIZE = 32
"""Bytes of the hash of a file's content (BLAKE2b)."""
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


def too_large_error(url: str, limits: FetchLimits) -> Reject:
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
    digest = blake2b(digest_size=HASH_SIZE)
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


PATH_MAP = "HOLDFAST_PATH_MAP"
"""The environment variable for folders that have another path here: `/data/letters=/mnt/letters;/scans=/mnt/scans`."""


@contextmanager
def local_file(doc: Document, *, allow_private: bool = False) -> Iterator[Path]:
    """Yield the path of a document's file on this machine.

    A URL is fetched into a temporary file, which is deleted at the end of the `with` block. Where a folder has another
    path than where its files were submitted, set HOLDFAST_PATH_MAP: `/data/letters=/mnt/letters`. Separate several
    pairs with `;`.

    Args:
        doc: The document. Its payload has a `path` or a `url`, as `holdfast run`, `holdfast submit` and
            `holdfast.submit` write it.
        allow_private: Also fetch from addresses in private networks.

    Returns:
        A context manager that yields the path.

    Raises:
        Reject: The file is not there, the URL can never be fetched, or the payload names no file.
        RetryLater: The server asked to be asked later.
        OSError: The file cannot be read, or the server does not answer. This costs an attempt.
        HoldfastError: URLs need a package that is not installed, or HOLDFAST_PATH_MAP is wrong.

    Example:
        @papers.step
        def read(doc):
            with holdfast.local_file(doc) as path:
                return path.read_text()
    """
    place = _location(doc)
    seen = SourceFile(doc.key, mapped_path(place), -1, 0)
    with ExitStack() as stack:
        try:
            path = stack.enter_context(local_copy(seen, allow_private=allow_private))
        except FileGone as error:
            raise FileGone(f"{error}; if its folder has another path on this machine, set {PATH_MAP}") from error
        except ModuleNotFoundError as error:
            raise missing_package(error) from error
        yield path


def mapped_path(path: str) -> str:
    """Return where a path is on this machine: HOLDFAST_PATH_MAP says so for its folder. The longest entry decides."""
    for folder, target in sorted(_path_map(), key=lambda pair: -len(pair[0])):
        if path == folder or path.startswith(f"{folder}/"):
            return target + path[len(folder) :]
    return path


def _path_map() -> Iterator[tuple[str, str]]:
    for pair in filter(None, os.environ.get(PATH_MAP, "").split(";")):
        folder, equals, target = pair.partition("=")
        if not (folder and equals and target):
            raise HoldfastError(f"{PATH_MAP} has {pair!r}; write it as /folder/there=/folder/here")
        yield folder.rstrip("/"), target.rstrip("/")


def _location(doc: Document) -> str:
    payload = doc.payload
    found = [payload[name] for name in ("path", "url") if name in payload] if isinstance(payload, dict) else []
    if not found or not isinstance(found[0], str):
        raise Reject(f"the payload of {doc.key!r} names no file: it has neither a path nor a url")
    return found[0]
