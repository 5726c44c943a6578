"""Mailboxes (mbox): messages one after the other, each after a line that begins with "From ".

Messages are found by reading the file once, as a stream. A message is its bytes between two From lines, and its
position is its offset and its length. So a mailbox of any size needs little memory, and a stopped run goes on at the
next message.

There is no standard for these files. A From line is one that has a year (or only a dash), that follows an empty line,
and that is followed by a header. Some writers leave the empty line out; then the line needs a day of the week and a
time, too. Writers put ">" before lines of a message that look like a From line; it is taken away again. Some writers do
not; such a line is text unless a header follows it. So no byte of the file is lost: what is not a From line belongs to
the message before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.header import decode_header
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.containers.detect import FROM_LINE
from holdfast.containers.entry import ContainerLimits, Entry
from holdfast.containers.names import message_name
from holdfast.core.errors import Reject

READ_SIZE = 1 << 20
"""Bytes that are read at a time."""
MAX_LINE = 8 << 10
"""Bytes of a From line and of the header after it that are looked at."""
SUBJECT = re.compile(rb"^subject:[ \t]*([^\r\n]*(?:\r?\n[ \t][^\r\n]*){0,4})", re.IGNORECASE | re.MULTILINE)
HEADER_SIZE = 64 << 10
"""Bytes at the start of a message in which its subject is looked for."""
CANDIDATE = re.compile(rb"\nFrom ")
HEADER = rb"(?:[!-9;-~]+[ \t]*:|>From )"
LOOSE = re.compile(rb"From (?:-[ \t]*\r?\n|[^\r\n]*\d{4}[^\r\n]*\r?\n)" + HEADER)
"""A From line that follows an empty line, and the header after it."""
STRICT = re.compile(
    rb"From -[ \t]*\r?\n[!-9;-~]+:|"
    rb"From [^\r\n]*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? [^\r\n]*\d\d?:\d\d[^\r\n]*\r?\n(?:" + HEADER + rb"|\r?\n)",
    re.IGNORECASE,
)
"""A From line that follows another line: it needs a day of the week and a time."""
QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)


@contextmanager
def open_file(path: Path, limits: ContainerLimits, _name: str) -> Iterator[Mailbox]:
    """Open a mailbox."""
    with path.open("rb") as file:
        yield Mailbox(file, limits)


def has_one_message(path: Path) -> bool:
    """Return True if a mailbox has only one message: mail programs save single messages so."""
    with path.open("rb") as file:
        return next(islice(_ends(file, _first_message(file)), 1, None), None) is None


class Mailbox:
    """The messages of an mbox file."""

    def __init__(self, file: BinaryIO, limits: ContainerLimits) -> None:
        self._file = file
        self._limits = limits

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the messages. `resume_at` is the offset of the next From line, and the number of messages before it."""
        begin, number = resume_at or (_first_message(self._file), 0)
        for end in _ends(self._file, begin):
            number += 1
            head, digest = _summary(self._file, begin, end)
            yield Entry(message_name(number, _subject(head)), [begin, end - begin], end - begin, digest, [end, number])
            begin = end

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write a message, without its From line."""
        begin, length = position
        if length > self._limits.entry_bytes:
            raise Reject(f"the message is too large: {length >> 20:,} MiB")
        self._file.seek(begin)
        content = self._file.read(length)
        line = FROM_LINE.match(content)
        if len(content) != length or line is None:
            raise Reject("the mailbox does not have this message any more; it has changed")
        target.write(QUOTED.sub(rb"\1", content[line.end() :]))


def _first_message(file: BinaryIO) -> int:
    """Return the offset of the first From line: empty lines and a byte order mark may be before it."""
    file.seek(0)
    head = file.read(MAX_LINE)
    return len(head) - len(head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n"))


def _ends(file: BinaryIO, begin: int) -> Iterator[int]:
    """Yield the offset after each message that begins at or after an offset."""
    size = file.seek(0, 2)
    offset, pending = begin, b""  # `pending` begins at `offset`
    message = begin
    while True:
        file.seek(offset + len(pending))
        piece = file.read(READ_SIZE)
        pending += piece
        is_last = not piece
        searched = len(pending) if is_last else max(len(pending) - MAX_LINE, 0)
        for found in CANDIDATE.finditer(pending):
            begins = found.start() + 1
            if begins >= searched and not is_last:
                break
            at = offset + begins
            if at > message and _is_from_line(pending, begins):
                yield at
                message = at
        if is_last:
            break
        keep = max(searched - 4, 0)  # the empty line before the next From line
        offset, pending = offset + keep, pending[keep:]
    if size > message:
        yield size


def _is_from_line(text: bytes, at: int) -> bool:
    after_empty_line = text[max(at - 3, 0) : at].endswith((b"\n\n", b"\n\r\n"))
    return bool((after_empty_line and LOOSE.match(text, at)) or STRICT.match(text, at))


def _summary(file: BinaryIO, begin: int, end: int) -> tuple[bytes, str]:
    """Return the first bytes of a message, and the hash of all its bytes."""
    file.seek(begin)
    digest = blake2b(digest_size=16)
    head = b""
    remaining = end - begin
    while remaining and (piece := file.read(min(remaining, READ_SIZE))):
        head = head or piece[:HEADER_SIZE]
        digest.update(piece)
        remaining -= len(piece)
    return head, digest.hexdigest()


def _subject(head: bytes) -> str:
    headers = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    found = SUBJECT.search(headers)
    if not found:
        return ""
    raw = b" ".join(found[1].split())[:1000]
    text = raw.decode("utf-8", errors="replace")
    if "=?" not in text:
        return text
    try:
        return "".join(
            piece if isinstance(piece, str) else piece.decode(charset or "utf-8", errors="replace")
            for piece, charset in decode_header(text)
        )
    except (ValueError, LookupError, TypeError, AssertionError):
        return text
