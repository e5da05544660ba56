"""The page: files of the package, read once, so that no path of a request reaches the file system."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from .answers import ApiError

_FOLDER = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
page_router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    etag: str


@cache
def _read_page() -> dict[str, _File]:
    """Return the files of the page by their names in addresses."""
    found = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.is_file() and path.suffix in _TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            found[path.relative_to(_FOLDER).as_posix()] = _File(content, _TYPES[path.suffix], etag)
    return found


@page_router.get("/")
async def get_page(request: Request) -> Response:
    return _answer(request, "index.html")


@page_router.get("/favicon.ico")
async def get_icon(request: Request) -> Response:
    return _answer(request, "icon.svg")


@page_router.get("/static/{name:path}")
async def get_file(request: Request, name: str) -> Response:
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    file = _read_page().get(name)
    if file is None:
        raise ApiError(404, "There is no such page.")
    # The browser asks each time, and gets the file only if it has changed.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Content-Type": file.media_type}
    if request.headers.get("if-none-match") == file.etag:
        return Response(None, 304, headers)
    return Response(file.content, headers=headers)
