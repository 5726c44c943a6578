"""Dependencies: locked by hash, declared where they are imported, and used where they are declared."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ENTRY = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==[^\s;\\]+")


def unlocked(root: Path) -> Iterator[str]:
    """Names entries of locks without a hash or a version of their own, and dependencies that are named by a URL."""
    locks = sorted(root.glob("requirements*.lock"))
    if not locks:
        yield f"there is no lock in {root.name}"
    for lock in locks:
        for entry in _entries(lock.read_text()):
            if not ENTRY.match(entry):
                yield f"{lock.name}: {entry.split(' ')[0]} is no name with a version"
            elif "--hash=sha256:" not in entry:
                yield f"{lock.name}: {ENTRY.match(entry)['name']} has no hash"  # type: ignore[index]
    for wanted in _declared(root):
        if "@" in wanted or "://" in wanted:
            yield f"pyproject.toml: {wanted} is from a URL"


def _entries(lock: str) -> Iterator[str]:
    """Gives what a lock names, each on one line."""
    for entry in lock.replace("\\\n", " ").splitlines():
        if entry.strip() and not entry.lstrip().startswith("#"):
            yield " ".join(entry.split())


def _declared(root: Path) -> list[str]:
    told = tomllib.loads((root / "pyproject.toml").read_text())
    project = told.get("project", {})
    groups = [*project.get("optional-dependencies", {}).values(), *told.get("dependency-groups", {}).values()]
    return [one for group in (project.get("dependencies", []), *groups) for one in group if isinstance(one, str)]


def undeclared(root: Path) -> Iterator[str]:
    """Gives what deptry says of src. What may be imported or declared nevertheless is in pyproject.toml."""
    command = [sys.executable, "-m", "deptry", "src", "--no-ansi"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if said.returncode:
        yield from [line for line in said.stderr.splitlines() if re.search(r"DEP\d|rror", line)] or [said.stderr]
