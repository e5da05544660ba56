"""Routes that change a model: each writes the model file atomically, keeps the version before and an audit line."""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from ..exceptions import ModelFileError
from ..model_files.save_load import load
from .answers import (
    ENDING,
    JSON,
    LINES,
    ApiError,
    LineStream,
    OnProgress,
    answer_json,
    answer_result,
    choose_type,
    stream_result,
)
from .api_document import describe_answer, describe_body
from .model_changes import (
    CannotWrite,
    Change,
    ChangedMeanwhile,
    GivenUp,
    UnknownVersion,
    Wish,
    commit_change,
    find_kept,
    find_version,
    list_versions,
)
from .model_store import ServedModel
from .request_parameters import ParsedRequest
from .routes import describe_model
from .schemas import (
    AddClassParameters,
    HistoryAnswer,
    ModelAnswer,
    Parameters,
    RecalibrateParameters,
    RemoveClassParameters,
    RestoreParameters,
    ThresholdParameters,
    UpdateParameters,
)
from .service import Service, get_service

change_router = APIRouter()
#: Why a change that was made may not be served.
_REPLACED = "its file was replaced again."
#: Parameters that say how samples are read, and nothing about the change.
_OF_READING = frozenset({"label", "ignore", "header", "array", "by_name", "drop_missing", "skip_broken", "rows"})


