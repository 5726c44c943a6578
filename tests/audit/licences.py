"""Licences of the runtime dependencies: of holdfast with all extras, and of everything that these need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from holdfast.core.distribution import DISTRIBUTION

ALLOWED = re.compile(
    r"apache|\bmit\b|mit-cmu|bsd|\bisc\b|psf|python software foundation|zlib|cc0|unlicense|hpnd|mozilla|mpl|lgpl",
    re.IGNORECASE,
)
"""Licences that allow use in a program with any licence. LGPL and MPL apply only to their own files."""
NEVER = re.compile(r"\bagpl|affero|\bgpl|(?<!lesser )general public|sspl|busl|proprietary|commercial", re.IGNORECASE)


def unlicensed(root: Path) -> Iterator[str]:
    """Yield the runtime dependencies whose licence is not allowed."""
    for name in sorted(closure(DISTRIBUTION)):
        licence = licence_of(name)
        if not ALLOWED.search(licence) or NEVER.search(licence):
            yield f"{name}: {licence or 'it names no licence'}"


def closure(name: str) -> set[str]:
    """Return the installed packages that a package needs, with all its extras."""
    wanted, found = [Requirement(f"{name}[{','.join(_extras(name))}]")], set[str]()
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            needs = distribution(requirement.name).requires or []
        except PackageNotFoundError:  # a package for another operating system
            continue
        found.add(canonicalize_name(requirement.name))
        for extra in ("", *requirement.extras):
            wanted += [need for text in needs if _holds(need := Requirement(text), extra)]
    return found - {canonicalize_name(name)}


def licence_of(name: str) -> str:
    """Return the licence that a package names in its metadata."""
    metadata = distribution(name).metadata
    classifiers = [text for text in metadata.get_all("Classifier") or () if text.startswith("License")]
    names = [classifier.rpartition("::")[2].strip() for classifier in classifiers]
    return metadata.get("License-Expression") or ", ".join(names) or (metadata.get("License") or "").strip()[:100]


def _extras(name: str) -> list[str]:
    return distribution(name).metadata.get_all("Provides-Extra") or []


def _holds(need: Requirement, extra: str) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": extra})
