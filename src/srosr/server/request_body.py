"""A body and its parameters become samples, whatever the body is: JSON, a file, or a form with files."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from fastapi import Request
from starlette.types import Scope

from .._support.array_types import AnyArray, Array, IntArray
from ..operations import InputError, convert_errors
from .answers import ApiError, OnProgress
from .json_samples import NAME, convert_samples, convert_texts, parse_object
from .model_store import ServedModel
from .multipart_form import FormPart, parse_form
from .process_pool import ProcessPool
from .schemas import Parameters, SampleParameters, check_parameters
from .settings import Limits
from .upload_reader import describe_reading, get_recipe_arrays

#: Bodies of JSON up to this size are parsed in the event loop, larger ones in a thread.
SMALL_BODY = 256 * 1024
#: What the body of a request may be, and the format that it stands for.
FILE_TYPES = {
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-npy": "npy",
    "application/x-npz": "npz",
    "application/octet-stream": "npy",
    "application/vnd.apache.parquet": "parquet",
}
_JSON, _FORM, _PICTURES = "application/json", "multipart/form-data", "pictures"
_SIGNATURES = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PAR1": "parquet"}
_PICTURE_SIGNATURES = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6",
)  # fmt: skip
#: Key of a request's bytes in its scope.
_TAKEN = "srosr.body"
#: Seconds in which the rest of a body that is too large is thrown away, so that the client reads the answer.
_LINGER = 5.0

P = TypeVar("P", bound=Parameters)


class BodyBudget:
    """Bytes that the bodies of all requests may take at a time, from their first byte to the end of the request."""

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0

    def take(self, scope: Scope, n: int) -> None:
        """Count bytes of a request; raise if there are too many."""
        if self._used + n > self._most:
            raise ApiError(429, "The server is busy with other requests: try again later.", {"Retry-After": "1"})
        self._used += n
        scope[_TAKEN] = scope.get(_TAKEN, 0) + n

    def give_back(self, scope: Scope) -> None:
        """Count what a request took as free again."""
        self._used -= scope.pop(_TAKEN, 0)


@dataclass(frozen=True, eq=False)
class ParsedRequest(Generic[P]):
    """What a client asks for: parameters, and samples in JSON or in files."""

    parameters: P
    samples: Any = None
    labels: Any = None
    groups: Any = None
    files: tuple[FormPart, ...] = ()
    format: str | None = None


@dataclass(frozen=True, eq=False)
class RequestSamples:
    """Samples of a request as they were sent, not yet imputed and scaled."""

    X: Array
    #: Numbers of the rows, from 0; rows that were left out leave gaps.
    numbers: IntArray
    #: What they are called in messages.
    source: str
    labels: list[str] | None = None
    groups: list[str] | None = None
    #: Names and small copies of pictures.
    files: list[str] | None = None
    thumbnails: AnyArray | None = None
    notes: tuple[str, ...] = ()
    dropped: int = 0
    #: Rows that were read, those left out included.
    seen: int = 0
    #: The column that the labels come from, and the names of the others.
    label: str | None = None
    feature_names: list[str] | None = None

    def take_rows(self, rows: Iterable[int]) -> RequestSamples:
        """Return the samples with these numbers."""
        place = {number: i for i, number in enumerate(self.numbers.tolist())}
        wanted = list(dict.fromkeys(rows))
        if not wanted:
            raise ApiError(422, "rows is empty: give the numbers of the rows, counted from 0.")
        absent = [row for row in wanted if row not in place]
        if absent:
            raise ApiError(422, f"{self.source} has no row {absent[0]}: rows are counted from 0.")
        chosen = [place[row] for row in wanted]
        return replace(
            self,
            X=self.X[chosen],
            numbers=self.numbers[chosen],
            labels=None if self.labels is None else [self.labels[i] for i in chosen],
            groups=None if self.groups is None else [self.groups[i] for i in chosen],
            files=None if self.files is None else [self.files[i] for i in chosen],
            thumbnails=None if self.thumbnails is None else self.thumbnails[chosen],
        )

    @property
    def kept(self) -> dict[str, list[str]]:
        """Columns carried along to a table of decisions."""
        return {} if self.files is None else {"file": self.files}


# -- the body ------------------------------------------------------------------------------------------------


async def receive_body(request: Request, limits: Limits, budget: BodyBudget) -> bytes:
    """Return the whole body; one that is too large or too slow is an error."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise ApiError(415, "The body must not be compressed: send it without Content-Encoding.")
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > limits.body:
        if "expect" not in request.headers:  # who asks before sending has not sent anything
            await _throw_away(request, 4 * limits.body)
        raise _refuse_size(limits)
    chunks: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(limits.body_seconds):
            while more and size <= limits.body:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise ApiError(400, "The connection ended before the body did.")
                chunk, more = message.get("body", b""), message.get("more_body", False)
                budget.take(request.scope, len(chunk))
                size += len(chunk)
                chunks.append(chunk)
    except TimeoutError:
        sentence = f"The body did not arrive within {limits.body_seconds:g} seconds."
        raise ApiError(408, sentence, {"Connection": "close"}) from None
    if size > limits.body:
        chunks.clear()
        if more:
            await _throw_away(request, 4 * limits.body)
        raise _refuse_size(limits)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _refuse_size(limits: Limits) -> ApiError:
    size = f"{limits.body / 1e6:g} MB"
    return ApiError(413, f"The body has more than {size}: send fewer samples at a time.", {"Connection": "close"})


