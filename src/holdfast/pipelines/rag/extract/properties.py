"""What a file says about itself: author, title, dates, and the headers of a message. Searches can filter by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import FileType
from holdfast.pipelines.rag.extract.limits import LIMITS

MAX_VALUE = 500
"""Characters of a value."""
PDF_NAMES = {
    "Title": "title",
    "Author": "author",
    "Subject": "subject",
    "Keywords": "keywords",
    "CreationDate": "created",
    "ModDate": "modified",
}
OFFICE_NAMES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "created": "created",
    "modified": "modified",
    "lastModifiedBy": "modified_by",
}
OPEN_DOCUMENT_NAMES = {
    "title": "title",
    "initial-creator": "author",
    "subject": "subject",
    "keyword": "keywords",
    "creation-date": "created",
    "date": "modified",
    "creator": "modified_by",
}
_PDF_DATE = re.compile(r"D?:?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?")


def file_properties(path: Path, kind: FileType) -> dict[str, str]:
    """Return what a file says about itself, by name. Empty values are left out.

    Dates are written as `2024-03-01` or `2024-03-01T12:00:00`, as far as the file has them.

    Args:
        path: The file.
        kind: Its type. Types without properties have none.
    """
    read = READERS.get(kind)
    if read is None:
        return {}
    found: dict[str, str] = {}
    with suppress(Reject, ValueError, LookupError, TypeError, OSError):  # the parser says what is wrong with the file
        found = {name: " ".join(value.split())[:MAX_VALUE] for name, value in read(path).items()}
    return {name: value for name, value in found.items() if value}


def _of_pdf(path: Path) -> dict[str, str]:
    from holdfast.pipelines.rag.extract.parsers.pdf import read_properties

    values = {PDF_NAMES[name]: value for name, value in read_properties(path, LIMITS).items() if name in PDF_NAMES}
    return values | {name: _pdf_date(values[name]) for name in ("created", "modified") if name in values}


def _pdf_date(text: str) -> str:
    found = _PDF_DATE.match(text)
    if not found:
        return text
    year, month, day, hour, minute, second = found.groups()
    time = f"T{hour}:{minute}:{second or '00'}" if hour else ""
    return f"{year}-{month}-{day}{time}"


def _of_office(path: Path) -> dict[str, str]:
    return _of_xml(path, "docProps/core.xml", OFFICE_NAMES)


def _of_open_document(path: Path) -> dict[str, str]:
    return _of_xml(path, "meta.xml", OPEN_DOCUMENT_NAMES)


def _of_xml(path: Path, part: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of elements, by the names of the properties."""
    from holdfast.pipelines.rag.extract.parsers.office_package import open_package

    found: dict[str, str] = {}
    with open_package(path, LIMITS) as package:
        inside = ""
        for event in package.events(part):
            if event.kind == "start":
                inside = names.get(event.name, "")
            elif event.kind == "end":
                inside = ""
            elif inside:
                found[inside] = (found.get(inside, "") + event.name)[:MAX_VALUE]
    return found


def _of_message(path: Path) -> dict[str, str]:
    from holdfast.pipelines.rag.extract.parsers.eml import header, read

    message = read(path, LIMITS)
    sender, to, date = (header(message, name) for name in ("From", "To", "Date"))
    found = {"message_id": header(message, "Message-ID")}
    name, address = next(iter(getaddresses([sender[: 4 * MAX_VALUE]])), ("", ""))
    found |= {"author": name or address, "from": address}
    found["to"] = ", ".join(address for _, address in getaddresses([to[: 4 * MAX_VALUE]]) if address)
    with suppress(ValueError, TypeError, OverflowError):  # many messages have dates of no known form
        found["created"] = parsedate_to_datetime(date).isoformat()
    return found


READERS: Mapping[FileType, Callable[[Path], dict[str, str]]] = {
    "pdf": _of_pdf,
    "docx": _of_office,
    "pptx": _of_office,
    "xlsx": _of_office,
    "odt": _of_open_document,
    "ods": _of_open_document,
    "odp": _of_open_document,
    "eml": _of_message,
    "emlx": _of_message,
}
