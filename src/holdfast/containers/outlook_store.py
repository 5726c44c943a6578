"""Outlook data files (PST and OST), with the package libpff-python. Each message is written as EML."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email import message_from_string
from email.message import EmailMessage
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.containers.entry import ContainerLimits, Entry
from holdfast.containers.names import message_name, safe_name
from holdfast.core.distribution import install_command
from holdfast.core.errors import Reject

BROKEN = (OSError, ValueError, RuntimeError, MemoryError, OverflowError, TypeError, AttributeError)
"""What libpff raises for damaged files and items, and for items that are no messages."""
MAX_DEPTH = 100
LONG_NAME, SHORT_NAME, DISPLAY_NAME, MIME_TYPE = 0x3707, 0x3704, 0x3001, 0x370E
DISPLAY_TO, DISPLAY_CC = 0x0E04, 0x0E03
KEPT_HEADERS = {
    *("from", "to", "cc", "bcc", "subject", "date", "message-id", "in-reply-to", "references", "reply-to", "sender"),
}
Place = list[int]
"""A message: the places of its folders in each other, and its own place in the last one."""


@contextmanager
def open_file(path: Path, limits: ContainerLimits, _name: str) -> Iterator[OutlookStore]:
    """Open an Outlook data file."""
    try:
        import pypff
    except ImportError as error:
        raise Reject(
            f"Outlook data files need the package libpff-python: {install_command('pst')}; "
            "or export the messages as EML or MSG"
        ) from error
    file = pypff.file()
    try:
        file.open(str(path))
    except BROKEN as error:
        raise Reject(f"broken: the Outlook data file cannot be opened ({error})") from error
    try:
        yield OutlookStore(file, limits)
    finally:
        with suppress(*BROKEN):
            file.close()


class OutlookStore:
    """The messages of an Outlook data file, and its calendar entries, contacts and tasks."""

    def __init__(self, file: Any, limits: ContainerLimits) -> None:  # libpff has no type annotations
        self._file = file
        self._limits = limits

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the messages, folder by folder. `resume_at` is how many there were before."""
        skipped = resume_at or 0
        for number, (place, folders, read) in enumerate(self._places(), 1):
            if number <= skipped or (message := _value(read)) is None:
                continue
            subject = str(_attribute(message, "subject") or "")
            name = "/".join([*map(safe_name, folders), message_name(number, subject)])
            yield Entry(name, place, -1, _fingerprint(message), number)

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write a message as EML."""
        *folders, last = position
        try:
            folder = self._file.get_root_folder()
            for place in folders:
                folder = folder.get_sub_folder(place)
            message = folder.get_sub_message(last)
        except BROKEN as error:
            raise Reject(f"broken: the message cannot be read ({error})") from error
        target.write(_as_eml(message, self._limits))

    def _places(self) -> Iterator[tuple[Place, list[str], Callable[[], Any]]]:
        """Yield the place of each message, its folders, and how to read it."""
        try:
            root = self._file.get_root_folder()
        except BROKEN as error:
            raise Reject(f"broken: the folders of the Outlook data file cannot be read ({error})") from error
        if root is not None:
            yield from _walk(root, [], [])


def _walk(folder: Any, place: Place, names: list[str]) -> Iterator[tuple[Place, list[str], Callable[[], Any]]]:
    for index in range(_attribute(folder, "number_of_sub_messages") or 0):
        yield [*place, index], names, partial(folder.get_sub_message, index)
    for index in range(_attribute(folder, "number_of_sub_folders") or 0 if len(place) < MAX_DEPTH else 0):
        inner = _value(partial(folder.get_sub_folder, index))
        if inner is not None:
            name = str(_attribute(inner, "name") or "")
            yield from _walk(inner, [*place, index], [*names, name] if name else names)


def _value(read: Callable[[], Any]) -> Any:
    """Return a value, or None if it cannot be read."""
    try:
        return read()
    except BROKEN:
        return None


def _attribute(item: Any, name: str) -> Any:
    """Return an attribute, or None if it cannot be read."""
    return _value(partial(getattr, item, name))


def _content(attachment: Any) -> Any:
    return attachment.read_buffer(attachment.size)


def _entry(records: Any, number: int) -> Any:
    return records.get_entry(number)


def _string(entry: Any) -> Any:
    return entry.get_data_as_string()


def _modified(message: Any) -> Any:
    return message.get_modification_time_as_integer()


def _fingerprint(message: Any) -> str:
    parts = [
        _attribute(message, "identifier"),
        _value(partial(_modified, message)),
        _attribute(message, "subject"),
        _attribute(message, "number_of_attachments"),
    ]
    return blake2b(repr(parts).encode(errors="replace"), digest_size=16).hexdigest()


def _as_eml(message: Any, limits: ContainerLimits) -> bytes:
    eml = EmailMessage()
    for name, value in _headers(message):
        with suppress(ValueError, LookupError, TypeError, AttributeError, IndexError, AssertionError):
            eml[name] = " ".join(value.split())[:4000]
    text = _text(_attribute(message, "plain_text_body"))
    html = _text(_attribute(message, "html_body"))
    if not text and not html:
        text = _rtf_text(_attribute(message, "rtf_body"))
    eml.set_content(_storable(text))
    if html:
        eml.add_alternative(_storable(html), subtype="html")
    size = 0
    for index in range(_attribute(message, "number_of_attachments") or 0):
        attachment = _value(partial(message.get_attachment, index))
        content = _value(partial(_content, attachment))
        if not content:
            continue
        size += len(content)
        if size > limits.entry_bytes:
            raise Reject(f"the attachments of the message are too large: more than {limits.entry_bytes >> 20:,} MiB")
        name = _attachment_name(attachment) or f"attachment {index + 1}"
        main, _, sub = (mimetypes.guess_type(name)[0] or "application/octet-stream").partition("/")
        if main in ("message", "multipart", "text"):
            main, sub = "application", "octet-stream"
        eml.add_attachment(content, maintype=main, subtype=sub, filename=safe_name(name).rpartition("/")[2])
    return eml.as_bytes()


def _headers(message: Any) -> Iterator[tuple[str, str]]:
    raw = _attribute(message, "transport_headers")
    found = set()
    if raw:
        for name, value in message_from_string(_text(raw)).items():
            if name.lower() in KEPT_HEADERS and name.lower() not in found:
                found.add(name.lower())
                yield name, str(value)
    for name, read in (
        ("From", lambda: message.sender_name),
        ("To", lambda: _property(message, DISPLAY_TO)),
        ("Cc", lambda: _property(message, DISPLAY_CC)),
        ("Subject", lambda: message.subject),
        ("Date", lambda: message.client_submit_time or message.delivery_time or message.creation_time),
    ):
        if name.lower() not in found and (value := _value(read)):
            yield name, str(value)


def _property(item: Any, which: int) -> str:
    """Return a text property by its number."""
    for index in range(_attribute(item, "number_of_record_sets") or 0):
        records = _value(partial(item.get_record_set, index))
        for number in range(_attribute(records, "number_of_entries") or 0):
            entry = _value(partial(_entry, records, number))
            if _attribute(entry, "entry_type") == which:
                return str(_value(partial(_string, entry)) or "")
    return ""


def _attachment_name(attachment: Any) -> str:
    name = _attribute(attachment, "long_filename")
    return str(name or "") or next(
        (text for which in (LONG_NAME, SHORT_NAME, DISPLAY_NAME) if (text := _property(attachment, which))), ""
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        return ""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("cp1252", errors="replace")


def _rtf_text(value: Any) -> str:
    try:
        from striprtf import striprtf
    except ImportError:
        return ""
    rtf_to_text: Any = striprtf.rtf_to_text  # it has no type annotations
    try:
        return str(rtf_to_text(_text(value), errors="replace")) if value else ""
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def _storable(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode().replace("\x00", "")
