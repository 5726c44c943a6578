"""Detect the type of a file by its content. Names can be wrong: only Markdown is recognised by its name."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Literal
from zipfile import ZipFile

from holdfast.containers import ContainerLimits, detect_container, zip_archive
from holdfast.containers.detect import is_tar
from holdfast.containers.mbox import has_one_message
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import LIMITS, ExtractLimits, check_size
from holdfast.pipelines.rag.extract.safe_zip import BROKEN, USUAL_COMPRESSION

FileType = Literal[
    "pdf",
    "docx",
    "pptx",
    "xlsx",
    "html",
    "markdown",
    "text",
    "eml",
    "emlx",
    "msg",
    "doc",
    "xls",
    "ppt",
    "rtf",
    "odt",
    "ods",
    "odp",
    "epub",
    "xlsb",
    "iwork",
    "csv",
    "json",
    "xml",
    "gif",
    "bmp",
    "webp",
    "jp2",
    "heic",
    "png",
    "jpeg",
    "tiff",
    "mbox",
    "zip",
    "tar",
    "gzip",
    "bzip2",
    "xz",
    "zstd",
    "7z",
    "rar",
    "pst",
]
"""The file types that can be read: by a parser, or as a container."""


FILE_TYPES_WITH_PAGES: tuple[FileType, ...] = (
    *("pdf", "pptx", "xlsx", "ppt", "xls", "xlsb", "ods", "odp", "iwork", "tiff"),
)
"""Search results of these types show the page number, even if there is only one page."""

CONTAINER_LIMITS = ContainerLimits()
"""The limits of containers."""

HEAD = 64 * 1024
"""Bytes at the start of a file that are looked at."""
SAMPLE = 4 * 1024
"""Bytes in the middle and at the end of a text that are looked at."""
MAX_ZEROS = 8
"""Zero bytes that such a sample of a text may have: logs of a crashed machine have some."""
MARKDOWN_NAMES = {".md", ".markdown", ".mdown", ".mkd", ".mkdn"}

PICTURES: tuple[tuple[bytes, FileType], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
    (b"\xff\x4f\xff\x51", "jp2"),
)
OFFICE: tuple[tuple[str, FileType], ...] = (
    ("word/document.xml", "docx"),
    ("ppt/presentation.xml", "pptx"),
    ("xl/workbook.xml", "xlsx"),
)
DECLARED: tuple[tuple[bytes, FileType], ...] = (
    (b"opendocument.text", "odt"),
    (b"opendocument.spreadsheet", "ods"),
    (b"opendocument.presentation", "odp"),
)
"""What OpenDocument files declare. Templates have the same names with an ending."""
OLE_STREAMS: tuple[tuple[str, FileType], ...] = (
    ("worddocument", "doc"),
    ("workbook", "xls"),
    ("book", "xls"),
    ("powerpoint document", "ppt"),
)
IWORK = {"index.zip", "index.apxl", "index.xml", "quicklook/preview.pdf"}
"""Entries that only files of Apple's Pages, Numbers and Keynote have."""
RECORD_NAMES: dict[str, FileType] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".xml": "xml",
}
"""Names of files with records. Without such a name, text with commas is text."""
HEIC = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
UNSUPPORTED = (
    (b"\x7fELF", "a program; it has no text to search"),
    (b"MZ", "a Windows program; it has no text to search"),
    (b"\xcf\xfa\xed\xfe", "a program; it has no text to search"),
    (b"\xca\xfe\xba\xbe", "a program; it has no text to search"),
    (b"%!PS", "a PostScript file; convert it to PDF"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"ID3", "a sound file"),
    (b"OggS", "a sound or video file"),
    (b"\x1aE\xdf\xa3", "a video file"),
)
MAIL_HEADERS = {
    *("from", "to", "cc", "bcc", "subject", "date", "received", "message-id", "mime-version", "content-type"),
    *("content-transfer-encoding", "return-path", "delivered-to", "reply-to", "sender", "in-reply-to", "references"),
    *("x-mailer", "x-original-to", "envelope-to", "list-id", "dkim-signature", "resent-from"),
}
ONLY_MAIL_HEADERS = MAIL_HEADERS - {"subject", "date", "sender", "references", "content-type"}
HEADER = re.compile(r"([!-9;-~]+)[ \t]*:")
TAG = re.compile(
    rb"<(html|head|body|title|meta|link|style|script|table|div|span|p|a|h[1-6]|ul|ol|br|section|article|main)\b[^<]*>",
    re.IGNORECASE,
)
PREAMBLE = re.compile(rb"(\s|<\?xml[^>]*>|<!--.*?-->)*", re.DOTALL)


