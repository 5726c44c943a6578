"""The OpenAPI 3.1 document, made from the endpoints and from the types that the service returns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

import msgspec

from holdfast.core.distribution import installed_version
from holdfast.web.files import DOWNLOAD_TYPE, FILE_TYPES
from holdfast.web.routes import ENDPOINTS, FILE_ENDPOINT, Endpoint, SearchBackend

SCHEMA_REF = "#/components/schemas/{name}"
ERROR_SCHEMA = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
ERRORS = {
    "400": "a parameter is wrong",
    "404": "there is no such collection or document",
    "503": "the store or the model does not answer now",
}


def openapi_document(service: SearchBackend, endpoints: Sequence[Endpoint] = ENDPOINTS) -> dict[str, Any]:
    """Describe the endpoints. Response schemas come from the return types of the service's methods."""
    methods = [getattr(service, endpoint.method) for endpoint in endpoints]
    types = [get_type_hints(method)["return"] for method in methods]
    schemas, components = msgspec.json.schema_components(types, ref_template=SCHEMA_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast document search", "version": installed_version()},
        "paths": {
            endpoint.path: _operation(endpoint, schema, [*_path_params(endpoint), *_query_params(endpoint, method)])
            for endpoint, method, schema in zip(endpoints, methods, schemas, strict=True)
        }
        | {FILE_ENDPOINT.path: _file_operation(service)},
        "components": {"schemas": {**components, "Error": ERROR_SCHEMA}},
    }


def _path_params(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", endpoint.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_params(endpoint: Endpoint, method: Any) -> list[dict[str, Any]]:
    arguments = inspect.signature(method).parameters
    described = []
    for name, param in endpoint.query.items():
        argument = arguments.get(param.python_name)
        default = {"default": argument.default} if argument and argument.default not in (argument.empty, None) else {}
        presence = {"required": True} if name in endpoint.required else {"allowEmptyValue": True}
        about = {"name": name, "in": "query", "description": param.description, "schema": {**param.schema, **default}}
        described.append(about | presence)
    return described


def _operation(
    endpoint: Endpoint, schema: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    errors = {status: _json_body(why, {"$ref": SCHEMA_REF.format(name="Error")}) for status, why in ERRORS.items()}
    responses = {"200": _json_body("the result", schema), **errors}
    return {"get": {"summary": endpoint.summary, "parameters": parameters, "responses": responses}}


def _file_operation(service: SearchBackend) -> dict[str, Any]:
    query = _query_params(FILE_ENDPOINT, getattr(service, FILE_ENDPOINT.method))
    described = _operation(FILE_ENDPOINT, {}, [*_path_params(FILE_ENDPOINT), *query])
    types = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (*FILE_TYPES, DOWNLOAD_TYPE)}
    described["get"]["responses"]["200"] = {"description": "the file", "content": types}
    return described


def _json_body(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
