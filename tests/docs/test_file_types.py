"""The table of file types in the docs has every type that can be read, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("olefile", reason="document search needs the extra rag")

from holdfast.containers import CONTAINER_KINDS
from holdfast.pipelines.rag.extract.file_type import FileType
from holdfast.pipelines.rag.extract.parsers import PARSERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "document-search.md"


def test_the_table_has_every_type_once() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("<!-- file types: begin -->")[2].partition("<!-- file types: end -->")[0]
    named = [name for row in re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(get_args(FileType))


def test_every_type_has_a_parser_or_is_a_container() -> None:
    assert {*PARSERS, *CONTAINER_KINDS} == set(get_args(FileType))
    assert not {*PARSERS} & {*CONTAINER_KINDS}
