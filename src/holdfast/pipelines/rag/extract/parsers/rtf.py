"""RTF: the text, without formatting."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.core.distribution import install_command
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_whole
from holdfast.pipelines.rag.extract.parsers.cleaning import in_pages, joined
from holdfast.pipelines.rag.values import Page

BROKEN = (ValueError, LookupError, TypeError, RecursionError, OverflowError, AttributeError)


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`. Only a very long text has more than one."""
    check_whole(path, limits)
    text = joined(rtf_text(path.read_bytes().decode("latin-1")).split("\n"))
    for number, part in islice(enumerate(in_pages([text]), 1), start, None):
        yield Page(number, part)


def count(path: Path, *, limits: ExtractLimits) -> int:  # the signature is that of all parsers
    """Return 1: the length of the text is not known before it is read."""
    return 1


def rtf_text(source: str) -> str:
    """Return the text of RTF.

    Args:
        source: The RTF, one character for each byte.

    Raises:
        Reject: It is broken, or the package for it is not installed.
    """
    try:
        from striprtf import striprtf
    except ImportError as error:
        raise Reject(f"RTF files need the package striprtf: {install_command('rag')}") from error
    convert: Any = striprtf.rtf_to_text  # it has no type annotations
    try:
        return str(convert(source, encoding="cp1252", errors="replace"))
    except BROKEN as error:
        raise Reject(f"broken: the RTF file cannot be read ({error})") from error
