"""Filters of documents for a database: the names of the conditions to use, and patterns of keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.stores.protocol import DocumentFilter, ItemFilter

KNOWN = frozenset(DocumentFilter.__annotations__)
INDEXED = ("waiting", "paused", "dead")


def filter_values(which: DocumentFilter) -> dict[str, Any]:
    """Return the values of a filter that are not None, by name. A key with * or ? in it is `keys`."""
    if unknown := which.keys() - KNOWN:
        raise TypeError(f"documents are not told apart by {', '.join(sorted(unknown))}, but by {', '.join(KNOWN)}")
    values: dict[str, Any] = {name: value for name, value in which.items() if value is not None}
    if is_pattern(values.get("key", "")):
        values["keys"] = values.pop("key")
    return values


def item_filter(which: ItemFilter) -> DocumentFilter:
    """Return a filter of items as one of documents: what both have is found in the same way."""
    if unknown := which.keys() - ItemFilter.__annotations__.keys():
        raise TypeError(f"items are told apart by {', '.join(ItemFilter.__annotations__)}, not {', '.join(unknown)}")
    names: DocumentFilter = {**which}  # type: ignore[typeddict-item]
    return names


def condition_names(values: Mapping[str, Any]) -> set[str]:
    """Return the names of the conditions for a filter. A state with an index has its own: only a constant finds it."""
    state = values.get("state")
    return {*values} - {"state"} | {state} if state in INDEXED else {*values}


def is_pattern(key: str) -> bool:
    """Return True if a key stands for many."""
    return "*" in key or "?" in key


def as_glob(pattern: str) -> str:
    """Return a pattern for GLOB, in which brackets also have a meaning."""
    return pattern.replace("[", "[[]")


def as_like(pattern: str) -> str:
    """Return a pattern for LIKE."""
    return _literally(pattern).replace("*", "%").replace("?", "_")


def as_regex(pattern: str) -> re.Pattern[str]:
    """Return a pattern for Python. No star backtracks over what an earlier one took, so hostile patterns end, too."""
    first, *others = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>.*?{part})' for part in middle)}.*{last}", re.DOTALL)


def containing(text: str) -> str:
    """Return the LIKE pattern of all texts that contain this one."""
    return f"%{_literally(text)}%"


def _literally(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
