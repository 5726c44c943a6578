"""HTML, Markdown and text: the visible text, in any encoding."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.rag.extract.parsers import pages_of
from holdfast.pipelines.rag.extract.parsers.cleaning import PAGE_SIZE, clean, in_pages
from tests.support import sample_files

PAGE = """<html><head><title>Tides</title><style>p {color: red}</style></head><body>
<h1>High   water</h1><p>At<br>noon, <b>bold</b>ly.</p><script>alert(1)</script>
<ul><li>one<li>two</ul><table><tr><td><p>a</p></td><td>b</td></tr></table><pre>def f():
    return 1</pre></body></html>"""


def one(folder: Path, content: bytes, name: str = "file") -> str:
    [page] = pages_of(sample_files.write_file(folder / name, content))
    return page.text


def test_html_becomes_the_visible_text_with_the_title(tmp_path: Path) -> None:
    said = "Tides\n\nHigh water\n\nAt\nnoon, boldly.\n\none\ntwo\n\na\tb\n\ndef f():\n    return 1"
    assert one(tmp_path, PAGE.encode()) == said


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_html_is_decoded_by_its_byte_order_mark_or_by_trial(tmp_path: Path, encoding: str) -> None:
    assert one(tmp_path, "<html><body><p>zwölf €</p></body></html>".encode(encoding)) == "zwölf €"


def test_html_is_decoded_by_its_declared_charset(tmp_path: Path) -> None:
    source = '<html><head><meta charset="iso-8859-2"></head><body>żółw</body></html>'
    assert one(tmp_path, source.encode("iso-8859-2")) == "żółw"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_text_is_read_in_its_encoding(tmp_path: Path, encoding: str) -> None:
    assert one(tmp_path, "Flut\r\num zwölf".encode(encoding)) == "Flut\num zwölf"


def test_markdown_stays_as_it_is(tmp_path: Path) -> None:
    assert one(tmp_path, b"# Tides\n\n* high\n", "a.md") == "# Tides\n\n* high\n"


def test_form_feeds_make_pages(tmp_path: Path) -> None:
    made = sample_files.write_file(tmp_path / "a.txt", b"one\n\ftwo\n\f")
    assert [(page.number, page.text) for page in pages_of(made)] == [(1, "one\n"), (2, "two\n")]


def test_long_text_is_divided_at_paragraph_ends(tmp_path: Path) -> None:
    paragraphs = "".join(f"Paragraph {number}. " + "word " * 60 + "\n\n" for number in range(1000))
    pages = list(pages_of(sample_files.write_file(tmp_path / "a.txt", paragraphs.encode())))
    assert len(pages) > 3
    assert "".join(page.text for page in pages) == paragraphs
    assert all(page.text.startswith("Paragraph") and len(page.text) <= PAGE_SIZE for page in pages)


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="ab .\n\f", max_size=50), st.integers(1, 6000), st.integers(1_000, 200_000))
def test_the_pages_of_a_text_do_not_depend_on_how_it_is_read(seed: str, times: int, size: int) -> None:
    text = seed * times
    divided = list(in_pages(text[at : at + size] for at in range(0, len(text), size)))
    assert divided == list(in_pages([text]))
    assert "".join(divided).replace("\f", "").strip() == text.replace("\f", "").strip()
    assert all(len(page) <= PAGE_SIZE for page in divided)


@given(st.text(alphabet=st.characters(), max_size=40))
def test_clean_text_can_be_stored_and_stays_clean(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.encode().decode() == cleaned
    assert not set(cleaned) & {"\x00", "\r", "\ufffe"}
    assert clean(cleaned) == cleaned


def test_hyphenated_words_are_joined_and_lone_surrogates_replaced() -> None:
    assert clean("high\u00ad\r\nwater lee\ufffeward \ud800!") == "highwater leeward \ufffd!"
