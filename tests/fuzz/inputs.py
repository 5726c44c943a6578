"""Odd values that several families share, and a folder to put files into."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

MEAN = (
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
"""Texts that have been trouble somewhere."""

chars: SearchStrategy[str] = st.characters(exclude_categories=())  # surrogates, too
texts: SearchStrategy[str] = st.one_of(st.sampled_from(MEAN), st.text(chars, max_size=40), st.text(max_size=12))
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
"""What JSON can say, and numbers and texts that it cannot."""
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
"""What a program may hand over by mistake."""


def nested(depth: int) -> list[object]:
    """Gives a list in a list, so deep."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@cache
def room() -> Path:
    """Gives a folder that is gone when the process is, or with the folder for temporary files that it was told."""
    made = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def written(name: str, content: bytes) -> Path:
    """Writes one file in the room, over the one before."""
    path = room() / name
    path.write_bytes(content)
    return path
