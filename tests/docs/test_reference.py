"""The reference is written from the code, and nothing public is missing in it."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

import holdfast
from holdfast.cli.app import every_command
from tests.docs.pages import ROOT


def _generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generate()
REFERENCE = ROOT / "docs" / "reference"
MADE = generate.pages()


@pytest.mark.parametrize("name", MADE)
def test_the_reference_is_up_to_date(name: str) -> None:
    kept = (REFERENCE / name).read_text(encoding="utf-8") if (REFERENCE / name).exists() else ""
    assert kept == MADE[name], f"docs/reference/{name} is out of date: run `make docs`"


def test_the_reference_has_no_page_that_nothing_writes() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(MADE)


def test_the_guarantees_say_what_the_runs_wrote() -> None:
    assert generate.GUARANTEES.read_text() == generate.guarantees(), (
        "docs/guarantees.md is out of date: run `make docs`"
    )


def test_every_run_that_left_evidence_says_how_to_repeat_it() -> None:
    for run in generate.runs():
        assert {"title", "command", "date", "figures", "table"} <= run.keys()


@pytest.mark.parametrize("name", sorted(holdfast.__all__))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    found = f"holdfast.{name}" in MADE["api.md"] or f"holdfast.{name}" in MADE["errors.md"]
    assert found, f"holdfast.{name} is public and not in the reference"


def test_a_name_without_words_is_refused() -> None:
    def silent() -> None: ...

    with pytest.raises(generate.Undocumented, match="no docstring"):
        generate._words("silent", silent)


def test_an_option_without_words_is_refused() -> None:
    with pytest.raises(generate.Undocumented, match="not explained"):
        generate._told({}, "colour", "Pipeline.step")


def test_every_command_is_in_the_reference() -> None:
    text = MADE.get("cli.md", "")
    missing = [name for name in every_command() if f"holdfast {name}" not in text]
    missing += [
        f"{name} {option}"
        for name, command in every_command().items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and not getattr(parameter, "hidden", False) and option not in text
    ]
    assert not missing


def test_every_table_is_in_the_reference() -> None:
    made = [
        table
        for path in (ROOT / "src/holdfast/stores").rglob("migrations/*.sql")
        for table in re.findall(r"^create (?:table|view) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert made
    assert [table for table in made if f"## {table}\n" not in MADE["schema.md"]] == []
