"""Dependencies: each is locked by a hash, declared if it is imported, and used if it is declared."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ENTRY = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==[^\s;\\]+")


def unlocked(root: Path) -> Iterator[str]:
    """Yield entries of lock files without a hash or a version, and dependencies from a URL."""
    locks = sorted(root.glob("requirements*.lock"))
    if not locks:
        yield f"there is no lock file in {root.name}"
    for lock in locks:
        for entry in _entries(lock.read_text()):
            if not ENTRY.match(entry):
                yield f"{lock.name}: {entry.split(' ')[0]} is not a name with a version"
            elif "--hash=sha256:" not in entry:
                yield f"{lock.name}: {ENTRY.match(entry)['name']} has no hash"  # type: ignore[index]
    for requirement in _declared(root):
        if "@" in requirement or "://" in requirement:
            yield f"pyproject.toml: {requirement} is from a URL"


def _entries(lock: str) -> Iterator[str]:
    """Yield the entries of a lock file, each on one line."""
    for entry in lock.replace("\\\n", " ").splitlines():
        if entry.strip() and not entry.lstrip().startswith("#"):
            yield " ".join(entry.split())


def _declared(root: Path) -> list[str]:
    document = tomllib.loads((root / "pyproject.toml").read_text())
    project = document.get("project", {})
    groups = [*project.get("optional-dependencies", {}).values(), *document.get("dependency-groups", {}).values()]
    all_groups = (project.get("dependencies", []), *groups)
    return [requirement for group in all_groups for requirement in group if isinstance(requirement, str)]


def undeclared(root: Path) -> Iterator[str]:
    """Yield the problems that deptry finds in src. Allowed exceptions are in pyproject.toml."""
    command = [sys.executable, "-m", "deptry", "src", "--no-ansi"]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if process.returncode:
        yield from [line for line in process.stderr.splitlines() if re.search(r"DEP\d|rror", line)] or [process.stderr]
