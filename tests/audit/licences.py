"""Licences of what runs: holdfast, with all its extras, and everything that those need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ALLOWED = re.compile(
    r"apache|\bmit\b|mit-cmu|bsd|\bisc\b|psf|python software foundation|zlib|cc0|unlicense|hpnd|mozilla|mpl|lgpl",
    re.IGNORECASE,
)
"""Anybody may use these beside a program of any licence. LGPL and MPL ask for their own files alone."""
NEVER = re.compile(r"\bagpl|affero|\bgpl|(?<!lesser )general public|sspl|busl|proprietary|commercial", re.IGNORECASE)


def unlicensed(root: Path) -> Iterator[str]:
    """Names packages of the runtime closure whose licence is none of the allowed ones."""
    for name in sorted(closure("holdfast")):
        licence = licence_of(name)
        if not ALLOWED.search(licence) or NEVER.search(licence):
            yield f"{name}: {licence or 'it does not say which'}"


def closure(name: str) -> set[str]:
    """Gives the packages that are installed here for one, with all its extras."""
    wanted, found = [Requirement(f"{name}[{','.join(_extras(name))}]")], set[str]()
    seen: set[str] = set()
    while wanted:
        one = wanted.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        try:
            needs = distribution(one.name).requires or []
        except PackageNotFoundError:  # for another system
            continue
        found.add(canonicalize_name(one.name))
        for extra in ("", *one.extras):
            wanted += [need for text in needs if _holds(need := Requirement(text), extra)]
    return found - {canonicalize_name(name)}


def licence_of(name: str) -> str:
    """Says what a package says of its licence."""
    told = distribution(name).metadata
    classes = [one.rpartition("::")[2].strip() for one in told.get_all("Classifier") or () if one.startswith("License")]
    return told.get("License-Expression") or ", ".join(classes) or (told.get("License") or "").strip()[:100]


def _extras(name: str) -> list[str]:
    return distribution(name).metadata.get_all("Provides-Extra") or []


def _holds(need: Requirement, extra: str) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": extra})
