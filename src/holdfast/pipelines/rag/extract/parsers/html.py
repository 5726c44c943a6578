"""HTML: the visible text, with headings, paragraphs and table rows on lines of their own."""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_whole
from holdfast.pipelines.rag.extract.parsers.cleaning import in_pages, joined
from holdfast.pipelines.rag.extract.parsers.text import BYTE_ORDER_MARKS
from holdfast.pipelines.rag.values import Page

INVISIBLE = {
    "script",
    "style",
    "template",
    "noscript",
    "head",
    "svg",
    "iframe",
    "object",
    "select",
    "_comment",
    "-comment",
}
PARAGRAPHS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "table", "ul", "ol", "dl", "hr", "article"),
    *("section", "header", "footer", "main", "aside", "nav", "form", "figure", "fieldset", "details"),
}
LINES = {"div", "li", "tr", "dt", "dd", "br", "caption", "figcaption", "option", "address", "summary", "legend", "body"}
BLOCKS = PARAGRAPHS | LINES
CELLS = {"td", "th"}
MAX_CELL = 300
"""Characters of a table cell that is put on one line."""
CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
NESTING = re.compile(
    r"<(/?)(?!(?:p|li|td|th|tr|dt|dd|option|thead|tbody|area|base|br|col|embed|hr|img|input|link|meta|source|wbr)\b)[a-z]",
    re.IGNORECASE,
)
"""Tags of elements that must be closed."""
MAX_DEPTH = 2_000
"""Nested elements, at most."""
OTHER_ENCODINGS = {"punycode", "idna", "unicode-escape", "unicode_escape", "raw-unicode-escape", "raw_unicode_escape"}
"""For host names and programs. The time to decode punycode grows with the square of its length: minutes for 1 MB."""
BLANKS = re.compile(r"[ \t\n\f\r]+")


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`. Only a very long text has more than one."""
    check_whole(path, limits)
    title, text = title_and_text(decoded(path.read_bytes()), limits)
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part, label=title)


def count(path: Path, *, limits: ExtractLimits) -> int:  # the signature is that of all parsers
    """Return 1: the length of the text is not known before it is read."""
    return 1


def decoded(content: bytes, charset: str | None = None) -> str:
    """Decode HTML: by its byte order mark, the given charset, its own charset, as UTF-8, as Windows-1252."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    if b"\x00" in content[:200]:
        return content.decode("utf-16-le" if content[1:2] == b"\x00" else "utf-16-be", errors="replace")
    declared = CHARSET.search(content[:4096])
    for name in (charset, declared[1].decode("ascii", "replace") if declared else None, "utf-8", "cp1252"):
        if name and _is_text_encoding(name):
            try:
                return content.decode("cp1252" if name.lower() in ("iso-8859-1", "latin-1", "us-ascii") else name)
            except (LookupError, ValueError):  # no such encoding, or not in it
                continue
    return content.decode("utf-8", errors="replace")


def _is_text_encoding(name: str) -> bool:
    """Check whether an encoding is used for texts. Python also has others."""
    try:
        return lookup(name).name not in OTHER_ENCODINGS
    except (LookupError, ValueError):  # no such encoding, or no name at all
        return False


def title_and_text(source: str, limits: ExtractLimits) -> tuple[str, str]:
    """Return the title and the text. The title becomes the first line if the text does not have it."""
    from selectolax.lexbor import LexborHTMLParser

    if (tags := source.count("<")) > limits.tags:
        raise Reject(f"the HTML has {tags:,} tags, and at most {limits.tags:,} are allowed")
    if tags > MAX_DEPTH:
        _check_depth(source)
    tree = LexborHTMLParser(source.replace("\x00", ""))
    node = tree.css_first("head > title")
    title = " ".join(node.text().split()) if node else ""
    text = joined(_lines(tree.body)) if tree.body else ""
    if title and title not in text[:1000]:
        text = f"{title}\n\n{text}".rstrip()
    return title, text


def _check_depth(source: str) -> None:
    """Reject HTML that is nested too deeply: the parser's time grows with the square of the depth."""
    depth = 0
    for tag in NESTING.finditer(source):
        depth += -1 if tag[1] else 1
        if depth > MAX_DEPTH:
            raise Reject(f"the HTML nests more than {MAX_DEPTH:,} elements; it is broken, or made to do harm")
        depth = max(depth, 0)


def _lines(body: Any) -> list[str]:
    page = _VisibleText()
    for node, entering in _steps(body):
        if node.tag == "-text":
            page.text(node.text_content or "")
        elif entering:
            page.enter(node.tag)
        else:
            page.leave(node.tag)
    page.leave("body")
    return page.lines


def _steps(body: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the visible nodes in order, each with True when it is entered and False when it is left.

    There is no recursion, so that a thousand nested elements do not fail.
    """
    end = body.mem_id
    node, entering = body, True
    while True:
        yield node, entering
        if entering and node.tag not in INVISIBLE and node.child is not None:
            node = node.child
        elif node.mem_id == end:
            return
        elif entering and (node.tag in BLOCKS or node.tag in CELLS):
            entering = False  # an empty element is left at once
        elif node.next is not None:
            node, entering = node.next, True
        else:
            node, entering = node.parent, False


class _VisibleText:
    """Collect the lines of a page as a browser shows them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._line: list[str] = []
        self._preformatted = 0
        self._outer: list[tuple[list[str], list[str]]] = []  # lines and line around a cell

    def enter(self, tag: str) -> None:
        if tag in BLOCKS:
            self._end_line(tag)
        if tag == "pre":
            self._preformatted += 1
        elif tag in CELLS:
            self._outer.append((self.lines, self._line))
            self.lines, self._line = [], []

    def leave(self, tag: str) -> None:
        if tag in BLOCKS:
            self._end_line(tag)
        if tag == "pre":
            self._preformatted -= 1
        elif tag in CELLS:
            self._leave_cell()

    def text(self, text: str) -> None:
        if not self._preformatted:
            self._line.append(BLANKS.sub(" ", text))
            return
        *full, last = text.split("\n")
        for one in full:
            self.lines.append("".join([*self._line, one]))
            self._line.clear()
        self._line.append(last)

    def _leave_cell(self) -> None:
        """Put a cell into its row. A cell with much text is part of the page layout and gets lines of its own."""
        self._end_line("div")
        cell = [line for line in self.lines if line]
        if sum(map(len, cell)) < MAX_CELL and not any("\t" in line for line in cell):
            cell = [" ".join(cell)]
        inside, (self.lines, self._line) = self.lines, self._outer.pop()
        if len(cell) > 1:
            self.lines.extend([*inside, ""])
        elif cell:
            self._line.extend(["\t", cell[0]] if self._line else cell)

    def _end_line(self, tag: str) -> None:
        line = "".join(self._line)
        self._line.clear()
        if not self._preformatted:
            line = re.sub(r" *\t *", "\t", re.sub(" +", " ", line).strip())
        if line.strip():
            self.lines.append(line)
        if tag in PARAGRAPHS:
            self.lines.append("")
