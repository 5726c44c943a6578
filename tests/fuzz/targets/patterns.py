"""Patterns, sources and addresses, as users type them or as untrusted folders contain them."""

from __future__ import annotations

import re
import sqlite3
from fnmatch import fnmatchcase

import pytest
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.pipelines.rag.index.postgres.globs import glob_to_regex
from holdfast.sources.fetch import _file_name
from holdfast.sources.ignore_rules import IgnoreRules, compile_glob
from holdfast.sources.source import is_url, parse_source
from holdfast.sources.ssrf_guard import is_public
from holdfast.stores.document_filter import as_glob, as_like, as_regex
from tests.fuzz.inputs import texts
from tests.fuzz.target import takes

BITS = st.sampled_from(
    ("*", "**", "?", "[", "]", "!", "^", "-", "/", "\\", "a", "b", ".", "#", " ", "[a-z]", "[!a]", "a" * 30)
)
PATTERN = st.lists(BITS, max_size=14).map("".join) | texts
KEY = st.lists(st.sampled_from(("a", "b", "/", ".", "*", "[", "a" * 30, "é")), max_size=12).map("".join)


@takes(
    st.tuples(st.lists(PATTERN, max_size=5), KEY),
    "A line of a .holdfastignore is a rule, is ignored, or is refused with the line; matching is fast.",
    sealed=True,
)
def ignoring(given: tuple[list[str], str]) -> None:
    patterns, key = given
    IgnoreRules(patterns).ignores_path(key)
    for pattern in patterns:
        compile_glob(pattern).fullmatch(key)


@takes(
    st.tuples(PATTERN, KEY),
    "A key pattern means the same in every store: * is any text, ? one character, anything else itself.",
)
def keys(given: tuple[str, str]) -> None:
    pattern, key = given
    if not _is_plain(pattern):
        as_regex(pattern).fullmatch(key)
        return
    found = as_regex(pattern).fullmatch(key) is not None
    ((glob, like),) = _db().execute(
        r"select ? glob ?, ? like ? escape '\'", (key, as_glob(pattern), key, as_like(pattern))
    )
    assert bool(glob) == found == fnmatchcase(key, pattern.replace("[", "[[]")), (pattern, key, glob, found)
    assert bool(like) or not found


@takes(
    st.tuples(PATTERN, KEY),
    "A path pattern as a regular expression matches the same paths as SQLite's glob.",
)
def globs(given: tuple[str, str]) -> None:
    pattern, key = given
    regex = glob_to_regex(pattern)
    if not _is_plain(pattern):
        return
    ((glob,),) = _db().execute("select ? glob ?", (key, pattern))
    assert bool(re.search(_without_backtracking(regex), key, re.DOTALL)) == bool(glob), (pattern, key, regex)


def _without_backtracking(regex: str) -> str:
    """Return an expression that Python matches without backtracking, as PostgreSQL does. Else it would take hours."""
    first, *others = regex.split(".*")
    *middle, last = others or [""]
    return first + "".join(f"(?>.*?{part})" for part in middle) + (".*" if others else "") + last


WORD = st.lists(
    st.sampled_from(
        ("http", "https", "file", "s3", "ftp", ":", "//", "/", "a.org", "@", "u:p", "[", "]", "::1", "?", "#")
    )
    | st.sampled_from(("*", "..", "\0", "\ud800", "%2e%2e", "::", "zip", " ", "localhost", "\\", "é", "C:")),
    max_size=8,
).map("".join)


@takes(WORD | texts, "Any text is a source, or SourceRefused says why not.")
def sources(word: str) -> None:
    source = parse_source(word)
    assert source.kind in ("folder", "file", "glob", "web", "remote")


@takes(WORD | texts, "The copy of any document has a plain name.", refusals=[ValueError], sealed=True)
def copies(word: str) -> None:
    is_url(word)
    name = _file_name(word)
    assert re.fullmatch(r"[\w.-]{1,80}", name, re.ASCII)
    assert name not in (".", "..")


ADDRESS = st.ip_addresses().map(str) | texts | st.integers(0, 2**32).map(hex)


@takes(ADDRESS, "An address that is not global is not public.", sealed=True)
def addresses(word: str) -> None:
    if is_public(word):
        import ipaddress

        assert ipaddress.ip_address(word.partition("%")[0]).is_global


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


_opened: list[sqlite3.Connection] = []


def _db() -> sqlite3.Connection:
    if not _opened:
        _opened.append(sqlite3.connect(":memory:"))
    return _opened[0]
