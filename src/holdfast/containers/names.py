"""Names of entries: relative, without tricks, and short enough for a key."""

from __future__ import annotations

import re

UNSAFE = re.compile("[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
"""Control characters, and those that turn the direction of a text around: `exe.fdp` would be shown as `pdf.exe`."""
SURROGATE = re.compile("[\ud800-\udfff]")
MAX_PART, MAX_NAME = 150, 400
"""Characters of one part of a name, and of the whole name, at most. Extensions are kept."""


def safe_name(name: str, *, default: str = "entry") -> str:
    """Return a name as a relative path: without drives, `..`, control characters and empty parts.

    Args:
        name: The name that the container has.
        default: The name if nothing is left of it.
    """
    cleaned = SURROGATE.sub("\ufffd", UNSAFE.sub("", name)).replace("\\", "/")
    parts = [_shortened(part.strip()) for part in re.sub(r"^[A-Za-z]:", "", cleaned).split("/")]
    kept = [part for part in parts if part not in ("", ".", "..")]
    while len(kept) > 1 and sum(map(len, kept)) + len(kept) > MAX_NAME:
        del kept[0]
    return "/".join(kept) or default


def message_name(number: int, subject: str) -> str:
    """Return the name of a message in a mailbox: its number and its subject.

    Args:
        number: Its number, from 1.
        subject: Its subject.
    """
    words = " ".join(re.sub(r'[/\\#:*?"<>|\ufffd]+', " ", SURROGATE.sub("", UNSAFE.sub(" ", subject))).split())[:80]
    return f"{number} {words}".strip(" .") + ".eml"


def _shortened(part: str) -> str:
    if len(part) <= MAX_PART:
        return part
    stem, dot, suffix = part.rpartition(".")
    return f"{stem[: MAX_PART - 10]}.{suffix}" if dot and len(suffix) < 10 else part[:MAX_PART]
