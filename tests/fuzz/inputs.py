"""Strategies for unusual values that several targets share, and a scratch folder for files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

HOSTILE_TEXTS = (
    *("", " ", "\0", "a\0b", "\ud800", "\udcff.pdf", "\ufeff", "\u202e", "\r\n", "\x1b[31m", "../../etc/passwd", "/"),
    *("%00", "%", "%s", "{}", "{0.__class__}", "$(id)", "`id`", "'; drop table hf_document; --", '"', "\\", "*", "?"),
    *("[", "]", "[]a]", "[!", "[z-a]", "**", "-", "--", "-1", "#", ":", "://", "file:///etc/passwd", "nan", "inf"),
    *("1e999", "9" * 400, "0x10", "१२", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;", "]]>"),
    *(
        "__import__('os').system('id')",
        "!!python/object/apply:os.system [id]",
        "null",
        "true",
        "NaN",
        "\x7f",
        "a" * 5000,
    ),
)
"""Texts that have caused errors in some program."""

chars: SearchStrategy[str] = st.characters(exclude_categories=())  # with surrogates
texts: SearchStrategy[str] = st.one_of(
    st.sampled_from(HOSTILE_TEXTS), st.text(chars, max_size=40), st.text(max_size=12)
)
names: SearchStrategy[str] = st.one_of(st.sampled_from(("a", "b", "read", "chunk", "embed")), texts)
numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from((2**31, -(2**31) - 1, 2**53 + 1, 2**62 + 1, 2**63, 2**64, 10**400)),
)
floats = st.one_of(st.floats(), st.sampled_from((1e308, 5e-324, -0.0)))
scalars = st.one_of(st.none(), st.booleans(), numbers, floats, texts)
json = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
"""JSON values, and numbers and texts that JSON cannot represent."""
anything = st.recursive(
    scalars | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(scalars, inner, max_size=3)
        | st.sets(st.integers(0, 3), min_size=1, max_size=2)
    ),
    max_leaves=10,
)
"""Python values that a program may pass by mistake."""


def nested(depth: int) -> list[object]:
    """Return nested lists of this depth."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@cache
def scratch_folder() -> Path:
    """Return a folder for files of this process. It is deleted at exit."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_scratch_file(name: str, content: bytes) -> Path:
    """Write a file into the scratch folder, over an earlier one of this name. Return its path."""
    path = scratch_folder() / name
    path.write_bytes(content)
    return path
