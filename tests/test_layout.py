"""Tests are found where their source is: `tests/engine/test_budget.py` tests `holdfast/engine/budget.py`."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "holdfast"
SUITES = {  # folders whose tests concern no single module
    "audit",
    "crash",
    "docs",
    "examples",
    "faults",
    "fuzz",
    "pipelines/rag/index/conformance",
    "scenarios",
    "simulation",
    "soak",
    "typed",
}
OTHERS = {"test_imports.py", "test_layout.py", "test_version.py", "stores/test_conformance.py"}
ROLES = {  # classes that every store has, and some of their parts
    *("Base", "Commit", "Connections", "JoinedConnection", "Tx"),
    *("Batches", "Circuits", "Cleanup", "Decisions", "DocumentReads", "Intake", "Maintenance", "OverviewReads"),
    *("ClockCorrection", "Deadlines", "WaitCauses", "Work"),
}
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))
MIRRORED = [
    file for file in FILES if file not in OTHERS and not file.startswith((*(f"{s}/" for s in SUITES), "support/"))
]
TEST_FILES = [file for file in MIRRORED if file.rpartition("/")[2].startswith("test_")]
SCENARIOS = [file for file in FILES if file.startswith("scenarios/") and file.rpartition("/")[2].startswith("test_")]
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
MODULES = {path.stem for path in SOURCE.rglob("*.py")} | {path.parent.name for path in SOURCE.rglob("__init__.py")}


@pytest.mark.parametrize("file", TEST_FILES)
def test_a_test_file_is_named_after_its_source(file: str) -> None:
    folder, _, name = file.rpartition("/")
    module = SOURCE / folder / name.removeprefix("test_")
    assert module.is_file() or (module.with_suffix("") / "__init__.py").is_file(), (
        f"tests/{file} has no module {module.relative_to(SOURCE.parent)}: name it after the module that it tests, "
        "or move it to tests/scenarios/ if it concerns several"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_tests_in_a_folder_of_its_name(package: str) -> None:
    assert [file for file in TEST_FILES if file.startswith(f"{package}/")], (
        f"src/holdfast/{package} has no tests in tests/{package}"
    )


@pytest.mark.parametrize("file", SCENARIOS)
def test_a_scenario_is_not_named_after_a_module(file: str) -> None:
    name = Path(file).stem.removeprefix("test_")
    assert name not in MODULES, f"tests/{file} is named after a module: move it to the folder of its source"


def test_helpers_are_in_tests_support_or_in_their_suite() -> None:
    allowed = ("__init__.py", "conftest.py")
    helpers = [file for file in MIRRORED if file not in TEST_FILES and file.rpartition("/")[2] not in allowed]
    assert helpers == [], "move them to tests/support/"


def test_a_class_name_means_one_thing() -> None:
    """Stores have classes of the same name for the same role. All other classes have names of their own."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path.relative_to(SOURCE).as_posix())
    twice = {name: where for name, where in modules.items() if len(where) > 1}
    roles = {name for name in twice if all(place.startswith(("stores/", "core/moves.py")) for place in twice[name])}
    assert {name: where for name, where in twice.items() if name not in ROLES & roles} == {}


@pytest.mark.parametrize("file", sorted(OTHERS))
def test_a_listed_file_exists(file: str) -> None:
    assert (TESTS / file).is_file()


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_listed_suite_exists(suite: str) -> None:
    assert [*(TESTS / suite).rglob("test_*.py")]
