"""Pages, Numbers and Keynote of Apple: the preview that some of these files have inside, a PDF.

Their own format is not documented. Files of recent versions have no PDF inside; they are rejected with advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers import pdf
from holdfast.pipelines.rag.extract.parsers.office_package import open_package
from holdfast.pipelines.rag.values import Page

PREVIEW = "QuickLook/Preview.pdf"
ADVICE = "a file of Apple's Pages, Numbers or Keynote without a preview; export it as PDF, or as DOCX, XLSX or PPTX"


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages of the preview after the first `start`."""
    with _preview(path, limits) as preview:
        yield from pdf.pages(preview, start=start, limits=limits)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of pages of the preview."""
    with _preview(path, limits) as preview:
        return pdf.count(preview, limits=limits)


@contextmanager
def _preview(path: Path, limits: ExtractLimits) -> Iterator[Path]:
    with open_package(path, limits) as package:
        if not package.has(PREVIEW):
            raise Reject(ADVICE)
        content = package.read(PREVIEW, limits.file_bytes)
    with TemporaryDirectory(prefix="holdfast-") as folder:
        preview = Path(folder) / "preview.pdf"
        preview.write_bytes(content)
        yield preview
