"""The entries of containers, and the limits that hold for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

from msgspec import Struct

from holdfast.core.errors import Reject


class Entry(Struct, frozen=True, array_like=True):
    """One entry of a container: a message or a file.

    Attributes:
        name: Its name: a relative path with slashes, safe to show and to use as a part of a key. Two entries of one
            container may have the same name.
        position: Where it is, as JSON. `Container.extract` takes it.
        size: Its size in bytes; -1 if the container does not say it.
        fingerprint: A text that changes if its content changes.
        resume_at: Where `Container.entries` goes on after it, as JSON.
    """

    name: str
    position: Any
    size: int
    fingerprint: str
    resume_at: Any


class Container(Protocol):
    """An open container."""

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the entries. Folders and links are left out.

        Args:
            resume_at: `resume_at` of the last entry that is known. None: begin with the first one.

        Raises:
            Reject: The container is broken or beyond the limits. The entries before that are yielded first.
        """

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write the content of an entry.

        Args:
            position: `position` of the entry.
            target: The file to write to.

        Raises:
            Reject: The entry is broken, encrypted, beyond the limits, or not there any more.
        """


class ContainerLimits(Struct, frozen=True, kw_only=True):
    """Maximum sizes and counts. Real containers stay far below; bombs do not."""

    depth: int = 10
    """Containers inside containers, messages with attachments included."""
    entries: int = 100_000
    """Entries of an archive. A mailbox may have any number of messages."""
    entry_bytes: int = 500 << 20
    """Bytes of one entry."""
    bytes: int = 4 << 30
    """Bytes of all entries of an archive together, and of a file that has to be unpacked as a whole."""
    ratio: int = 300
    """Unpacked bytes for each packed byte, checked after 16 MiB."""
    seconds: float = 150
    """Time in which an archive has to be unpacked that can only be read as a whole."""


DEFAULT_LIMITS = ContainerLimits()
RATIO_FREE = 16 << 20
"""Bytes that may be unpacked at any ratio."""
COPY_STEP = 1 << 20
"""Bytes that are copied at a time."""


class UnpackedBytes:
    """Counts unpacked bytes, and rejects what is beyond the limits. Declared sizes can be wrong."""

    def __init__(self, what: str, *, packed: int, limit: int, ratio: int) -> None:
        self._what = what
        self._packed = max(packed, 1)
        self._limit = limit
        self._ratio = ratio
        self.count = 0

    def add(self, size: int) -> None:
        """Count bytes.

        Raises:
            Reject: There are too many.
        """
        self.count += size
        if self.count > self._limit:
            raise Reject(f"{self._what} unpacks to more than {self._limit >> 20:,} MiB; it may be a decompression bomb")
        if self.count > RATIO_FREE and self.count > self._packed * self._ratio:
            raise Reject(
                f"{self._what} unpacks to more than {self._ratio} times its size; it may be a decompression bomb"
            )


def copy_counted(source: BinaryIO, target: BinaryIO, counter: UnpackedBytes) -> None:
    """Copy the rest of a stream, and count its bytes before they are written.

    Args:
        source: The stream.
        target: The file to write to.
        counter: Rejects what is too much.
    """
    while piece := source.read(COPY_STEP):
        counter.add(len(piece))
        target.write(piece)
