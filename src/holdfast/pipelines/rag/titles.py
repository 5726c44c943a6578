"""What a document is called, as its first page says it."""

from __future__ import annotations

import re

from holdfast.pipelines.rag.model import Page

LONGEST = 200
LINES = 3
"""A title is rarely of more lines; a table or an address is."""
_HEADING = re.compile(r"#{1,3} +(.+)")
_SUBJECT = re.compile(r"Subject: *(.+)")


MESSAGES = ("eml", "msg")


def title_of(page: Page, kind: str = "") -> str:
    """Gives the title that a first page begins with: a heading, a subject, or a short paragraph alone; else nothing.

    A message is called by its subject or not at all: what it begins with is who wrote it to whom.
    """
    if page.label or (kind or page.kind) in MESSAGES:
        return page.label[:LONGEST]
    lines = page.text.lstrip().split("\n", 12)
    for line in lines[:12]:
        if (found := _HEADING.fullmatch(line.strip())) and (heading := found[1].rstrip("#").strip()):
            return heading[:LONGEST]
        if found := _SUBJECT.fullmatch(line.strip()):
            return found[1].strip()[:LONGEST]
    first, _, rest = page.text.lstrip().partition("\n\n")
    alone = rest.strip() and first.count("\n") < LINES and "\t" not in first
    line = " ".join(first.split())
    return line if alone and len(line) <= LONGEST else ""
