"""From a request to its parameters and samples: the query string, JSON, a file, or a form with files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from ..features.picture_folder import is_picture
from ..operations.input_errors import InputError, convert_errors, escape_unprintable
from .pool import OnProgress, crash
from .samples import PICTURES, Reading, Samples, gather_parameters, get_words, parse_object, read_json
from .schemas import FILE_TYPES, JSON, ApiError, Parameters, SampleParameters, check_parameters
from .service import Service
from .settings import SMALL_BODY, Limits
from .store import ServedModel
from .uploads import read_samples

T = TypeVar("T")
_FORM = "multipart/form-data"
_MOST_FIELDS = 100
_SIGNATURES = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PAR1": "parquet", b"\x89PNG": PICTURES}
_SIGNATURES |= {b"\xff\xd8\xff": PICTURES, b"GIF8": PICTURES}
_LONGEST_NAME, _LONGEST_FIELD = 100, 2**20


async def parse_parameters(request: Request, kind: type[Parameters]) -> Any:
    """Return the parameters of a request without samples: from its query string and a JSON object."""
    query, body = request.query_params.multi_items(), b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > SMALL_BODY:
            raise ApiError(413, f"The body has more than {SMALL_BODY:,} bytes, and nothing but parameters.")
    if not body:
        return check_parameters(kind, gather_parameters(query, kind))
    if _get_media_type(request) not in (JSON, ""):
        raise ApiError(415, f"The body must be {JSON}.")
    return check_parameters(kind, gather_parameters([*query, *parse_object(body).items()], kind))


async def parse_samples(
    service: Service, request: Request, kind: type[SampleParameters], model: ServedModel, on_progress: OnProgress
) -> tuple[Any, Samples]:
    """Return the parameters and the samples of a request."""
    query, media_type = gather_parameters(request.query_params.multi_items(), kind), _get_media_type(request)
    size, limits = int(request.headers.get("content-length", SMALL_BODY + 1)), service.settings.limits
    async with service.large if size > SMALL_BODY else nullcontext():
        with convert_errors():
            if media_type == JSON and size <= SMALL_BODY:
                return read_json(await request.body(), kind, query, model.expected)
            async with _open_folder(service.folder) as place:
                if media_type == _FORM:
                    reading = await _take_form(request, kind, query, limits, place)
                else:
                    reading = await _take_body(request, kind, query, place)
                if reading.format == "npy" and not reading.beside:  # nothing in it is decoded
                    return await finish(asyncio.to_thread(read_samples, reading, model.expected, {}, lambda *_: None))
                header = {"reading": asdict(reading), "expected": asdict(model.expected)}
                words, most = get_words(model.clf), model.expected.most_bytes
                found, arrays = await service.readers.run("read", header, words, on_progress=on_progress, most=most)
    try:
        parameters = kind.model_validate(found["parameters"])
        return parameters, Samples.unpack(found["samples"], arrays).check(model.expected)
    except (KeyError, TypeError, ValueError):
        raise crash() from None


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that is brought to its end once it has begun, whether the client waits or not."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def _get_media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@asynccontextmanager
async def _open_folder(folder: Path) -> AsyncIterator[Path]:
    """Give a private folder for the files of a request, which is removed afterwards."""
    try:
        with TemporaryDirectory(prefix="upload-", dir=folder, ignore_cleanup_errors=True) as place:
            yield Path(place)
    except OSError as error:
        reason = error.strerror or "its disk refuses it"
        raise ApiError(503, f"The server cannot store the upload: {reason}.", {"Retry-After": "1"}) from None


async def _take_body(request: Request, kind: type[SampleParameters], query: dict[str, Any], place: Path) -> Reading:
    """Write a body that is one file, or JSON."""
    media_type = _get_media_type(request)
    if media_type not in (*FILE_TYPES, JSON) and not media_type.startswith("image/"):
        known = ", ".join((JSON, *FILE_TYPES, "image/*"))
        raise ApiError(415, f"The body must be {known} or {_FORM}; Content-Type says which.")
    if media_type != JSON:
        query = check_parameters(kind, query).model_dump(exclude_unset=True)
    path = place / "0"
    with open(path, "wb") as file:
        async for chunk in request.stream():
            file.write(chunk)
        if not file.tell():
            raise InputError("The body is empty: send samples.")
    format = "json" if media_type == JSON else find_format(path, "", media_type)
    return Reading(kind.__name__, query, format, [_give_suffix(path, format)], ["the body"])


async def _take_form(
    request: Request, kind: type[SampleParameters], query: dict[str, Any], limits: Limits, place: Path
) -> Reading:
    """Write the files of a form, and gather its fields."""
    taken = kind.list_beside()
    too_many = ApiError(413, f"The request has more than {limits.files:,} files: send fewer at a time.")
    try:
        form = await request.form(max_files=limits.files, max_fields=_MOST_FIELDS, max_part_size=limits.body)
    except HTTPException as error:  # Starlette gives no other sign
        raise too_many if error.detail.startswith("Too many files") else error from None
    try:
        uploads = [value for value in form.getlist("files") if isinstance(value, UploadFile)]
        fields = [(name, value) for name, value in form.multi_items() if name != "files" and isinstance(value, str)]
        for name, value in form.multi_items():
            if name != "files" and isinstance(value, UploadFile):
                raise InputError(f'The form has a file called {name[:80]!r}: send files as parts called "files".')
            if name not in taken and isinstance(value, str) and len(value) > _LONGEST_FIELD:
                raise ApiError(413, f"The field {name[:80]!r} has more than {_LONGEST_FIELD:,} characters.")
        beside = gather_parameters([pair for pair in fields if pair[0] in taken], kind)
        given = gather_parameters([*query.items(), *(pair for pair in fields if pair[0] not in taken)], kind)
        parameters = check_parameters(kind, given).model_dump(exclude_unset=True)
        if not uploads:
            raise InputError('The form has no files: send them as parts called "files".')
        paths = [place / str(number) for number in range(len(uploads))]
        await finish(asyncio.to_thread(_write_files, uploads, paths))
    finally:
        await form.close()
    formats = [
        find_format(path, one.filename or "", one.content_type or "") for path, one in zip(paths, uploads, strict=True)
    ]
    if len(uploads) > 1 and set(formats) != {PICTURES}:
        raise InputError(f"The form has {len(uploads):,} files: send one table, or pictures only.")
    files = [_give_suffix(path, formats[0]) for path in paths]
    names = [clean_name(upload.filename) for upload in uploads]
    return Reading(kind.__name__, parameters, formats[0], files, names, beside)


def _write_files(uploads: list[UploadFile], paths: list[Path]) -> None:
    for upload, path in zip(uploads, paths, strict=True):
        with open(path, "wb") as file:
            shutil.copyfileobj(upload.file, file)


def _give_suffix(path: Path, format: str) -> str:
    """Give a file the name by which readers know its format."""
    return str(path if format in (PICTURES, "json") else path.rename(f"{path}.{format}"))


def clean_name(name: str | None) -> str:
    """Return a file name from a client for messages: without folders and control characters, and not too long."""
    found = escape_unprintable((name or "").replace("\\", "/").rpartition("/")[2]).strip()
    return (found if len(found) <= _LONGEST_NAME else found[: _LONGEST_NAME - 1] + "…") or "upload"


def find_format(path: Path, name: str, media_type: str) -> str:
    """Return the format of a file: by its first bytes, else by what its sender says, else CSV."""
    with open(path, "rb") as file:
        start = file.read(16)
    for signature, format in _SIGNATURES.items():
        if start.startswith(signature):
            return format
    is_image = media_type.startswith("image/") or is_picture(name.lower())
    return PICTURES if is_image else FILE_TYPES.get(media_type, "csv")
