"""The description of what is served, for programs: OpenAPI 3.1, with schemas of the very values that are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.web.asking import DEFAULT, LONGEST, LONGEST_QUESTION, MOST_ANSWERS

REF = "#/components/schemas/{name}"
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
WRONG = {
    "400": "a parameter was not understood",
    "404": "there is no such collection or document",
    "503": "the store or the model cannot be asked now",
}
_TEXT = {"type": "string", "maxLength": LONGEST}


def _parameter(name: str, schema: Mapping[str, Any], means: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": means, "schema": schema, **more}


SEARCH = [
    _parameter("q", {"type": "string", "minLength": 1, "maxLength": LONGEST_QUESTION}, "the question", required=True),
    _parameter("collection", _TEXT | {"default": DEFAULT}, "which collection"),
    _parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MOST_ANSWERS, "default": 10}, "so many answers, at most"
    ),
    _parameter("each", {"type": "integer", "minimum": 1}, "so many answers of one document, at most"),
    _parameter("document", _TEXT, "only this document"),
    _parameter("path", _TEXT, "only documents whose names are like this, with * and ?"),
    _parameter("type", _TEXT, "only documents of this type: pdf, docx, eml, ..."),
    _parameter("source", _TEXT, "only what came from this folder, file or URL"),
    _parameter("by", {"enum": ["words", "meaning"]}, "only one of the two ways of looking"),
    _parameter("where", {"type": "array", "items": _TEXT}, "only documents with this metadata: NAME:VALUE"),
]
DOCUMENT = [
    _parameter("source", _TEXT, "where it came from, as /collections/NAME has it", required=True),
    _parameter("key", _TEXT, "what it is called there", required=True),
]


def description(shapes: Sequence[type[Struct]]) -> dict[str, Any]:
    """Describes what is served; `shapes` are Answer, Shown and Progress."""
    (answer, shown, progress), components = msgspec.json.schema_components(shapes, ref_template=REF)
    ok = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast document search", "version": version("holdfast")},
        "paths": {
            "/search": _get("Finds what documents say about a question.", answer, SEARCH),
            "/collections": _get("Lists the collections.", {"type": "array", "items": shown}),
            "/collections/{name}": _get("Shows a collection.", shown, [_in_path("name")]),
            "/documents/{collection}": _get(
                "Tells how far a document is.", progress, [_in_path("collection"), *DOCUMENT]
            ),
            "/health": _get("Answers whether the store can be asked.", ok),
        },
        "components": {"schemas": {**components, "Error": ERROR}},
    }


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _get(means: str, schema: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    wrong = {status: _json(why, {"$ref": REF.format(name="Error")}) for status, why in WRONG.items()}
    return {
        "get": {"summary": means, "parameters": parameters, "responses": {"200": _json("the answer", schema), **wrong}}
    }


def _json(means: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": means, "content": {"application/json": {"schema": schema}}}
