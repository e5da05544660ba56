"""Parts of the OpenAPI document: bodies with samples, parameters, answers and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from .answers import CSV, JSON, LINES, SVG
from .request_parameters import FILE_TYPES
from .schemas import ErrorAnswer, Parameters, SampleParameters

_ERRORS = {
    400: "The request is malformed",
    401: "The token is missing or wrong",
    403: "The server is read-only, or the request comes from another site",
    404: "There is no such model or page",
    406: "The answer cannot be what Accept asks for",
    408: "The body arrived too slowly",
    409: "This model cannot do it, or it was changed meanwhile",
    412: "The model has another version than If-Match names",
    413: "The body, or what is in it, is too large",
    415: "The body is of another kind than Content-Type may name",
    422: "The content of the request is wrong",
    429: "Too many requests wait",
    503: "The server starts or ends, or a process of it ended",
    504: "The work took too long",
}
_OF_MODEL = (404,)
_OF_WORK = (400, 406, 408, 409, 413, 415, 422, 429, 503, 504)
_OF_CHANGE = (403, 412)
_ALWAYS = (401, 403)
_EXAMPLES: dict[str, dict[str, Any]] = {
    "lists of numbers": {"value": {"samples": [[5.1, 3.5, 1.4], [6.2, 2.9, 4.3]]}},
    "named columns": {"value": {"samples": [{"width": 5.1, "height": 3.5}, {"width": 6.2, "height": None}]}},
    "one sample": {"value": {"samples": [5.1, 3.5, 1.4]}},
}
_TEXTS = {
    CSV: "width,height\n5.1,3.5\n6.2,2.9\n",
    LINES: '{"kind":"progress","stage":"Reading","done":null,"of":null}\n',
    SVG: "<svg></svg>",
}


def describe_answer(
    model: type[BaseModel] | None,
    *,
    media_type: str = JSON,
    more: Iterable[str] = (),
    errors: Iterable[int] = _OF_MODEL,
    of_work: bool = False,
    of_change: bool = False,
) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a route: its own, in all media types, and those of errors."""
    content: dict[str, Any] = {
        name: {"schema": {"type": "string"}, "example": _TEXTS.get(name, "")} for name in more
    }  # fmt: skip
    if model is None:
        content[media_type] = {"schema": {"type": "string"}}
    own: dict[str, Any] = {"description": "Done", "content": content}
    if model is not None:
        own["model"] = model
    statuses = {*_ALWAYS, *errors, *(_OF_WORK if of_work else ()), *(_OF_CHANGE if of_change else ())}
    found: dict[int | str, dict[str, Any]] = {200: own}
    for status in sorted(statuses):
        found[status] = {"model": ErrorAnswer, "description": _ERRORS[status]}
    return found


def describe_body(kind: type[Parameters], example: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the body and the parameters of a route: samples in all media types, or a JSON object of parameters."""
    if not issubclass(kind, SampleParameters):
        own = {JSON: {"schema": kind.model_json_schema(), "example": example or {}}}
        return {"requestBody": {"required": True, "content": own}}
    properties, required = _describe_samples(kind)
    parameters = kind.model_json_schema()
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    fields = {name: {"type": "string"} for name in ("labels", "groups") if name in properties}
    examples = _EXAMPLES
    if example is not None or kind.labels == "required":
        more = {"labels": ["a", "b"]} if kind.labels == "required" else {}
        examples = {name: {"value": {**one["value"], **more, **(example or {})}} for name, one in _EXAMPLES.items()}
    own_required = parameters.get("required", [])
    content: dict[str, Any] = {
        JSON: {
            "schema": {
                "type": "object", "properties": {**properties, **parameters["properties"]},
                "required": [*required, *own_required], "additionalProperties": False,
            },
            "examples": examples,
        },
        "multipart/form-data": {
            "schema": {
                "type": "object", "properties": {"files": files, **fields, **parameters["properties"]},
                "required": ["files", *own_required],
            },
        },
    }  # fmt: skip
    for media_type in (*FILE_TYPES, "image/*"):
        text = media_type.startswith("text/")
        content[media_type] = {"schema": {"type": "string"} if text else {"type": "string", "format": "binary"}}
    content[CSV]["example"] = _TEXTS[CSV]
    return {"requestBody": {"required": True, "content": content}, **describe_query(kind, in_body=True)}


def describe_query(kind: type[Parameters], *, in_body: bool = False) -> dict[str, Any]:
    """Return the parameters of a query string; those that a body can hold are optional."""
    schema = kind.model_json_schema()
    required = set() if in_body else set(schema.get("required", []))
    return {
        "parameters": [
            {
                "name": name, "in": "query", "required": name in required, "schema": part,
                "description": part.get("description", ""),
            }
            for name, part in schema.get("properties", {}).items()
        ]
    }  # fmt: skip


def _describe_samples(kind: type[Parameters]) -> tuple[dict[str, Any], list[str]]:
    """Return the schemas of samples, labels and groups in JSON, and which of them must be there."""
    number = {"type": ["number", "null"]}
    row = {"anyOf": [{"type": "array", "items": number}, {"type": "object", "additionalProperties": number}]}
    properties: dict[str, Any] = {
        "samples": {
            "anyOf": [{"type": "array", "items": row, "minItems": 1}, {"type": "array", "items": number, "minItems": 1}]
        }
    }  # fmt: skip
    text = {"type": "array", "items": {"type": ["string", "number"]}}
    required = ["samples"]
    if kind.labels != "no":
        properties["labels"] = text
        required += ["labels"] if kind.labels == "required" else []
    if kind.groups:
        properties["groups"] = text
    return properties, required
