"""Translate patterns of paths: SQLite has GLOB, PostgreSQL needs a regular expression."""

from __future__ import annotations

import re

NEVER = "$."
"""A regular expression that no text matches."""
_PART = re.compile(r"\*|\?|\[\^?\]?[^]]*\]|\[|[^*?[]+", re.DOTALL)


def glob_to_regex(pattern: str) -> str:
    """Return the regular expression of a pattern, as SQLite's GLOB reads it.

    `*` stands for any characters, `?` for one character, `[abc]`, `[a-z]` and `[^a]` for one of several.
    """
    parts = [_translated(part) for part in _PART.findall(pattern)]
    return NEVER if None in parts else f"^{''.join(part or '' for part in parts)}$"


def _translated(part: str) -> str | None:
    match part[0], len(part):
        case "*", _:
            return ".*"
        case "?", _:
            return "."
        case "[", 1:
            return None  # a bracket that is never closed matches nothing
        case "[", _:
            return _character_class(part)
    return re.sub(r"\W", _escaped, part)


def _character_class(part: str) -> str:
    negated, inside = ("^", part[2:-1]) if part[1] == "^" else ("", part[1:-1])
    ranges = re.findall(r"(.)-(.)|(.)", inside, re.DOTALL)
    characters = "".join(
        f"{_escaped(first)}-{_escaped(last)}" if first else _escaped(single)
        for first, last, single in ranges
        if not first or first <= last
    )
    return f"[{negated}{characters}]" if characters else NEVER


def _escaped(found: re.Match[str] | str) -> str:
    """Return characters by their code points, which have no other meaning in a regular expression."""
    text = found if isinstance(found, str) else found.group()
    return "".join(f"\\U{ord(character):08x}" for character in text)
