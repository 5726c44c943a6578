"""The table of languages in the docs is true."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.pipelines.rag.index.languages import STEMMERS, STOP_WORD_FOLDER, UNSPACED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "document-search.md"
SECTION = PAGE.read_text(encoding="utf-8").split("### Languages\n")[1].split("\n### ")[0]
CODES = {code: name.capitalize() for code, name in STEMMERS.items()} | {"en": "English"}


def listed(text: str) -> list[str]:
    return [name.strip() for name in re.split(r",| and ", text) if name.strip()]


def cells(end: str) -> list[str]:
    """Return the names in the row of the table that ends with a text."""
    row = next(line for line in SECTION.splitlines() if line.startswith("| ") and line.endswith(f"{end} |"))
    return listed(row.split("|")[1])


def test_the_page_lists_every_language_that_has_a_stemmer() -> None:
    assert cells("in all their forms") == sorted(set(CODES.values()))


def test_the_page_lists_every_language_that_is_found_by_pairs() -> None:
    names = {name for name in UNSPACED.values() if name not in ("Cantonese", "Wu Chinese")}
    assert cells("without spaces") == sorted(names)


def test_the_page_lists_every_language_with_stop_words() -> None:
    (line,) = [line for line in SECTION.splitlines() if "are left out of questions in" in line]
    names = listed(line.split("questions in ")[1].rstrip("."))
    assert names == sorted(CODES[path.stem] for path in STOP_WORD_FOLDER.glob("*.txt"))
