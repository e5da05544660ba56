"""The whole server: what stands before all routes, the routes, and what they share; and how it is run."""

from __future__ import annotations

import gc
import logging
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from threadpoolctl import threadpool_limits

from .. import __version__
from . import middleware, routes, schemas
from .answers import answer_error
from .demo_model import DigitSamples
from .schemas import CSV, ApiError, Parameters, SampleParameters, describe_answers, describe_request
from .service import Service
from .settings import ServerSettings
from .store import ModelStore

_DESCRIPTION = """Open set recognition: a class of the model for each sample, or the answer that it is unknown.

Samples are sent as JSON, CSV, NPY, Parquet, pictures or a form with files; parameters in the query string, or in the
JSON or the form. An error is `{"error": "One sentence."}`. While a request with a `Progress-Key` in its head is worked
on, `/v1/progress/{key}` says how far that is. With `If-Match: "VERSION"` only this version of a model is changed. A
token, if the server has one, is in the head: `Authorization: Bearer TOKEN`."""
#: Seconds that a thread may hold the interpreter: the event loop must not wait longer for the Python of a coder.
_SWITCH_INTERVAL = 0.0005
_SENTENCES = {404: "There is no such page.", 405: "This address does not take the method of the request."}


@dataclass(frozen=True)
class Route:
    """What is answered at an address, and what the OpenAPI document says of it."""

    method: str
    path: str
    answer: Callable[[Service, Request], Awaitable[Response]]
    summary: str
    parameters: type[Parameters] | None = None
    #: The answer: an object of this shape, or of this media type; and media types that it can have instead.
    shape: type[BaseModel] | str = schemas.Answer
    more: tuple[str, ...] = ()
    #: An example of the parameters.
    example: dict[str, Any] = field(default_factory=dict)


def _work(job: str, kind: type[SampleParameters], summary: str) -> Route:
    answer = partial(routes.work_on_samples, job=job, kind=kind)
    return Route("POST", f"{_MODEL}/{job}", answer, summary, kind, schemas.ResultAnswer)


def _change(change: str, kind: type[Parameters], summary: str, **example: Any) -> Route:
    answer = partial(routes.change_model, change=change, kind=kind)
    return Route("POST", f"{_MODEL}/{change}", answer, summary, kind, example=example)


_MODEL = "/v1/models/{model}"
ROUTES = (  # searched from the top
    Route(
        "POST", f"{_MODEL}/decide", routes.decide, "Decide on samples: a class of the model, or unknown",
        schemas.DecideParameters, schemas.DecideAnswer, (CSV,),
    ),
    Route("GET", "/healthz", routes.get_health, "Whether the process is alive"),
    Route("GET", "/readyz", routes.get_readiness, "Whether requests are served, and the versions of the models"),
    Route("GET", "/metrics", routes.get_metrics, "Counters in the format of Prometheus", shape="text/plain"),
    Route("GET", "/v1/progress/{key}", routes.get_progress, "How far the work of the request with this key is"),
    Route("GET", "/v1/models", routes.list_models, "The models"),
    Route("GET", _MODEL, routes.get_model, "What srosr info shows of a model"),
    Route("GET", f"{_MODEL}/scores", routes.get_scores, "Held-out scores, by which a threshold can be judged"),
    Route(
        "POST", f"{_MODEL}/explain", routes.explain, "Explain why a sample is recognized or rejected",
        schemas.ExplainParameters, schemas.ResultAnswer,
    ),
    _work("evaluate", schemas.EvaluateParameters, "Measure a model on labeled samples"),
    _work("discover", schemas.DiscoverParameters, "Group rejected samples that may be new classes"),
    _change("set-threshold", schemas.ThresholdParameters, "Reject more or fewer samples", target_rejection=0.01),
    _change("add-class", schemas.AddClassParameters, "Add a class to a model", name="tulip"),
    _change("remove-class", schemas.RemoveClassParameters, "Remove a class from a model", label="tulip"),
    _change("update", schemas.UpdateParameters, "Teach a model more samples of its classes"),
    _change("recalibrate", schemas.RecalibrateParameters, "Set the threshold anew by fresh samples"),
    _change("restore", schemas.RestoreParameters, "Bring back an earlier version", version="9f86d081884c7d65"),
    Route(
        "GET", f"{_MODEL}/history", routes.get_history, "The versions of a model, the newest first"
    ),
    Route(
        "GET", f"{_MODEL}/monitor", routes.get_monitor, "Rejections over time, and the alarm if the stream changes"
    ),
    Route(
        "POST", f"{_MODEL}/monitor/restart", routes.restart_monitor,
        "Begin a new watch: forget earlier samples and the alarm",
    ),
    Route("GET", "/v1/demo/samples", routes.get_demo_samples, "Digits to try the demo with", schemas.DemoParameters),
    Route("GET", "/", routes.get_file, ""),
    Route("GET", "/favicon.ico", routes.get_file, ""),
    Route("GET", "/static/{name:path}", routes.get_file, ""),
)  # fmt: skip


def make_app(settings: ServerSettings, store: ModelStore, folder: Path, demo: DigitSamples | None) -> FastAPI:
    """Return the application, whose models are loaded; ``folder`` is private, and removed at the end."""

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = service = Service(settings, store, folder, demo)
        gc.collect()
        gc.freeze()  # what is there now stays, and need not be looked at again
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="srosr",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=live,
        redirect_slashes=False,
        middleware=[
            Middleware(middleware.Counting),
            Middleware(middleware.SecurityHeaders),
            Middleware(middleware.Errors),
            Middleware(middleware.Checking, check=middleware.check_host(settings)),
            Middleware(middleware.Checking, check=middleware.check_origin),
            Middleware(middleware.Checking, check=middleware.check_token(settings.token)),
            Middleware(middleware.Receiving, limits=settings.limits),
        ],
    )
    for route in ROUTES:
        _add_route(app, route)
    app.add_exception_handler(HTTPException, _answer_http_error)
    return app


def _add_route(app: FastAPI, route: Route) -> None:
    async def answer(request: Request) -> Response:
        return await route.answer(request.app.state.service, request)

    app.add_api_route(
        route.path, answer, methods=[route.method], summary=route.summary, include_in_schema=bool(route.summary),
        operation_id=re.sub(r"[^a-z0-9]+", "_", f"{route.method} {route.path}".lower()).strip("_"),
        responses=describe_answers(route.shape, route.more),
        openapi_extra=describe_request(route.method, route.path, route.parameters, route.example),
    )  # fmt: skip
    if route.method == "GET":  # what answers GET answers HEAD; the server sends no body then
        app.add_api_route(route.path, answer, methods=["HEAD"], include_in_schema=False)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = _SENTENCES.get(error.status_code, f"The request cannot be read: {error.detail.rstrip('.')}.")
    return answer_error(ApiError(error.status_code, message, dict(error.headers or {})))


def run_server(
    settings: ServerSettings, store: ModelStore, folder: Path, bound: socket.socket, demo: DigitSamples | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests in flight are finished then."""
    limits = settings.limits
    config = uvicorn.Config(
        make_app(settings, store, folder, demo),
        http="h11",  # it limits heads; httptools does not
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=settings.log_requests,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=limits.head,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=limits.drain_seconds,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    # uvicorn raises the signal that ended it again, once it has: to have been asked to end is no failure.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with threadpool_limits(1):  # several coders decide at a time, each in one thread
            uvicorn.Server(config).run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
