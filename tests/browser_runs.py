"""A browser for tests of pages: Playwright (the extra ``browser``) drives a Chromium or Chrome that is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def missing(reason: str) -> NoReturn:
    """Skip the test, or fail if a browser is required."""
    if os.environ.get("SROSR_REQUIRE_BROWSER") == "1":
        pytest.fail(f"SROSR_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@contextmanager
def open_browser() -> Iterator[Any]:
    """Give a browser; none is ever downloaded."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright is not installed: pip install srosr[browser]")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing(f"there is no browser: none of {', '.join(BROWSERS)} is on the path")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()