EMLX = re.compile(rb"\d{1,10}[ \t]*\r?\n")
"""The first line of a message of Apple Mail: its length in bytes. After the message comes what Mail knows about it."""
OLE_BROKEN = (OSError, ValueError, LookupError, struct.error, RecursionError, OverflowError, TypeError, AttributeError)
"""What the libraries for old Office and Outlook files raise for damaged files. All but the last two were seen."""
UNPRINTABLE = bytes([*range(1, 9), *range(14, 27), *range(28, 32), 127])


class UnsupportedType(Reject):
    """No parser reads files of this type."""


def detect_file_type(path: Path, limits: ExtractLimits = LIMITS) -> FileType:
    """Return the type of a file by its content. Reject any other file with a reason that says what it is."""
    check_size(path, limits)
    with path.open("rb") as file:
        head = file.read(HEAD)
    if is_tar(head):
        return "tar"
    if re.search(rb"(^|[\r\n\x00])%PDF-", head[:1024]) or head[:1024].lstrip().startswith(b"%PDF-"):
        return "pdf"
    for magic, kind in PICTURES:
        if head.startswith(magic):
            return kind
    if (picture := _kind_of_picture(head)) is not None:
        return picture
    if head.startswith(b"{\\rtf"):
        return "rtf"
    if head.startswith((b"PK\x03\x04", b"PK00PK\x03\x04")):
        return _kind_of_zip(path, limits)
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return _kind_of_ole(path)
    container = detect_container(head)
    if container is not None and not (container == "mbox" and has_one_message(path)):
        return container
    _reject_unsupported(head)
    return _kind_of_text(head, path)


