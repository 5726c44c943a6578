"""Stores are found by the scheme of their URL, also those of other packages."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast
from holdfast.core.errors import StoreError
from holdfast.stores import is_fresh, migrate_store, open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.registry import BUILT_IN, GROUP

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
STORE = """
from holdfast.stores.memory import MemoryStore

opened = []

class ShelfStore(MemoryStore):
    def __init__(self, url, *, clock=None):
        super().__init__("memory://", clock=clock)
        opened.append(url)

    @classmethod
    def is_fresh(cls, url):
        return url.endswith("new")

    @classmethod
    def migrate_url(cls, url):
        return [1, 2]

def open_drawer(url, *, clock=None):
    return MemoryStore("memory://", clock=clock)
"""
ENTRY_POINTS = f"""
[{GROUP}]
shelf = shelf_store:ShelfStore
drawer = shelf_store:open_drawer
broken = shelf_store:Nothing
gone = a_package_that_is_not_there:Store
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package, as pip installs it: a module, and metadata that names its entry points."""
    (tmp_path / "shelf_store.py").write_text(STORE)
    metadata = tmp_path / "shelf_store-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-store\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_store_of_another_package_is_opened_by_its_scheme() -> None:
    with holdfast.open("shelf://here") as store:
        assert type(store).__name__ == "ShelfStore"
        assert store.pipelines() == []
        assert sys.modules["shelf_store"].opened == ["shelf://here"]


def test_a_function_that_opens_a_store_may_be_registered() -> None:
    with holdfast.open("drawer://here") as store:
        assert type(store) is MemoryStore


def test_a_store_of_another_package_has_its_own_schema() -> None:
    assert is_fresh("shelf://new")
    assert not is_fresh("shelf://old")
    assert migrate_store("shelf://old") == [1, 2]


def test_a_store_without_a_schema_is_never_fresh_and_not_migrated() -> None:
    assert not is_fresh("drawer://here")
    with pytest.raises(StoreError, match="no schema to migrate"):
        migrate_store("drawer://here")


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    known = "broken, drawer, gone, memory, postgres, postgresql, shelf, sqlite"
    with pytest.raises(StoreError, match=f"no store has the scheme 'mysql'.*The known schemes are {known}"):
        open_store("mysql://x")


@pytest.mark.parametrize("url", ["broken://x", "gone://x"])
def test_a_store_that_cannot_be_loaded_is_named(url: str) -> None:
    scheme = url.partition(":")[0]
    with pytest.raises(
        StoreError, match=f"the store for {scheme}:// cannot be loaded from .*Install its package again"
    ):
        open_store(url)


def test_our_own_stores_are_registered_as_they_are_listed() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert project["entry-points"][GROUP] == BUILT_IN


def test_our_own_stores_are_opened_without_a_scan_of_all_packages(tmp_path: Path) -> None:
    code = f"""
import sys
from holdfast.stores import open_store
open_store("sqlite:///{tmp_path}/s.db").close()
print("importlib.metadata" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"
