"""Names for attachments: what a message calls them, made fit for a file and unlike each other."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.parsers.cleaning import clean

LONGEST = 150


class Names:
    """Gives each attachment of a message a name of its own, and counts them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._given: set[str] = set()

    def unique(self, name: str) -> str:
        """Gives the name without folders and control characters; a second of the same name becomes `name (2)`."""
        if len(self._given) >= self._most:
            raise Reject(f"the message has more than {self._most:,} attachments")
        plain = PurePosixPath(_plain(name))
        chosen, number = str(plain), 1
        while chosen.casefold() in self._given:
            number += 1
            chosen = f"{plain.stem} ({number}){plain.suffix}"
        self._given.add(chosen.casefold())
        return chosen


def _plain(name: str) -> str:
    last = re.split(r"[/\\]", clean(name))[-1]
    last = re.sub(r'[\s:*?"<>|\ufffd]+', " ", last).strip(" .")
    if len(last) > LONGEST:
        stem, dot, suffix = last.rpartition(".")
        last = f"{stem[:LONGEST]}.{suffix}" if dot and len(suffix) < 10 else last[:LONGEST]
    return last or "attachment"
