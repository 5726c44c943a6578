"""Patterns of paths as SQLite's glob reads them, for PostgreSQL, which has none."""

from __future__ import annotations

import re

NOTHING = "$."
"""What no text fits."""
_PART = re.compile(r"\*|\?|\[\^?\]?[^]]*\]|\[|[^*?[]+", re.DOTALL)


def as_regex(pattern: str) -> str:
    """Gives the regular expression of a pattern: * any characters, ? one, [abc] [a-z] [^a] one of some."""
    parts = [_translated(part) for part in _PART.findall(pattern)]
    return NOTHING if None in parts else f"^{''.join(part or '' for part in parts)}$"


def _translated(part: str) -> str | None:
    match part[0], len(part):
        case "*", _:
            return ".*"
        case "?", _:
            return "."
        case "[", 1:
            return None  # it has no end
        case "[", _:
            return _one_of(part)
    return re.sub(r"\W", _literally, part)


def _one_of(part: str) -> str:
    negated, inside = ("^", part[2:-1]) if part[1] == "^" else ("", part[1:-1])
    spans = re.findall(r"(.)-(.)|(.)", inside, re.DOTALL)
    told = "".join(
        f"{_literally(first)}-{_literally(last)}" if first else _literally(single)
        for first, last, single in spans
        if not first or first <= last
    )
    return f"[{negated}{told}]" if told else NOTHING


def _literally(found: re.Match[str] | str) -> str:
    """Gives a character by its number, which never means anything else."""
    return "".join(f"\\U{ord(one):08x}" for one in (found if isinstance(found, str) else found.group()))
