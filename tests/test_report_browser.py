"""The report in a browser: complete without a network, legible on a telephone, a laptop and paper.

It takes Playwright (the extra ``browser``) and a Chromium or Chrome that is installed; none is ever downloaded. Without
them these tests are skipped with the reason; with ``SROSR_REQUIRE_BROWSER=1`` that is a failure.
"""

import io
import re

import numpy as np
import pytest
from browser_runs import open_browser
from experiment_tables import METHODS, failing, made_up, portrait, without

from srosr.reports.experiment_page import write_report

pytestmark = pytest.mark.slow

LONG = "a-method-with-a-name-that-is-much-longer-than-any-other-name-here"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Write a report with everything in it: many methods, one that failed, one with few trials, long names."""
    tables = made_up((*METHODS[:11], LONG), n_levels=4, n_trials=6)
    tables = failing(without(tables, "evm", [4, 5]), "knn", range(6), "LinAlgError: " + "x" * 200)
    path = tmp_path_factory.mktemp("report") / "report.html"
    names = [f"a class of samples with the number {i}" for i in range(12)]
    write_report(
        path,
        title="Made-up objects in a browser",
        about="Numbers from a seed.",
        source="nowhere/" + "a-very-long-folder-name" * 8,
        settings=[("fingerprint", "0123456789abcdef" * 8), ("known classes", 12)],
        portraits={"calibrated": portrait(12, names=names), "paper": portrait(12, seed=1, names=names)},
        versions=[{"python": "3.11", "machine": "m" * 150}, {"python": "3.12", "machine": "n" * 150}],
        asked=dict.fromkeys((*METHODS[:11], LONG), 50),
        elapsed=100.0,
        **tables,
    )
    return path.as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the report at a width; the page keeps what it complained about and what it asked for."""
    pages = []

    def at(width, height=900):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("requestfailed", lambda request: page.complaints.append(request.url))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(address)
        pages.append(page)
        return page

    yield at
    for page in pages:
        page.close()


def count_colors(shot):
    """Return the number of colors in a screenshot, to the nearest sixteenth."""
    from matplotlib.image import imread

    pixels = (imread(io.BytesIO(shot))[..., :3] * 15).round().astype(int)
    return len(np.unique(pixels.reshape(-1, 3), axis=0))


def test_nothing_goes_wrong_and_nothing_but_the_file_is_asked_for(visit, address):
    page = visit(1280)
    page.wait_for_load_state("networkidle")
    assert page.complaints == []
    assert [url for url in page.asked if not url.startswith("data:")] == [address]


def test_every_figure_is_there_and_shows_something(visit):
    page = visit(1280)
    figures = page.locator("figure").all()
    assert len(figures) == 15
    for figure in figures:
        box = figure.locator("svg").bounding_box()
        assert box["width"] > 100 and box["height"] > 100
        assert count_colors(figure.locator("svg").screenshot()) > 8, figure.get_attribute("id")


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_the_page_does_not_scroll_sideways(visit, width):
    page = visit(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll('h1, h2, h3, p, li, dd, figure, svg.figure, .scroll, .banner')]
            .filter(e => e.getBoundingClientRect().right > window.innerWidth + 0.5)
            .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []


def test_wide_tables_scroll_in_a_box_of_their_own_that_the_keyboard_reaches(visit):
    page = visit(360)
    boxes = page.evaluate(
        """() => [...document.querySelectorAll('.scroll')].map(
            b => [b.scrollWidth > b.clientWidth, getComputedStyle(b).overflowX, b.tabIndex])"""
    )
    assert any(wider for wider, _, _ in boxes)
    assert all(overflow == "auto" and index == 0 for _, overflow, index in boxes)


def test_figures_shrink_with_the_page_and_keep_their_proportions(visit):
    def boxes(width):
        return [svg.bounding_box() for svg in visit(width).locator("figure svg.figure").all()]

    for small, large in zip(boxes(360), boxes(1280), strict=True):
        assert small["width"] <= 360
        assert small["width"] / small["height"] == pytest.approx(large["width"] / large["height"], rel=0.02)


def test_parts_of_one_figure_are_not_taken_from_another(visit):
    """Alone in the page, every figure looks as it does among the others: no clip path or marker is borrowed."""
    page = visit(1280)
    names = [figure.get_attribute("id") for figure in page.locator("figure").all()]
    for name in ("figure-openness-f", "figure-coverage", "figure-confusion-0"):
        assert name in names
        among = page.locator(f"#{name} svg").screenshot()
        alone = visit(1280)
        alone.evaluate(
            """name => document.querySelectorAll('figure').forEach(
                f => { if (f.id !== name) f.querySelector('svg').innerHTML = '' })""",
            name,
        )
        assert alone.locator(f"#{name} svg").screenshot() == among


def test_the_page_stays_light_where_the_reader_likes_it_dark(visit):
    page = visit(1280)
    before = page.screenshot()
    page.emulate_media(color_scheme="dark")
    assert page.screenshot() == before


def test_on_paper_nothing_is_wider_than_the_page_and_no_figure_is_cut(visit):
    page = visit(1280)
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 5
    # A4 less its margins, in CSS pixels.
    page.set_viewport_size({"width": 695, "height": 1017})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 695
    tables = page.evaluate("[...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)")
    assert max(tables) <= 695.5
    styles = page.evaluate("[...document.querySelectorAll('figure')].map(f => getComputedStyle(f).breakInside)")
    assert set(styles) == {"avoid"}
    heights = page.evaluate("[...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect().height)")
    assert max(heights) < 1017
