"""Files of every type that has a parser, with random damage."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import strategies as st

pytest.importorskip("selectolax", reason="parsers need the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import FileType, detect_file_type
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers import attachments_of, page_count, pages_of
from holdfast.pipelines.rag.extract.parsers.eml import body_of, header, read
from holdfast.pipelines.rag.extract.parsers.html import decoded, title_and_text
from holdfast.pipelines.rag.values import Page
from tests.fuzz.inputs import scratch_folder, texts, write_scratch_file
from tests.fuzz.target import mutated, takes, takes_bytes
from tests.support import more_sample_files, sample_files

PAGES = "A file is read as pages of clean text, or rejected with a reason, within seconds and with little memory."
LIMITS = ExtractLimits(whole_bytes=4 << 20, zip_bytes=64 << 20, characters=20_000_000, megapixels=1)

MAIL = b"""From: "A. B" <a@example.org>
To: c@example.org, =?utf-8?q?D=C3=A9?= <d@example.org>
Subject: =?utf-8?b?VGlkZXM=?=
Date: Mon, 16 Nov 2026 12:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b1"

--b1
Content-Type: multipart/alternative; boundary=b2

--b2
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

T=EDdes
--b2
Content-Type: text/html; charset="utf-8"

<p>Tides</p>
--b2--
--b1
Content-Type: application/pdf; name*=utf-8''%e2%82%ac.pdf
Content-Disposition: attachment; filename="../../a.pdf"
Content-Transfer-Encoding: base64

JVBERi0=
--b1
Content-Type: message/rfc822

Subject: inner

