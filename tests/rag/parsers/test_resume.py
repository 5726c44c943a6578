"""Going on: whatever the kind, `start` gives the very pages that a full run has after that many."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.pipelines.rag.kinds import kind_of
from holdfast.pipelines.rag.parsers import PARSERS, pages_of
from tests.rag.parsers import making
from tests.rag.parsers.making import PAGE_BREAK, paragraph, row, shape, slide

Make = Callable[[Path, list[str]], Path]
LONG = "word " * 25_000


def mail(path: Path, words: list[str]) -> Path:
    return making.written(path, f"From: a@b\nTo: c@d\nSubject: x\n\n{LONG.join(words)}".encode())


def outlook(path: Path, words: list[str]) -> Path:
    return making.written(path, making.ole(making.properties({0x37: "x", 0x1000: LONG.join(words)}, 32)))


def pictures(path: Path, words: list[str]) -> Path:
    first, *others = [making.picture(word) for word in words]
    first.save(path, format="tiff", save_all=True, append_images=others)
    return path


MAKERS: dict[str, Make] = {
    "pdf": lambda path, words: making.written(path, making.pdf(words)),
    "docx": lambda path, words: making.docx(path, PAGE_BREAK.join(map(paragraph, words))),
    "pptx": lambda path, words: making.pptx(path, [slide(shape(word, "title")) for word in words]),
    "xlsx": lambda path, words: making.xlsx(path, {f"s{n}": row(word) for n, word in enumerate(words)}),
    "html": lambda path, words: making.written(path, f"<html><p>{LONG.join(words)}</p></html>".encode()),
    "markdown": lambda path, words: making.written(path.with_suffix(".md"), "\f".join(words).encode()),
    "text": lambda path, words: making.written(path, "\f".join(words).encode()),
    "eml": mail,
    "msg": outlook,
}


@pytest.mark.parametrize("kind", sorted(MAKERS))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(["ebb", "flow", "slack"]), min_size=1, max_size=4), start=st.integers(0, 5))
def test_a_resumed_run_gives_the_tail_of_a_full_one(tmp_path: Path, kind: str, words: list[str], start: int) -> None:
    path = MAKERS[kind](tmp_path / "file", words)
    assert kind_of(path) == kind
    full = list(pages_of(path))
    assert [page.number for page in full] == list(range(1, len(full) + 1))
    assert len(full) >= len(words)
    assert list(pages_of(path, start=start)) == full[start:]


@pytest.mark.skipif(find_spec("tesserocr") is None, reason="no wheel of tesserocr for this Python")
def test_a_resumed_run_over_pictures_gives_the_tail_of_a_full_one(tmp_path: Path) -> None:
    path = pictures(tmp_path / "a", ["High water", "Low water", "Slack water"])
    full = list(pages_of(path))
    assert [list(pages_of(path, start=start)) for start in range(4)] == [full[start:] for start in range(4)]


def test_every_kind_that_can_have_pages_is_tried() -> None:
    assert set(PARSERS) - set(MAKERS) == {"png", "jpeg", "tiff"}
