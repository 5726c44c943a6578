"""Resuming: for every file type, `start` returns the same pages as a full run from that page on."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import PARSERS, pages_of
from tests.support import more_sample_files, sample_files
from tests.support.sample_files import PAGE_BREAK, paragraph, row, shape, slide

Make = Callable[[Path, list[str]], Path]
LONG = "word " * 25_000


def mail(path: Path, words: list[str]) -> Path:
    return sample_files.write_file(path, f"From: a@b\nTo: c@d\nSubject: x\n\n{LONG.join(words)}".encode())


def apple_mail(path: Path, words: list[str]) -> Path:
    message = mail(path, words).read_bytes()
    return sample_files.write_file(path, b"%d\n%s<?xml version='1.0'?><plist/>" % (len(message), message))


def outlook(path: Path, words: list[str]) -> Path:
    return sample_files.write_file(
        path, sample_files.ole(sample_files.properties({0x37: "x", 0x1000: LONG.join(words)}, 32))
    )


def pictures(path: Path, words: list[str]) -> Path:
    first, *others = [sample_files.picture(word) for word in words]
    first.save(path, format="tiff", save_all=True, append_images=others)
    return path


MAKERS: dict[str, Make] = {
    "pdf": lambda path, words: sample_files.write_file(path, sample_files.pdf(words)),
    "docx": lambda path, words: sample_files.docx(path, PAGE_BREAK.join(map(paragraph, words))),
    "pptx": lambda path, words: sample_files.pptx(path, [slide(shape(word, "title")) for word in words]),
    "xlsx": lambda path, words: sample_files.xlsx(path, {f"s{n}": row(word) for n, word in enumerate(words)}),
    "html": lambda path, words: sample_files.write_file(path, f"<html><p>{LONG.join(words)}</p></html>".encode()),
    "markdown": lambda path, words: sample_files.write_file(path.with_suffix(".md"), "\f".join(words).encode()),
    "text": lambda path, words: sample_files.write_file(path, "\f".join(words).encode()),
    "eml": mail,
    "emlx": apple_mail,
    "msg": outlook,
    "doc": lambda path, words: more_sample_files.word(path, "\r\x0c".join(words)),
    "ppt": lambda path, words: more_sample_files.slides(path, [(word, "box", "notes") for word in words]),
    "xls": lambda path, words: more_sample_files.old_workbook(path, {f"s{n}": [[w]] for n, w in enumerate(words)}),
    "odt": lambda path, words: more_sample_files.open_document(
        path, "text", "<t:soft-page-break/>".join(f"<t:p>{word}</t:p>" for word in words)
    ),
    "ods": lambda path, words: more_sample_files.open_document(
        path, "spreadsheet", "".join(more_sample_files.sheet(f"s{n}", [[word]]) for n, word in enumerate(words))
    ),
    "odp": lambda path, words: more_sample_files.open_document(
        path, "presentation", "".join(f"<d:page d:name='{n}'><t:p>{w}</t:p></d:page>" for n, w in enumerate(words))
    ),
    "epub": more_sample_files.book,
    "rtf": lambda path, words: sample_files.write_file(path, b"{\\rtf1 %s}" % LONG.join(words).encode()),
    "iwork": lambda path, words: sample_files.write_zip(
        path, {"Index.zip": b"", "QuickLook/Preview.pdf": sample_files.pdf(words)}
    ),
    "csv": lambda path, words: sample_files.write_file(
        path.with_suffix(".csv"), "".join(f"{word},{LONG}\n" for word in words).encode()
    ),
    "json": lambda path, words: sample_files.write_file(
        path.with_suffix(".json"), json.dumps([LONG + word for word in words]).encode()
    ),
    "xml": lambda path, words: sample_files.write_file(
        path.with_suffix(".xml"), f"<a>{''.join(f'<b>{word} {LONG}</b>' for word in words)}</a>".encode()
    ),
}


@pytest.mark.parametrize("kind", sorted(MAKERS))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(["ebb", "flow", "slack"]), min_size=1, max_size=4), start=st.integers(0, 5))
def test_a_resumed_run_returns_the_tail_of_a_full_one(tmp_path: Path, kind: str, words: list[str], start: int) -> None:
    path = MAKERS[kind](tmp_path / "file", words)
    assert detect_file_type(path) == kind
    full = list(pages_of(path))
    assert [page.number for page in full] == list(range(1, len(full) + 1))
    assert len(full) >= len(words)
    assert list(pages_of(path, start=start)) == full[start:]


@pytest.mark.skipif(find_spec("tesserocr") is None, reason="no wheel of tesserocr for this Python")
def test_a_resumed_run_over_images_returns_the_tail_of_a_full_one(tmp_path: Path) -> None:
    path = pictures(tmp_path / "a", ["High water", "Low water", "Slack water"])
    full = list(pages_of(path))
    assert [list(pages_of(path, start=start)) for start in range(4)] == [full[start:] for start in range(4)]


def test_every_file_type_that_can_have_pages_is_tested() -> None:
    assert set(PARSERS) - set(MAKERS) == {"xlsb", "png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2", "heic"}
