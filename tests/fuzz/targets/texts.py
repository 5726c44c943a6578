"""Texts: chunks, titles, cleaning, search queries and snippets."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.pipelines.rag.chunk.chunks import title_of
from holdfast.pipelines.rag.chunk.markdown import blocks_of, heading_path
from holdfast.pipelines.rag.chunk.splitters import split_by_markdown, split_by_tokens, split_recursive
from holdfast.pipelines.rag.extract.parsers.cleaning import AttachmentNames, clean, in_pages, joined
from holdfast.pipelines.rag.index.keyword_query import any_phrase, keyword_query, match_expressions
from holdfast.pipelines.rag.index.question import parse_question
from holdfast.pipelines.rag.search.snippets import snippet_of
from holdfast.pipelines.rag.values import Page
from tests.fuzz.inputs import texts
from tests.fuzz.target import takes

BITS = (
    "# ",
    "## x",
    "#",
    "\n",
    "\n\n",
    " ",
    "\t",
    "```",
    "~~~",
    "| a | b |",
    "a",
    ". ",
    "\f",
    "\r",
    "é",
    "\U0001f600",
    "- ",
)
PIECE = st.tuples(st.sampled_from(BITS) | st.text(max_size=5), st.sampled_from((1, 1, 2, 3, 40, 20_000)))
LONG = st.lists(PIECE, max_size=6).map(lambda pieces: "".join(bit * times for bit, times in pieces)[:60_000])
SIZES = st.tuples(st.sampled_from((1, 2, 10, 1000)), st.integers(0, 9))
IN_TIME = "the time grows linearly with the length"


@takes(
    st.tuples(LONG, SIZES),
    f"Any text is split into chunks, in order, with only white space between them; {IN_TIME}.",
    sealed=True,
)
def chunks(given: tuple[str, tuple[int, int]]) -> None:
    text, (size, tenths) = given
    text = text if size > 2 else text[:3000]
    overlap = size * tenths // 10
    for spans in (
        split_recursive(text, size, overlap),
        split_by_markdown(text, size, overlap),
        split_by_tokens(text, size, overlap, _Bytes()),
    ):
        behind = 0
        for start, end in spans:
            assert 0 <= start < end <= len(text)
            assert not text[behind:start].strip(), f"{text[behind:start]!r} is in no chunk"
            behind = max(behind, end)
        assert not text[behind:].strip()


class _Bytes:
    """A tokenizer for which each byte is a token."""

    name = "bytes"

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(place, place + 1) for place, letter in enumerate(text) for _ in letter.encode(errors="replace")]


@takes(
    LONG,
    f"Any Markdown is split into blocks that together are the text; {IN_TIME}.",
    sealed=True,
)
def markdown(text: str) -> None:
    blocks = list(blocks_of(text))
    assert "".join(text[block.start : block.end] for block in blocks) == text
    heading_path(text, len(text) // 2)
    assert len(title_of(Page(1, text))) <= 200


@takes(
    st.text(max_size=200) | texts | LONG,
    f"Any text is cleaned of characters that stores refuse; {IN_TIME}.",
    sealed=True,
)
def cleaned(text: str) -> None:
    plain = clean(text)
    plain.encode()
    assert "\0" not in plain
    assert clean(plain) == plain
    joined(plain.split("\n"))
    assert sum(map(len, in_pages([text[:100], text[100:]]))) <= len(text)


@takes(
    st.lists(texts, max_size=5),
    "Each attachment gets a unique name that is not a path, whatever its own name is.",
    sealed=True,
)
def attachments(given: list[str]) -> None:
    names = AttachmentNames(100)
    for name in given:
        chosen = names.unique(name)
        assert chosen.strip() not in ("", ".", "..")
        assert not set(chosen) & set("/\\\0:")
        assert len(chosen.encode()) < 800


@takes(
    st.tuples(LONG | texts, texts | LONG.map(lambda text: text[:2000])),
    "Any query has a snippet in any text.",
    sealed=True,
)
def snippets(given: tuple[str, str]) -> None:
    text, question = given
    snippet, marks = snippet_of(text, question)
    for start, end in marks:
        assert 0 <= start < end
        assert snippet[start:end].strip()


@takes(texts | LONG.map(lambda text: text[:3000]), "Any query is valid for full-text search.")
def questions(question: str) -> None:
    query = keyword_query(parse_question(question), ["de", "ja"])
    expressions = match_expressions(query, lambda terms: dict.fromkeys(terms, 1))
    for expression in (*expressions, *map(any_phrase, [run.phrases for run in query.runs])):
        try:
            _table().execute("select * from words where words match ?", (expression,)).fetchall()
        except UnicodeEncodeError:
            assert not _is_plain(expression)  # the index replaces lone surrogates before it searches


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_tables: list[Any] = []


def _table() -> sqlite3.Connection:
    if not _tables:
        db = sqlite3.connect(":memory:")
        db.execute("create virtual table words using fts5(text)")
        _tables.append(db)
    return _tables[0]
