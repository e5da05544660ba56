"""The application: routes, errors, and the guard in front of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from .. import __version__
from ..exceptions import DeviceError
from ..operations.input_errors import InputError
from .answers import ApiError, answer_error, describe_error
from .batching import TooManyWaiting
from .change_routes import change_router
from .decide_route import decide_router
from .demo_model import DigitSamples
from .guard import Guard
from .model_store import ModelStore
from .page_routes import page_router
from .process_pool import JobError
from .routes import router
from .service import Service
from .settings import ServerSettings

_DESCRIPTION = """Open set recognition: a class of the model for each sample, or the answer that it is unknown.

Samples are sent as JSON, CSV, NPY, Parquet, pictures or a form with files; parameters in the query string, or in the
JSON or the form. An error is `{"error": "One sentence."}`. With `Accept: application/x-ndjson` work is answered by a
stream of lines, with its progress."""


def make_app(
    settings: ServerSettings, store: ModelStore, folder: Path, demo: DigitSamples | None = None
) -> tuple[ASGIApp, FastAPI]:
    """Return the application behind its guard, and the application itself.

    The models of the store are loaded; ``folder`` is private and removed at the end.
    """

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        service = Service(settings, store, folder, demo)
        app.state.service = service
        guard.service = service
        await service.start()
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
    )
    for routes in (router, decide_router, change_router, page_router):
        app.include_router(routes)
    for kind in (ApiError, InputError, JobError, TooManyWaiting, DeviceError, Exception):
        app.add_exception_handler(kind, _answer_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    _add_security(app, settings)
    guard = Guard(app, settings)
    return guard, app


async def _answer_error(request: Request, error: Exception) -> Response:
    return answer_error(describe_error(error))


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {404: "There is no such page.", 405: "This address does not take the method of the request."}
    message = sentences.get(error.status_code, "The request cannot be served.")
    return answer_error(ApiError(error.status_code, message, dict(error.headers or {})))


async def _answer_invalid(request: Request, error: Exception) -> Response:
    return answer_error(ApiError(422, "The address of the request is wrong."))


def _add_security(app: FastAPI, settings: ServerSettings) -> None:
    """Say in the document that requests carry a token."""
    make = app.openapi

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["token"] = {"type": "http", "scheme": "bearer"}
            document["security"] = [{"token": []}] if settings.token is not None else [{}, {"token": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]
