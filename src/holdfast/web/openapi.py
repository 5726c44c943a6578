"""The description of what is served, for programs: OpenAPI 3.1, with schemas of the very values that are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.web.asking import DOCUMENT, SEARCH, Readers

REF = "#/components/schemas/{name}"
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
WRONG = {
    "400": "a parameter was not understood",
    "404": "there is no such collection or document",
    "503": "the store or the model cannot be asked now",
}


def description(shapes: Sequence[type[Struct]]) -> dict[str, Any]:
    """Describes what is served; `shapes` are Answer, Shown and Progress."""
    (answer, shown, progress), components = msgspec.json.schema_components(shapes, ref_template=REF)
    ok = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast document search", "version": version("holdfast")},
        "paths": {
            "/search": _get("Finds what documents say about a question.", answer, _named(SEARCH, needed=["q"])),
            "/collections": _get("Lists the collections.", {"type": "array", "items": shown}),
            "/collections/{name}": _get("Shows a collection.", shown, [_in_path("name")]),
            "/documents/{collection}": _get(
                "Tells how far a document is.",
                progress,
                [_in_path("collection"), *_named(DOCUMENT, needed=[*DOCUMENT])],
            ),
            "/health": _get("Answers whether the store can be asked.", ok),
        },
        "components": {"schemas": {**components, "Error": ERROR}},
    }


def _named(parameters: Readers, *, needed: Sequence[str]) -> list[dict[str, Any]]:
    """Describes parameters as they are read."""
    return [
        {"name": name, "in": "query", "description": one.means, "schema": one.schema}
        | ({"required": True} if name in needed else {"allowEmptyValue": True})
        for name, one in parameters.items()
    ]


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _get(means: str, schema: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    wrong = {status: _json(why, {"$ref": REF.format(name="Error")}) for status, why in WRONG.items()}
    return {
        "get": {"summary": means, "parameters": parameters, "responses": {"200": _json("the answer", schema), **wrong}}
    }


def _json(means: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": means, "content": {"application/json": {"schema": schema}}}