async def _throw_away(request: Request, most: int) -> None:
    """Receive the rest of a body and forget it."""
    size = 0
    try:
        async with asyncio.timeout(_LINGER):
            while size < most:
                message = await request.receive()
                size += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def parse_request(request: Request, body: bytes, kind: type[P], limits: Limits) -> ParsedRequest[P]:
    """Return what a request asks for; parameters come from its query string, its JSON or its form."""
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    query = _gather(request.query_params.multi_items(), kind)
    if not body and not kind.takes_samples:  # all that is needed may be in the query string
        return ParsedRequest(check_parameters(kind, query))
    if media_type == _JSON or (not media_type and not kind.takes_samples):
        value = parse_object(body) if len(body) <= SMALL_BODY else await asyncio.to_thread(parse_object, body)
        return _take_json(value, query, kind)
    if not kind.takes_samples:
        raise ApiError(415, f"The body must be {_JSON}.")
    if media_type == _FORM:
        small = len(body) <= SMALL_BODY
        arguments = content_type, body, limits.files
        parts = parse_form(*arguments) if small else await asyncio.to_thread(parse_form, *arguments)
        return _take_form(parts, query, kind)
    if media_type.startswith("image/"):
        format = _PICTURES
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
        field = kind.model_fields.get(name)
        is_list = field is not None and isinstance(field.default, list)
        if is_list and not value.startswith("["):
            found.setdefault(name, []).append(value)
        elif name in found:
            raise ApiError(422, f"The parameter {name[:80]!r} is given more than once.")
        else:
            found[name] = value
    return found


