"""The web application: the search page, and the JSON routes of `holdfast.web.routes`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from holdfast.core.errors import HoldfastError, Signal, StoreError
from holdfast.web.files import file_response
from holdfast.web.host_check import HostCheck
from holdfast.web.openapi import openapi_document
from holdfast.web.page import SearchForm, render_page
from holdfast.web.query_params import SEARCH_PARAMS, BadParameter, parse_query
from holdfast.web.routes import ENDPOINTS, FILE_ENDPOINT, Endpoint, JsonResponse, SearchBackend, call, json_error

THREADS = 8
"""Requests that are handled at the same time. The threads stay: each keeps a connection to the store."""

ErrorResponse = Callable[[int, str], Response]
"""Makes a response from a status and a message."""


def search_app(service: SearchBackend, *, allowed_hosts: frozenset[str] | None = None) -> Starlette:
    """Return the web application.

    Args:
        service: Answers the requests.
        allowed_hosts: The values of the Host header that are accepted; None for any.
    """
    handlers = _Handlers(service)
    routes = [
        Route("/", handlers.page, methods=["GET"]),
        *(Route(one.path, partial(handlers.json, one), methods=["GET"]) for one in ENDPOINTS),
        Route(FILE_ENDPOINT.path, handlers.file, methods=["GET"]),
        Route("/openapi.json", handlers.openapi, methods=["GET"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(HostCheck, allowed=allowed_hosts)],
        exception_handlers={HTTPException: _on_http_error, Exception: _on_unexpected_error},
        lifespan=handlers.lifespan,
    )


class _Handlers:
    """The request handlers. Each works in a thread, because the store and the embedding model block."""

    def __init__(self, service: SearchBackend) -> None:
        self._service = service
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-search")
        self._openapi = openapi_document(service)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._threads.shutdown()

    async def json(self, endpoint: Endpoint, request: Request) -> Response:
        def respond() -> Response:
            query = parse_query(request.query_params.multi_items(), endpoint.query, required=endpoint.required)
            return JsonResponse(call(self._service, endpoint, request.path_params, query))

        return await self._in_thread(respond, json_error)

    async def file(self, request: Request) -> Response:
        def respond() -> Response:
            query = parse_query(
                request.query_params.multi_items(), FILE_ENDPOINT.query, required=FILE_ENDPOINT.required
            )
            return file_response(self._service.original(request.path_params["collection"], **query))

        return await self._in_thread(respond, json_error)

    async def openapi(self, _: Request) -> Response:
        return JsonResponse(self._openapi)

    async def page(self, request: Request) -> Response:
        given = [(name, value) for name, value in request.query_params.multi_items() if value.strip()]
        form = SearchForm(dict(given).get("q", ""), dict(given).get("collection", ""))
        collections: list[str] = []

        def respond() -> Response:
            collections.extend(self._service.names())
            chosen = form.collection or self._default_collection(collections)
            shown = SearchForm(form.question, chosen)
            if not form.question:
                return HTMLResponse(render_page(shown, collections))
            query = parse_query(given, SEARCH_PARAMS, required=["q"]) | {"collection": chosen}
            return HTMLResponse(render_page(shown, collections, self._service.search(**query).found))

        def show_error(status: int, message: str) -> Response:
            return HTMLResponse(render_page(form, collections, error=message), status_code=status)

        return await self._in_thread(respond, show_error)

    def _default_collection(self, collections: Sequence[str]) -> str:
        default = self._service.default_collection
        return default if default in collections else next(iter(collections), "")

    async def _in_thread(self, respond: Callable[[], Response], on_error: ErrorResponse) -> Response:
        def respond_or_fail() -> Response:
            try:
                return respond()
            except BadParameter as error:
                return on_error(400, str(error))
            except self._service.not_found_errors as error:
                return on_error(404, str(error))
            except (StoreError, Signal) as error:
                return on_error(503, str(error))
            except HoldfastError as error:
                return on_error(500, str(error))

        return await asyncio.get_running_loop().run_in_executor(self._threads, respond_or_fail)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    response = json_error(error.status_code, f"{phrase}; /openapi.json lists all paths and parameters")
    response.headers.update(error.headers or {})
    return response


async def _on_unexpected_error(_: Request, error: Exception) -> Response:
    return json_error(500, f"this is an error in the server ({type(error).__name__}); its log has the traceback")
