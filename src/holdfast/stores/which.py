"""Which documents are meant, as questions to a database: patterns, and the names of the conditions to ask with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.stores.protocol import Which

KNOWN = frozenset(Which.__annotations__)
INDEXED = ("waiting", "paused", "dead")


def asked(which: Which) -> dict[str, Any]:
    """Gives what is asked for, by name. A key that stands for many is `keys`."""
    if unknown := which.keys() - KNOWN:
        raise TypeError(f"documents are not told apart by {', '.join(sorted(unknown))}, but by {', '.join(KNOWN)}")
    asking: dict[str, Any] = {name: value for name, value in which.items() if value is not None}
    if is_pattern(asking.get("key", "")):
        asking["keys"] = asking.pop("key")
    return asking


def conditions(asking: Mapping[str, Any]) -> set[str]:
    """Names the conditions to ask with. A state that has an index is its own: only a plain word finds the index."""
    state = asking.get("state")
    return {*asking} - {"state"} | {state} if state in INDEXED else {*asking}


def is_pattern(key: str) -> bool:
    """Answers whether a key stands for many."""
    return "*" in key or "?" in key


def as_glob(pattern: str) -> str:
    """Gives a pattern as GLOB reads it, to which brackets mean something too."""
    return pattern.replace("[", "[[]")


def as_like(pattern: str) -> str:
    """Gives a pattern as LIKE reads it."""
    return _literally(pattern).replace("*", "%").replace("?", "_")


def as_regex(pattern: str) -> re.Pattern[str]:
    """Gives a pattern as Python reads it. No star goes back over what an earlier one took: hostile ones end, too."""
    first, *others = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>.*?{part})' for part in middle)}.*{last}", re.DOTALL)


def containing(text: str) -> str:
    """Gives the LIKE pattern of everything that has this in it."""
    return f"%{_literally(text)}%"


def _literally(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
