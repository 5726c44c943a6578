"""MSG: a message of Outlook, as its page and what it carries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.kinds import OLE_BROKEN
from holdfast.pipelines.rag.limits import Limits, check_whole
from holdfast.pipelines.rag.model import Attachment, Page
from holdfast.pipelines.rag.parsers.cleaning import clean, in_pages
from holdfast.pipelines.rag.parsers.html import decoded, title_and_text
from holdfast.pipelines.rag.parsers.naming import Names

MESSAGE_HEADER, EMBEDDED_HEADER, ATTACHMENT_HEADER = 32, 24, 8
"""How many bytes stand before the properties of a message, of a message in a message, of an attachment."""
EMBEDDED = "__substg1.0_3701000D"

SUBJECT, SENDER, SENDER_ADDRESS, SMTP_ADDRESS = 0x0037, 0x0C1A, 0x0C1F, 0x5D01
TO, CC, HEADERS, SENT = 0x0E04, 0x0E03, 0x007D, 0x0039
BODY, HTML, HTML_TEXT = 0x1000, 0x1013, 0x1013
LONG_NAME, SHORT_NAME, DISPLAY_NAME, DATA = 0x3707, 0x3704, 0x3001, 0x3701


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the pages after the first `start`; one, unless the message is very long."""
    mail = _Mail(_storage(path, limits), MESSAGE_HEADER)
    headers = [f"{name}: {value}" for name, value in mail.headers().items() if value]
    text = "\n".join([*headers, "", mail.body(limits).strip()]).strip()
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part, label=mail.text(SUBJECT))


def count(path: Path, *, limits: Limits) -> int:  # as all parsers are called
    """Answers 1: how long the body is, only reading it would tell."""
    return 1


def attachments(path: Path, *, limits: Limits) -> Iterator[Attachment]:
    """Gives what the message carries. A message inside it is a file `name.eml`, with what that one carries."""
    names = Names(limits.attachments)
    for name, content in _carried(_Mail(_storage(path, limits), MESSAGE_HEADER), limits):
        yield Attachment(names.unique(name), content)


def _carried(mail: _Mail, limits: Limits) -> Iterator[tuple[str, bytes]]:
    for storage in mail.storage.iter_attachment_storages():
        file = _Mail(storage, ATTACHMENT_HEADER)
        name = file.text(LONG_NAME) or file.text(SHORT_NAME) or file.text(DISPLAY_NAME)
        inner = next((one for one in storage.storages if one.name == EMBEDDED), None)
        if inner is not None:
            message = _Mail(inner, EMBEDDED_HEADER)
            yield f"{(name or message.text(SUBJECT) or 'message').removesuffix('.eml')}.eml", _as_eml(message, limits)
        elif content := file.content(DATA):
            yield name or "attachment.bin", content


def _as_eml(mail: _Mail, limits: Limits) -> bytes:
    message = EmailMessage()
    for name, value in mail.headers().items():
        with suppress(ValueError, LookupError, TypeError, AttributeError):  # an address that is none
            message[name] = value
    message.set_content(clean(mail.body(limits)))
    for name, content in _carried(mail, limits):
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=clean(name))
    return message.as_bytes()


def _storage(path: Path, limits: Limits) -> Any:  # oxmsg has no types
    """Reads the tree of the file. Its streams may overlap, so their sizes are added up before any is read."""
    from olefile import OleFileIO
    from oxmsg.storage import Storage

    check_whole(path, limits)
    size = path.stat().st_size
    try:
        with OleFileIO(str(path)) as ole:
            declared = sum(ole.get_size(entry) for entry in ole.listdir())
            if declared > size:
                raise Reject(f"broken: the message claims to hold {declared:,} bytes, and the file has {size:,}")
            return Storage.from_ole(ole)
    except OLE_BROKEN as error:
        raise Reject(f"broken: the Outlook message cannot be read ({error})") from error


class _Mail:
    """The properties of a message or an attachment. One that is missing or broken is empty."""

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
        """Gives the headers people read; Outlook keeps them as properties."""
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

    def body(self, limits: Limits) -> str:
        """Gives the body as text, or its HTML as text. A body that is only RTF is not read."""
        with suppress(*OLE_BROKEN):
            if text := self._properties.str_prop_value(BODY):
                return str(text)
        source = decoded(self.content(HTML))
        with suppress(*OLE_BROKEN):
            source = source or self._properties.str_prop_value(HTML_TEXT) or ""
        return title_and_text(source, limits)[1]
