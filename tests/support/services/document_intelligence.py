"""A local service with the protocol of Azure Document Intelligence: a file is posted, and its text is polled."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

from PIL import Image

from holdfast.pipelines.rag.extract.page_images import MAX_PAGE_BYTES, PDFIUM_LOCK
from tests.support.services.local_service import Answer, HttpRequest, LocalService

KEY = "a-key-of-nobody"


class DocumentService(LocalService):
    """Returns the text of a PDF, or the size of a picture.

    Args:
        running: How often a poll is answered with `running` before the result.
    """

    def __init__(self, running: int = 1) -> None:
        super().__init__()
        self.running = running
        self.pause = "2"
        self.operation_host = ""
        """The host in `Operation-Location`, if it is not this service."""
        self.operations: list[dict[str, Any]] = []
        self._polls: dict[str, int] = {}

    @property
    def posts(self) -> list[HttpRequest]:
        return [request for request in self.requests if request.method == "POST"]

    def answer(self, request: HttpRequest) -> Answer:
        if request.headers.get("ocp-apim-subscription-key") != KEY:
            return Answer(401, {"error": {"code": "401", "message": "Access denied"}})
        parts = urlsplit(request.path)
        if parse_qs(parts.query).get("api-version") != ["2024-11-30"]:
            return Answer(404, {"error": {"code": "NotFound"}})
        if request.method == "POST":
            return self._begin(request, parts.path, parse_qs(parts.query))
        return self._poll(parts.path)

    def _begin(self, request: HttpRequest, path: str, query: dict[str, list[str]]) -> Answer:
        if path != "/documentintelligence/documentModels/prebuilt-read:analyze":
            return Answer(404, {"error": {"code": "NotFound", "innererror": {"code": "ModelNotFound"}}})
        if len(request.body) > MAX_PAGE_BYTES:
            return _invalid("InvalidContentLength", "The input image is too large.")
        try:
            texts = _read(request.body)
        except ValueError:
            return _invalid("InvalidContent", "The file is corrupted or format is unsupported.")
        first, _, last = query["pages"][0].partition("-")
        self.operations.append(_result(texts, range(int(first), int(last or first) + 1)))
        number = len(self.operations) - 1
        path = f"/documentintelligence/documentModels/prebuilt-read/analyzeResults/{number}?api-version=2024-11-30"
        return Answer(202, headers={"Operation-Location": (self.operation_host or self.url) + path, "Retry-After": "0"})

    def _poll(self, path: str) -> Answer:
        self._polls[path] = self._polls.get(path, 0) + 1
        if self._polls[path] <= self.running:
            return Answer(200, {"status": "running"}, {"Retry-After": self.pause})
        return Answer(200, {"status": "succeeded", "analyzeResult": self.operations[int(path.rpartition("/")[2])]})


def _invalid(code: str, message: str) -> Answer:
    inner = {"code": code, "message": message}
    return Answer(400, {"error": {"code": "InvalidRequest", "message": "Invalid request.", "innererror": inner}})


def _read(content: bytes) -> list[str]:
    from pypdfium2 import PdfDocument, PdfiumError

    if not content.startswith(b"%PDF"):
        try:
            with Image.open(BytesIO(content)) as image:
                return [f"{image.format} {image.width}x{image.height}"]
        except OSError as error:
            raise ValueError(error) from error
    with PDFIUM_LOCK:
        try:
            document = PdfDocument(content)
        except PdfiumError as error:
            raise ValueError(error) from error
        texts = [page.get_textpage().get_text_bounded() for page in document]
        document.close()
        return texts


def _result(texts: list[str], which: range) -> dict[str, Any]:
    """Return the result for some pages.

    Offsets count characters. The content starts with a character that has two code units in UTF-16, so a client that
    counts code units reads wrong texts.
    """
    content, pages = "🙂\n", []
    for number in which:
        text = texts[number - 1]
        pages.append({"pageNumber": number, "spans": [{"offset": len(content), "length": len(text)}]})
        content += text + "\n"
    return {"apiVersion": "2024-11-30", "content": content, "pages": pages}