def _kind_of_picture(head: bytes) -> FileType | None:
    """Detect pictures that do not begin with a mark of their own."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[4:8] == b"ftyp" and head[8:12] in HEIC:
        return "heic"
    is_bitmap = head[:2] == b"BM" and len(head) > 30 and head[6:10] == b"\x00\x00\x00\x00"
    return "bmp" if is_bitmap and head[14:18] in (b"\x0c\0\0\0", b"(\0\0\0", b"l\0\0\0", b"|\0\0\0") else None


def _kind_of_zip(path: Path, limits: ExtractLimits) -> FileType:
    with zip_archive.open_zip(path, max_entries=CONTAINER_LIMITS.entries) as archive:
        names = {name.lower() for name in archive.namelist()}
        mimetype = _mimetype(archive) if "mimetype" in names else b""
    for part, kind in OFFICE:
        if part in names:
            return kind
    if "[content_types].xml" in names:
        return _kind_of_unusual_office_file(names)
    for name, kind in DECLARED:
        if name in mimetype:
            return kind
    if b"opendocument" in mimetype:
        raise UnsupportedType("an OpenDocument file that is no text, sheet or presentation; save it as PDF")
    if b"epub" in mimetype:
        return "epub"
    if names & IWORK or ("index/document.iwa" in names):
        return "iwork"
    return "zip"


def _mimetype(archive: ZipFile) -> bytes:
    """Return the type that OpenDocument and EPUB files declare."""
    try:
        if archive.getinfo("mimetype").compress_type not in USUAL_COMPRESSION:
            return b""
        with archive.open("mimetype") as file:
            return file.read(200)
    except (*BROKEN, KeyError):
        return b""


def _kind_of_unusual_office_file(names: set[str]) -> FileType:
    """Detect an Office file whose main part has an unusual name. The parser finds that part by its relationship."""
    if "xl/workbook.bin" in names:
        return "xlsb"
    for folder, kind in (("word/", "docx"), ("ppt/", "pptx"), ("xl/", "xlsx")):
        if any(name.startswith(folder) for name in names):
            return kind  # type: ignore[return-value]  # a loop over literals forgets that they are
    raise Reject("an Office Open XML package of an unsupported type: not a Word, PowerPoint or Excel file")


def _kind_of_ole(path: Path) -> FileType:
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as ole:
            names = {entry[0].lower() for entry in ole.listdir(streams=True, storages=True)}
    except OLE_BROKEN as error:
        raise Reject(f"broken: it starts like an old Office or Outlook file but cannot be opened ({error})") from error
    if "__properties_version1.0" in names:
        return "msg"
    if names & {"encryptedpackage", "encryptioninfo"}:
        raise Reject("encrypted; remove the password")
    for stream, kind in OLE_STREAMS:
        if stream in names:
            return kind
    raise UnsupportedType("an OLE file of an unsupported type")


def _reject_unsupported(head: bytes) -> None:
    for magic, what in UNSUPPORTED:
        if head.startswith(magic) and (magic != b"MZ" or b"\x00" in head[:64]):
            raise UnsupportedType(what)
    if head[4:8] == b"ftyp":
        raise UnsupportedType("a video or a sound")
    if head[:4] == b"RIFF":
        raise UnsupportedType("a video or a sound")


def _kind_of_text(head: bytes, path: Path) -> FileType:
    if (length := EMLX.match(head)) and _is_mail(head[length.end() :]):
        return "emlx"
    if _is_mail(head):
        return "eml"
    if not _is_text(head) or _turns_binary(path, head):
        raise UnsupportedType("an unsupported file type: it looks like binary data")
    if not head.strip(b" \t\r\n\x0b\x0c\x00\xef\xbb\xbf\xff\xfe"):
        _reject_blank(path)
    plain = head.replace(b"\x00", b"") if b"\x00" in head else head  # UTF-16, seen as the ASCII in it
    plain = plain.lstrip(b"\xef\xbb\xbf\xff\xfe")
    begins = plain[PREAMBLE.match(plain).end() :]  # type: ignore[union-attr]  # it matches the empty string
    if begins[:14].lower().startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "html"
    if path.suffix.lower() in MARKDOWN_NAMES:
        return "markdown"
    if (records := RECORD_NAMES.get(path.suffix.lower())) is not None:
        return records
    if plain.startswith(b"<?xml"):
        return "html" if TAG.search(begins[:4096]) and b"<html" in begins[:4096].lower() else "xml"
    if begins.startswith(b"<") and TAG.search(begins[:4096]):
        return "html"
    return "text"


def _is_mail(head: bytes) -> bool:
    """Check for e-mail headers at the start: at least two, and one that only e-mails have."""
    found = set()
    for number, line in enumerate(head.decode("latin-1").lstrip("\ufeff\r\n").removeprefix("ï»¿").splitlines()):
        if number == 0 and line.startswith(("From ", ">From ")):
            continue
        if not line.strip():
            break
        if match := HEADER.match(line):
            found.add(match[1].lower())
        elif number == 0:
            return False
    return len(found & MAIL_HEADERS) >= 2 and bool(found & ONLY_MAIL_HEADERS)


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _is_bare_utf16(head):
        return True
    if b"\x00" in head:
        return False
    try:
        head[:-4].decode("utf-8") if len(head) == HEAD else head.decode("utf-8")  # the last character may be cut off
    except UnicodeDecodeError as error:
        if error.end < len(head) - 4:
            return _printable(head) >= 0.95
    return _printable(head) >= 0.9


def _turns_binary(path: Path, head: bytes) -> bool:
    """Return True if a file begins like a text and goes on like a program: in its middle or at its end."""
    size = path.stat().st_size
    if size <= HEAD or head.startswith((b"\xff\xfe", b"\xfe\xff")) or _is_bare_utf16(head):
        return False
    with path.open("rb") as file:
        for place in (size // 2, size - SAMPLE):
            file.seek(max(place, 0))
            sample = file.read(SAMPLE)
            if sample.count(0) > MAX_ZEROS or _printable(sample) < 0.8:
                return True
    return False


def _is_bare_utf16(head: bytes) -> bool:
    """Check for UTF-16 without a byte order mark: nearly every second byte is zero, and no others."""
    if len(head) < 4 or b"\x00" not in head:
        return False
    even, odd = head[0::2].count(0) / len(head[0::2]), head[1::2].count(0) / len(head[1::2])
    return max(even, odd) > 0.6 and min(even, odd) < 0.01


def _printable(head: bytes) -> float:
    return len(head.translate(None, UNPRINTABLE)) / len(head)


def _reject_blank(path: Path) -> None:
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            if piece.strip(b" \t\r\n\x0b\x0c\x00\xef\xbb\xbf\xff\xfe"):
                return
    raise Reject("the file is empty: it has only white space")
