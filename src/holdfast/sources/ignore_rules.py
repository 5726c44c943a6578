r"""Ignore rules: which files are left out. Hidden files and junk by default, and patterns in the style of .gitignore.

One pattern per line. The last pattern that matches decides. Empty lines and lines that begin with # are comments.

*.log       files and folders of this name, at any depth; * and ? match anything but a slash, [a-z] one character
drafts/     only folders, with everything in them
/notes.md   only at the root; the same holds for every pattern with a slash inside: docs/*.md
docs/**/old ** matches any number of folders
!keep.log   not ignored, unless a folder above it is; this works for default patterns, too
\!odd \#odd names that begin with such a character

One difference to git: a `.holdfastignore` is read only at the root of a source, not in each folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from holdfast.sources.source import SourceRefused

IGNORE_FILE = ".holdfastignore"
DEFAULT_PATTERNS = (
    ".*",
    "~$*",
    "__pycache__/",
    "node_modules/",
    "Thumbs.db",
    "desktop.ini",
    "*.tmp",
    "*.part",
    "*.crdownload",
)
MAX_DOUBLE_STARS = 3
"""More in one pattern would make matching slow. A pattern may come from a stranger's folder."""


class _Rule(Struct, frozen=True):
    is_negated: bool
    by_name: bool
    regex: str


_Match = Callable[[str], re.Match[str] | None]
_Group = tuple[bool, _Match | None, _Match | None]
"""Consecutive rules of one kind: whether they are negated, what matches names, and what matches whole keys."""


class IgnoreRules:
    """Decides which files are left out: by the default patterns, and by the given ones, which win."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        rules = [rule for pattern in (*DEFAULT_PATTERNS, *patterns) if (rule := _rule(pattern))]
        self._last_first = list(_groups(rules))[::-1]

    def ignores(self, key: str, name: str) -> bool:
        """Return True if this file or folder is left out. The key and name of a folder end with a slash."""
        for is_negated, by_name, by_path in self._last_first:  # a plain loop, because it runs for every file
            if (by_name and by_name(name)) or (by_path and by_path(key)):
                return not is_negated
        return False

    def ignores_path(self, key: str) -> bool:
        """Return True if this file, or a folder above it, is left out."""
        parts = key.split("/")
        folders = ("/".join(parts[: depth + 1]) + "/" for depth in range(len(parts) - 1))
        return any(map(self.ignores, folders, (part + "/" for part in parts))) or self.ignores(key, parts[-1])


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that a key must match in full to match a glob."""
    return _compiled(pattern, _translated(pattern.split("/")))


def _rule(line: str) -> _Rule | None:
    pattern = line.rstrip("\r\n")
    pattern = pattern if pattern.endswith("\\ ") else pattern.rstrip(" ")
    if not pattern or pattern.startswith("#"):
        return None
    is_negated = pattern.startswith("!")
    pattern = pattern[is_negated:]
    bare = pattern.rstrip("/")
    ending = "/" if bare != pattern else "/?"
    parts = bare.split("/")
    by_name = len(parts) == 1
    if parts[0] == "" and not by_name:
        parts = parts[1:]
    if not bare:
        return None
    regex = _translated(parts) + ending
    _compiled(line, regex)  # raises an error that names the line
    return _Rule(is_negated, by_name, regex)


def _groups(rules: Sequence[_Rule]) -> Iterator[_Group]:
    for is_negated, group in groupby(rules, key=lambda rule: rule.is_negated):
        members = list(group)
        by_name = _any(rule.regex for rule in members if rule.by_name)
        yield is_negated, by_name, _any(rule.regex for rule in members if not rule.by_name)


def _any(regexes: Iterable[str]) -> _Match | None:
    combined = "|".join(f"(?:{regex})" for regex in regexes)
    return re.compile(combined, re.DOTALL).fullmatch if combined else None


def _compiled(pattern: str, regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise SourceRefused(f"the pattern {pattern.strip()!r} is not valid: {error}") from error


def _translated(parts: Sequence[str]) -> str:
    """Translate the parts between slashes into a regular expression. `**` matches any number of parts."""
    parts = [part for part, before in zip(parts, ("", *parts), strict=False) if not part == before == "**"]
    if parts.count("**") > MAX_DOUBLE_STARS:
        raise SourceRefused(f"the pattern {'/'.join(parts)!r} has ** more than {MAX_DOUBLE_STARS} times")
    regex = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            regex += ".+" if last else "(?:.*/)?"
        else:
            regex += _part(part) + ("" if last else "/")
    return regex


def _part(part: str) -> str:
    """Translate one part into a regular expression that never backtracks over an earlier star, so it always ends."""
    first, *others = _split_at_stars(part)
    if not others:
        return first
    *middle, last = others
    if not (first or last or any(middle)):
        return "[^/]+"  # only stars: a/* is what is in the folder, not the folder itself
    return first + "".join(f"(?>[^/]*?{fixed})" for fixed in middle if fixed) + "[^/]*" + last


def _split_at_stars(part: str) -> list[str]:
    pieces, place = [""], 0
    while place < len(part):
        char = part[place]
        place += 1
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "\\" and place < len(part):
            pieces[-1] += re.escape(part[place])
            place += 1
        elif char == "[" and (end := part.find("]", place + 1 + (part[place : place + 1] in ("!", "^")))) > 0:
            pieces[-1] += _character_class(part[place:end])
            place = end + 1
        else:
            pieces[-1] += re.escape(char)
    return pieces


def _character_class(inside: str) -> str:
    negated = inside[0] in "!^"
    spans = re.findall(r"(.)-(.)|(.)", inside[negated:], re.DOTALL)
    inner = "".join(f"{re.escape(first)}-{re.escape(last)}" if first else re.escape(one) for first, last, one in spans)
    return f"(?!/)[{'^' if negated else ''}{inner}]"
