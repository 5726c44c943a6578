"""Limits of texts, the same for all stores, so that documents can move from one store to another.

Texts about errors and decisions are cut, and say so. An error can carry the whole response of a service in its message:
without a limit, a few thousand of them fill a disk. Names that stores look up are refused if they are too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_NAME = 200
"""Characters of the class of an error."""
MAX_REASON = 4_000
"""Characters of a reason, and of the message of an error."""
MAX_TRACEBACK = 16_000
"""Characters of a traceback."""
MAX_LOG = 64_000
"""Characters of a log record."""
MAX_KEY = 1_200
"""Bytes of the key of a document, of its fingerprint, and of the name of a batch, a pipeline or a step.

An entry of an index of PostgreSQL has at most about 2,700 bytes, and document search indexes a source with a key.
"""


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters: the text itself, or its start and its end with its length between.

    Args:
        text: Any text.
        limit: The greatest number of characters, at least 100.

    Returns:
        The text. If it was cut, it says so, and how long it was.

    Example:
        shorten("x" * 5_000_000, 4_000)
    """
    if len(text) <= limit:
        return text
    mark = f" [... cut: {len(text):,} characters in all ...] "
    room = limit - len(mark)
    end = room // 4
    return f"{text[: room - end]}{mark}{text[len(text) - end :]}"


def shorten_detail(detail: Any) -> Any:
    """Return the details of a journal line with its long texts cut."""
    if not isinstance(detail, Mapping):
        return detail
    return {name: shorten(text, MAX_REASON) if isinstance(text, str) else text for name, text in detail.items()}


def too_long(name: str) -> str | None:
    """Return why a name is too long for a store to look it up, or None."""
    if len(name) * 4 <= MAX_KEY:  # no character has more than 4 bytes
        return None
    size = len(name.encode(errors="surrogatepass"))
    if size <= MAX_KEY:
        return None
    return (
        f"has {size:,} bytes, and a store can look up names of {MAX_KEY:,} bytes at most. Use a shorter one, such as a "
        "hash of it, and keep the long one in the payload"
    )
