"""What a request asks for: its parameters, and its samples as they came, in JSON, a file, or a form with files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from fastapi import Request

from .._support.array_types import AnyArray
from .answers import ApiError
from .jobs import Refusal
from .json_samples import JsonParts, convert_texts, parse_json, parse_object, split_object
from .json_upload import MOST_PARAMETERS
from .multipart_form import FormPart, parse_form
from .process_pool import ProcessPool
from .request_body import SMALL_BODY, BodyBudget
from .schemas import LISTS, Parameters, check_parameters
from .settings import Limits
from .upload_header import PICTURES

#: What the body of a request may be, and the format that it stands for.
FILE_TYPES = {
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-npy": "npy",
    "application/x-npz": "npz",
    "application/octet-stream": "npy",
    "application/vnd.apache.parquet": "parquet",
}
_JSON, _FORM = "application/json", "multipart/form-data"
_SIGNATURES = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PAR1": "parquet"}
_PICTURE_SIGNATURES = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6",
)  # fmt: skip
#: Lists in the fields of a form that belong to the samples, and are parsed in the server up to this size.
_OF_SAMPLES = ("labels", "groups")
_SMALL_FIELD = 32 * 1024

P = TypeVar("P", bound=Parameters)


@dataclass(eq=False)
class ParsedRequest(Generic[P]):
    """What a client asks for. Samples are in one of ``parts``, ``body`` and ``files``."""

    parameters: P
    #: Small JSON, parsed; and its size.
    parts: JsonParts | None = None
    size: int = 0
    #: Large JSON, as it came.
    body: bytes | None = None
    files: tuple[FormPart, ...] = ()
    format: str | None = None
    #: Labels and groups that came beside files.
    labels: list[str | None] | None = None
    groups: list[str | None] | None = None
    #: Count the bytes of the samples: those that are about to arrive, and those that have, in place of the body.
    expect: Callable[[int], None] | None = None
    exchange: Callable[[int], None] | None = None

    def forget_samples(self, n: int) -> None:
        """Let go of the samples as they came: rows of so many bytes have taken their place."""
        self.parts, self.body, self.files, self.labels, self.groups = None, None, (), None, None
        if self.exchange is not None:
            self.exchange(n)


@contextmanager
def answer_refusals() -> Iterator[None]:
    """Turn what a job would refuse into the answer to a request."""
    try:
        yield
    except Refusal as error:
        raise ApiError(error.status, error.message) from None


def view_bytes(content: bytes) -> AnyArray:
    """Return bytes as an array, which a child can be sent."""
    return np.frombuffer(content, dtype=np.uint8)


async def parse_request(
    request: Request, body: bytes, kind: type[P], limits: Limits, readers: ProcessPool, budget: BodyBudget
) -> ParsedRequest[P]:
    """Return what a request asks for; parameters come from its query string, its JSON or its form."""
    with answer_refusals():
        parsed = await _parse(request, body, kind, limits, readers)
    parsed.expect, parsed.exchange = (partial(count, request.scope) for count in (budget.expect, budget.exchange))
    return parsed


async def _parse(
    request: Request, body: bytes, kind: type[P], limits: Limits, readers: ProcessPool
) -> ParsedRequest[P]:
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    query = _gather(request.query_params.multi_items(), kind)
    if not body and not kind.takes_samples:  # all that is needed may be in the query string
        return ParsedRequest(check_parameters(kind, query))
    if media_type == _JSON or (not media_type and not kind.takes_samples):
        return await _take_json(body, query, kind, readers)
    if not kind.takes_samples:
        raise ApiError(415, f"The body must be {_JSON}.")
    if media_type == _FORM:
        small = len(body) <= SMALL_BODY
        arguments = content_type, body, limits.files
        parts = parse_form(*arguments) if small else await asyncio.to_thread(parse_form, *arguments)
        return await _take_form(parts, query, kind, readers)
    if media_type.startswith("image/"):
        format = PICTURES
    elif media_type in FILE_TYPES:
        format = sniff_format(body) or "npy" if media_type == "application/octet-stream" else FILE_TYPES[media_type]
    else:
        known = ", ".join((_JSON, *FILE_TYPES, "image/*"))
        raise ApiError(415, f"The body must be {known} or {_FORM}; Content-Type says which.")
    if not body:
        raise ApiError(422, "The body is empty: send samples.")
    part = FormPart("files", None, media_type, body)
    return ParsedRequest(check_parameters(kind, query), files=(part,), format=format)


def _gather(pairs: Iterable[tuple[str, str]], kind: type[Parameters]) -> dict[str, Any]:
    """Return parameters of a query string or a form by name; those that are lists may be repeated."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in LISTS and name in kind.model_fields and not value.startswith("["):
            listed = found.setdefault(name, [])
            if isinstance(listed, list):
                listed.append(value)
                continue
        if name in found:
            raise _refuse_repeated(name)
        found[name] = value
    return found


def _merge(query: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name in query:
            raise _refuse_repeated(name)
    return query | given


def _refuse_repeated(name: str) -> ApiError:
    return ApiError(422, f"The parameter {name[:80]!r} is given more than once.")


# -- JSON ----------------------------------------------------------------------------------------------------


async def _take_json(body: bytes, query: dict[str, Any], kind: type[P], readers: ProcessPool) -> ParsedRequest[P]:
    if not kind.takes_samples:
        if len(body) > SMALL_BODY:
            raise ApiError(413, f"The body has more than {SMALL_BODY:,} bytes, and nothing but parameters.")
        return ParsedRequest(check_parameters(kind, _merge(query, parse_object(body))))
    taken = get_taken(kind)
    if len(body) <= SMALL_BODY:
        parts = split_object(parse_object(body), **taken)
        parameters = check_parameters(kind, _merge(query, parts.parameters))
        return ParsedRequest(parameters, parts=parts, size=len(body))
    found, _ = await readers.run("parse_parameters", taken, {"body": view_bytes(body)})
    return ParsedRequest(check_parameters(kind, _merge(query, found["parameters"])), body=body)


def get_taken(kind: type[Parameters]) -> dict[str, bool]:
    """Return whether labels and groups belong to the samples of a request."""
    return {"labels": kind.labels != "no", "groups": kind.groups}


# -- forms ---------------------------------------------------------------------------------------------------


async def _take_form(
    parts: list[FormPart], query: dict[str, Any], kind: type[P], readers: ProcessPool
) -> ParsedRequest[P]:
    files = tuple(part for part in parts if part.name == "files")
    if not files:
        raise ApiError(422, 'The form has no files: send them as parts called "files".')
    fields: list[tuple[str, str]] = []
    lists: dict[str, bytes] = {}
    taken = get_taken(kind)
    for part in parts:
        if part.name == "files":
            continue
        if part.name in _OF_SAMPLES and taken[part.name]:
            if part.name in lists:
                raise _refuse_repeated(part.name)
            lists[part.name] = part.content
        else:
            fields.append((part.name, _read_field(part)))
    parameters = check_parameters(kind, _merge(query, _gather(fields, kind)))
    formats = {_find_format(part) for part in files}
    if len(files) > 1 and formats != {PICTURES}:
        raise ApiError(422, f"The form has {len(files):,} files: send one table, or pictures only.")
    texts = {name: await _parse_texts(name, content, readers) for name, content in lists.items()}
    return ParsedRequest(
        parameters, files=files, format=formats.pop(), labels=texts.get("labels"), groups=texts.get("groups")
    )


def _read_field(part: FormPart) -> str:
    if len(part.content) > MOST_PARAMETERS:
        raise ApiError(413, f"The field {part.name[:80]!r} has more than {MOST_PARAMETERS:,} bytes.")
    try:
        return part.content.decode("utf-8")
    except UnicodeDecodeError:
        raise ApiError(400, f"The field {part.name[:80]!r} is not text in UTF-8.") from None


async def _parse_texts(what: str, content: bytes, readers: ProcessPool) -> list[str | None]:
    if len(content) <= _SMALL_FIELD:
        return convert_texts(parse_json(content, what), what)
    found, _ = await readers.run("parse_texts", {"what": what}, {"body": view_bytes(content)})
    texts: list[str | None] = found["texts"]
    return texts


def sniff_format(content: bytes) -> str | None:
    """Return the format that the first bytes of a file show, None if they do not."""
    for signature, format in _SIGNATURES.items():
        if content.startswith(signature):
            return format
    if content.startswith(_PICTURE_SIGNATURES) or (content[:4] == b"RIFF" and content[8:12] == b"WEBP"):
        return PICTURES
    return None


def _find_format(part: FormPart) -> str:
    """Return the format of a file of a form: by its first bytes, else by what its sender says, else CSV."""
    found = sniff_format(part.content)
    text = part.media_type.startswith("text/") or (part.file_name or "").lower().endswith((".csv", ".tsv", ".txt"))
    if found is not None and not (text and found == PICTURES and len(part.content) > 2 and part.content[0] < 128):
        return found
    if part.media_type.startswith("image/"):
        return PICTURES
    return FILE_TYPES.get(part.media_type, "csv") if part.media_type != "application/octet-stream" else "csv"
