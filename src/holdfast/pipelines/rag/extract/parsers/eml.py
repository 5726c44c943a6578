"""EML: the main headers and the body as one page. All other parts are attachments."""

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
from holdfast.pipelines.rag.extract.file_type import EMLX
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_whole
from holdfast.pipelines.rag.extract.parsers.cleaning import AttachmentNames, clean, in_pages
from holdfast.pipelines.rag.extract.parsers.html import decoded, title_and_text
from holdfast.pipelines.rag.values import Attachment, Page

HEADERS = ("From", "To", "Cc", "Date", "Subject")
MAX_HEADER = 20_000
"""Characters of a header that the standard library parses. It needs 0.1 ms for an address, so a message to a million
people would take minutes."""
MAX_CONTENT_HEADER = 4_000
"""The same for Content-* headers. A message may have thousands of them."""
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, AssertionError, MessageError, RecursionError)
"""What the standard library raises for malformed headers and parts. All were seen; the last one for deeply nested
comments."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`. Only a very long message has more than one."""
    with _rejecting_deep_nesting():
        message = read(path, limits)
        headers = [f"{name}: {value}" for name in HEADERS if (value := header(message, name))]
        text = "\n".join([*headers, "", body_of(message, limits).strip()]).strip()
        subject = header(message, "Subject")
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part, label=subject)


def count(path: Path, *, limits: ExtractLimits) -> int:  # the signature is that of all parsers
    """Return 1: the length of the body is not known before it is read."""
    return 1


def attachments(path: Path, *, limits: ExtractLimits) -> Iterator[Attachment]:
    """Yield the attachments. A message inside the message is a file `name.eml`."""
    with _rejecting_deep_nesting():
        yield from _attachments(path, limits)


def _attachments(path: Path, limits: ExtractLimits) -> Iterator[Attachment]:
    names = AttachmentNames(limits.attachments)
    for part in _attached_parts(read(path, limits)):
        if part.get_content_maintype() == "message":
            for inner in _inner(part):
                name = _file_name(part) or header(inner, "Subject") or "message"
                yield Attachment(names.unique(f"{name.removesuffix('.eml')}.eml"), _as_bytes(inner))
        else:
            name = _file_name(part) or "attachment" + (mimetypes.guess_extension(part.get_content_type()) or ".bin")
            media_type = part.get_content_type()
            inline = media_type.startswith("image/") and (bool(part["Content-ID"]) or _disposition(part) == "inline")
            yield Attachment(names.unique(name), _payload(part), media_type, inline)


@contextmanager
def _rejecting_deep_nesting() -> Iterator[None]:
    """Reject a message whose parts are nested too deeply: parsing needs less recursion than walking and writing."""
    try:
        yield
    except RecursionError as error:
        raise Reject("the parts of the message are nested too deeply; it is broken, or made to do harm") from error


class _ShortContentHeaders(Policy):
    """Cut Content-* headers: the time that the standard library needs grows faster than their length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_CONTENT_HEADER] if name.lower().startswith("content-") else value


class _Strict(_ShortContentHeaders, policy.EmailPolicy):
    """Parse headers by the standard."""


class _Lenient(_ShortContentHeaders, policy.Compat32):
    """Do not parse headers."""


def read(path: Path, limits: ExtractLimits) -> Message:
    """Parse a message. Reject it if it is nested too deeply."""
    check_whole(path, limits)
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if length := EMLX.match(content):
        content = content[length.end() :][: int(length[0])]
    with _rejecting_deep_nesting():
        try:
            return BytesParser(policy=_Strict()).parsebytes(content)
        except MALFORMED:  # raised for a Content-* header; do not parse headers then
            return BytesParser(policy=_Lenient()).parsebytes(content)


def header(message: Message, name: str) -> str:
    """Return a header in decoded form, on one line; unparsed if it is malformed."""
    raw = next((str(raw) for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    try:
        simple = raw.isprintable() and len(raw) <= MAX_HEADER  # else: raw bytes, badly folded, or made to take long
        by_rules = simple and isinstance(message.policy, _Strict)
        value = str(message[name] or "") if by_rules else _decoded_header(raw)
    except MALFORMED:
        value = _decoded_header(raw)
    return " ".join(clean(value).split())


def body_of(message: Message, limits: ExtractLimits) -> str:
    """Return the body: its text parts; HTML converted to text if there is no plain text."""
    texts = []
    for part in _body_parts(message):
        text = decoded(_payload(part), _charset(part))
        texts.append(title_and_text(text, limits)[1] if part.get_content_subtype() == "html" else text)
    return "\n\n".join(texts)


def _body_parts(message: Message) -> Iterator[Message]:
    """Yield the parts that belong to the body."""
    if not message.is_multipart():
        if _is_body(message):
            yield message
        return
    if message.get_content_maintype() == "message":
        return
    found_bodies = [found for part in _parts(message) if (found := list(_body_parts(part)))]
    if message.get_content_subtype() == "alternative":
        plain = [found for found in found_bodies if all(part.get_content_subtype() != "html" for part in found)]
        found_bodies = (plain or found_bodies)[:1]
    for found in found_bodies:
        yield from found


def _attached_parts(message: Message) -> Iterator[Message]:
    """Yield the parts that are files or messages."""
    if message.get_content_maintype() == "message" and message.is_multipart():
        if message.get_content_subtype() != "delivery-status":
            yield message
    elif message.is_multipart():
        for part in _parts(message):
            yield from _attached_parts(part)
    elif not _is_body(message) and _payload(message).strip():
        yield message


def _is_body(part: Message) -> bool:
    if part.get_content_maintype() == "multipart":
        return True  # its boundary is broken, so its parts are read as one text
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
