"""The page of ``srosr serve`` in a browser, at the width of a laptop and of a telephone, with real servers behind it.

Where the layout is what is tested, a test is at both widths; what the page does is tested at one of them.

It takes Playwright and axe-core (the extra ``browser``) and a Chromium or Chrome that is installed; none is ever
downloaded. Without them these tests are skipped with the reason; with ``SROSR_REQUIRE_BROWSER=1`` that is a failure.
Every page that a test opens is watched: a message on the console, a request that fails and a request to anywhere else
fail the test.
"""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from browser_runs import assert_focus, check_page, drop, hold, load_axe, open_browser, press, watch_pages
from command_runs import right
from pandas import DataFrame
from same import check_same_text
from server_runs import make_samples, save_model, serve, server_required, wait_until
from sklearn.datasets import load_digits

from srosr import open_set_methods

server_required()
pytestmark = pytest.mark.slow

WIDTHS = {1280: 900, 360: 740}
PERCENT = "\N{NO-BREAK SPACE}%"
TOKEN = "a-token-for-the-tests-of-the-page"
both_widths = pytest.mark.parametrize("width", WIDTHS)
# The page looks at the server every four seconds, and at the monitor every three: ten times as often with this.
HURRY = """{ const wait = window.setTimeout;
    window.setTimeout = (run, delay, ...rest) => wait(run, [3000, 4000].includes(delay) ? delay / 10 : delay, ...rest);
}"""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def demo_server():
    with serve("--demo") as server:
        yield server