def _merge(query: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name in query:
            raise ApiError(422, f"The parameter {name[:80]!r} is given more than once.")
    return query | given


def _take_json(value: dict[str, Any], query: dict[str, Any], kind: type[P]) -> ParsedRequest[P]:
    samples = labels = groups = None
    if kind.takes_samples:
        if "samples" not in value:
            raise ApiError(422, 'The body has no samples: send them as in {"samples": [[1, 2], [3, 4]]}.')
        samples = value.pop("samples")
        if kind.labels != "no":
            labels = value.pop("labels", None)
        if kind.groups:
            groups = value.pop("groups", None)
    return ParsedRequest(check_parameters(kind, _merge(query, value)), samples, labels, groups)


def _take_form(parts: list[FormPart], query: dict[str, Any], kind: type[P]) -> ParsedRequest[P]:
    files = tuple(part for part in parts if part.name == "files")
    fields = []
    labels = groups = None
    for part in parts:
        if part.name == "files":
            continue
        try:
            text = part.content.decode("utf-8")
        except UnicodeDecodeError:
            raise ApiError(400, f"The field {part.name[:80]!r} is not text in UTF-8.") from None
        if part.name == "labels" and kind.labels != "no":
            labels = parse_object(b'{"labels":' + part.content + b"}").get("labels")
        elif part.name == "groups" and kind.groups:
            groups = parse_object(b'{"groups":' + part.content + b"}").get("groups")
        else:
            fields.append((part.name, text))
    if not files:
        raise ApiError(422, 'The form has no files: send them as parts called "files".')
    formats = {_find_format(part) for part in files}
    if len(files) > 1 and formats != {_PICTURES}:
        raise ApiError(422, f"The form has {len(files):,} files: send one table, or pictures only.")
    parameters = check_parameters(kind, _merge(query, _gather(fields, kind)))
    return ParsedRequest(parameters, None, labels, groups, files, formats.pop())


def sniff_format(content: bytes) -> str | None:
    """Return the format that the first bytes of a file show, None if they do not."""
    for signature, format in _SIGNATURES.items():
        if content.startswith(signature):
            return format
    if content.startswith(_PICTURE_SIGNATURES) or (content[:4] == b"RIFF" and content[8:12] == b"WEBP"):
        return _PICTURES
    return None


def _find_format(part: FormPart) -> str:
    """Return the format of a file of a form: by its first bytes, else by what its sender says, else CSV."""
    found = sniff_format(part.content)
    text = part.media_type.startswith("text/") or (part.file_name or "").lower().endswith((".csv", ".tsv", ".txt"))
    if found is not None and not (text and found == _PICTURES and len(part.content) > 2 and part.content[0] < 128):
        return found
    if part.media_type.startswith("image/"):
        return _PICTURES
    return FILE_TYPES.get(part.media_type, "csv") if part.media_type != "application/octet-stream" else "csv"


# -- the samples ---------------------------------------------------------------------------------------------


async def read_samples(
    parsed: ParsedRequest[Any],
    model: ServedModel,
    limits: Limits,
    readers: ProcessPool,
    folder: Path,
    *,
    on_progress: OnProgress | None = None,
    one_row: bool = False,
) -> RequestSamples:
    """Return the samples of a request: those in JSON are converted here, files are read by a child process.

    With ``one_row`` only one of them matters, so that missing values in others are no error.
    """
    parameters: SampleParameters = parsed.parameters
    if parsed.files:
        samples = await _read_files(parsed, model, limits, readers, folder, on_progress, one_row)
    else:
        if model.takes == "pictures":
            raise ApiError(422, "The model was fitted to pictures: send pictures, not numbers.")
        if one_row:
            parameters = parameters.model_copy(update={"drop_missing": not model.imputes})
        arguments = parsed.samples, parsed.labels, parameters, model, limits
        with convert_errors():
            if _is_small(parsed.samples):
                rows, notes, dropped = convert_samples(*arguments)
            else:
                rows, notes, dropped = await asyncio.to_thread(convert_samples, *arguments)
        groups = parsed.groups
        if groups is not None:
            groups = convert_texts(groups, "groups", len(rows.X) + dropped)
            groups = [groups[i] for i in rows.numbers.tolist()]
        labels = None if rows.labels is None else rows.labels.tolist()
        seen = len(rows.X) + dropped
        samples = RequestSamples(
            rows.X, rows.numbers, NAME, labels, groups, notes=tuple(notes), dropped=dropped, seen=seen
        )
    if samples.labels is None and parameters.labels == "required":
        raise ApiError(422, f"{samples.source} has no labels: give one for each sample.")
    return samples if parameters.rows is None else samples.take_rows(parameters.rows)


def _is_small(samples: Any) -> bool:
    return not isinstance(samples, list) or len(samples) <= 16


async def _read_files(
    parsed: ParsedRequest[Any],
    model: ServedModel,
    limits: Limits,
    readers: ProcessPool,
    folder: Path,
    on_progress: OnProgress | None,
    one_row: bool,
) -> RequestSamples:
    parameters: SampleParameters = parsed.parameters
    assert parsed.format is not None
    pictures = parsed.format == _PICTURES
    given = parameters.model_dump(include={"label", "ignore", "header", "array", "by_name", "drop_missing", "group"})
    options = {} if pictures else {name: value for name, value in given.items() if value not in (None, [])}
    if pictures:
        _check_picture_options(parameters)
    labels = "no" if pictures else "optional" if parsed.labels is not None else parameters.labels
    if getattr(parameters, "shift", False):
        labels = "no"
    groups: Literal["required", "optional", "no"] = "no"
    if parameters.groups and not pictures and labels != "no":
        groups = "required" if parameters.labels == "required" else "optional"
    names = [_name_file(part) for part in parsed.files]
    header = describe_reading(
        model.clf, files=[], names=names, format=parsed.format, options=options, labels=labels, groups=groups,
        limits={"rows": limits.rows, "columns": limits.columns, "pixels": limits.pixels, "files": limits.files},
        one_row=one_row,
    )  # fmt: skip
    place = Path(await asyncio.to_thread(_write_files, parsed.files, folder))
    try:
        header["files"] = [str(place / str(i)) for i in range(len(parsed.files))]
        found, arrays = await readers.run("read", header, get_recipe_arrays(model.clf), on_progress=on_progress)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, place, True))
    source = header["names"][0] if len(names) == 1 else f"{len(names):,} files"
    numbers = arrays["numbers"]
    texts = found["labels"]
    if parsed.labels is not None:
        texts = _pick_labels(parsed.labels, numbers, found["seen"])
    return RequestSamples(
        X=arrays["X"],
        numbers=numbers,
        source=source,
        labels=texts,
        groups=found["groups"],
        files=found["kept"].get("file"),
        thumbnails=arrays.get("thumbnails"),
        notes=tuple(found["notes"]),
        dropped=found["dropped"],
        seen=found["seen"],
        label=found["label"],
        feature_names=found["feature_names"],
    )


