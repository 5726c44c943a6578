"""List the entries of a container as pages, so that each page is checkpointed: a stopped run goes on at the next entry.

A page of a container has no text. Its entries become documents of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.containers import CONTAINER_KINDS, ContainerKind, Entry, open_container
from holdfast.core.codec import encode_json
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import CONTAINER_LIMITS, FileType
from holdfast.pipelines.rag.values import EntryDocument, Page
from holdfast.sources.ignore_rules import IgnoreRules

ENTRIES_PER_PAGE = 200
"""Entries of a page. A crash lists at most 200 entries again."""


def container_kind(kind: FileType) -> ContainerKind | None:
    """Return the format of a container; None if files of this type have pages."""
    return next((container for container in CONTAINER_KINDS if container == kind), None)


def container_pages(
    path: Path, kind: ContainerKind, *, start: int = 0, resume_at: Any = None, depth: int = 0, name: str = ""
) -> Iterator[Page]:
    """Yield the entries of a container as pages without text. Hidden files and junk are left out.

    Args:
        path: The container.
        kind: Its format.
        start: The number of pages that are stored already.
        resume_at: `resume_at` of the last of these.
        depth: How many containers and messages it is in.
        name: The name of its file, if the path is temporary.

    Raises:
        Reject: It is broken, and nothing in it can be read, or it is nested too deeply.
    """
    if depth >= CONTAINER_LIMITS.depth:
        raise Reject(f"it is inside of {depth} other containers, and at most {CONTAINER_LIMITS.depth} are opened")
    with open_container(path, kind, CONTAINER_LIMITS, name=name) as container:
        entries = _until_problem(container.entries(resume_at if start else None), has_pages=start > 0)
        ahead = next(entries, None)
        number = start
        while ahead is not None or number == start == 0:
            number += 1
            part = [one for one in (ahead, *islice(entries, ENTRIES_PER_PAGE - 1)) if one is not None]
            ahead = next(entries, None) if len(part) == ENTRIES_PER_PAGE else None
            yield _page(number, kind, part, is_last=ahead is None)


def _until_problem(entries: Iterator[Entry], *, has_pages: bool) -> Iterator[Entry | str]:
    """Yield entries. If the rest cannot be read, yield why instead of raising it, so that none before it is lost."""
    found = has_pages
    try:
        for entry in entries:
            found = True
            yield entry
    except Reject as error:
        if not found:
            raise
        yield str(error)


def _page(number: int, kind: ContainerKind, part: list[Entry | str], *, is_last: bool) -> Page:
    rules = IgnoreRules()
    entries = [one for one in part if isinstance(one, Entry)]
    return Page(
        number,
        "",
        kind=kind if number == 1 else "",
        last=is_last,
        entries=tuple(_document(entry) for entry in entries if not _is_junk(rules, entry.name)),
        resume_at=entries[-1].resume_at if entries else None,
        problem=next((one for one in part if isinstance(one, str)), ""),
    )


def _document(entry: Entry) -> EntryDocument:
    changes = encode_json([entry.position, entry.fingerprint])
    return EntryDocument(entry.name, entry.position, blake2b(changes.encode(), digest_size=16).hexdigest())


def _is_junk(rules: IgnoreRules, name: str) -> bool:
    """Return True if an entry, or a folder that it is in, is left out by the default ignore rules."""
    parts = name.split("/")
    folders = ("/".join(parts[: count + 1]) + "/" for count in range(len(parts) - 1))
    return any(rules.ignores(folder, folder.split("/")[-2] + "/") for folder in folders) or rules.ignores(
        name, parts[-1]
    )
