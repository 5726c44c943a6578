"""The name on the package index is the same everywhere: in pyproject.toml, in messages, in pages and in tests."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from holdfast.core.distribution import DISTRIBUTION, install_command

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALLS = re.compile(
    r"\b(?:install|add|download)\s+(?:-[-\w]+\s+)*['\"]?holdfast(?!-pipelines)(?![\w./-])", re.IGNORECASE
)
EXTRA = re.compile(r"\bholdfast(?!-pipelines)\[(?!\w+\(|\")")
NAMED_EXTRA = re.compile(rf"{DISTRIBUTION}\[([\w,-]+)\]|install_command\([\"'](\w+)[\"']\)")


def files() -> dict[str, str]:
    """Return the text of every file of the repository, without this one."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [name for name in listed.stdout.split("\0") if name]
    if not names:
        pytest.skip("this is no repository")
    paths = [ROOT / name for name in names if (ROOT / name).is_file() and ROOT / name != Path(__file__)]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8", errors="replace") for path in paths}


def wrong_names(text: str) -> list[str]:
    """Return what installs the project of somebody else."""
    return [found[0] for pattern in (INSTALLS, EXTRA) for found in pattern.finditer(text)]


def test_the_project_has_the_name_that_messages_show() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert install_command("rag") == "pip install 'holdfast-pipelines[rag]'"


def test_no_message_and_no_page_installs_the_project_of_somebody_else() -> None:
    wrong = {name: found for name, text in files().items() if (found := wrong_names(text))}
    assert wrong == {}


def test_every_extra_that_is_named_exists() -> None:
    named = {
        extra
        for text in files().values()
        for listed in NAMED_EXTRA.findall(text)
        for extra in "".join(listed).split(",")
    }
    assert len(named) > 5
    assert named - {*PROJECT["optional-dependencies"]} == set()


def test_the_extra_all_has_every_other_extra() -> None:
    extras = {**PROJECT["optional-dependencies"]}
    (requirement,) = extras.pop("all")
    assert requirement == f"{DISTRIBUTION}[{','.join(sorted(extras))}]"


@pytest.mark.parametrize(
    "text",
    [
        "pip install holdfast",
        "pip install 'holdfast[rag]'",
        'python -m pip install -U "holdfast[web,rag]"',
        "uv add holdfast",
        "uv pip install --quiet holdfast==0.1.0",
        "needs the extra: holdfast[rag]",
    ],
)
def test_a_wrong_name_is_found(text: str) -> None:
    assert wrong_names(text)


@pytest.mark.parametrize(
    "text", ["pip install 'holdfast-pipelines[all]'", "pip install -e holdfast/", "install holdfast-pipelines", "./hf"]
)
def test_a_right_name_is_no_wrong_one(text: str) -> None:
    assert wrong_names(text) == []