def _pick_labels(labels: Any, numbers: IntArray, n_rows: int) -> list[str]:
    """Return labels that came beside the files, of the rows that were read."""
    texts = convert_texts(labels, "labels", n_rows)
    chosen = [texts[i] for i in numbers.tolist()]
    found = [text for text in chosen if text is not None]
    if len(found) < len(chosen):
        row = int(numbers[chosen.index(None)])
        raise ApiError(422, f"{NAME} has no label for row {row}; give it one or leave the sample out.")
    return found


def _check_picture_options(parameters: SampleParameters) -> None:
    """Raise if options for tables are given and the samples are pictures."""
    usual = type(parameters).model_fields
    for name in ("label", "ignore", "header", "array", "by_name", "drop_missing", "group"):
        if name in usual and getattr(parameters, name) != usual[name].default:
            raise InputError(f"{name} is for tables, and the request holds pictures: leave it out.")


def _name_file(part: FormPart) -> str:
    return part.file_name or "the body"


def _write_files(files: Iterable[FormPart], folder: Path) -> str:
    """Write files under private names into a new folder, and return it."""
    place = tempfile.mkdtemp(prefix="upload-", dir=folder)
    for number, part in enumerate(files):
        handle = os.open(os.path.join(place, str(number)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(part.content)
    return place


def parse_etags(value: str | None) -> list[str] | None:
    """Return the versions that an If-Match header names; None if there is none, or any will do.

    Examples
    --------
    >>> parse_etags('"9f86d081884c7d65", W/"a"'), parse_etags("*"), parse_etags(None)
    (['9f86d081884c7d65', 'a'], None, None)
    """
    if value is None or value.strip() == "*":
        return None
    return [re.sub(r'^(?:W/)?"?|"$', "", part.strip()) for part in value.split(",")]
