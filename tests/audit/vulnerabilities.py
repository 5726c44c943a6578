"""Known vulnerabilities, from pip-audit. It asks the package index, which is not reachable everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

TIME_LIMIT = 25


class NotChecked(Exception):
    """The package index could not be asked."""


class _Flaw(msgspec.Struct):
    id: str
    fix_versions: list[str] = []


class _Package(msgspec.Struct):
    name: str
    version: str = ""
    vulns: list[_Flaw] = []
    skip_reason: str = ""


class _Audit(msgspec.Struct):
    dependencies: list[_Package]


def vulnerable(root: Path) -> Iterator[str]:
    """Yield packages of the lock file with a known vulnerability. Raise NotChecked if the index cannot be asked."""
    packages = _run_pip_audit(root / "requirements.lock")
    checked = [package for package in packages or () if not package.skip_reason]
    if not checked:
        reason = "pip-audit did not end" if packages is None else f"the index knows none of {len(packages)} packages"
        raise NotChecked(f"vulnerabilities cannot be checked here: {reason}")
    for package in checked:
        for flaw in package.vulns:
            fixed = ", ".join(flaw.fix_versions) or "no version yet"
            yield f"{package.name} {package.version}: {flaw.id}, fixed in {fixed}"


def _run_pip_audit(lock: Path) -> list[_Package] | None:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "5"]
    try:
        process = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, check=False)
        return msgspec.json.decode(process.stdout, type=_Audit).dependencies
    except (subprocess.TimeoutExpired, msgspec.MsgspecError):
        return None
