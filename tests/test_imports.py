"""Imports go one way. If one does not, the test fails with the rule."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
SENTENCE = (
    "core ← stores, sources, containers ← observe ← engine ← ops ← pipelines, web, aws, ray ← cli: imports go one "
    "way. core imports nothing of ours; a store never imports another store or the engine, but SQL stores share "
    "stores/sql; sources and containers import only core; observe, engine and ops know of stores only "
    "stores/protocol and stores.open_store; testing may import all, and only cli imports it."
)
INNER = ("observe", "engine", "ops")
OUTER = ("pipelines", "web", "aws", "ray", "cli")
STORES = {path.parent.name for path in (SOURCE / "holdfast" / "stores").glob("*/store.py")} - {
    "sql"
}  # which stores share
MODULES = sorted((SOURCE / "holdfast").rglob("*.py"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """Yield the names of holdfast that a module imports, at the top or in a function: `holdfast.stores.open_store`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "holdfast")
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports in full"
            if node.module and node.module.partition(".")[0] == "holdfast":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def may_import(importer: str, name: str) -> bool:
    """Return True if a module may import a name of holdfast."""
    layer = importer.partition(".")[2].partition(".")[0]
    target = name.partition(".")[2]
    first = target.partition(".")[0]
    if layer == "testing" or first == layer == "core" or (not layer and first in ("core", "sources", *INNER)):
        return True
    if not layer and target == "stores.protocol.Store":
        return True  # it is public, for annotations
    if layer == "process_identity":
        return first == "core"
    if layer in ("sources", "containers"):
        return first in ("core", layer)
    if layer in ("sqlalchemy", "files"):  # holdfast.files is the short path of a ready pipeline
        return first == "core" if layer == "sqlalchemy" else target.startswith("pipelines.files")
    if first == "sqlalchemy":
        return False
    if first == "process_identity":
        return layer not in ("core", "stores")
    if layer == "__main__":
        return first == "cli"
    if layer == "stores":
        return first == "core" or _within_stores(importer, target)
    if layer in INNER:
        below = INNER[: INNER.index(layer) + 1]
        return first in ("core", "sources", *below) or target.startswith(("stores.protocol", "stores.open_store"))
    if layer in OUTER:
        return layer == "cli" or first == layer or first not in (*OUTER, "testing")
    return False


def _within_stores(importer: str, target: str) -> bool:
    parts = target.split(".")
    if parts[0] != "stores":
        return False
    own = importer.split(".")[2:3]
    if own == ["memory"] and parts[1] == "sql":
        return False
    if not own:
        return True  # stores/__init__.py chooses one by its URL
    return parts[1] not in STORES or parts[1] == own[0]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_go_one_way(path: Path) -> None:
    wrong = [name for name in imported(path) if not may_import(dotted(path), name)]
    assert not wrong, f"{dotted(path)} imports {', '.join(wrong)}. {SENTENCE}"


@pytest.mark.parametrize(
    ("importer", "name"),
    [
        ("holdfast.core.step", "holdfast.stores.protocol.Store"),
        ("holdfast.stores.sqlite.commit", "holdfast.stores.postgres.commit.Commit"),
        ("holdfast.stores.sql.work", "holdfast.stores.sqlite.commit.Commit"),
        ("holdfast.stores.memory.work", "holdfast.stores.sql.row_codec.kept"),
        ("holdfast.stores.memory.work", "holdfast.observe.report.Report"),
        ("holdfast.stores.group_commit", "holdfast.stores.sqlite.SqliteStore"),
        ("holdfast.engine.worker", "holdfast.stores.sqlite.SqliteStore"),
        ("holdfast.engine.worker", "holdfast.testing.ManualClock"),
        ("holdfast.sources.listing", "holdfast.stores.protocol.Store"),
        ("holdfast.sources.listing", "holdfast.pipelines.rag.Library"),
        ("holdfast.stores.sqlite.commit", "holdfast.sources.parse_source"),
        ("holdfast.web.pages", "holdfast.cli.output.print_line"),
        ("holdfast.web.pages", "holdfast.testing.ManualClock"),
    ],
)
def test_the_walk_would_find_a_wrong_import(importer: str, name: str) -> None:
    assert not may_import(importer, name)


def test_importing_holdfast_loads_no_driver_no_terminal_and_no_command_line() -> None:
    """Import time is resume time. What only some need is imported where it is needed."""
    heavy = (
        "asyncio",
        "click",
        "email",
        "holdfast.cli",
        "logging",
        "multiprocessing",
        "opentelemetry",
        "prometheus_client",
        "psycopg",
        "pytest",
        "rich",
        "sqlite3",
        "ssl",
    )
    code = f"import sys, holdfast; print(*[name for name in {heavy!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


def test_only_stores_name_the_tables_of_a_store() -> None:
    """The tables `hf_*` belong to the stores. Everyone else asks by a verb of the store protocol."""
    files = [path for layer in (*INNER, *OUTER) for path in (SOURCE / "holdfast" / layer).rglob("*") if path.is_file()]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.suffix in (".py", ".sql", ".html")}
    assert len(texts) > 100
    named = {str(path.relative_to(SOURCE)): re.findall(r"\bhf_[a-z_]+", text) for path, text in texts.items()}
    assert {path: tables for path, tables in named.items() if tables} == {}
