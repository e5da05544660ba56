"""Routes that read: state, models, explanations, evaluations, groups, monitors."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from .answers import (
    JSON,
    LINES,
    SVG,
    ApiError,
    LineStream,
    OnProgress,
    answer_json,
    answer_result,
    choose_type,
    stream_result,
)
from .api_document import describe_answer, describe_body, describe_query
from .guard import TRUSTED
from .model_store import ServedModel
from .schemas import (
    DemoAnswer,
    DemoParameters,
    DiscoverParameters,
    EvaluateParameters,
    ExplainAnswer,
    ExplainParameters,
    HealthAnswer,
    ModelAnswer,
    ModelList,
    MonitorAnswer,
    ReadyAnswer,
    ResultAnswer,
    ScoresAnswer,
    check_parameters,
)
from .server_metrics import CONTENT_TYPE
from .service import Service, get_service

#: Held-out scores that are sent at most, of each kind.
_MOST_SCORES = 2000
router = APIRouter()


# -- state ---------------------------------------------------------------------------------------------------


@router.get("/healthz", summary="Whether the process is alive", responses=describe_answer(HealthAnswer, errors=()))
async def get_health(request: Request) -> Response:
    return answer_json({"status": "alive"})


@router.get(
    "/readyz", summary="Whether requests are served, and the versions of the models",
    responses=describe_answer(ReadyAnswer, errors=()) | {503: {"model": ReadyAnswer, "description": "Not ready"}},
)  # fmt: skip
async def get_readiness(request: Request) -> Response:
    service = get_service(request)
    answer: dict[str, Any] = {"status": service.status}
    if request.scope.get(TRUSTED, True):
        answer["models"] = {
            name: {"version": service.find_model(name).version, "problem": service.store.find_problem(name)}
            for name in service.store.names
        }
    return answer_json(answer, 200 if service.status == "ready" else 503)


@router.get(
    "/metrics", summary="Counters in the format of Prometheus",
    responses=describe_answer(None, media_type="text/plain", errors=()),
)  # fmt: skip
async def get_metrics(request: Request) -> Response:
    service = get_service(request)
    await service.recorder.catch_up()
    return Response(service.metrics.render(), headers={"Content-Type": CONTENT_TYPE})


# -- models --------------------------------------------------------------------------------------------------


@router.get("/v1/models", summary="The models", responses=describe_answer(ModelList, errors=()))
async def list_models(request: Request) -> Response:
    service = get_service(request)
    models = []
    for name in service.store.names:
        model = service.find_model(name)
        models.append({
            "name": name,
            "version": model.version,
            "method": model.summary["method"],
            "classes": model.classes,
            "features": model.summary["features"],
            **_describe_use(service, model),
            "problem": service.store.find_problem(name),
        })  # fmt: skip
    return answer_json({
        "models": models, "read_only": service.settings.read_only, "demo": service.demo is not None
    })  # fmt: skip


@router.get("/v1/models/{model}", summary="What srosr info shows of a model", responses=describe_answer(ModelAnswer))
async def get_model(request: Request, model: str) -> Response:
    service = get_service(request)
    found = service.find_model(model)
    return answer_json(describe_model(service, found), headers={"ETag": f'"{found.version}"'})


def describe_model(service: Service, model: ServedModel) -> dict[str, Any]:
    """Return a JSON-serializable dict of all that is known of a model."""
    limits = service.settings.limits
    return {
        **model.summary,
        "name": model.name,
        "version": model.version,
        "bytes": model.size,
        "loaded_at": model.loaded_at.isoformat(timespec="seconds"),
        **_describe_use(service, model),
        "score_range": list(model.clf.score_range),
        "coverage_guarantee": model.coverage_guarantee,
        "limits": {
            "body": limits.body, "rows": limits.rows, "columns": limits.columns, "pixels": limits.pixels,
            "files": limits.files,
        },
    }  # fmt: skip


def _describe_use(service: Service, model: ServedModel) -> dict[str, Any]:
    """Return what samples of a model are, and how it can be changed."""
    changes = [] if service.settings.read_only else model.changes
    return {
        "takes": model.takes,
        "picture_shape": None if model.picture_shape is None else list(model.picture_shape),
        "can_change": bool(changes),
        "changes": changes,
    }


@router.get(
    "/v1/models/{model}/scores", summary="Held-out scores, by which a threshold can be judged",
    responses=describe_answer(ScoresAnswer),
)  # fmt: skip
async def get_scores(request: Request, model: str) -> Response:
    found = get_service(request).find_model(model)
    clf, held, split = found.clf, found.clf._held_out_scores(), found.clf._calibration_split()
    scores, right = held.scores, held.candidate == held.truth
    if split is not None:
        scores, right = split.scores, (split.candidate == split.truth) & split.labeled
    order = np.argsort(scores, kind="stable")
    known, right = _thin(scores[order]), _thin(right[order])
    simulated = _thin(np.sort(held.simulated[np.asarray(held.unknown, dtype=bool)]))
    return answer_json({
        "known": known.tolist(),
        "known_right": right.tolist(),
        "simulated": simulated.tolist(),
        "thresholds": dict(zip(found.classes, clf.thresholds_.tolist(), strict=True)),
        "threshold": found.summary["threshold"],
        "score_range": list(clf.score_range),
    })  # fmt: skip


def _thin(values: Any) -> Any:
    """Return at most so many values, evenly chosen, the first and the last among them."""
    if len(values) <= _MOST_SCORES:
        return values
    return values[np.linspace(0, len(values) - 1, _MOST_SCORES).round().astype(int)]


# -- work on samples -----------------------------------------------------------------------------------------


@router.post(
    "/v1/models/{model}/explain", summary="Explain why a sample is recognized or rejected",
    responses=describe_answer(ExplainAnswer, more=(LINES, SVG), of_work=True),
    openapi_extra=describe_body(ExplainParameters),
)  # fmt: skip
async def explain(request: Request, model: str) -> Response:
    service = get_service(request)
    found = service.find_model(model)
    media_type = choose_type(request.headers.get("accept"), (JSON, SVG, LINES))
    parsed = await service.parse(request, ExplainParameters)

    async def work(on_progress: OnProgress | None = None) -> dict[str, Any]:
        parameters: ExplainParameters = parsed.parameters
        samples = await service.read(parsed, found, on_progress, one_row=True)
        if parameters.row in samples.numbers:  # the others need not be sent to the child
            samples = samples.take_rows([parameters.row])
        drawn = {"figure": True} if media_type == SVG else {}
        result = await service.work("explain", found, parameters, samples, on_progress, **drawn)
        return {"model": found.name, "version": found.version, **result}

    if media_type == LINES:
        return LineStream(stream_result(work))
    result = await work()
    if media_type == SVG:
        return Response(result["figure"], media_type=SVG)
    return await answer_result(result)


@router.post(
    "/v1/models/{model}/evaluate", summary="Measure a model on labeled samples",
    responses=describe_answer(ResultAnswer, more=(LINES,), of_work=True),
    openapi_extra=describe_body(EvaluateParameters),
)  # fmt: skip
async def evaluate(request: Request, model: str) -> Response:
    return await _work_on_samples(request, model, "evaluate", EvaluateParameters)


@router.post(
    "/v1/models/{model}/discover", summary="Group rejected samples that may be new classes",
    responses=describe_answer(ResultAnswer, more=(LINES,), of_work=True),
    openapi_extra=describe_body(DiscoverParameters),
)  # fmt: skip
async def discover(request: Request, model: str) -> Response:
    return await _work_on_samples(request, model, "discover", DiscoverParameters)


async def _work_on_samples(request: Request, name: str, job: str, kind: type[Any]) -> Response:
    """Let a child work on all samples of a request."""
    service = get_service(request)
    model = service.find_model(name)
    media_type = choose_type(request.headers.get("accept"), (JSON, LINES))
    parsed = await service.parse(request, kind)

    async def work(on_progress: OnProgress | None = None) -> dict[str, Any]:
        samples = await service.read(parsed, model, on_progress)
        result = await service.work(job, model, parsed.parameters, samples, on_progress)
        return {**result, "model": model.name, "version": model.version}

    if media_type == LINES:
        return LineStream(stream_result(work))
    return await answer_result(await work())


# -- monitoring ----------------------------------------------------------------------------------------------


@router.get(
    "/v1/models/{model}/monitor", summary="Rejections over time, and the alarm if the stream changes",
    responses=describe_answer(MonitorAnswer),
)  # fmt: skip
async def get_monitor(request: Request, model: str) -> Response:
    service = get_service(request)
    found = service.find_model(model)
    await service.recorder.catch_up()
    return answer_json(service.get_watch(found.name).describe())


@router.post(
    "/v1/models/{model}/monitor/restart", summary="Begin a new watch: forget earlier samples and the alarm",
    responses=describe_answer(MonitorAnswer, of_change=True),
)  # fmt: skip
async def restart_monitor(request: Request, model: str) -> Response:
    service = get_service(request)
    if service.settings.read_only:
        raise ApiError(403, "The server is read-only: nothing can be changed.")
    watch = service.get_watch(service.find_model(model).name)
    await service.recorder.catch_up()
    watch.restart()
    return answer_json(watch.describe())


# -- the demonstration ---------------------------------------------------------------------------------------


@router.get(
    "/v1/demo/samples", summary="Digits to try the demonstration with",
    responses=describe_answer(DemoAnswer, errors=(404, 422)),
    openapi_extra=describe_query(DemoParameters),
)  # fmt: skip
async def get_demo_samples(request: Request) -> Response:
    service = get_service(request)
    if service.demo is None:
        raise ApiError(404, "There are no samples of a demonstration: start the server with --demo.")
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ApiError(422, f"The parameter {name[:80]!r} is given more than once.")
        given[name] = value
    parameters = check_parameters(DemoParameters, given)
    return answer_json(service.demo.draw(parameters.digit, parameters.n, parameters.seed))
