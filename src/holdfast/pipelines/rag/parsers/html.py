"""HTML: its text as people see it, headings, paragraphs and rows on lines of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits, check_whole
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.parsers.cleaning import in_pages, joined
from holdfast.pipelines.rag.parsers.text import MARKS

UNSEEN = {"script", "style", "template", "noscript", "head", "svg", "iframe", "object", "select", "_comment", "-comment"}
PARAGRAPHS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "table", "ul", "ol", "dl", "hr", "article"),
    *("section", "header", "footer", "main", "aside", "nav", "form", "figure", "fieldset", "details"),
}
LINES = {"div", "li", "tr", "dt", "dd", "br", "caption", "figcaption", "option", "address", "summary", "legend", "body"}
CELLS = {"td", "th"}
CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
NESTING = re.compile(
    r"<(/?)(?!(?:p|li|td|th|tr|dt|dd|option|thead|tbody|area|base|br|col|embed|hr|img|input|link|meta|source|wbr)\b)[a-z]",
    re.IGNORECASE,
)
"""Tags of elements that have to be closed."""
DEPTH = 2_000
BLANKS = re.compile(r"[ \t\n\f\r]+")


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the pages after the first `start`; one, unless the text is very long."""
    check_whole(path, limits)
    title, text = title_and_text(decoded(path.read_bytes()), limits)
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part, label=title)


def count(path: Path, *, limits: Limits) -> int:  # noqa: ARG001  # as all parsers are called
    """Answers 1: how long the text is, only reading it would tell."""
    return 1


def decoded(content: bytes, charset: str | None = None) -> str:
    """Decodes a page: by its mark, by what was said about it or it says itself, as UTF-8, as Windows had it."""
    for mark, encoding in MARKS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    if b"\x00" in content[:200]:
        return content.decode("utf-16-le" if content[1:2] == b"\x00" else "utf-16-be", errors="replace")
    said = CHARSET.search(content[:4096])
    for name in (charset, said[1].decode("ascii", "replace") if said else None, "utf-8", "cp1252"):
        if name:
            try:
                return content.decode("cp1252" if name.lower() in ("iso-8859-1", "latin-1", "us-ascii") else name)
            except (LookupError, ValueError):  # no such encoding, or not in it
                continue
    return content.decode("utf-8", errors="replace")


def title_and_text(source: str, limits: Limits) -> tuple[str, str]:
    """Gives the title, and the text with the title as its first line unless the text says it itself."""
    from selectolax.lexbor import LexborHTMLParser

    if (tags := source.count("<")) > limits.tags:
        raise Reject(f"the HTML has {tags:,} tags, and {limits.tags:,} are allowed")
    if tags > DEPTH:
        _check_depth(source)
    tree = LexborHTMLParser(source.replace("\x00", ""))
    node = tree.css_first("head > title")
    title = " ".join(node.text().split()) if node else ""
    text = joined(_lines(tree.body)) if tree.body else ""
    if title and title not in text[:1000]:
        text = f"{title}\n\n{text}".rstrip()
    return title, text


def _check_depth(source: str) -> None:
    """Rejects what nests too deeply: the parser's time grows with the square of it."""
    depth = 0
    for tag in NESTING.finditer(source):
        depth += -1 if tag[1] else 1
        if depth > DEPTH:
            raise Reject(f"the HTML nests more than {DEPTH:,} elements; it is broken, or made to harm")
        depth = max(depth, 0)


def _lines(body: Any) -> Iterator[str]:  # noqa: ANN401  # selectolax has no types
    """Walks the tree without recursion: a thousand nested elements are no reason to fail."""
    line: list[str] = []
    kept = 0
    end = body.mem_id
    node, going_down = body, True
    while node is not None:
        tag = node.tag
        unseen = tag in UNSEEN
        if tag in PARAGRAPHS or tag in LINES:
            yield _closed(line)
            if tag in PARAGRAPHS:
                yield ""
        if tag == "pre":
            kept += 1 if going_down else -1
        elif tag in CELLS and going_down and line:
            line.append("\t")
        elif tag == "-text" and going_down:
            text = node.text_content or ""
            if kept:
                *full, last = text.split("\n")
                for one in full:
                    yield "".join([*line, one])
                    line.clear()
                line.append(last)
            else:
                line.append(BLANKS.sub(" ", text))
        if going_down and not unseen and node.child is not None:
            node = node.child
        elif node.mem_id == end:
            break
        elif node.next is not None:
            node, going_down = node.next, True
        else:
            node, going_down = node.parent, False
    yield _closed(line)


def _closed(line: list[str]) -> str:
    text = re.sub(" +", " ", "".join(line)).strip(" ").replace(" \t", "\t").replace("\t ", "\t")
    line.clear()
    return text
