"""Original files of documents: where the search page finds them, and how they are sent to a browser.

Files come from strangers. A browser gets no file as HTML or with a type that it could run: what is not a picture, a PDF
or text is downloaded.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote, urlencode

from starlette.responses import Response

from holdfast.web.routes import FILE_ENDPOINT, FileContent, SearchHit

SHOWN_TYPES = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}
"""The types that a browser shows, by the suffix of the name. Other files are downloaded."""
FILE_TYPES = tuple(dict.fromkeys(SHOWN_TYPES.values()))
DOWNLOAD_TYPE = "application/octet-stream"


def address_of(hit: SearchHit) -> str:
    """Return the address of the file or page with a result. Empty if there is none that a browser can open."""
    if hit.source.startswith(("https://", "http://")):
        return hit.source
    if "://" in hit.source:
        return ""
    query = urlencode({"source": hit.source, "key": hit.key}, errors="replace")
    page = f"#page={hit.page}" if hit.kind == "pdf" else ""  # browsers open a PDF at this page
    path = FILE_ENDPOINT.path.format(collection=quote(hit.collection, safe="", errors="replace"))
    return f"{path}?{query}{page}"


def file_response(file: FileContent) -> Response:
    """Return a file as a response: shown if that is safe, else as a download."""
    shown_as = SHOWN_TYPES.get(PurePosixPath(file.name).suffix.lower())
    disposition = "inline" if shown_as else "attachment"
    name = quote(file.name, safe="", errors="replace")
    headers = {"content-disposition": f"{disposition}; filename*=UTF-8''{name}"}
    return Response(file.content, media_type=shown_as or DOWNLOAD_TYPE, headers=headers)
