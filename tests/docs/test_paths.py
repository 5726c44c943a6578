"""Paths and names that the guides and the changelog mention exist."""

from __future__ import annotations

import re

import pytest

from holdfast.stores.protocol import Store
from tests.docs.pages import ROOT

GUIDES = ("CONTRIBUTING.md", "ARCHITECTURE.md")
PATH = re.compile(r"`((?:src|tests|docs|examples|bench|scripts|\.ci)/[^`\s]*|[\w-]+\.(?:md|toml))`")
NAME_IN_FILE = re.compile(r"`([A-Za-z_.]+)`(?: \([^)]*\))? in `((?:src|tests)/[^`\s]+\.py)`")


@pytest.mark.parametrize("page", GUIDES)
def test_every_path_in_a_guide_exists(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 30
    missing = sorted({path for path in named if not (ROOT / path).exists()})
    assert not missing, f"{page} names paths that do not exist: {missing}"


@pytest.mark.parametrize("page", GUIDES)
def test_every_name_that_a_guide_places_in_a_file_is_there(page: str) -> None:
    pairs = NAME_IN_FILE.findall((ROOT / page).read_text(encoding="utf-8"))
    missing = [(name, path) for name, path in pairs if name.split(".")[-1] not in (ROOT / path).read_text("utf-8")]
    assert not missing, f"{page} names what the file does not have: {missing}"


def test_the_store_verbs_in_the_changelog_exist() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    table = text.partition("Verbs of a store have new names.")[2].partition("\n\n|")[2].partition("\n\n")[0]
    new = [name for row in table.splitlines() for name in re.findall(r"`([a-z_]+)`", row.rpartition(" | ")[2])]
    assert len(new) > 20
    assert [name for name in new if not hasattr(Store, name)] == []


def test_the_checks_can_fail() -> None:
    assert PATH.findall("see `src/holdfast/nowhere.py` and `nowhere.md`, not `papers.py`") == [
        "src/holdfast/nowhere.py",
        "nowhere.md",
    ]
    assert NAME_IN_FILE.findall("`COMMANDS` in `src/holdfast/cli/app.py`") == [("COMMANDS", "src/holdfast/cli/app.py")]
