"""The application: questions in, answers as JSON or as a page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from holdfast.core.errors import HoldfastError, Signal, StoreError
from holdfast.web.answering import Json, refusal
from holdfast.web.asking import DEFAULT, DOCUMENT, SEARCH, NotUnderstood, read
from holdfast.web.guard import Guard
from holdfast.web.openapi import description
from holdfast.web.page import Asked, page
from holdfast.web.shelves import Shelves

HANDS = 8
"""Questions that are answered at once. They are always the same threads: each keeps a connection to the store."""

Work = Callable[[], Any]
Refuse = Callable[[int, str], Response]


def search_app(shelves: Shelves, *, names: frozenset[str] | None = None) -> Starlette:
    """Makes the application. `names` are the hosts that it may be called by; None for any."""
    served = _Served(shelves)
    routes = {
        "/": served.page,
        "/search": served.search,
        "/collections": served.collections,
        "/collections/{name}": served.collection,
        "/documents/{collection}": served.document,
        "/health": served.health,
        "/openapi.json": served.openapi,
    }
    return Starlette(
        routes=[Route(path, answer, methods=["GET"]) for path, answer in routes.items()],
        middleware=[Middleware(Guard, names=names)],
        exception_handlers={HTTPException: _not_served, Exception: _our_fault},
        lifespan=served.lifespan,
    )


class _Served:
    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._hands = ThreadPoolExecutor(HANDS, thread_name_prefix="holdfast-search")
        self._description = description(shelves.shapes)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._hands.shutdown()

    async def search(self, request: Request) -> Response:
        def answer() -> Response:
            asked = read(request.query_params.multi_items(), SEARCH, needed=["q"])
            collection = asked.pop("collection", DEFAULT)
            return Json(self._shelves.search(collection, asked.pop("question"), **asked))

        return await self._answered(answer)

    async def collections(self, request: Request) -> Response:
        return await self._asked_for_nothing(request, self._shelves.collections)

    async def collection(self, request: Request) -> Response:
        return await self._asked_for_nothing(request, lambda: self._shelves.collection(request.path_params["name"]))

    async def document(self, request: Request) -> Response:
        def answer() -> Response:
            asked = read(request.query_params.multi_items(), DOCUMENT, needed=["source", "key"])
            return Json(self._shelves.document(request.path_params["collection"], asked["source"], asked["key"]))

        return await self._answered(answer)

    async def health(self, request: Request) -> Response:
        def look() -> dict[str, str]:
            self._shelves.names()
            return {"status": "ok"}

        return await self._asked_for_nothing(request, look)

    async def openapi(self, _: Request) -> Response:
        return Json(self._description)

    async def page(self, request: Request) -> Response:
        given = [(name, value) for name, value in request.query_params.multi_items() if value.strip()]
        asked = Asked(dict(given).get("q", ""), dict(given).get("collection", ""))

        names: list[str] = []

        def answer() -> Response:
            names.extend(self._shelves.names())
            chosen = asked.collection or (DEFAULT if DEFAULT in names else next(iter(names), ""))
            seen = Asked(asked.question, chosen)
            if not asked.question:
                return HTMLResponse(page(seen, names))
            how = read(given, SEARCH, needed=["q"])
            how.pop("collection", None)
            return HTMLResponse(page(seen, names, self._shelves.search(chosen, how.pop("question"), **how).found))

        def refuse(status: int, sentence: str) -> Response:
            return HTMLResponse(page(asked, names, sentence=sentence), status_code=status)

        return await self._answered(answer, refuse)

    async def _asked_for_nothing(self, request: Request, work: Work) -> Response:
        def answer() -> Response:
            if request.query_params:
                raise NotUnderstood("there are no parameters here")
            return Json(work())

        return await self._answered(answer)

    async def _answered(self, work: Callable[[], Response], refuse: Refuse = refusal) -> Response:
        """Answers in a thread: the store and the model make whoever asks them wait."""

        def safely() -> Response:
            try:
                return work()
            except NotUnderstood as error:
                return refuse(400, str(error))
            except self._shelves.absent as error:
                return refuse(404, str(error))
            except (StoreError, Signal) as error:
                return refuse(503, str(error))
            except HoldfastError as error:
                return refuse(500, str(error))

        return await asyncio.get_running_loop().run_in_executor(self._hands, safely)


async def _not_served(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = refusal(error.status_code, f"{HTTPStatus(error.status_code).phrase}; /openapi.json tells what there is")
    answer.headers.update(error.headers or {})
    return answer


async def _our_fault(_: Request, error: Exception) -> Response:
    return refusal(500, f"this is a fault of the server, which has logged it: {type(error).__name__}")
