"""Known vulnerabilities: pip-audit asks the package index, which does not answer everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

PATIENCE = 25


class NotChecked(Exception):
    """Nobody could be asked."""


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
    """Names packages of the lock with a known vulnerability. Raises NotChecked where nobody can be asked."""
    packages = _asked(root / "requirements.lock")
    answered = [one for one in packages or () if not one.skip_reason]
    if not answered:
        why = (
            "pip-audit did not come to an end"
            if packages is None
            else f"none of {len(packages)} packages is known where it asks"
        )
        raise NotChecked(f"nobody answers for vulnerabilities here: {why}")
    for one in answered:
        for flaw in one.vulns:
            yield f"{one.name} {one.version}: {flaw.id}, mended in {', '.join(flaw.fix_versions) or 'no version yet'}"


def _asked(lock: Path) -> list[_Package] | None:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "5"]
    try:
        said = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        return msgspec.json.decode(said.stdout, type=_Audit).dependencies
    except (subprocess.TimeoutExpired, msgspec.MsgspecError):
        return None
