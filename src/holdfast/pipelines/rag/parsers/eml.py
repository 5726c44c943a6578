"""EML: the headers people read and the body on one page; everything else a message carries is an attachment."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from email import policy
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import Policy
from itertools import islice
from pathlib import Path

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits, check_whole
from holdfast.pipelines.rag.model import Attachment, Page
from holdfast.pipelines.rag.parsers.cleaning import clean, in_pages
from holdfast.pipelines.rag.parsers.html import decoded, title_and_text
from holdfast.pipelines.rag.parsers.naming import Names

HEADERS = ("From", "To", "Cc", "Date", "Subject")
LONGEST_HEADER = 20_000
"""Characters that the standard library may take apart: it takes a tenth of a millisecond for an address, and a letter
to a million people would take minutes."""
LONGEST_KIND = 4_000
"""The same of headers that say what a part is, of which there may be thousands."""
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, AssertionError, MessageError, RecursionError)
"""What the standard library raises over headers and parts that break the rules. Seen: all of them; the last one over
a comment in a comment in a comment."""


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the pages after the first `start`; one, unless the message is very long."""
    with _refusing_depth():
        message = read(path, limits)
        headers = [f"{name}: {value}" for name in HEADERS if (value := header(message, name))]
        text = "\n".join([*headers, "", body_of(message, limits).strip()]).strip()
        subject = header(message, "Subject")
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part, label=subject)


def count(path: Path, *, limits: Limits) -> int:  # as all parsers are called
    """Answers 1: how long the body is, only reading it would tell."""
    return 1


def attachments(path: Path, *, limits: Limits) -> Iterator[Attachment]:
    """Gives what the message carries. A message inside it is a file `name.eml`."""
    with _refusing_depth():
        yield from _attachments(path, limits)


def _attachments(path: Path, limits: Limits) -> Iterator[Attachment]:
    names = Names(limits.attachments)
    for part in _carried(read(path, limits)):
        if part.get_content_maintype() == "message":
            for inner in _inner(part):
                name = _file_name(part) or header(inner, "Subject") or "message"
                yield Attachment(names.unique(f"{name.removesuffix('.eml')}.eml"), _as_bytes(inner))
        else:
            name = _file_name(part) or "attachment" + (mimetypes.guess_extension(part.get_content_type()) or ".bin")
            yield Attachment(names.unique(name), _payload(part))


@contextmanager
def _refusing_depth() -> Iterator[None]:
    """Refuses a message whose parts nest beyond what can be walked: to be parsed takes less than to be written out."""
    try:
        yield
    except RecursionError as error:
        raise Reject("the message nests its parts too deeply; it is broken, or made to harm") from error


class _Short(Policy):
    """Cuts what a part says of its own kind: the standard library's time grows faster than its length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:LONGEST_KIND] if name.lower().startswith("content-") else value


class _Strict(_Short, policy.EmailPolicy):
    """Takes headers apart by the rules."""


class _Lenient(_Short, policy.Compat32):
    """Leaves headers as they stand."""


def read(path: Path, limits: Limits) -> Message:
    """Parses a message. Nearly everything is a message of some kind; one nested beyond reason is not."""
    check_whole(path, limits)
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    with _refusing_depth():
        try:
            return BytesParser(policy=_Strict()).parsebytes(content)
        except MALFORMED:  # over the kind of a part; then nobody takes it apart
            return BytesParser(policy=_Lenient()).parsebytes(content)


def header(message: Message, name: str) -> str:
    """Gives a header as people read it, on one line; as it stands if it breaks the rules."""
    raw = next((str(raw) for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    try:
        simple = raw.isprintable() and len(raw) <= LONGEST_HEADER  # else: bytes, folded badly, or made to take long
        by_rules = simple and isinstance(message.policy, _Strict)
        value = str(message[name] or "") if by_rules else _decoded_header(raw)
    except MALFORMED:
        value = _decoded_header(raw)
    return " ".join(clean(value).split())


def body_of(message: Message, limits: Limits) -> str:
    """Gives the body: its text parts; HTML as text where it has no other."""
    said = []
    for part in _spoken(message):
        text = decoded(_payload(part), _charset(part))
        said.append(title_and_text(text, limits)[1] if part.get_content_subtype() == "html" else text)
    return "\n\n".join(said)


def _spoken(message: Message) -> Iterator[Message]:
    """Gives the parts that are read as the body."""
    if not message.is_multipart():
        if _is_spoken(message):
            yield message
        return
    if message.get_content_maintype() == "message":
        return
    spoken = [found for part in _parts(message) if (found := list(_spoken(part)))]
    if message.get_content_subtype() == "alternative":
        plain = [found for found in spoken if all(part.get_content_subtype() != "html" for part in found)]
        spoken = (plain or spoken)[:1]
    for found in spoken:
        yield from found


def _carried(message: Message) -> Iterator[Message]:
    """Gives the parts that are files or messages of their own."""
    if message.get_content_maintype() == "message" and message.is_multipart():
        if message.get_content_subtype() != "delivery-status":
            yield message
    elif message.is_multipart():
        for part in _parts(message):
            yield from _carried(part)
    elif not _is_spoken(message) and _payload(message).strip():
        yield message


def _is_spoken(part: Message) -> bool:
    if part.get_content_maintype() == "multipart":
        return True  # its boundary is broken, so its parts are one text
    if part.get_content_maintype() != "text" or part.get_content_subtype() == "calendar":
        return False
    return _disposition(part) != "attachment" and not _file_name(part)


def _parts(message: Message) -> list[Message]:
    parts = message.get_payload()
    return [part for part in parts if isinstance(part, Message)] if isinstance(parts, list) else []


def _inner(part: Message) -> list[Message]:
    return [inner for inner in _parts(part) if inner.keys() or inner.get_payload()]


def _disposition(part: Message) -> str:
    try:
        return part.get_content_disposition() or ""
    except MALFORMED:
        return ""


def _file_name(part: Message) -> str:
    try:
        return _decoded_header(part.get_filename() or "")
    except MALFORMED:
        return ""


def _charset(part: Message) -> str | None:
    try:
        return part.get_content_charset()
    except MALFORMED:
        return None


def _payload(part: Message) -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except MALFORMED:
        payload = part.get_payload()
    if isinstance(payload, str):
        return payload.encode("utf-8", errors="surrogateescape" if payload.isascii() else "replace")
    return payload if isinstance(payload, bytes) else b""


def _decoded_header(raw: str) -> str:
    if not raw.isascii():
        raw = decoded(raw.encode("utf-8", errors="surrogateescape"))
    if "=?" not in raw:
        return raw
    try:
        pieces = decode_header(raw)
    except MALFORMED:
        return raw
    return "".join(
        piece if isinstance(piece, str) else decoded(piece, charset if charset != "unknown-8bit" else None)
        for piece, charset in pieces
    )


def _as_bytes(message: Message) -> bytes:
    try:
        return message.as_bytes(policy=policy.compat32)
    except MALFORMED:
        return message.as_string(policy=policy.compat32).encode("utf-8", errors="replace")