def _describe(kind: type[Parameters], example: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what all routes of changes have in common in the OpenAPI document."""
    extra = describe_body(kind, example)
    if_match = {
        "name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"},
        "description": "Change the model only if it has this version.",
    }  # fmt: skip
    extra["parameters"] = [*extra.get("parameters", []), if_match]
    answers = describe_answer(ModelAnswer, more=(LINES,), of_work=True, of_change=True)
    return {"responses": answers, "openapi_extra": extra}


@change_router.post(
    "/v1/models/{model}/set-threshold", summary="Reject more or fewer samples",
    **_describe(ThresholdParameters, {"target_rejection": 0.01}),
)  # fmt: skip
async def set_threshold(request: Request, model: str) -> Response:
    return await _change(request, model, "set-threshold", ThresholdParameters)


@change_router.post(
    "/v1/models/{model}/add-class", summary="Add a class to a model", **_describe(AddClassParameters, {"name": "tulip"})
)
async def add_class(request: Request, model: str) -> Response:
    return await _change(request, model, "add-class", AddClassParameters)


@change_router.post(
    "/v1/models/{model}/remove-class", summary="Remove a class from a model",
    **_describe(RemoveClassParameters, {"label": "tulip"}),
)  # fmt: skip
async def remove_class(request: Request, model: str) -> Response:
    return await _change(request, model, "remove-class", RemoveClassParameters)


@change_router.post(
    "/v1/models/{model}/update", summary="Teach a model more samples of its classes", **_describe(UpdateParameters)
)
async def update(request: Request, model: str) -> Response:
    return await _change(request, model, "update", UpdateParameters)


@change_router.post(
    "/v1/models/{model}/recalibrate", summary="Set the threshold anew by fresh samples",
    **_describe(RecalibrateParameters),
)  # fmt: skip
async def recalibrate(request: Request, model: str) -> Response:
    return await _change(request, model, "recalibrate", RecalibrateParameters)


@change_router.post(
    "/v1/models/{model}/restore", summary="Bring back an earlier version",
    **_describe(RestoreParameters, {"version": "9f86d081884c7d65"}),
)  # fmt: skip
async def restore(request: Request, model: str) -> Response:
    return await _change(request, model, "restore", RestoreParameters)


@change_router.get(
    "/v1/models/{model}/history", summary="The versions of a model, the newest first",
    responses=describe_answer(HistoryAnswer),
)  # fmt: skip
async def get_history(request: Request, model: str) -> Response:
    service = get_service(request)
    found = service.find_model(model)
    served = None if service.store.find_problem(model) is None else found.version
    return await answer_result({"versions": await asyncio.to_thread(list_versions, found.source, served)})


# -- how a change goes ---------------------------------------------------------------------------------------


async def _change(request: Request, name: str, change: str, kind: type[Parameters]) -> Response:
    """Change a model as a request asks."""
    service = get_service(request)
    model = service.find_model(name)
    if service.settings.read_only:
        raise ApiError(403, "The server is read-only: nothing can be changed.")
    media_type = choose_type(request.headers.get("accept"), (JSON, LINES))
    expected = parse_etags(request.headers.get("if-match"))
    _check_version(model, expected)
    if change != "restore" and change not in model.changes:
        raise ApiError(409, f"{name} holds {model.summary['method']}, which cannot do {change}.")
    _check_file(service, model, change)
    parsed = await service.parse(request, kind)
    by = request.client.host if request.client is not None else ""

    async def work(on_progress: OnProgress | None = None) -> dict[str, Any]:
        lock = service.changing[name]
        await lock.acquire()
        commit: asyncio.Task[dict[str, Any]] | None = None
        wish = Wish()
        try:
            # As it is now: another change may have been made while this one waited.
            current = service.find_model(name)
            _check_version(current, expected)
            _check_file(service, current, change)
            prepared = await _prepare_change(service, current, change, parsed, by, on_progress)
            if on_progress is not None:
                on_progress({"stage": "Saving"})
            commit = service.begin_commit(_commit(service, current, prepared, wish), wish)
            commit.add_done_callback(lambda _: lock.release())
        finally:
            if commit is None:
                lock.release()
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            # Nobody waits for it any more. Once it has begun it is brought to its end, and others wait for it.
            wish.give_up()
            raise

    if media_type == LINES:
        return LineStream(stream_result(work))
    result = await work()
    return answer_json(result, headers={"ETag": f'"{result["version"]}"'})


def _check_version(model: ServedModel, expected: list[str] | None) -> None:
    if expected is not None and model.version not in expected:
        raise ApiError(
            412, f"{model.name} has version {model.version}, not the one that If-Match names: look at it again.",
            {"ETag": f'"{model.version}"'},
        )  # fmt: skip


def _check_file(service: Service, model: ServedModel, change: str) -> None:
    """Raise if the model that is served is not in its file, so that a change of it would undo that of somebody else."""
    problem = service.store.find_problem(model.name)
    if problem is not None and change != "restore":
        raise ApiError(409, f"{problem} Restore a version of {model.name}, or replace the file, before it is changed.")


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


@dataclass(frozen=True)
class _Prepared:
    """A changed model that is to take the place of another."""

    #: Its file, and the folder that was made for it.
    path: Path
    folder: Path | None
    #: The version of the file that it replaces.
    before: str | None
    change: Change
    notes: list[str]


async def _prepare_change(
    service: Service,
    model: ServedModel,
    change: str,
    parsed: ParsedRequest[Any],
    by: str,
    on_progress: OnProgress | None,
) -> _Prepared:
    """Make the changed model in a child, or find the earlier one."""
    parameters: Parameters = parsed.parameters
    details = {
        name: value for name, value in parameters.model_dump(exclude_defaults=True).items() if name not in _OF_READING
    }
    if change == "remove-class":
        details["label"] = parameters.label  # type: ignore[attr-defined]
    asked = Change(model.name, change, details, by)
    if change == "restore":
        version: str = parameters.version  # type: ignore[attr-defined]
        is_broken = service.store.find_problem(model.name) is not None
        if is_broken and version == model.version:
            path = model.path  # what is served can take the place of a file that is no model
        else:
            path = await asyncio.to_thread(_find_loadable, model, version)
        before = await asyncio.to_thread(find_version, model.source) if is_broken else model.version
        return _Prepared(path, None, before, asked, [])
    folder = service.folder / f"change-{secrets.token_hex(8)}"
    folder.mkdir(0o700)
    new = folder / "new.srosr"
    notes: list[str] = []
    try:
        samples = await service.read(parsed, model, on_progress) if parameters.takes_samples else None
        more: dict[str, Any] = {"out": str(new)}
        if samples is not None:
            details["samples"] = len(samples.X)
            notes += samples.notes
        if change == "add-class":
            more |= {"class": parameters.name, "chosen": parameters.rows is not None}  # type: ignore[attr-defined]
        result = await service.work(change.replace("-", "_"), model, parameters, samples, on_progress, **more)
    except BaseException:
        service.begin_removing(folder)
        raise
    return _Prepared(new, folder, model.version, asked, [*notes, *result["notes"]])


async def _commit(service: Service, model: ServedModel, prepared: _Prepared, wish: Wish) -> dict[str, Any]:
    """Put a changed model in the place of the old one, serve it, and return what it is like."""
    name = model.name
    try:
        after = await asyncio.to_thread(
            commit_change, model.source, prepared.path, before=prepared.before, change=prepared.change, wish=wish
        )
    except ChangedMeanwhile as error:
        raise ApiError(409, error.message) from None
    except CannotWrite as error:
        raise ApiError(503, error.message, {"Retry-After": "1"}) from None
    except GivenUp:
        raise ApiError(503, ENDING) from None
    finally:
        if prepared.folder is not None:
            service.begin_removing(prepared.folder)
    service.metrics.count_change(name, prepared.change.change)
    changed = await service.store.refresh(name, certain=True)
    if changed is None or changed.version != after:
        problem = service.store.find_problem(name)
        raise ApiError(409, f"{name} was changed to version {after}, which is not served: {problem or _REPLACED}")
    return {**describe_model(service, changed), "previous_version": model.version, "notes": prepared.notes}


def _find_loadable(model: ServedModel, version: str) -> Path:
    """Return the file of an earlier version, which is a model."""
    try:
        path = find_kept(model.source, version)
        load(path)
    except UnknownVersion as error:
        raise ApiError(404, error.message) from None
    except (ModelFileError, OSError):
        raise ApiError(409, f"Version {version} is kept, but cannot be loaded.") from None
    return path
