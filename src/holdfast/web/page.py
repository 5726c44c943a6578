"""The search page: a form and the results, in one HTML file without scripts. The layout is in search_page.html."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from msgspec import Struct

from holdfast.core.html_template import HtmlTemplate
from holdfast.web.files import address_of
from holdfast.web.routes import SearchHit

_TEMPLATE = HtmlTemplate(files("holdfast.web").joinpath("search_page.html").read_text(encoding="utf-8"))


class SearchForm(Struct, frozen=True):
    """What the form contains."""

    question: str = ""
    collection: str = ""


def render_page(
    form: SearchForm, collections: Sequence[str], hits: Sequence[SearchHit] | None = None, *, error: str = ""
) -> str:
    """Return the page as HTML. `hits` is None if there was no question; `error` is shown in place of results."""
    return _TEMPLATE.render(
        {
            "title": f"{form.question} - holdfast" if form.question else "holdfast",
            "question": form.question,
            "collections": [{"name": name, "selected": name == form.collection} for name in collections],
            "shows_syntax": bool(collections and not form.question),
            "error": error,
            "no_collections": not error and not collections,
            "nothing_found": bool(not error and collections and hits is not None and not hits),
            "has_hits": bool(not error and collections and hits),
            "hits": [*map(_hit, hits or ())],
        }
    )


def _hit(hit: SearchHit) -> dict[str, Any]:
    title = hit.title if hit.title not in hit.key else ""
    return {
        "key": hit.key,
        "address": address_of(hit),
        "has_details": bool(hit.shows_page or title),
        "page": str(hit.page) if hit.shows_page else "",
        "hit_title": title,
        "snippet": [*_snippet_parts(hit)],
    }


def _snippet_parts(hit: SearchHit) -> Iterator[dict[str, Any]]:
    """Split the snippet into marked and unmarked parts."""
    at = 0
    for start, end in hit.marks:
        yield {"marked": False, "text": hit.snippet[at:start]}
        yield {"marked": True, "text": hit.snippet[start:end]}
        at = end
    yield {"marked": False, "text": hit.snippet[at:]}
