"""What the command line creates can be read by its owner only: it contains what the documents contain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest

import holdfast as library
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def _readable_by_others(folder: Path, before: set[Path]) -> list[str]:
    return [
        f"{path.relative_to(folder)} {S_IMODE(path.stat().st_mode):o}"
        for path in folder.rglob("*")
        if path not in before and "__pycache__" not in path.parts and S_IMODE(path.stat().st_mode) & 0o077
    ]


def test_stores_capsules_and_reports_are_private(holdfast: Run, folder: Path) -> None:
    before = {*folder.rglob("*")}
    with library.open(f"sqlite:///{folder}/holdfast.db"):
        assert holdfast("run", "papers.py", "docs").exit_code == 0
        names = {path.name for path in folder.rglob("*")}
        assert {f"holdfast.db{end}" for end in ("", "-wal", "-shm", "-queue", "-lock")} <= names
    for command in (
        ("doc", "pack", "docs/a.txt", "-o", "a.capsule"),
        ("batch", "reconcile", "papers", "default", "--report", "report.json"),
        ("batch", "reconcile", "papers", "default", "--report", "report.html"),
        ("--store", "sqlite:///copy.db", "doc", "load", "a.capsule"),
    ):
        said = holdfast(*command)
        assert said.exit_code == 0, said.output
    assert {"a.capsule", "report.json", "report.html", "copy.db"} <= {path.name for path in folder.iterdir()}
    assert _readable_by_others(folder, before) == []


def test_a_store_that_a_group_shares_keeps_its_rights(holdfast: Run, folder: Path) -> None:
    os.umask(0o077)
    store = folder / "holdfast.db"
    store.touch()
    store.chmod(0o660)
    with library.open(f"sqlite:///{store}"):
        assert holdfast("run", "papers.py", "docs").exit_code == 0
        rights = {path.name: S_IMODE(path.stat().st_mode) for path in folder.glob("holdfast.db*")}
    assert rights == {f"holdfast.db{end}": 0o660 for end in ("", "-wal", "-shm", "-queue", "-lock")}


def test_vectors_in_a_folder_are_private(holdfast: Run, folder: Path) -> None:
    pytest.importorskip("numpy", reason="document search needs the extra rag")
    pytest.importorskip("qdrant_edge", reason="the index in a folder needs the extra qdrant")
    made = holdfast("collection", "create", "documents", "--embedder", "hash:64", "--index", "qdrant:vectors")
    assert made.exit_code == 0, made.output
    assert holdfast("ingest", "docs").exit_code == 0
    assert [path for path in (folder / "vectors").rglob("*") if path.is_file()]
    assert S_IMODE((folder / "vectors").stat().st_mode) == 0o700
