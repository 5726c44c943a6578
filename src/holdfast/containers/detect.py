"""Detect containers by their content."""

from __future__ import annotations

import re
from typing import Literal, get_args

ContainerKind = Literal["mbox", "zip", "tar", "gzip", "bzip2", "xz", "zstd", "7z", "rar", "pst"]
"""The formats that can be opened. `tar` is a plain one; a packed one is detected as what it is packed with."""
CONTAINER_KINDS: tuple[ContainerKind, ...] = get_args(ContainerKind)

MAGIC: tuple[tuple[bytes, ContainerKind], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK00PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"(\xb5/\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"!BDN", "pst"),
)
BLOCK = 512
"""Bytes of the header of a TAR entry."""
CHECKSUM = slice(148, 156)
FROM_LINE = re.compile(rb"From (?:-[ \t]*\r?\n|[^\r\n]*\d{4}[^\r\n]*\r?\n)")
"""The line before each message of a mailbox: an address and a date with a year. Mozilla writes only a dash."""
HEADER = re.compile(rb"[!-9;-~]+[ \t]*:|>From |[ \t]|\r?\n")


def detect_container(head: bytes) -> ContainerKind | None:
    """Return the format of a container by the first bytes of its file; None if it is none.

    Office files are ZIP archives too: tell them apart by their entries.

    Args:
        head: The first bytes. 1,024 are enough.
    """
    for magic, kind in MAGIC:
        if head.startswith(magic):
            return kind
    if is_tar(head):
        return "tar"
    return "mbox" if is_mailbox(head) else None


def is_tar(head: bytes) -> bool:
    """Return True if the first bytes are a header of a TAR archive: its checksum is right.

    Args:
        head: The first 512 bytes or more.
    """
    header = head[:BLOCK]
    if len(header) < BLOCK or not header[0]:
        return False
    try:
        declared = int(header[CHECKSUM].strip(b" \x00") or b"-", 8)
    except ValueError:
        return False
    return declared == sum(header) - sum(header[CHECKSUM]) + 8 * ord(" ")


def is_mailbox(head: bytes) -> bool:
    """Return True if the first bytes are a From line and a header. A single message that was saved so is one, too.

    Args:
        head: The first bytes of the file.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    line = FROM_LINE.match(text)
    return line is not None and HEADER.match(text, line.end()) is not None
