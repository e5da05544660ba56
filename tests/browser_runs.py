"""A browser for tests of pages: Playwright (the extra ``browser``) drives a Chromium or Chrome that is installed.

The rest are checks of pages and steps on them that several tests need.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def watch_pages(browser: Any) -> Iterator[Callable[..., Any]]:
    """Give a function that makes a page; what goes wrong there, unless ``page.expected`` matches it, fails the test."""
    opened = []

    def open_page(address: str, script: str = "", **settings: Any) -> Any:
        page = browser.new_context(accept_downloads=True, **settings).new_page()
        page.set_default_timeout(30_000)
        page.add_init_script(script)
        page.complaints, page.expected = [], []
        note, own = page.complaints.append, (address, "data:", "blob:")
        page.on("console", lambda message: note(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: note(str(error)))
        page.on("requestfailed", lambda one: note(f"failed: {one.method} {one.url} {one.failure}"))
        page.on("request", lambda one: one.url.startswith(own) or note(f"third party: {one.url}"))
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        unforeseen = [text for text in page.complaints if not any(re.search(one, text) for one in page.expected)]
        page.context.close()
        assert unforeseen == [], unforeseen


def load_axe() -> Any:
    """Return axe-core, which finds what is not accessible in a page."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("axe-core is not installed: pip install srosr[browser]")
    return Axe()


def check_page(page: Any, axe: Any = None, schemes: tuple[str, ...] = ("light",)) -> None:
    """Assert that axe-core finds nothing in these looks, and that nothing makes the page wider than the screen."""
    for scheme in schemes if axe else ():
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # otherwise colors change softly
        page.wait_for_timeout(50)  # the page has done what follows from the last step
        page.evaluate(axe.axe_script)
        # The violations only: all that axe-core returns takes five times as long.
        found = page.evaluate("axe.run({resultTypes: ['violations']}).then((all) => all.violations)")
        assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == [], scheme
    wide = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
        [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.outerHTML.slice(0, 100)).slice(0, 5)"""
    assert page.evaluate(wide) == []


def assert_focus(page: Any, place: str = "body *") -> None:
    """Assert that the focus is in the page, where a place is given in it: it must not fall out by what a key does."""
    page.wait_for_timeout(150)
    held = "document.activeElement.outerHTML.slice(0, 120)"
    assert page.evaluate("document.activeElement !== document.body")
    assert page.evaluate("s => document.activeElement.closest(s) !== null", place), page.evaluate(held)


def press(page: Any, element: Any, key: str, place: str = "body *") -> None:
    """Press a key on an element; the focus is then at a place."""
    element.focus()
    page.keyboard.press(key)
    assert_focus(page, place)


def drop(page: Any, name: str, content: bytes) -> None:
    """Drop a file on the page."""
    transfer = page.evaluate_handle(
        """([text, name]) => { const transfer = new DataTransfer();
            transfer.items.add(new File([text], name, {type: 'text/csv'}));
            return transfer; }""",
        [content.decode(), name],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("body", event, {"dataTransfer": transfer})


def hold(page: Any, pattern: str) -> Callable[[], None]:
    """Keep requests to an address waiting; return a function that lets them go."""
    held: list[Any] = []
    page.route(pattern, lambda route: held.append(route))

    def release() -> None:
        page.unroute(pattern)
        for route in held:
            with suppress(Exception):  # the page may have given the request up
                route.continue_()

    return release
