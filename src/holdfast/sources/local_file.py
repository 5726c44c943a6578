"""The file of a document, for a body: on this machine under another path, or fetched from its URL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError, Reject
from holdfast.sources.fetch import FileGone, local_copy
from holdfast.sources.source import SourceFile, missing_package

PATH_MAP = "HOLDFAST_PATH_MAP"
"""The environment variable for folders that have another path here: `/data/letters=/mnt/letters;/scans=/mnt/scans`."""


@contextmanager
def local_file(doc: Document, *, allow_private: bool = False) -> Iterator[Path]:
    """Yield the path of a document's file on this machine.

    A URL is fetched into a temporary file, which is deleted at the end of the `with` block. Where a folder has another
    path than where its files were submitted, set HOLDFAST_PATH_MAP: `/data/letters=/mnt/letters`. Separate several
    pairs with `;`.

    Args:
        doc: The document. Its payload has a `path` or a `url`, as `holdfast run`, `holdfast submit` and
            `holdfast.submit` write it.
        allow_private: Also fetch from addresses in private networks.

    Returns:
        A context manager that yields the path.

    Raises:
        Reject: The file is not there, the URL can never be fetched, or the payload names no file.
        RetryLater: The server asked to be asked later.
        OSError: The file cannot be read, or the server does not answer. This costs an attempt.
        HoldfastError: URLs need a package that is not installed, or HOLDFAST_PATH_MAP is wrong.

    Example:
        @papers.step
        def read(doc):
            with holdfast.local_file(doc) as path:
                return path.read_text()
    """
    place = _location(doc)
    seen = SourceFile(doc.key, mapped_path(place), -1, 0)
    with ExitStack() as stack:
        try:
            path = stack.enter_context(local_copy(seen, allow_private=allow_private))
        except FileGone as error:
            raise FileGone(f"{error}; if its folder has another path on this machine, set {PATH_MAP}") from error
        except ModuleNotFoundError as error:
            raise missing_package(error) from error
        yield path


def mapped_path(path: str) -> str:
    """Return where a path is on this machine: HOLDFAST_PATH_MAP says so for its folder. The longest entry decides."""
    for folder, here in sorted(_path_map(), key=lambda pair: -len(pair[0])):
        if path == folder or path.startswith(f"{folder}/"):
            return here + path[len(folder) :]
    return path


def _path_map() -> Iterator[tuple[str, str]]:
    for pair in filter(None, os.environ.get(PATH_MAP, "").split(";")):
        folder, equals, here = pair.partition("=")
        if not (folder and equals and here):
            raise HoldfastError(f"{PATH_MAP} has {pair!r}; write it as /folder/there=/folder/here")
        yield folder.rstrip("/"), here.rstrip("/")


def _location(doc: Document) -> str:
    payload = doc.payload
    found = [payload[name] for name in ("path", "url") if name in payload] if isinstance(payload, dict) else []
    if not found or not isinstance(found[0], str):
        raise Reject(f"the payload of {doc.key!r} names no file: it has neither a path nor a url")
    return found[0]
