"""The JSON routes of `holdfast serve`, the service that answers them, and JSON responses.

To add a route, add a method to the service (`SearchService` in pipelines/rag/search/service.py) and an `Endpoint` to
`ENDPOINTS` below. The method's parameters are the route's path and query parameters. Its defaults and its return type
become part of /openapi.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from starlette.responses import Response

from holdfast.web.query_params import DOCUMENT_PARAMS, SEARCH_PARAMS, QueryParams

NO_PARAMS: QueryParams = {}


class Endpoint(Struct, frozen=True):
    """One route that is answered in JSON: the path, the method of the service that answers it, and its parameters."""

    path: str
    method: str
    summary: str
    query: QueryParams = NO_PARAMS
    required: tuple[str, ...] = ()


ENDPOINTS = (
    Endpoint("/search", "search", "Search a collection.", SEARCH_PARAMS, required=("q",)),
    Endpoint("/collections", "collections", "List the collections."),
    Endpoint("/collections/{name}", "collection", "Show a collection."),
    Endpoint(
        "/documents/{collection}",
        "document",
        "Show the progress of a document.",
        DOCUMENT_PARAMS,
        required=("source", "key"),
    ),
    Endpoint("/health", "health", "Check that the store can be read."),
)


FILE_ENDPOINT = Endpoint(
    "/files/{collection}",
    "original",
    "Get the original file of a document, as it was made searchable.",
    DOCUMENT_PARAMS,
    required=("source", "key"),
)
"""The one route that answers with a file."""


class SearchHit(Protocol):
    """One result of a search, as the page shows it."""

    @property
    def collection(self) -> str:
        """The collection of the document."""

    @property
    def source(self) -> str:
        """The source of the document: a folder, a file or a URL."""

    @property
    def kind(self) -> str:
        """The file type of the document."""

    @property
    def key(self) -> str:
        """The key of the document."""

    @property
    def title(self) -> str:
        """The title of the document."""

    @property
    def page(self) -> int:
        """The page number, from 1."""

    @property
    def shows_page(self) -> bool:
        """True if the page number is shown."""

    @property
    def snippet(self) -> str:
        """The text around the words of the question."""

    @property
    def marks(self) -> Sequence[tuple[int, int]]:
        """Where words of the question are in the snippet: start and end of each."""


class SearchResponse(Protocol):
    """The results of a search."""

    @property
    def found(self) -> Sequence[SearchHit]:
        """The results, best first."""


class FileContent(Protocol):
    """The original file of a document."""

    @property
    def name(self) -> str:
        """The name of the file, without folders."""

    @property
    def content(self) -> bytes:
        """The content of the file."""


class SearchBackend(Protocol):
    """The service behind the routes. It is called from many threads. Problems with the store are a StoreError.

    It has one method for each of `ENDPOINTS`. Only those that the page uses are listed here.
    """

    @property
    def not_found_errors(self) -> tuple[type[Exception], ...]:
        """Errors that become a 404: the collection or the document does not exist."""

    @property
    def default_collection(self) -> str:
        """The collection that is searched if a request names none."""

    def names(self) -> Sequence[str]:
        """Return the names of all collections. This is fast."""

    def search(self, question: str, *, collection: str, **filters: Any) -> SearchResponse:
        """Search a collection."""

    def original(self, collection: str, source: str, key: str) -> FileContent:
        """Return the original file of a document."""


def call(service: SearchBackend, endpoint: Endpoint, path: Mapping[str, str], query: Mapping[str, Any]) -> Any:
    """Call the method of the service that answers an endpoint."""
    return getattr(service, endpoint.method)(**path, **query)


class JsonResponse(Response):
    """A response in JSON, encoded as the command line does it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def json_error(status: int, message: str) -> Response:
    """Return a JSON response with an error message."""
    return JsonResponse({"error": message}, status_code=status)