@pytest.fixture
def demo(demo_server):
    yield from restore_after(demo_server, "digits")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with two models of three classes of text, and one of another method."""
    folder = tmp_path_factory.mktemp("models")
    save_model(folder / "flowers.srosr")
    shutil.copy(folder / "flowers.srosr", folder / "other.srosr")
    X, y, _ = make_samples()
    open_set_methods()["osnn"].fit(X, y).save(folder / "rival.srosr")
    return folder


@pytest.fixture(scope="module")
def picture_server(tmp_path_factory):
    """A server of a model of pictures of 0, 1 and 4; its place has others of them, and of 7, which is unknown."""
    image = pytest.importorskip("PIL.Image", reason="needs the extra images: Pillow is not installed")
    place = tmp_path_factory.mktemp("pictures")
    digits = load_digits()
    for digit in (0, 1, 4, 7):
        for i, values in enumerate(digits.images[digits.target == digit][: 10 if digit == 7 else 40]):
            folder = place / ("new" if i < 10 else "train") / f"digit {digit}"
            folder.mkdir(parents=True, exist_ok=True)
            gray = (255 - 15.9 * values).astype(np.uint8)
            image.fromarray(gray).resize((32, 32)).save(folder / f"{digit}-{i}.png")
    right("fit", place / "train", "--features", "pixels", "--size", "16x16", "-o", place / "photos.srosr")
    with serve(place / "photos.srosr") as server:
        server.place = place
        yield server


@pytest.fixture(scope="module")
def flower_server(models):
    with serve(*(models / f"{name}.srosr" for name in ("flowers", "other", "rival"))) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(models, tmp_path_factory):
    """A server that asks for a token and changes nothing."""
    path = tmp_path_factory.mktemp("token") / "token"
    path.touch(0o600)
    path.write_text(TOKEN + "\n")
    with serve(models / "other.srosr", "--read-only", "--token-file", path, token=TOKEN) as server:
        yield server


@pytest.fixture
def flowers(flower_server):
    yield from restore_after(flower_server, "flowers")


def restore_after(server, name):
    """Give a server; a test that changes the model leaves it as it was."""
    _, before = server.get(f"/v1/models/{name}")
    yield server
    _, after = server.get(f"/v1/models/{name}")
    if after["version"] != before["version"]:
        status, answer = server.post(f"/v1/models/{name}/restore", {"version": before["version"]})
        assert status == 200, answer


@pytest.fixture
def visit(browser):
    """Open the page of a server; when the test ends, nothing may have gone wrong on it but what it expects."""
    with watch_pages(browser) as open_page:

        def open_view(server, width=1280, *, part="", ready=True, hurry=False, touch=False, scheme="light"):
            size = {"width": width, "height": WIDTHS[width]}
            script = HURRY if hurry else ""
            page = open_page(server.address, script, viewport=size, color_scheme=scheme, has_touch=touch)
            # A page that is left gives up what it has just asked, as does an explanation that is closed.
            page.expected.append(f"failed: .*/(explain{'|v1/models' if hurry else ''}) net::ERR_ABORTED")
            page.goto(f"{server.address}/{part}")
            if ready:
                page.wait_for_selector("#model-line:not(:empty)")
            return page

        yield open_view


def count_kind(page, kind):
    """Return how many decisions there are of a kind, as the filter says it."""
    return int(page.locator(f".segment:has(input[value={kind}]) b").inner_text().replace(",", ""))


def wait_for_decisions(page, n=None):
    page.wait_for_selector("tr.decision")
    page.wait_for_selector(".area-decisions[aria-busy=false]")
    page.wait_for_selector("#decide-job:empty", state="attached")
    if n is not None:
        wait_until(lambda: count_kind(page, "all") == n)


def decide_at_random(page, name="200 at random", n=200):
    page.get_by_role("button", name=name).click()
    wait_for_decisions(page, n)
    return page


def upload(page, name, content, n=None, media_type="text/csv"):
    """Choose a file; with ``n``, wait for as many decisions."""
    choose(page, "File")
    page.set_input_files("#file", files=[{"name": name, "mimeType": media_type, "buffer": content}])
    if n is not None:
        wait_for_decisions(page, n)
    return page


def check_answers(page, server, model, samples):
    """Assert that the answers in the table are those of the server."""
    _, answer = server.post(f"/v1/models/{model}/decide", {"samples": samples, "record": False})
    expected = ["unknown" if d["verdict"] == "rejected" else d["label"] for d in answer["decisions"]]
    assert page.locator("tr.decision .answer").all_inner_texts() == expected


def change(page, button, answer):
    press_button(page, button)
    confirm(page, answer)


def choose(page, source):
    page.locator(f"#source input[value={source.lower()}]").check()


def go_to(page, name):
    page.get_by_role("navigation").get_by_role("link", name=name).click()


def confirm(page, name):
    page.locator("#question").get_by_role("button", name=name).click()


def press_keys(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def press_button(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def open_why(page, row=0):
    page.locator("tr.decision .open").nth(row).click()
    page.locator("#why .why-rest h3").first.wait_for()


def group_rejected(page):
    go_to(page, "Groups")
    page.locator("#find-groups").click()
    page.locator(".group").first.wait_for()


def measure(page):
    go_to(page, "Measure")
    page.locator("#measure-go").click()
    page.locator("#measure-result").wait_for()


def try_share(page, share):
    """Choose a share of known samples to reject."""
    if not page.evaluate("document.querySelector('#threshold-fold').open"):
        page.locator("#threshold-fold > summary").click()
    page.locator("#threshold-share").fill(str(share))


def write_csv(X, labels=None):
    table = DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    return (table if labels is None else table.assign(label=labels)).to_csv(index=False).encode()


def write_mixed(seed=5):
    """Return a table with 75 samples of known classes, then 25 unknown ones."""
    X, _, unknown = make_samples(seed=seed)
    return write_csv(np.vstack([X, unknown]))


def check_both_widths(page, axe=None):
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        check_page(page, axe)


@pytest.mark.parametrize(("width", "schemes"), [(1280, ("light", "dark")), (360, ("light",))])
def test_no_state_of_the_page_has_an_accessibility_violation_or_is_too_wide(visit, demo, width, schemes):
    page, axe = visit(demo, width), load_axe()
    page.wait_for_selector(".pick")
    check_page(page, axe, schemes)
    for source in ("Draw", "File", "Paste"):
        choose(page, source)
        check_page(page, axe, schemes)
    choose(page, "Pick")
    decide_at_random(page)
    page.locator("tr.decision input").first.check()
    check_page(page, axe, schemes)
    try_share(page, 14)
    page.wait_for_selector("tr.turns")
    check_page(page, axe, schemes)
    press_button(page, "Apply")
    check_page(page, axe, schemes)
    confirm(page, "Cancel")
    open_why(page)
    check_page(page, axe, schemes)
    page.keyboard.press("Escape")
    group_rejected(page)
    page.locator(".group summary").first.click()
    check_page(page, axe, schemes)
    measure(page)
    check_page(page, axe, schemes)
    go_to(page, "Model")
    page.wait_for_selector("#history p, .history")
    check_page(page, axe, schemes)
    go_to(page, "Monitor")
    page.wait_for_selector(".rate-chart")
    page.get_by_text("All facts").click()
    page.get_by_text("The latest blocks").click()
    check_page(page, axe, schemes)


def test_the_theme_follows_the_system_until_one_is_chosen(visit, demo):
    page = visit(demo, scheme="dark")
    read = "getComputedStyle(document.body.parentElement).backgroundColor"
    dark = page.evaluate(read)
    page.locator("#theme").click()
    light = page.evaluate(read)
    assert light != dark and page.locator("#theme").get_attribute("aria-pressed") == "false"
    page.wait_for_selector("#history p, .history", state="attached")  # nothing is on its way
    page.reload()
    assert page.evaluate(read) == light
    page.emulate_media(color_scheme="light", forced_colors="active")
    chosen, other = page.locator("#source .segment").all()[:2]
    style = "element => getComputedStyle(element).outlineStyle"
    assert (chosen.evaluate(style), other.evaluate(style)) == ("solid", "none")


def test_filters_order_and_downloads_agree(visit, demo):
    page = decide_at_random(visit(demo))
    counts = {kind: count_kind(page, kind) for kind in ("all", "rejected", "recognized", "near")}
    assert counts["all"] == 200 == counts["rejected"] + counts["recognized"] and 0 < counts["near"] < 100
    page.locator(".segment", has_text="Rejected").click()
    assert set(page.locator("tr.decision .verdict").all_inner_texts()) == {"rejected"}
    header = page.get_by_role("columnheader", name="Unknown score")
    for direction in ("descending", "ascending"):
        press_button(page, "Unknown score")
        assert header.get_attribute("aria-sort") == direction

    def save(name):
        with page.expect_download() as waiting:
            press_button(page, f"Download as {name}")
        return Path(waiting.value.path()).read_text()

    rows = list(csv.DictReader(io.StringIO(save("CSV"))))
    assert len(rows) == counts["rejected"] and {row["verdict"] for row in rows} == {"rejected"}
    scores = [float(row["unknown_score"]) for row in rows]
    assert scores == sorted(scores)
    saved = json.loads(save("JSON"))
    assert [d["row"] for d in saved["decisions"]] == [int(row["row"]) for row in rows]
    label = rows[0]["candidate"]
    page.locator("#filter-class").select_option(label)
    assert len(json.loads(save("JSON"))["decisions"]) == sum(row["candidate"] == label for row in rows)
    page.locator("#filter-text").fill("no such sample")
    assert page.get_by_text("No sample fits the filters.").is_visible()
    check_both_widths(page)


def test_a_table_is_read_measured_and_its_errors_are_the_servers(visit, flowers):
    X, y, unknown = make_samples(seed=1)
    content = write_csv(np.vstack([X, unknown]), [*y, *(["daisy"] * len(unknown))])
    page = upload(visit(flowers), "new.csv", content, 100)
    assert page.locator("#decisions-brief").inner_text().startswith("new.csv: ")
    page.locator("#reading summary").click()
    assert page.locator("#reading-label").input_value() == "label"  # it was found by its name
    page.locator("#filter-text").fill("Row 90")
    page.locator("tr.decision .column-candidate").dblclick()
    page.locator("#why .training").wait_for()
    _, answer = flowers.post("/v1/models/flowers/explain", {"samples": [unknown[15].tolist()]})
    assert page.locator("#why .why-rest section p").first.inner_text() == answer["text"].split("\n")[0]
    page.mouse.click(20, 400)
    page.locator("#why").wait_for(state="hidden")
    measure(page)
    _, answer = flowers.post("/v1/models/flowers/evaluate?label=label", body=content, media_type="text/csv")
    shown = page.locator(".figure-tile").first.locator("b").inner_text()
    assert shown == f"{round(100 * answer['metrics']['accuracy']['value'], 1):g}{PERCENT}"
    assert page.locator("#measured table").first.locator("tbody tr").count() == 4
    # Without it the table has a column too many: the sentence of the server is shown next to the table.
    go_to(page, "Decide")
    page.expected.append("status of 422")
    page.locator("#reading-label").select_option("")
    press_button(page, "Decide again")
    alert = page.locator("#decide-job [role=alert]")
    alert.wait_for()
    _, answer = flowers.post("/v1/models/flowers/decide", body=content, media_type="text/csv")
    assert alert.locator("p").inner_text() == answer["error"].replace("The body", "new.csv")
    go_to(page, "Model")  # nor is it offered for a change
    assert page.locator("#recalibrate").is_disabled()
    go_to(page, "Decide")
    page.locator("#reading-label").select_option("label")
    press_button(page, "Decide again")
    wait_for_decisions(page, 100)
    # Fresh samples of known classes set the threshold anew.
    upload(page, "fresh.csv", write_csv(X + 0.1, y), 75)
    go_to(page, "Model")
    change(page, "Recalibrate", "Recalibrate")
    page.locator("#recalibrate-job .done").wait_for()
    assert flowers.get("/v1/models/flowers")[1]["recalibration"]


def test_pictures_are_decided_explained_measured_and_learned(visit, picture_server):
    page = visit(picture_server)
    new = picture_server.place / "new"
    chosen = sorted((new / "digit 7").iterdir()) + sorted((new / "digit 0").iterdir())
    assert page.locator("#drop-title").inner_text() == "Drop pictures here"
    page.set_input_files("#file", chosen)
    wait_for_decisions(page, 20)
    assert page.locator("tr.decision .name").all_inner_texts() == [path.name for path in chosen]
    wait_until(lambda: page.evaluate("document.querySelector('.decision .thumbnail img').naturalWidth") == 32)
    open_why(page, -1)
    assert page.locator("#why-title").inner_text() == chosen[-1].name
    check_both_widths(page, load_axe())
    page.keyboard.press("Escape")
    for box in page.locator("tr.decision input").all()[:10]:
        box.check()
    page.locator("#teach-class").select_option(label="a new class…")
    page.get_by_label("Name of the new class").fill("seven")
    change(page, "Teach", "Add the class")
    page.locator("#teaching-job .done").wait_for()
    wait_for_decisions(page, 20)
    assert "seven" in picture_server.get("/v1/models/photos")[1]["classes"]
    # Pictures in folders carry their classes.
    page.set_input_files("#folder", new)
    wait_for_decisions(page, 40)
    measure(page)
    names = page.locator("#measured table").first.locator("tbody th").all_inner_texts()
    assert names[:3] == ["digit 0", "digit 1", "digit 4"]


def test_rows_are_pasted_with_and_without_names_and_drawn_where_they_are_pictures(visit, demo):
    X, y = load_digits(return_X_y=True)
    page = visit(demo)
    page.expected.append("status of 422")
    choose(page, "Paste")
    numbers = [mark.join(map(str, row)) for mark in "\t " for row in X[:5].astype(int)]
    lines = write_csv(X[:4]).decode().splitlines()
    blank = "\n".join([*lines[:2], "", *lines[2:]])  # a blank line shifts no picture
    for text, n in ((blank, 4), ("\n".join(numbers[:5]), 5), ("\n".join(numbers[5:8]), 3)):
        page.locator("#paste").fill(text)
        page.locator("#paste-decide").click()
        wait_for_decisions(page, n)
        drawn = page.locator("tr.decision canvas").nth(2)
        ink = drawn.evaluate("c => [...c.getContext('2d').getImageData(0, 0, 8, 8).data]")[::4]
        assert np.abs(np.array(ink) - 255 * (1 - X[2] / X[2].max())).max() <= 1
    check_answers(page, demo, "digits", X[:3].tolist())
    # A column of classes without a name is said in the form that opens.
    table = np.column_stack([X[-5:], y[-5:]])
    upload(page, "plain.csv", "\n".join(",".join(map(repr, row)) for row in table.tolist()).encode())
    page.locator("#decide-job .error").wait_for()
    page.locator("#reading-label").fill("64")
    press(page, page.locator("#reading-label"), "Enter", "#reading")
    wait_for_decisions(page, 5)
    assert page.locator("td.column-truth").all_inner_texts() == [f"{digit:.1f}" for digit in y[-5:]]


def test_a_file_dropped_on_the_page_is_decided_but_not_while_a_question_is_open(visit, flowers):
    X, _, unknown = make_samples(seed=2)
    page = visit(flowers, part="#model")
    drop(page, "dropped.csv", write_csv(X))
    wait_for_decisions(page, 75)
    brief = page.locator("#decisions-brief")
    assert brief.inner_text().startswith("dropped.csv: ")
    open_why(page)
    drop(page, "unknown.csv", write_csv(unknown))
    wait_for_decisions(page, 25)
    assert not page.locator("#why").is_visible()  # it asks nothing
    page.locator("tr.decision input").first.check()
    press_button(page, "Teach")
    drop(page, "dropped.csv", write_csv(X))
    page.wait_for_timeout(300)
    assert page.locator("#question").is_visible()
    confirm(page, "Cancel")
    assert brief.inner_text().startswith("unknown.csv: ")
    assert page.locator("#teaching-count").inner_text() == "1 sample selected"


def test_files_that_are_no_tables_or_have_changed_are_said_to_be(visit, flowers, tmp_path):
    X, _, _ = make_samples(seed=2)
    page = visit(flowers)
    page.expected += ["status of 422", "ERR_UPLOAD_FILE_CHANGED", "ERR_FAILED"]
    upload(page, "empty.csv", b"\n")
    page.locator("#decide-job .error").wait_for()
    upload(page, "notes.pdf", b"%PDF", media_type="application/pdf")
    page.locator("#source-problem").get_by_text("notes.pdf is not a table").wait_for()
    assert page.locator("#decide-job .error").count() == 0
    array = io.BytesIO()
    np.save(array, X)
    upload(page, "rows.npy", array.getvalue(), 75, "application/octet-stream")
    assert page.locator("#source-problem").inner_text() == ""
    path = tmp_path / "kept.csv"
    path.write_bytes(write_csv(X[:60]))
    page.set_input_files("#file", path)
    wait_for_decisions(page, 60)
    page.wait_for_timeout(1100)  # browsers compare the times of files by the second
    path.write_bytes(write_csv(X[:50]))
    press_button(page, "Decide again")
    page.locator("#decide-job").get_by_text("kept.csv has changed since it was chosen: choose it again.").wait_for()
    page.set_input_files("#file", path)
    wait_for_decisions(page, 50)


def test_samples_read_otherwise_or_of_another_file_have_results_of_their_own(visit, flowers):
    X, y, _ = make_samples(seed=1)
    page = visit(flowers)
    page.expected += ["status of 422", "failed: .*/evaluate net::ERR_ABORTED"]
    wide = np.column_stack([X, X[:, 0]])  # one column too many: which one is left out makes other samples
    upload(page, "wide.csv", write_csv(wide, y))
    page.locator("#decide-job [role=alert]").wait_for()
    words = []
    for column in ("f6", "f0"):
        page.locator("#reading-ignore").fill(column)  # the form has opened: there it can be put right
        press(page, page.get_by_role("button", name="Decide again"), "Enter", "#reading")
        wait_for_decisions(page, 75)
        assert page.locator("td.column-truth").first.inner_text() == "a"
        go_to(page, "Measure")
        assert page.locator("#measure-result").count() == 0
        measure(page)
        go_to(page, "Decide")
        open_why(page)
        words.append(page.locator("#why .why-rest section p").all_inner_texts())
        page.keyboard.press("Escape")
    assert words[0] != words[1]
    release = hold(page, "**/evaluate")
    go_to(page, "Measure")
    page.locator("#measure-go").click()
    page.locator("#measure-job progress").wait_for()
    drop(page, "second.csv", write_csv(X[:30], y[:30]))
    wait_for_decisions(page, 30)
    release()
    go_to(page, "Measure")
    page.wait_for_timeout(500)
    assert page.locator("#measure-result, #measure-job > *").count() == 0


@both_widths
def test_drawings_by_strokes_fingers_and_keys_become_decisions_and_are_counted_once(visit, demo, width):
    page = visit(demo, width, touch=width == 360)
    choose(page, "Draw")
    pad, cell = page.locator(".pad"), page.locator(".cell")
    go = page.get_by_role("button", name="Decide on the drawing")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    angles = np.linspace(-np.pi / 2, 1.5 * np.pi, 40)
    for i, a in enumerate(angles):
        x, y = 0.5 + 0.2 * np.cos(a), 0.5 + 0.36 * np.sin(a)
        page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
        if i == 0:
            page.mouse.down()
    page.mouse.up()

    def read():
        labels = cell.evaluate_all("all => all.map((one) => one.ariaLabel)")
        return np.array([int(re.search(r"(\d+) of 16", label)[1]) for label in labels]).reshape(8, 8)

    grid = read()
    assert grid.max() >= 14 and grid[0].sum() > 10 and grid[7].sum() > 10  # as tall as the grid
    assert grid[3:5, 3:5].sum() == 0  # a hole in the middle
    go.click()
    wait_for_decisions(page, 1)
    assert page.locator("td.column-candidate").inner_text() == "0"
    press_button(page, "Clear")
    assert go.is_disabled() and not read().any()
    cell.first.focus()
    press_keys(page, "ArrowDown", "ArrowRight", "Space", "ArrowRight", *2 * ["Space"], "ArrowRight", *3 * ["Space"])
    assert read()[1, 1:4].tolist() == [8, 16, 0]
    pad.click(position={"x": 40, "y": 60}, button="right")
    assert read().sum() == 24
    assert pad.evaluate("e => getComputedStyle(e).touchAction") == "none"
    (pad.tap if width == 360 else pad.click)(position={"x": 40, "y": 60})
    assert read().sum() > 24 and read()[1, 1] == 8  # strokes leave what was typed
    counted = demo.get("/v1/models/digits/monitor")[1]["summary"]["samples"]
    for n in (2, 3):
        cell.nth(n).click()
        go.press("Enter")
        wait_for_decisions(page, n)
    assert page.locator("tr.decision .name").all_inner_texts() == ["Drawing 1", "Drawing 2", "Drawing 3"]
    assert demo.get("/v1/models/digits/monitor")[1]["summary"]["samples"] == counted + 2
    targets = page.locator("button, select, input:not([type=checkbox], [type=radio])").locator("visible=true")
    low = targets.evaluate_all(
        "all => all.filter(e => !e.closest('td') && e.offsetHeight < 43.5).map(e => e.outerHTML)"
    )
    assert low == [] or width != 360


def test_ten_thousand_rows_are_decided_shown_in_pages_and_sorted(visit, flowers):
    X, _, _ = make_samples(seed=3)
    many = np.random.default_rng(0).permutation(np.vstack([X] * 134))[:10_000]
    page = visit(flowers)
    release = hold(page, "**/decide")
    with page.expect_response("**/v1/progress/*") as waiting:
        upload(page, '<img src=x onerror="window.injected=1">.csv', write_csv(many))
    assert set(waiting.value.json()) == {"stage", "done", "of"}
    release()
    wait_for_decisions(page, 10_000)
    assert page.locator("#decisions-brief").inner_text().startswith("<img src=x")  # names are text, never markup
    assert page.evaluate("document.querySelectorAll('main img[src=x]').length") == 0
    press_button(page, "Last page")
    assert page.locator("tr.decision .name").last.inner_text() == "Row 9999"
    press_button(page, "Unknown score")
    assert page.locator("#pages-text").inner_text() == "1–25 of 10,000"
    page.locator("#page-size").select_option("100")
    assert page.locator("tr.decision").count() == 100


def test_work_shows_how_far_it_is_and_is_cancelled(visit, flowers):
    page = visit(flowers)
    page.expected += [r"failed: .*/(decide|discover) net::ERR_ABORTED", "failed: .*/v1/progress/", "net::ERR_FAILED"]
    keys, polled = set(), []

    def answer(route):
        polled.append(route.request.url.rpartition("/")[2])
        if len(polled) == 1:
            route.abort()  # a poll that fails is nothing
        else:
            route.fulfill(json={"stage": "Deciding", "done": 1200, "of": 5000})

    page.on("request", lambda request: keys.add(request.headers.get("progress-key")))
    page.route("**/v1/progress/*", answer)
    release = hold(page, "**/decide")
    upload(page, "first.csv", write_mixed())
    job = page.locator("#decide-job")
    job.get_by_text("Deciding: 1,200 of 5,000").wait_for()
    assert job.locator("progress").evaluate("bar => bar.value / bar.max") == 0.24
    press(page, job.get_by_role("button", name="Cancel"), "Enter", "#decide-job")
    assert job.inner_text() == "Cancelled."
    release()
    upload(page, "again.csv", write_mixed(), 100)
    assert set(polled) <= keys and re.fullmatch(r"[\w-]{16,64}", polled[0])
    release = hold(page, "**/decide")
    page.locator("#reading summary").click()
    press_button(page, "Decide again")
    job.get_by_role("button", name="Cancel").click()
    assert job.inner_text() == "Cancelled: these are the decisions of before." and count_kind(page, "all") == 100
    release()
    group_rejected(page)


def test_a_sample_opened_shows_words_samples_numbers_and_figure_if_not_at_once(visit, demo):
    page = decide_at_random(visit(demo, 360), "A handful", 12)
    page.expected += ["net::ERR_FAILED", "failed: "]
    page.route("**/explain", lambda route: route.abort())
    page.locator("tr.decision .column-score").nth(3).click()
    page.locator("#why-body .error").wait_for()
    page.unroute("**/explain")
    page.locator("#why-body").get_by_role("button", name="Try again").click()
    why = page.locator("#why")
    why.locator(".training").wait_for()
    box = why.bounding_box()
    assert box["x"] >= 0 and box["width"] <= page.evaluate("document.documentElement.clientWidth")
    assert why.locator("#why-title").inner_text() == "Row 3"
    _, offered = demo.get("/v1/demo/samples?n=12&seed=1")
    _, answer = demo.post("/v1/models/digits/explain", {"samples": [offered["samples"][3]["values"]]})

    def read(title):
        return why.locator("section", has=page.get_by_role("heading", name=title)).locator("p").all_inner_texts()

    check_same_text("\n".join(read("In words")), answer["text"])
    turn = read("What would change")[0]
    assert "threshold" in turn and "%" in turn
    items = why.locator(".training li")
    assert items.count() == len(answer["training_samples"]) == why.locator(".training img").count()
    assert items.first.locator("b").inner_text() == f"class {answer['training_samples'][0]['label']}"
    figure = why.locator(".paper img")
    figure.scroll_into_view_if_needed()
    wait_until(lambda: figure.evaluate("image => image.naturalWidth") > 100)
    assert "rejected above" in why.locator("tfoot").inner_text()
    page.get_by_text("What each class explains").click()
    assert page.locator("details.fold[open] tbody tr").count() == 6
    page.evaluate("location.hash = '#model'")  # as the browser's own Back does
    why.wait_for(state="hidden")


def test_keys_go_to_the_next_sample_scroll_the_figure_and_return_to_the_row(visit, demo):
    page = decide_at_random(visit(demo, 360))
    title = page.locator("#why-title")
    page.locator("tr.decision .open").nth(3).press("Enter")
    press_keys(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert title.inner_text() == "Row 4"
    page.locator("#why .training").wait_for()
    figure = page.locator("#why .paper")
    figure.focus()
    page.keyboard.press("ArrowRight")
    wait_until(lambda: figure.evaluate("e => e.scrollLeft") > 0)
    assert title.inner_text() == "Row 4"
    page.keyboard.press("Escape")
    wait_until(lambda: page.evaluate("document.activeElement.dataset.focus") == "open-4")
    page.keyboard.press("ArrowDown")
    wait_until(lambda: page.evaluate("document.activeElement.dataset.focus") == "open-5")
    # Keys that are held ask for few explanations.
    page.keyboard.press("Enter")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/explain") else None)
    press_keys(page, *15 * ["ArrowRight"])
    assert title.inner_text() == "Row 20"
    page.locator("#why .training").wait_for()
    assert len(asked) <= 3
    wait_until(lambda: page.locator("#why [aria-live]").inner_text().startswith("Row 20: "))


def test_the_threshold_shows_what_it_does_at_once_and_is_applied(visit, demo):
    _, found = demo.get("/v1/models/digits/scores")
    known, simulated, right = (np.array(found[name]) for name in ("known", "simulated", "known_right"))
    page = decide_at_random(visit(demo))
    try_share(page, 12)
    target = known[int(np.ceil(0.88 * len(known))) - 1]
    names, shown = (page.locator(f".effect {one}").all_inner_texts() for one in ("tbody th", ".trying"))
    effect = dict(zip(names, shown, strict=True))

    def read(name):
        return float(effect[name].removesuffix(PERCENT)) / 100

    assert read("Known samples rejected") == pytest.approx((known > target).mean(), abs=6e-4)
    assert read("Known samples right") == pytest.approx(((known <= target) & right).mean(), abs=6e-4)
    assert read("Simulated unknowns rejected") == pytest.approx((simulated > target).mean(), abs=6e-4)
    turned = count_kind(page, "changes")
    assert turned >= 1 and page.locator("#threshold-turned").inner_text().startswith(f"{turned} sample")
    page.locator(".segment", has_text="Would change").click()
    assert set(page.locator("tr.decision .turn").all_inner_texts()) == {"would be rejected"}
    rejected = int(effect["Your 200 samples rejected"])
    press_button(page, "Reset")
    wait_until(lambda: page.locator("tr.turns").count() == 0 and page.locator("#kind-changes").is_hidden())
    try_share(page, 12)
    press_button(page, "Apply")
    assert "model file" in page.locator("#question-text").inner_text()
    # A click inside the question is no answer, and one beside it is no.
    box = page.locator("#question").bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert page.locator("#question").is_visible()
    page.mouse.click(box["x"] - 20, box["y"] + 5)
    page.locator("#question").wait_for(state="hidden")
    change(page, "Apply", "Apply")
    page.locator("#threshold .done").wait_for()
    assert demo.get("/v1/models/digits")[1]["held_out"]["rejected"] == pytest.approx(0.12, abs=0.01)
    wait_for_decisions(page, 200)
    wait_until(lambda: abs(count_kind(page, "rejected") - rejected) <= 2)
    slider, share = page.locator("#threshold-slider"), page.locator("#threshold-share")
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext").startswith(f"0{PERCENT} of known samples")
    slider.press("End")
    assert re.match(r"(50|49\.\d+)\s% of known samples", slider.get_attribute("aria-valuetext"))
    assert page.locator("#threshold .done").count() == 0  # another threshold is tried
    for text in ("60", "", "-3"):
        share.fill(text)
        press_button(page, "Apply")
        assert not page.locator("#question").is_visible()
        assert share.evaluate("e => e === document.activeElement && e.matches(':user-invalid')")  # the browser says why


def test_each_class_is_compared_with_its_own_threshold(visit, flowers):
    X, _, _ = make_samples(seed=12)
    flowers.post("/v1/models/flowers/set-threshold", {"target_rejection": 0.2, "per_class": True})
    _, info = flowers.get("/v1/models/flowers")
    assert info["threshold"] is None and len(set(info["thresholds"])) > 1
    page = visit(flowers)
    assert page.locator("#threshold-brief").inner_text() == "one for each class"
    upload(page, "new.csv", write_csv(X[[0, 30, 60]]), 3)
    for i in range(3):
        assert page.locator("td.column-candidate").nth(i).inner_text() == info["classes"][i]
        open_why(page, i)
        shown = page.locator("#why .why-top .quiet").last.inner_text().split("threshold ")[1]
        assert float(shown) == pytest.approx(info["thresholds"][i], abs=6e-4)
        page.keyboard.press("Escape")


def test_named_groups_become_a_class(visit, demo):
    page = decide_at_random(visit(demo, 360))
    _, offered = demo.get("/v1/demo/samples?n=200&seed=1")
    group_rejected(page)
    first, second = groups = page.locator(".group").all()[:2]
    total, others = (int(re.search(r"of (\d+) chosen", one.locator("summary").inner_text())[1]) for one in groups)
    first.locator("summary").click()
    first.locator(".member input").first.uncheck()
    assert f"{total - 1} of {total} chosen" in first.locator("summary").inner_text()
    typical = int(re.search(r"\d+", first.locator(".tile").first.get_attribute("aria-label"))[0])
    digit = str(offered["samples"][typical]["digit"])
    second.get_by_label("Name").fill(digit)
    for group, words, size in ((first, "Add the class", total - 1), (second, "Teach", total - 1 + others)):
        group.get_by_label("Name").fill(digit)
        group.get_by_role("button", name="Make it a class").click()
        confirm(page, words)
        group.get_by_text(f"Now of the class {digit}.").wait_for()
        assert demo.get("/v1/models/digits")[1]["class_sizes"][digit] == size
        assert second.get_by_label("Name").input_value() == digit  # what was typed stays
    go_to(page, "Decide")
    wait_for_decisions(page, 200)
    page.locator("#filter-class").select_option(digit)
    assert digit in page.locator("tr.decision .answer").all_inner_texts()


def test_classes_are_taught_added_removed_and_versions_restored(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = upload(visit(flowers), "new.csv", write_csv(np.vstack([X[:25], unknown])), 50)
    _, first = flowers.get("/v1/models/flowers")
    for row in ("Row 1", "Row 12", "Row 13"):
        page.locator("#filter-text").fill(row)
        page.locator("tr.decision input").first.check()
    assert page.locator("#teaching-count").inner_text() == "3 samples selected"
    assert page.locator("#teach-class").input_value() == "a"  # that most are closest to
    change(page, "Teach", "Teach")
    page.locator("#teaching-job .done").wait_for()
    assert flowers.get("/v1/models/flowers")[1]["class_sizes"]["a"] == first["class_sizes"]["a"] + 3
    page.locator("#teaching").wait_for(state="hidden")  # the selection has done its work
    wait_for_decisions(page, 50)
    page.locator("#filter-text").fill("")
    page.locator(".segment", has_text="Rejected").click()
    page.get_by_label("Select all").check()
    n = int(page.locator("#teaching-count").inner_text().split()[0])
    page.locator("#teach-class").select_option(label="a new class…")
    page.expected.append("status of (409|422)")
    page.get_by_label("Name of the new class").fill("a")  # it is there: the server says so in its words
    change(page, "Teach", "Add the class")
    page.locator("#teaching-job [role=alert]").get_by_text("new.csv").wait_for()
    page.get_by_label("Name of the new class").fill("<i>daisy")  # names are text, never markup
    change(page, "Teach", "Add the class")
    wait_until(lambda: "<i>daisy" in flowers.get("/v1/models/flowers")[1]["classes"])
    go_to(page, "Model")
    change(page, "Remove class <i>daisy", "Remove")
    history = page.locator(".history li")
    history.first.get_by_text("Class <i>daisy removed").wait_for()
    assert "<i>daisy" not in flowers.get("/v1/models/flowers")[1]["classes"]
    made = [text.split("\n")[0] for text in history.all_inner_texts()[:3]]
    assert made == ["Class <i>daisy removed", f"Class <i>daisy added, {n} samples", "3 samples learned"]
    history.get_by_role("button", name=f"Restore version {first['version'][:8]}: ").first.click()
    confirm(page, "Restore")
    history.first.get_by_text("restored").wait_for()
    assert flowers.get("/v1/models/flowers")[1]["version"] == first["version"]
    # One version serves, and a copy of it is said to be one.
    assert history.get_by_text("serves now").count() == 1 == history.first.get_by_text("serves now").count()
    assert history.get_by_text("the same as now").count() >= 1
    check_both_widths(page)


def test_monitoring_counts_what_is_decided_raises_the_alarm_and_starts_anew(visit, flowers):
    X, _, unknown = make_samples(seed=7, n=100)
    # A changed model is watched from the beginning.
    flowers.post("/v1/models/flowers/set-threshold", {"target_rejection": 0.06})
    page = visit(flowers, 360, part="#monitoring", hurry=True)
    page.get_by_text("No sample has been decided yet.").wait_for()
    random = np.random.default_rng(0)
    flowers.post("/v1/models/flowers/decide", {"samples": random.permutation(X).tolist()})
    page.locator(".rate-chart").wait_for()  # without any action: the page asks again
    assert page.locator(".alarm-title").inner_text() == "✓ No alarm"
    for _ in range(4):
        flowers.post("/v1/models/flowers/decide", {"samples": unknown.tolist()})
    page.locator(".alarm.raised").wait_for()
    _, found = flowers.get("/v1/models/flowers/monitor")
    assert f"at sample {found['summary']['alarm']['sample']:,}" in page.locator(".alarm.raised").inner_text()
    assert page.locator(".alarm-line").count() == 1
    check_both_widths(page)
    change(page, "Start anew", "Start anew")
    page.locator(".alarm:not(.raised)").wait_for()


def test_a_model_changed_under_the_page_is_noted_and_decided_again(visit, flowers):
    page = upload(visit(flowers, hurry=True), "new.csv", write_mixed(), 100)
    row = page.locator("table.effect tr", has_text="Your 100 samples rejected")
    assert row.count() == 1
    open_why(page)
    assert flowers.post("/v1/models/flowers/set-threshold", {"target_rejection": 0.3})[0] == 200
    page.locator("#why-body").get_by_text("The model has changed since").wait_for()
    page.keyboard.press("Escape")
    page.locator("#stale .note").wait_for()
    assert row.count() == 0  # counts by the version before are not those of now
    # The note is a live region: what is drawn anew around it must not insert it anew.
    page.evaluate("document.querySelector('#stale .note').dataset.kept = 'yes'")
    for text in ("r", "row 1", ""):
        page.locator("#filter-text").fill(text)
    assert page.locator("#stale .note").get_attribute("data-kept") == "yes"
    page.locator("#stale").get_by_role("button", name="Decide again").click()
    wait_for_decisions(page, 100)
    page.locator("#stale .note").wait_for(state="detached")
    wait_until(lambda: row.locator(".number").first.inner_text() == str(count_kind(page, "rejected")))


def test_another_model_starts_without_samples_and_the_one_chosen_last_is_shown(visit, flowers):
    page = upload(visit(flowers), "new.csv", write_mixed(), 100)
    page.expected.append("failed: .*/decide net::ERR_ABORTED")
    release_decide = hold(page, "**/decide")
    upload(page, "again.csv", write_mixed())
    page.locator("#decide-job progress").wait_for()
    release = hold(page, "**/v1/models/other/scores")
    page.locator("#model-select").select_option("other")
    page.locator("#model-select").select_option("rival")
    wait_until(lambda: page.title().startswith("rival"))
    release()
    release_decide()
    page.wait_for_timeout(700)
    assert page.title().startswith("rival") and page.locator("#model-select").input_value() == "rival"
    assert page.locator("tr.decision").locator("visible=true").count() == 0
    assert page.locator("#decide-job").inner_text() == page.locator("#decisions-brief").inner_text() == ""
    # Its scores do not crowd near one, and it cannot learn.
    upload(page, "new.csv", write_mixed(), 100)
    assert page.get_by_text("Scores crowd near 1").is_hidden() and count_kind(page, "near") < 50
    open_why(page, -1)
    page.keyboard.press("Escape")
    go_to(page, "Model")
    page.get_by_text("rival holds osnn, which cannot do update.").locator("visible=true").wait_for()


def test_a_server_that_is_gone_is_said_and_found_again(visit, models):
    with serve(models / "other.srosr") as server:
        page = visit(server, hurry=True)
        page.expected += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "status of 503"]
        server.stop()
        banner = page.locator(".banner")
        banner.wait_for()
        assert "Trying again" in banner.inner_text()
    with serve(models / "other.srosr", "--port", server.port):
        banner.wait_for(state="detached")


def test_the_token_is_asked_for_and_kept_and_a_read_only_server_offers_no_change(visit, guarded):
    page = visit(guarded, ready=False, hurry=True)
    page.expected.append("status of 401")
    token = page.locator("#token")
    token.wait_for()
    check_both_widths(page, load_axe())
    token.fill("ŵrong-token-for-the-page")  # no header can carry it: the browser says why
    token.press("Enter")
    assert token.evaluate("e => e.matches(':user-invalid') && e.title.includes('ASCII')")
    token.fill("not-the-token-at-all")
    token.press("Enter")
    page.locator("#token-problem .error").wait_for()
    page.locator("#token-dialog").get_by_role("button", name="Cancel").click()
    page.wait_for_timeout(1000)  # the page asks the server again, but not the user
    press_button(page, "Give the token")
    token.fill(TOKEN)
    token.press("Enter")
    page.wait_for_selector("#model-line:not(:empty)")
    page.expected.clear()
    page.complaints.clear()
    page.reload()
    page.wait_for_selector("#model-line:not(:empty)")
    page.expected.append("failed: .*/(explain|v1/models) net::ERR_ABORTED")
    upload(page, "new.csv", write_mixed(), 100)
    page.locator("tr.decision input").first.check()
    try_share(page, 20)
    check_both_widths(page, load_axe())
    group_rejected(page)
    for part in ("Decide", "Groups", "Model", "Monitor"):
        go_to(page, part)
        page.locator(".view:not([hidden])").get_by_text("The server is read-only").first.wait_for()
        for name in ("Apply", "Teach", "Make it a class", "Recalibrate", "Restore", "Remove class", "Start anew"):
            assert page.get_by_role("button", name=name).count() == 0


@both_widths
def test_everything_from_samples_to_an_applied_threshold_works_by_keys_alone(visit, demo, width):
    page = visit(demo, width)
    page.wait_for_selector(".pick")

    def tab_to(selector, key="Tab", most=120):
        for _ in range(most):
            page.keyboard.press(key)
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                shown = "document.activeElement.closest('.segment, .pick') ?? document.activeElement"
                assert page.evaluate(f"getComputedStyle({shown}).outlineStyle") != "none", "the focus does not show"
                return
        raise AssertionError(f"the focus never reaches {selector}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    tab_to(".pick input")
    press_keys(page, "Space", "ArrowRight", "Space", "ArrowDown", "Space")
    tab_to("#source-pick .button.primary")
    page.keyboard.press("Enter")
    wait_for_decisions(page, 3)
    chosen = page.locator(".pick :checked").evaluate_all("all => all.map((box) => Number(box.value))")
    samples = [demo.get("/v1/demo/samples?n=24&seed=0")[1]["samples"][i] for i in chosen]
    check_answers(page, demo, "digits", [sample["values"] for sample in samples])
    assert page.locator("td.column-truth").all_inner_texts() == [str(sample["digit"]) for sample in samples]
    tab_to("tr.decision .open")
    page.keyboard.press("Enter")
    page.locator("#why .training").wait_for()
    page.keyboard.press("ArrowRight")
    assert page.locator("#why-title").inner_text() == "Row 1"
    page.keyboard.press("Escape")
    wait_until(lambda: page.evaluate("document.activeElement.dataset.focus") == "open-1")
    tab_to("#threshold-fold > summary", "Shift+Tab")
    if width < 900:  # there the card starts folded
        page.keyboard.press("Enter")
    tab_to("#threshold-slider")
    press_keys(page, *20 * ["ArrowRight"])
    tab_to("#threshold-apply")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "question-no"
    press_keys(page, "Tab", "Enter")
    page.locator("#threshold .done").wait_for()
    assert demo.get("/v1/models/digits")[1]["held_out"]["rejected"] > 0.055


def test_no_key_lets_the_focus_fall_out_of_the_page(visit, flowers):
    page = upload(visit(flowers), "new.csv", write_mixed(), 100)
    every = page.locator("#tick-all")
    press(page, every, "Space", "#tick-all")
    assert page.locator("#teaching-count").inner_text() == "100 samples selected"
    page.locator("tr.decision input").first.uncheck()
    assert every.evaluate("box => [box.checked, box.indeterminate]") == [False, True]
    press(page, page.get_by_role("button", name="Deselect"), "Enter", "#tick-all")
    press(page, page.locator("#page-size"), "ArrowDown", "#page-size")
    press(page, page.get_by_role("button", name="Last page"), "Enter", "#pages")
    assert page.get_by_role("button", name="Next page").get_attribute("aria-disabled") == "true"
    page.locator("tr.decision .open").nth(-2).press("Enter")
    press(page, page.locator("#why-next"), "Enter", "#why-next")
    assert page.locator("#why-title").inner_text() == "Row 99"
    page.keyboard.press("Escape")
    wait_until(lambda: page.evaluate("document.activeElement.dataset.focus") == "open-99")
    # Changes: what was pressed goes, and the focus goes to the heading of its card.
    page.locator("#filter-text").fill("Row 99")
    page.locator("tr.decision input").check()
    press(page, page.get_by_role("button", name="Teach"), "Enter", "#question")
    press_keys(page, "Tab", "Enter")
    page.locator("#teaching-job .done").wait_for()
    page.locator("#teaching").wait_for(state="hidden")
    assert_focus(page, "#title-decisions")
    assert page.locator("#filter-text").input_value() == "Row 99"  # what was looked at stays
