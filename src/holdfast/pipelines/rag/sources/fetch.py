"""A file to read, wherever it is: itself when it is on this machine, else a copy for as long as it is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.sources.limits import DEFAULT, Limits
from holdfast.pipelines.rag.sources.source import Seen, is_url

SLICE = 1 << 20


class FileGone(Reject):
    """A file is not where it was seen. When it is seen again, its document is tried again."""


@contextmanager
def local_copy(seen: Seen, *, allow_private: bool = False, limits: Limits = DEFAULT) -> Iterator[Path]:
    """Gives the path of a file's content: of the file itself, or of a copy that is gone afterwards.

    Raises FileGone for a file that is away, Reject for what will never be there, RetryLater when a server asks to be
    asked later, and Unreachable, which costs an attempt, when it does not answer or breaks off.
    """
    if not is_url(seen.location):
        path = Path(seen.location)
        if not path.is_file():
            raise FileGone(f"{seen.location} is not there any more")
        yield path
        return
    with TemporaryDirectory(prefix="holdfast-") as folder:
        copy = Path(folder) / _name(seen.location)
        with copy.open("w+b") as into:
            if seen.location.lower().startswith(("http://", "https://")):
                from holdfast.pipelines.rag.sources.web import fetch_page

                fetch_page(seen.location, into, allow_private=allow_private, limits=limits)
            else:
                from holdfast.pipelines.rag.sources.remote import fetch_object

                fetch_object(seen.location, into, allow_private=allow_private, limits=limits)
        yield copy


def hash_of(seen: Seen, *, allow_private: bool = False, limits: Limits = DEFAULT) -> str:
    """Gives the hash of a file's content, read in slices."""
    digest = blake2b(digest_size=32)
    with local_copy(seen, allow_private=allow_private, limits=limits) as path, path.open("rb", 0) as content:
        part = memoryview(bytearray(SLICE))
        while size := content.readinto(part):
            digest.update(part[:size])
    return digest.hexdigest()


def _name(url: str) -> str:
    """Gives a name for the copy that ends as the document's does, and is a name on every machine."""
    name = os.path.basename(unquote(urlsplit(url).path))  # noqa: PTH119
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-80:].lstrip(".") or "document"
