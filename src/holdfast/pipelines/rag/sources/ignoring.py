r"""Which files are left out: hidden ones and junk, and what people ask for in the style of .gitignore.

One pattern a line, the last one that matches decides, empty lines and lines that begin with # say nothing:

*.log       whatever has such a name, at any depth; * and ? stand for anything but a slash, [a-z] for one of these
drafts/     only folders, with all that is in them
/notes.md   only at the root; so does every pattern with a slash inside: docs/*.md
docs/**/old ** stands for any number of folders
!keep.log   not left out after all, unless a folder above it is; this goes for what is left out by default, too
\!odd \#odd names that begin with such a character

Of what git does, this is not done: a `.holdfastignore` counts only at the root of a source, not in each folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from holdfast.pipelines.rag.sources.source import SourceRefused

FILE = ".holdfastignore"
DEFAULT = (".*", "~$*", "__pycache__/", "node_modules/", "Thumbs.db", "desktop.ini", "*.tmp", "*.part", "*.crdownload")
MOST_DOUBLE_STARS = 3
"""More in one pattern would make matching slow, and folders of strangers have such files, too."""


class _Rule(Struct, frozen=True):
    brings_back: bool
    by_name: bool
    regex: str


_Match = Callable[[str], re.Match[str] | None]
_Group = tuple[bool, _Match | None, _Match | None]
"""Neighbouring rules that say the same: whether they bring back, what matches names, and what matches whole keys."""


class Ignoring:
    """Knows what to leave out, by the patterns that are given, over those that hold by default."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        rules = [rule for pattern in (*DEFAULT, *patterns) if (rule := _rule(pattern))]
        self._last_first = list(_groups(rules))[::-1]

    def hides(self, key: str, name: str) -> bool:
        """Answers whether to leave out this file or folder. A folder's key and name end with a slash."""
        for brings_back, by_name, by_path in self._last_first:  # plain, since it is asked for every file there is
            if (by_name and by_name(name)) or (by_path and by_path(key)):
                return not brings_back
        return False

    def hides_below(self, key: str) -> bool:
        """Answers whether to leave out this file, for its own sake or for that of a folder above it."""
        parts = key.split("/")
        folders = ("/".join(parts[: depth + 1]) + "/" for depth in range(len(parts) - 1))
        return any(map(self.hides, folders, (part + "/" for part in parts))) or self.hides(key, parts[-1])


def matcher(pattern: str) -> re.Pattern[str]:
    """Gives what a whole key must match to be meant by a glob."""
    return _compiled(pattern, _translated(pattern.split("/")))


def _rule(line: str) -> _Rule | None:
    pattern = line.rstrip("\r\n")
    pattern = pattern if pattern.endswith("\\ ") else pattern.rstrip(" ")
    if not pattern or pattern.startswith("#"):
        return None
    brings_back = pattern.startswith("!")
    pattern = pattern[brings_back:]
    bare = pattern.rstrip("/")
    ending = "/" if bare != pattern else "/?"
    parts = bare.split("/")
    by_name = len(parts) == 1
    if parts[0] == "" and not by_name:
        parts = parts[1:]
    if not bare:
        return None
    regex = _translated(parts) + ending
    _compiled(line, regex)  # says which line is wrong
    return _Rule(brings_back, by_name, regex)


def _groups(rules: Sequence[_Rule]) -> Iterator[_Group]:
    for brings_back, alike in groupby(rules, key=lambda rule: rule.brings_back):
        together = list(alike)
        by_name = _any(rule.regex for rule in together if rule.by_name)
        yield brings_back, by_name, _any(rule.regex for rule in together if not rule.by_name)


def _any(regexes: Iterable[str]) -> _Match | None:
    together = "|".join(f"(?:{regex})" for regex in regexes)
    return re.compile(together, re.DOTALL).fullmatch if together else None


def _compiled(pattern: str, regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise SourceRefused(f"the pattern {pattern.strip()!r} cannot be understood: {error}") from error


def _translated(parts: Sequence[str]) -> str:
    """Turns the parts between slashes into an expression. `**` as a whole part stands for any number of parts."""
    parts = [part for part, before in zip(parts, ("", *parts), strict=False) if not part == before == "**"]
    if parts.count("**") > MOST_DOUBLE_STARS:
        raise SourceRefused(f"the pattern {'/'.join(parts)!r} has ** more than {MOST_DOUBLE_STARS} times")
    regex = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            regex += ".+" if last else "(?:.*/)?"
        else:
            regex += _part(part) + ("" if last else "/")
    return regex


def _part(part: str) -> str:
    """Turns one part into an expression that never goes back over what an earlier star took: hostile ones end, too."""
    first, *others = _split_at_stars(part)
    if not others:
        return first
    *middle, last = others
    if not (first or last or any(middle)):
        return "[^/]+"  # nothing but stars: a/* is what is in the folder, not the folder itself
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
            pieces[-1] += _one_of(part[place:end])
            place = end + 1
        else:
            pieces[-1] += re.escape(char)
    return pieces


def _one_of(inside: str) -> str:
    negated = inside[0] in "!^"
    spans = re.findall(r"(.)-(.)|(.)", inside[negated:], re.DOTALL)
    told = "".join(f"{re.escape(first)}-{re.escape(last)}" if first else re.escape(one) for first, last, one in spans)
    return f"(?!/)[{'^' if negated else ''}{told}]"
