"""MSG: an Outlook message, its headers and body as one page, and its attachments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import OLE_BROKEN
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_whole
from holdfast.pipelines.rag.extract.parsers.cleaning import AttachmentNames, clean, in_pages
from holdfast.pipelines.rag.extract.parsers.html import decoded, title_and_text
from holdfast.pipelines.rag.values import Attachment, Page

MESSAGE_HEADER, EMBEDDED_HEADER, ATTACHMENT_HEADER = 32, 24, 8
"""Bytes before the properties of a message, of an embedded message, and of an attachment."""
EMBEDDED = "__substg1.0_3701000D"

SUBJECT, SENDER, SENDER_ADDRESS, SMTP_ADDRESS = 0x0037, 0x0C1A, 0x0C1F, 0x5D01
TO, CC, HEADERS, SENT = 0x0E04, 0x0E03, 0x007D, 0x0039
BODY, HTML, HTML_TEXT = 0x1000, 0x1013, 0x1013
LONG_NAME, SHORT_NAME, DISPLAY_NAME, DATA = 0x3707, 0x3704, 0x3001, 0x3701


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`. Only a very long message has more than one."""
    mail = _Properties(_storage(path, limits), MESSAGE_HEADER)
    headers = [f"{name}: {value}" for name, value in mail.headers().items() if value]
    text = "\n".join([*headers, "", mail.body(limits).strip()]).strip()
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part, label=mail.text(SUBJECT))


def count(path: Path, *, limits: ExtractLimits) -> int:  # the signature is that of all parsers
    """Return 1: the length of the body is not known before it is read."""
    return 1


def attachments(path: Path, *, limits: ExtractLimits) -> Iterator[Attachment]:
    """Yield the attachments. A message inside the message is a file `name.eml`, with its own attachments."""
    names = AttachmentNames(limits.attachments)
    for name, content in _attached_files(_Properties(_storage(path, limits), MESSAGE_HEADER), limits):
        yield Attachment(names.unique(name), content)


def _attached_files(mail: _Properties, limits: ExtractLimits) -> Iterator[tuple[str, bytes]]:
    for storage in mail.storage.iter_attachment_storages():
        file = _Properties(storage, ATTACHMENT_HEADER)
        name = file.text(LONG_NAME) or file.text(SHORT_NAME) or file.text(DISPLAY_NAME)
        inner = next((one for one in storage.storages if one.name == EMBEDDED), None)
        if inner is not None:
            message = _Properties(inner, EMBEDDED_HEADER)
            yield f"{(name or message.text(SUBJECT) or 'message').removesuffix('.eml')}.eml", _as_eml(message, limits)
        elif content := file.content(DATA):
            yield name or "attachment.bin", content


def _as_eml(mail: _Properties, limits: ExtractLimits) -> bytes:
    message = EmailMessage()
    for name, value in mail.headers().items():
        with suppress(ValueError, LookupError, TypeError, AttributeError):  # not a valid address
            message[name] = value
    message.set_content(clean(mail.body(limits)))
    for name, content in _attached_files(mail, limits):
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=clean(name))
    return message.as_bytes()


def _storage(path: Path, limits: ExtractLimits) -> Any:  # oxmsg has no type annotations
    """Read the storage tree of the file. Streams may overlap, so their sizes are added up before any is read."""
    from olefile import OleFileIO
    from oxmsg.storage import Storage

    check_whole(path, limits)
    size = path.stat().st_size
    try:
        with OleFileIO(str(path)) as ole:
            declared = sum(ole.get_size(entry) for entry in ole.listdir())
            if declared > size:
                raise Reject(f"broken: the message claims {declared:,} bytes of content, but the file has {size:,}")
            return Storage.from_ole(ole)
    except OLE_BROKEN as error:
        raise Reject(f"broken: the Outlook message cannot be read ({error})") from error


class _Properties:
    """The properties of a message or an attachment. A missing or broken property is empty."""

    def __init__(self, storage: Any, header: int) -> None:
        from oxmsg.properties import Properties

        self.storage = storage
        self._properties = Properties(storage, properties_header_offset=header)

    def text(self, property_: int) -> str:
        with suppress(*OLE_BROKEN):
            return " ".join(clean(self._properties.str_prop_value(property_) or "").split())
        return ""

    def content(self, property_: int) -> bytes:
        with suppress(*OLE_BROKEN):
            return self._properties.binary_prop_value(property_) or b""
        return b""

    def headers(self) -> dict[str, str]:
        """Return the main headers. Outlook stores them as properties."""
        address = self.text(SMTP_ADDRESS) or self.text(SENDER_ADDRESS)
        sent = None
        with suppress(*OLE_BROKEN):
            sent = self._properties.date_prop_value(SENT)
        return {
            "From": f"{self.text(SENDER)} <{address}>" if "@" in address else self.text(SENDER) or address,
            "To": self.text(TO),
            "Cc": self.text(CC),
            "Date": sent.isoformat(sep=" ") if sent else "",
            "Subject": self.text(SUBJECT),
        }

    def body(self, limits: ExtractLimits) -> str:
        """Return the body as text, or its HTML as text. A body that is only RTF is not read."""
        with suppress(*OLE_BROKEN):
            if text := self._properties.str_prop_value(BODY):
                return str(text)
        source = decoded(self.content(HTML))
        with suppress(*OLE_BROKEN):
            source = source or self._properties.str_prop_value(HTML_TEXT) or ""
        return title_and_text(source, limits)[1]
