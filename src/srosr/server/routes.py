"""What the server answers: state, models, work on samples, changes of models, monitors, the page.

Each function answers one kind of request; :mod:`srosr.server.application` has the list of their addresses.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from ..exceptions import ModelFileError
from ..model_files.save_load import load
from ..operations.sample_decisions import describe_fdr, make_row_error
from . import schemas
from .answers import answer_json, describe_rows, write_csv, write_decisions
from .history import commit_change, find_kept, find_version, list_versions
from .middleware import TRUSTED
from .pool import OnProgress
from .request_samples import finish, parse_parameters, parse_samples
from .samples import Samples
from .schemas import CSV, JSON, ApiError, DecideParameters, Parameters, SampleParameters
from .service import NO_PROGRESS, Service
from .store import COVERAGE, ServedModel

#: Held-out scores that are sent at most, of each kind.
_MOST_SCORES = 2000
#: Rows whose decisions are written in the event loop; those on more are written in a thread.
_FEW_ROWS = 200
#: Parameters that say how samples are read, and nothing about a change.
_OF_READING = set(SampleParameters.model_fields)
_PAGE = Path(__file__).parent / "page"
_PAGE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def _find_model(service: Service, request: Request) -> ServedModel:
    return service.store.get(request.path_params["model"])


# -- state ---------------------------------------------------------------------------------------------------


async def get_health(service: Service, request: Request) -> Response:
    return answer_json({"status": "alive"})


async def get_readiness(service: Service, request: Request) -> Response:
    answer: dict[str, Any] = {"status": "ready"}
    if request.scope.get(TRUSTED, True):
        answer["models"] = {
            name: {"version": service.store.get(name).version, "problem": service.store.find_problem(name)}
            for name in service.store.names
        }
    return answer_json(answer)


async def get_metrics(service: Service, request: Request) -> Response:
    await service.catch_up()
    return Response(service.render_metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def get_progress(service: Service, request: Request) -> Response:
    return answer_json(service.progress.get(request.path_params["key"], NO_PROGRESS))


# -- models --------------------------------------------------------------------------------------------------


async def list_models(service: Service, request: Request) -> Response:
    settings, store = service.settings, service.store
    models = [
        {**_describe_model(service, store.get(name)), "problem": store.find_problem(name)} for name in store.names
    ]
    return answer_json({"models": models, "read_only": settings.read_only, "demo": service.demo is not None})


async def get_model(service: Service, request: Request) -> Response:
    found = _find_model(service, request)
    return answer_json(_describe_model(service, found), headers={"ETag": f'"{found.version}"'})


def _describe_model(service: Service, model: ServedModel) -> dict[str, Any]:
    """Return all that is known of a model, what its samples are, and how it can be changed."""
    limits, changes = service.settings.limits, [] if service.settings.read_only else model.changes
    return {
        **model.summary,
        "name": model.name,
        "version": model.version,
        "bytes": model.size,
        "loaded_at": model.loaded_at.isoformat(timespec="seconds"),
        "takes": "table" if model.expected.recipe is None else "pictures",
        "picture_shape": model.picture_shape,
        "can_change": bool(changes),
        "changes": changes,
        "score_range": model.clf.score_range,
        "coverage_guarantee": model.coverage_guarantee,
        "limits": {name: getattr(limits, name) for name in ("body", "rows", "columns", "pixels", "files")},
    }


async def get_scores(service: Service, request: Request) -> Response:
    found = _find_model(service, request)
    clf, held, split = found.clf, found.clf._held_out_scores(), found.clf._calibration_split()
    scores, right = held.scores, held.candidate == held.truth
    if split is not None:
        scores, right = split.scores, (split.candidate == split.truth) & split.labeled
    order = np.argsort(scores, kind="stable")
    return answer_json({
        "known": _thin(scores[order]).tolist(),
        "known_right": _thin(right[order]).tolist(),
        "simulated": _thin(np.sort(held.simulated[np.asarray(held.unknown, dtype=bool)])).tolist(),
        "thresholds": dict(zip(found.classes, clf.thresholds_.tolist(), strict=True)),
        "threshold": found.summary["threshold"],
        "score_range": list(clf.score_range),
    })  # fmt: skip


def _thin(values: Any) -> Any:
    """Return ``_MOST_SCORES`` values at most, evenly chosen, the first and the last among them."""
    if len(values) <= _MOST_SCORES:
        return values
    return values[np.linspace(0, len(values) - 1, _MOST_SCORES).round().astype(int)]


# -- work on samples -----------------------------------------------------------------------------------------


async def decide(service: Service, request: Request) -> Response:
    """Decide on samples together with those of other requests."""
    model, as_csv = _find_model(service, request), CSV in request.headers.get("accept", "")
    batcher = service.batchers[model.name]
    with service.follow(request) as on_progress:
        with batcher.announce():
            parameters, samples = await parse_samples(service, request, DecideParameters, model, on_progress)
            parameters = _check_coverage(parameters, model, as_csv)
            notes = _describe_fdr(model, parameters.fdr)
        # A false discovery rate is of all samples together, so that they are recorded once it is known.
        fdr, record = parameters.fdr, parameters.record
        decisions = await batcher.decide(
            model, samples, coverage=parameters.coverage, record=record and fdr is None, on_progress=on_progress
        )
        if fdr is not None:
            decisions = await asyncio.to_thread(model.clf._reject_together, decisions, fdr)
            if record:
                service.record(model, decisions)
        service.metrics.count_samples(model.name, decisions)
        sets = decisions.prediction_set
        head = {
            "model": model.name,
            "version": model.version,
            "threshold": model.summary["threshold"],
            "coverage": parameters.coverage,
            "guarantee": None if sets is None else sets.guarantee,
            "rows": len(samples.X),
            "dropped": samples.dropped,
            "notes": [*samples.notes, *notes],
        }
        write = partial(write_csv, model, samples, decisions)
        if not as_csv:
            write = partial(write_decisions, head, model, samples, decisions)
        content = write() if len(samples.X) <= _FEW_ROWS else await asyncio.to_thread(write)
    return Response(content, media_type=CSV if as_csv else JSON)


def _check_coverage(parameters: DecideParameters, model: ServedModel, as_csv: bool) -> DecideParameters:
    """Return the parameters without a coverage that was not asked for where the model has no prediction sets."""
    lack = f"{model.name} has no prediction sets; leave it out." if model.coverage_guarantee is None else None
    if as_csv and any("|" in name for name in model.classes):
        lack = "a class has a bar in its name, which stands between the classes of a set in CSV."
    if parameters.coverage is None or lack is None:
        return parameters
    if "coverage" in parameters.model_fields_set:
        raise ApiError(409, f"coverage: {lack}")
    return parameters.model_copy(update={"coverage": None})


def _describe_fdr(model: ServedModel, fdr: float | None) -> list[str]:
    """Return what a false discovery rate rests on, and what it lacks."""
    if fdr is None:
        return []
    try:
        lack = model.clf._find_lack(fdr)
        return [describe_fdr(model.clf, fdr), *([] if lack is None else [lack])]
    except ValueError as error:
        raise ApiError(409, f"fdr: {error}") from None


async def explain(service: Service, request: Request) -> Response:
    """Decide on one sample, and let a child explain why."""
    model = _find_model(service, request)
    with service.follow(request) as on_progress:
        parameters, samples = await parse_samples(service, request, schemas.ExplainParameters, model, on_progress)
        if not len(samples.X):
            raise make_row_error(model.clf, samples.source, parameters.row, samples.seen)
        coverage = None if model.coverage_guarantee is None else COVERAGE
        decisions = await service.batchers[model.name].decide(model, samples, coverage=coverage, record=False)
        result = await service.work("explain", model, parameters, samples, on_progress)
    decision = describe_rows(model, samples, decisions)[0]
    return answer_json({**result, "decision": decision, "model": model.name, "version": model.version})


async def work_on_samples(service: Service, request: Request, *, job: str, kind: type[SampleParameters]) -> Response:
    """Let a child work on all samples of a request."""
    model = _find_model(service, request)
    with service.follow(request) as on_progress:
        parameters, samples = await parse_samples(service, request, kind, model, on_progress)
        result = await service.work(job, model, parameters, samples, on_progress)
    return answer_json({**result, "model": model.name, "version": model.version})


# -- changes -------------------------------------------------------------------------------------------------


async def get_history(service: Service, request: Request) -> Response:
    model = _find_model(service, request)
    served = None if service.store.find_problem(model.name) is None else model.version
    return answer_json({"versions": await asyncio.to_thread(list_versions, model.source, served)})


async def change_model(service: Service, request: Request, *, change: str, kind: type[Parameters]) -> Response:
    """Change a model as a request asks: write the model file, keep the version before, serve the new one."""
    _check_writable(service)
    model, expected = _find_model(service, request), request.headers.get("if-match", "*")
    _check_change(service, model, change, expected)
    by = request.client.host if request.client is not None else ""
    with service.follow(request) as on_progress:
        samples = None
        if issubclass(kind, SampleParameters):
            parameters, samples = await parse_samples(service, request, kind, model, on_progress)
        else:
            parameters = await parse_parameters(request, kind)
        async with service.changing[model.name]:
            # As it is now: another change may have been made while this one waited.
            model = _find_model(service, request)
            _check_change(service, model, change, expected)
            with TemporaryDirectory(prefix="change-", dir=service.folder, ignore_cleanup_errors=True) as folder:
                new, notes = await _make_change(service, model, change, parameters, samples, Path(folder), on_progress)
                on_progress({"stage": "Saving"})
                details = parameters.model_dump(
                    exclude_defaults=True, exclude=set() if samples is None else _OF_READING
                )
                details |= {} if samples is None else {"samples": len(samples.X)}
                line = {"change": change, "details": details, "by": by}
                changed = await finish(_commit(service, model, new, line))
    answer = {**_describe_model(service, changed), "previous_version": model.version, "notes": notes}
    return answer_json(answer, headers={"ETag": f'"{changed.version}"'})


def _check_writable(service: Service) -> None:
    if service.settings.read_only:
        raise ApiError(403, "The server is read-only: nothing can be changed.")


def _check_change(service: Service, model: ServedModel, change: str, expected: str) -> None:
    """Raise if a model must not be changed as it is now."""
    versions = [part.strip().removeprefix("W/").strip('"') for part in expected.split(",")]
    if "*" not in versions and model.version not in versions:
        raise ApiError(
            412, f"{model.name} has version {model.version}, not the one that If-Match names: look at it again.",
            {"ETag": f'"{model.version}"'},
        )  # fmt: skip
    if change == "restore":
        return
    if change not in model.changes:
        raise ApiError(409, f"{model.name} holds {model.summary['method']}, which cannot do {change}.")
    problem = service.store.find_problem(model.name)
    if problem is not None:  # a change of the version that is served would undo the other
        raise ApiError(409, f"{problem} Restore a version of {model.name}, or replace the file, before it is changed.")


async def _make_change(
    service: Service, model: ServedModel, change: str, parameters: Any, samples: Samples | None, folder: Path,
    on_progress: OnProgress,
) -> tuple[Path, list[str]]:  # fmt: skip
    """Return the file of the changed model, made by a child or kept from earlier, and notes."""
    if change == "restore":
        is_served = parameters.version == model.version and service.store.find_problem(model.name) is not None
        if is_served:  # it can take the place of a file that is no model
            return model.path, []
        return await asyncio.to_thread(_find_loadable, model, parameters.version), []
    new = folder / "new.srosr"
    more = {"out": str(new), **({"class": parameters.name} if change == "add-class" else {})}
    result = await service.work(change.replace("-", "_"), model, parameters, samples, on_progress, **more)
    return new, [*(samples.notes if samples is not None else ()), *result["notes"]]


async def _commit(service: Service, model: ServedModel, new: Path, line: dict[str, Any]) -> ServedModel:
    """Put a changed model in the place of the old one, and serve it."""
    name, has_problem = model.name, service.store.find_problem(model.name) is not None
    before = await asyncio.to_thread(find_version, model.source) if has_problem else model.version
    after = await asyncio.to_thread(commit_change, name, model.source, new, before=before, line=line)
    service.metrics.changes.labels(name, line["change"]).inc()
    changed = await service.store.refresh(name, certain=True)
    if changed.version != after:
        problem = service.store.find_problem(name) or "its file was replaced again."
        raise ApiError(409, f"{name} was changed to version {after}, which is not served: {problem}")
    return changed


def _find_loadable(model: ServedModel, version: str) -> Path:
    """Return the file of an earlier version, which is a model."""
    try:
        load(path := find_kept(model.source, version))
        return path
    except (ModelFileError, OSError):
        raise ApiError(409, f"Version {version} is kept, but cannot be loaded.") from None


# -- monitoring and the demonstration ------------------------------------------------------------------------


async def get_monitor(service: Service, request: Request) -> Response:
    model = _find_model(service, request)
    await service.catch_up()
    return answer_json(service.watches[model.name].describe())


async def restart_monitor(service: Service, request: Request) -> Response:
    _check_writable(service)
    await service.catch_up()
    service.watches[_find_model(service, request).name].restart()
    return await get_monitor(service, request)


async def get_demo_samples(service: Service, request: Request) -> Response:
    if service.demo is None:
        raise ApiError(404, "There are no samples of a demonstration: start the server with --demo.")
    parameters = await parse_parameters(request, schemas.DemoParameters)
    return answer_json(service.demo.draw(parameters.digit, parameters.n, parameters.seed))


# -- the page: files of the package, read once, so that no path of a request reaches the file system ---------


@cache
def _read_page() -> dict[str, tuple[bytes, str, str]]:
    """Return the files of the page, their types and their tags by their names in addresses."""
    return {
        path.relative_to(_PAGE).as_posix(): (content, _PAGE_TYPES[path.suffix], sha256(content).hexdigest()[:16])
        for path in sorted(_PAGE.rglob("*"))
        if path.suffix in _PAGE_TYPES
        for content in [path.read_bytes()]
    }


async def get_file(service: Service, request: Request) -> Response:
    path = request.url.path.removeprefix("/static/")
    found = _read_page().get({"/": "index.html", "/favicon.ico": "icon.svg"}.get(path, path))
    if found is None:
        raise ApiError(404, "There is no such page.")
    content, media_type, tag = found
    etag = f'"{tag}"'
    # The browser asks each time, and gets the file only if it has changed.
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Content-Type": media_type}
    if request.headers.get("if-none-match") == etag:
        return Response(None, 304, headers)
    return Response(content, headers=headers)