text
--b1--
"""
HTML = b"""<!doctype html><html><head><meta charset="utf-8"><title>Tides</title></head><body><h1>Tides</h1>
<table><tr><td>a</td><td><table><tr><td>b</td></tr></table></td></tr></table><pre> x
 y</pre><ul><li>one<li>two</ul><script>no()</script><p>A &amp; B<br>C</body></html>"""
MARKDOWN = b"# Tides\n\nSpring tides.\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## Ebb ##\n\ftext\n"


def _outcome(path: Path, kind: FileType | None = None) -> list[Page]:
    kind = kind or detect_file_type(path, LIMITS)
    page_count(path, kind, LIMITS)
    pages = list(pages_of(path, kind=kind, limits=LIMITS))
    for page in pages:
        assert "\0" not in page.text
        page.text.encode()
        page.label.encode()
    for one in attachments_of(path, kind=kind, limits=LIMITS):
        assert "/" not in one.name
        assert one.name not in ("", ".", "..")
        one.name.encode()
    return pages


@cache
def _office() -> dict[str, dict[str, bytes]]:
    """Return the parts of an Office file of each type, by suffix."""
    note = ("n", "footnotes", "footnotes.xml")
    with TemporaryDirectory() as folder:
        word = sample_files.docx(
            Path(folder) / "a.docx",
            sample_files.paragraph("tides")
            + "<w:tbl><w:tr><w:tc>"
            + sample_files.paragraph("ebb")
            + "</w:tc></w:tr></w:tbl>",
            {"word/footnotes.xml": sample_files.word_part("footnotes", '<w:footnote w:id="1"></w:footnote>')},
            [note],
        )
        slides = sample_files.pptx(Path(folder) / "a.pptx", [sample_files.slide(sample_files.shape("tides", "title"))])
        sheets = sample_files.xlsx(
            Path(folder) / "a.xlsx", {"one": sample_files.row("a", "b"), "two": sample_files.row("c")}
        )
        return {file.suffix: _parts(file) for file in (word, slides, sheets)}


def _parts(path: Path) -> dict[str, bytes]:
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _whole(suffix: str) -> bytes:
    sample_files.write_zip(scratch_folder() / f"seed{suffix}", _office()[suffix])
    return (scratch_folder() / f"seed{suffix}").read_bytes()


@cache
def _message() -> bytes:
    inner = sample_files.properties({0x0037: "inner", 0x1000: "text"}, 24)
    attached = sample_files.properties({0x3707: "a.txt", 0x3701: b"attached"}, 8)
    carried = sample_files.properties({0x3001: "message"}, 8) | {"__substg1.0_3701000D": inner}
    body = {0x0037: "Tides", 0x1000: "text", 0x0C1A: "A. B", 0x0E04: "c@example.org", 0x1013: b"<p>html"}
    tree: Any = sample_files.properties(body, 32)
    tree |= {"__attach_version1.0_#00000000": attached, "__attach_version1.0_#00000001": carried}
    return sample_files.ole(tree)


@takes_bytes([MAIL, MAIL.replace(b"\n", b"\r\n"), b"From: a@b\nTo: c\n\nx"], PAGES)
def mail(data: bytes) -> None:
    _outcome(write_scratch_file("a.eml", data), "eml")


HEADERS = st.sampled_from(("From", "To", "Subject", "Date", "Content-Type", "Content-Disposition", "Cc"))
VALUE = st.one_of(
    texts,
    st.sampled_from(
        (
            *(
                "=?utf-8?q?=ff?=",
                "=?punycode?q?a-b?=",
                "=?idna?b?eA==?=",
                "=?a?b?c?=",
                "text/html; charset=unicode_escape",
            ),
            *("multipart/mixed; boundary=", 'multipart/mixed; boundary="a', "text/plain; charset*=x'y'z", "a; b*0*=c"),
            *(
                "attachment; filename*0=a; filename*1*=b'c'd",
                "message/rfc822",
                "message/delivery-status",
                "text/plain;",
            ),
            *(
                "<<<<<<<",
                "a@[",
                '"',
                "(((((",
                "(" * 500,
                "a:b;c:d;",
                "@,@,@",
                "Mon, 99 Foo 99999999999 99:99",
                "a" * 3000,
            ),
        )
    ),
)


@takes(st.tuples(st.lists(st.tuples(HEADERS, VALUE), max_size=6), mutated([MAIL, b"--a\n\n--a--", b"<p>x"])), PAGES)
def headers(given: tuple[list[tuple[str, str]], bytes]) -> None:
    named, body = given
    lines = [
        f"{name}: {value}".encode(errors="surrogateescape" if value.isprintable() else "replace")
        for name, value in named
    ]
    path = write_scratch_file("b.eml", b"\n".join([*lines, b"", body]))
    message = read(path, LIMITS)
    for name, _ in named:
        header(message, name)
    body_of(message, LIMITS)
    _outcome(path, "eml")


@takes_bytes([_message()], PAGES)
def outlook(data: bytes) -> None:
    _outcome(write_scratch_file("a.msg", data), "msg")
    _outcome(write_scratch_file("a.msg", data))


@takes_bytes([HTML, b"<table><td><table><td>", b"<!--", b"<p" * 50, b'<meta charset="utf-7"><p>+ADw-'], PAGES)
def html(data: bytes) -> None:
    title, text = title_and_text(decoded(data), LIMITS)
    assert len(text) + len(title) <= 8 * len(data) + 100
    _outcome(write_scratch_file("a.html", data), "html")


CHARSETS = (
    "punycode",
    "idna",
    "utf-7",
    "unicode_escape",
    "undefined",
    "rot13",
    "hex",
    "zlib",
    "utf-16",
    "utf-32",
    "cp037",
)


@takes(
    st.tuples(st.binary(max_size=400), st.sampled_from(CHARSETS) | texts, st.integers(1, 2000)),
    "Bytes with any encoding name are decoded to a text; the time grows linearly with their number.",
)
def charsets(given: tuple[bytes, str, int]) -> None:
    content, charset, times = given
    decoded(content * times, charset)
    decoded(f'<meta charset="{charset}">'.encode(errors="replace") + content)


@takes_bytes([MARKDOWN, MARKDOWN.decode().encode("utf-16"), b"\xff\xfeA", b"caf\xe9", b"\x00a\x00b"], PAGES)
def text(data: bytes) -> None:
    _outcome(write_scratch_file("a.md", data), "markdown")
    _outcome(write_scratch_file("a.txt", data))


@takes_bytes([sample_files.pdf(["tides", "ebb"]), sample_files.pdf([""])], PAGES)
def pdf(data: bytes) -> None:
    _outcome(write_scratch_file("a.pdf", data), "pdf")


@takes_bytes([*map(_whole, (".docx", ".pptx", ".xlsx"))], PAGES)
def archives(data: bytes) -> None:
    _outcome(write_scratch_file("a.zip", data))
    for kind in ("docx", "pptx", "xlsx"):
        try:
            _outcome(write_scratch_file("a.zip", data), kind)  # type: ignore[arg-type]
        except Exception as error:
            if type(error).__name__ != "Reject":
                raise


@cache
def _old(name: str) -> bytes:
    """Return an old Office file, an OpenDocument file or an e-book."""
    path = scratch_folder() / f"seed.{name}"
    more = more_sample_files
    makers: dict[str, Callable[[], Path]] = {
        "doc": lambda: more.word(path, "On tides\r\x13 PAGE \x14 1\x15\x0c ebb\x07\x07 flow"),
        "ppt": lambda: more.slides(path, [("tides", "ebb", "flow"), ("a", "b", "c")]),
        "xls": lambda: more.old_workbook(path, {"one": [["a", 1.5], ["b"]], "two": [["c"]]}),
        "xlsb": lambda: more.binary_workbook(path, "one", [["a", "b"], ["c"]]),
        "odt": lambda: more.open_document(path, "text", "<t:p>a<t:s t:c='9'/></t:p>" + more.sheet("a", [["b"]])),
        "ods": lambda: more.open_document(path, "spreadsheet", more.sheet("a", [["b", "c"]])),
        "epub": lambda: more.book(path, ["tides", "ebb"]),
    }
    return makers[name]().read_bytes()


@takes_bytes([_old("doc"), _old("ppt"), _old("xls")], PAGES)
def old_office(data: bytes) -> None:
    for kind in ("doc", "ppt", "xls"):
        _outcome_or_reject(write_scratch_file("a.doc", data), kind)


@takes_bytes([_old("odt"), _old("ods"), _old("epub"), _old("xlsb")], PAGES)
def open_documents(data: bytes) -> None:
    for kind in ("odt", "ods", "odp", "epub", "iwork", "xlsb"):
        _outcome_or_reject(write_scratch_file("a.odt", data), kind)


@takes_bytes([more_sample_files.RTF, b"{\\rtf" + b"{" * 300, b"{\\rtf\\bin99999 x}"], PAGES)
def rich_text(data: bytes) -> None:
    _outcome_or_reject(write_scratch_file("a.rtf", data), "rtf")


@takes_bytes([b'a,b\n1,"2\n3"\n', b'a;b\n"x', b"\xff\xfea\x00,\x00"], PAGES)
def tables(data: bytes) -> None:
    _outcome(write_scratch_file("a.csv", data), "csv")


@takes_bytes([b'[{"a": [1, {"b": null}]}, 2]', b'{"a": 1}\n{"a": 1e999}', b"[" * 2000, b'{"a": "\\ud800"}'], PAGES)
def json_records(data: bytes) -> None:
    _outcome(write_scratch_file("a.json", data), "json")


@takes_bytes([b"<?xml version='1.0'?><!DOCTYPE a><a b='c'><d>e<f/>g</d>&amp;</a>", b"<a>" * 300], PAGES)
def xml_elements(data: bytes) -> None:
    _outcome(write_scratch_file("a.xml", data), "xml")


def _outcome_or_reject(path: Path, kind: str) -> None:
    try:
        _outcome(path, kind)  # type: ignore[arg-type]
    except Reject:
        return


ODD_XML = (
    *(
        b"<!DOCTYPE a>",
        b"<?xml version='1.1'?>",
        b"<a xmlns='b'",
        b"<w:t>",
        b"</w:p>",
        b"<c r='ZZZ9' t='s'><v>9</v></c>",
    ),
    *(b"<v>1e400</v>", b'<xf numFmtId="14"/>', b"<row>", b"<p:ph type='title'/>", b"<w:tc>", b"<mc:Fallback>", b"&#0;"),
    *(
        b'<Relationship Id="r0" Target="../../../x" Type="a/officeDocument"/>',
        b"\xff\xfe",
        b"<w:lastRenderedPageBreak/>",
    ),
)


@takes(
    st.tuples(
        st.sampled_from((".docx", ".pptx", ".xlsx")),
        st.integers(0, 20),
        st.lists(st.tuples(st.integers(0, 4000), st.sampled_from(ODD_XML) | st.binary(max_size=8)), max_size=4),
        st.integers(0, 60),
    ),
    PAGES,
)
def office(given: tuple[str, int, list[tuple[int, bytes]], int]) -> None:
    suffix, which, puts, cut = given
    parts = dict(_office()[suffix])
    name = list(parts)[which % len(parts)]
    content = parts[name]
    for place, data in puts:
        at = place % (len(content) + 1)
        content = content[:at] + data + content[at + cut :]
    path = scratch_folder() / f"b{suffix}"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for part, inside in (parts | {name: content}).items():
            archive.writestr(part, inside)
    _outcome(path, suffix[1:])  # type: ignore[arg-type]


@takes_bytes(
    [
        MAIL,
        HTML,
        MARKDOWN,
        sample_files.pdf(["a"]),
        _message(),
        _whole(".docx"),
        b"PK\x03\x04",
        b"MZ\x00",
        b"GIF89a",
        b"RIFF",
    ],
    "Any file has a type with a parser, or is rejected with a message that says what it is.",
)
def kinds(data: bytes) -> None:
    detect_file_type(write_scratch_file("a.bin", data), LIMITS)
    detect_file_type(write_scratch_file("a.MD", data), LIMITS)
