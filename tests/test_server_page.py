"""The page of ``srosr serve`` in a browser, at the width of a laptop and of a telephone, with real servers behind it.

Where the layout is what is tested, a test is at both widths; what the page does is tested at one of them.

It takes Playwright and axe-core (the extra ``browser``) and a Chromium or Chrome that is installed; none is ever
downloaded. Without them these tests are skipped with the reason; with ``SROSR_REQUIRE_BROWSER=1`` that is a failure.
Every page that a test opens is watched: a message on the console, a request that fails and a request to anywhere else
fail the test.
"""

import contextlib
import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from browser_runs import missing, open_browser
from command_runs import run
from same import check_same_text
from server_runs import make_samples, save_model, serve, server_required, wait_until
from sklearn.datasets import load_digits

from srosr import open_set_methods

server_required()
pytestmark = pytest.mark.slow

WIDTHS = {1280: 900, 360: 740}
PAGE = Path(__file__).parents[1] / "src" / "srosr" / "server" / "page"
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
def axe():
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("axe-core is not installed: pip install srosr[browser]")
    return Axe()


@pytest.fixture(scope="module")
def demo_server():
    with serve("--demo") as server:
        yield server


@pytest.fixture
def demo(demo_server):
    """The server of the demo; a test that changes the model leaves it as it was."""
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
def pictures(tmp_path_factory):
    """Pictures of digits in folders: those of 0, 1 and 4 to learn and to decide on, and of 7, which is unknown."""
    image = pytest.importorskip("PIL.Image", reason="needs the extra images: Pillow is not installed")
    folder = tmp_path_factory.mktemp("pictures")
    digits = load_digits()
    for digit in (0, 1, 4, 7):
        for i, values in enumerate(digits.images[digits.target == digit][:40]):
            part = "new" if i >= 30 else "train"
            if digit == 7 and part == "train":
                continue
            (folder / part / f"digit {digit}").mkdir(parents=True, exist_ok=True)
            gray = (255 - 15.9 * values).astype(np.uint8)
            image.fromarray(gray).resize((32, 32)).save(folder / part / f"digit {digit}" / f"{digit}-{i}.png")
    return folder


@pytest.fixture(scope="module")
def picture_server(pictures):
    result = run("fit", pictures / "train", "--features", "pixels", "--size", "16x16", "-o", pictures / "photos.srosr")
    assert result.exit_code == 0, result.output
    with serve(pictures / "photos.srosr") as server:
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
    """A server of models with classes of text; a test that changes one leaves it as it was."""
    yield from restore_after(flower_server, "flowers")


def restore_after(server, name):
    _, before = server.get(f"/v1/models/{name}")
    yield server
    _, after = server.get(f"/v1/models/{name}")
    if after["version"] != before["version"]:
        status, answer = server.post(f"/v1/models/{name}/restore", {"version": before["version"]})
        assert status == 200, answer


@pytest.fixture
def visit(browser):
    """Open the page of a server; when the test ends, nothing may have gone wrong on it but what it expects."""
    opened = []

    def open_page(server, width=1280, *, scheme="light", touch=False, part="", ready=True, hurry=False):
        context = browser.new_context(
            viewport={"width": width, "height": WIDTHS[width]},
            color_scheme=scheme,
            has_touch=touch,
            accept_downloads=True,
        )
        page = context.new_page()
        page.set_default_timeout(30_000)
        if hurry:
            page.add_init_script(HURRY)
        # A page that is left gives up what it has just asked the server.
        page.complaints, page.expected = [], ["failed: .*/v1/models net::ERR_ABORTED"] if hurry else []
        page.on("console", lambda message: page.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("requestfailed", lambda request: note_failure(page, request))
        page.on("request", lambda request: note_request(page, request, server.address))
        opened.append((context, page))
        page.goto(f"{server.address}/{part}")
        if ready:
            page.wait_for_selector("#model-line:not(:empty)")
        return page

    yield open_page
    for context, page in opened:
        unforeseen = [text for text in page.complaints if not any(re.search(one, text) for one in page.expected)]
        context.close()
        assert unforeseen == []


def note_failure(page, request):
    # Chromium may report a stream as aborted although the page has read it to its end.
    streamed = "ndjson" in request.headers.get("accept", "")
    if not (streamed and request.failure == "net::ERR_ABORTED"):
        page.complaints.append(f"failed: {request.method} {request.url} {request.failure}")


def note_request(page, request, address):
    if not request.url.startswith((address, "data:", "blob:")):
        page.complaints.append(f"third party: {request.url}")


# -- what tests do on the page -------------------------------------------------------------------------------


def wait_for_decisions(page, n=None):
    page.wait_for_selector("tr.decision")
    page.wait_for_selector(".area-decisions[aria-busy=false]")
    page.wait_for_selector("#decide-job:empty", state="attached")
    if n is not None:
        wait_until(lambda: page.locator("input[value=all] + span b").inner_text() == f"{n:,}")


def wait_for_focus(page, name):
    """Wait until the element of this name has the focus: it comes back after a dialog has closed."""
    wait_until(lambda: page.evaluate("document.activeElement.dataset.focus") == name)


def decide_at_random(page, name="200 at random", n=200):
    page.get_by_role("button", name=name).click()
    wait_for_decisions(page, n)


def upload(page, name, content, media_type="text/csv"):
    choose(page, "File")
    page.set_input_files("#file", files=[{"name": name, "mimeType": media_type, "buffer": content}])


def choose(page, source):
    """Choose where samples come from."""
    page.locator(f"#source input[value={source.lower()}]").check()


def go_to(page, name):
    page.get_by_role("navigation").get_by_role("link", name=name).click()


def confirm(page, name):
    page.locator("#question").get_by_role("button", name=name).click()


def assert_focus(page, place="body *"):
    """Assert that the focus is in the page, where a place is given in it: it must not fall out by what a key does."""
    page.wait_for_timeout(150)
    held = "document.activeElement.outerHTML.slice(0, 120)"
    assert page.evaluate("document.activeElement !== document.body")
    assert page.evaluate("s => document.activeElement.closest(s) !== null", place), page.evaluate(held)


def press(page, element, key, place="body *"):
    """Press a key on an element; the focus is then at a place."""
    element.focus()
    page.keyboard.press(key)
    assert_focus(page, place)


def drop(page, name, content):
    """Drop a file on the page."""
    transfer = page.evaluate_handle(
        """([text, name]) => { const transfer = new DataTransfer();
            transfer.items.add(new File([text], name, {type: 'text/csv'}));
            return transfer; }""",
        [content.decode(), name],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("body", event, {"dataTransfer": transfer})


def hold(page, pattern):
    """Keep requests to an address waiting; return a function that lets them go."""
    held = []
    page.route(pattern, lambda route: held.append(route))

    def release():
        page.unroute(pattern)
        for route in held:
            with contextlib.suppress(Exception):  # the page may have given the request up
                route.continue_()

    return release


def open_threshold(page):
    if not page.evaluate("document.querySelector('#threshold-fold').open"):
        page.locator("#threshold-fold > summary").click()


def write_csv(X, labels=None, names=None):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = list(names or (f"f{i}" for i in range(X.shape[1])))
    writer.writerow(columns + (["label"] if labels is not None else []))
    for i, row in enumerate(X):
        writer.writerow([*map(repr, row.tolist()), *([labels[i]] if labels is not None else [])])
    return text.getvalue().encode()


def find_overflow(page):
    """Return what makes the page wider than the screen."""
    return page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
            [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.outerHTML.slice(0, 100)).slice(0, 5)"""
    )


def check_page(page, axe, schemes=("light",)):
    """Assert that axe-core finds nothing in these looks, and that the page is not wider than the screen."""
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # otherwise colors change softly
        page.wait_for_timeout(50)  # the page has done what follows from the last step
        page.evaluate(axe.axe_script)
        # The violations only: all that axe-core returns takes five times as long.
        found = page.evaluate("axe.run({resultTypes: ['violations']}).then((all) => all.violations)")
        assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == [], scheme
    assert find_overflow(page) == []


def at_both_widths(page):
    """Give the page each width in turn."""
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        yield width


def read_known_shares(server, model="digits"):
    _, scores = server.get(f"/v1/models/{model}/scores")
    return {name: np.array(scores[name]) for name in ("known", "simulated", "known_right")}


# -- every part, in every look --------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "schemes"), [(1280, ("light", "dark")), (360, ("light",))])
def test_no_state_of_the_page_has_an_accessibility_violation_or_is_too_wide(visit, demo, axe, width, schemes):
    page = visit(demo, width)
    page.wait_for_selector(".pick")
    check_page(page, axe, schemes)
    for source in ("Draw", "File", "Paste"):
        choose(page, source)
        check_page(page, axe, schemes)
    choose(page, "Pick")
    decide_at_random(page)
    page.locator("tr.decision input").first.check()
    check_page(page, axe, schemes)
    open_threshold(page)
    page.locator("#threshold-slider").fill("160")
    page.wait_for_selector("tr.turns")
    check_page(page, axe, schemes)
    page.get_by_role("button", name="Apply").click()
    check_page(page, axe, schemes)
    confirm(page, "Cancel")
    page.locator("tr.decision .open").first.click()
    page.wait_for_selector(".training")
    check_page(page, axe, schemes)
    page.keyboard.press("Escape")
    go_to(page, "Groups")
    page.get_by_role("button", name="Group the rejected").click()
    page.wait_for_selector(".group")
    page.locator(".group summary").first.click()
    check_page(page, axe, schemes)
    go_to(page, "Measure")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector("#measure-result")
    check_page(page, axe, schemes)
    go_to(page, "Model")
    page.wait_for_selector(".history, #history-title + div p")
    check_page(page, axe, schemes)
    go_to(page, "Monitor")
    page.wait_for_selector(".rate-chart")
    page.get_by_text("All facts").click()
    check_page(page, axe, schemes)


def test_the_theme_follows_the_system_until_one_is_chosen(visit, demo):
    page = visit(demo, scheme="dark")
    read = "getComputedStyle(document.body.parentElement).backgroundColor"
    dark = page.evaluate(read)
    page.locator("#theme").click()
    light = page.evaluate(read)
    assert light != dark and page.locator("#theme").get_attribute("aria-pressed") == "false"
    page.wait_for_selector(".history, #history-title + div p", state="attached")  # nothing is on its way
    page.reload()
    assert page.evaluate(read) == light
    page.emulate_media(color_scheme="light")
    page.locator("#theme").click()
    assert page.evaluate(read) == dark


# -- samples and decisions ------------------------------------------------------------------------------------


def test_picked_samples_are_decided_as_the_server_decides_them(visit, demo):
    page = visit(demo, 360)
    picks = page.locator(".pick")
    picks.first.wait_for()
    for i in (0, 1, 4):
        picks.nth(i).click()
    page.get_by_role("button", name="Decide on 3").click()
    wait_for_decisions(page, 3)
    _, offered = demo.get("/v1/demo/samples?n=24&seed=0")
    samples = [offered["samples"][i]["values"] for i in (0, 1, 4)]
    _, answer = demo.post("/v1/models/digits/decide", {"samples": samples, "record": False})
    shown = page.locator("tr.decision .answer").all_inner_texts()
    assert shown == ["unknown" if d["verdict"] == "rejected" else d["label"] for d in answer["decisions"]]
    assert page.locator("tr.decision .verdict").all_inner_texts() == [d["verdict"] for d in answer["decisions"]]
    assert page.locator("tr.decision .column-truth").all_inner_texts() == [
        str(offered["samples"][i]["digit"]) for i in (0, 1, 4)
    ]


def test_filters_order_and_downloads_agree(visit, demo):
    page = visit(demo)
    decide_at_random(page)
    counts = {
        kind: int(page.locator(f"input[value={kind}] + span b").inner_text())
        for kind in ("all", "rejected", "recognized", "near")
    }
    assert counts["all"] == 200 == counts["rejected"] + counts["recognized"]
    assert 0 < counts["near"] < 100
    page.locator(".segment", has_text="Rejected").click()
    assert set(page.locator("tr.decision .verdict").all_inner_texts()) == {"rejected"}

    page.get_by_role("button", name="Unknown score").click()
    header = page.locator("th.column-score")
    assert header.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Unknown score").click()
    assert header.get_attribute("aria-sort") == "ascending"

    def save(name):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Download as {name}").click()
        return Path(waiting.value.path()).read_text()

    rows = list(csv.DictReader(io.StringIO(save("CSV"))))
    assert len(rows) == counts["rejected"] and {row["verdict"] for row in rows} == {"rejected"}
    scores = [float(row["unknown_score"]) for row in rows]
    assert scores == sorted(scores)
    saved = json.loads(save("JSON"))
    assert [d["row"] for d in saved["decisions"]] == [int(row["row"]) for row in rows]

    label = rows[0]["candidate"]
    page.locator("#filter-class").select_option(label)
    fitting = [row for row in rows if row["candidate"] == label]
    assert len(list(csv.DictReader(io.StringIO(save("CSV"))))) == len(fitting)
    page.locator("#filter-text").fill("no such sample")
    assert page.get_by_text("No sample fits the filters.").is_visible()
    assert [find_overflow(page) for _ in at_both_widths(page)] == [[], []]


def test_a_table_is_read_measured_and_its_errors_are_the_servers(visit, flowers):
    X, y, unknown = make_samples(seed=1)
    content = write_csv(np.vstack([X, unknown]), [*y, *(["daisy"] * len(unknown))])
    page = visit(flowers)
    upload(page, "new.csv", content)
    wait_for_decisions(page, 100)
    assert page.locator("#decisions-brief").inner_text().startswith("new.csv: ")
    # The column of classes was found by its name.
    page.locator("#reading summary").click()
    assert page.locator("#reading-label").input_value() == "label"

    go_to(page, "Measure")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector("#measure-result")
    status, answer = flowers.post("/v1/models/flowers/evaluate?label=label", body=content, media_type="text/csv")
    assert status == 200
    shown = page.locator(".figure-tile").first.locator("b").inner_text()
    assert shown == f"{round(100 * answer['metrics']['accuracy']['value'], 1):g}{PERCENT}"
    assert page.locator("#measure table").first.locator("tbody tr").count() == 4

    # Without it the table has a column too many: the sentence of the server is shown next to the table.
    go_to(page, "Decide")
    page.expected.append("status of 422")
    page.locator("#reading-label").select_option("")
    page.get_by_role("button", name="Decide again").click()
    alert = page.locator("#decide-job [role=alert]")
    alert.wait_for()
    status, answer = flowers.post("/v1/models/flowers/decide", body=content, media_type="text/csv")
    assert status == 422
    assert alert.locator("p").inner_text() == answer["error"].replace("The body", "new.csv")
    page.locator("#reading-label").select_option("label")
    page.get_by_role("button", name="Decide again").click()
    wait_for_decisions(page, 100)
    assert not alert.count()


def test_pictures_are_decided_explained_measured_and_learned(visit, pictures, picture_server, axe):
    page = visit(picture_server)
    chosen = sorted((pictures / "new" / "digit 7").iterdir()) + sorted((pictures / "new" / "digit 0").iterdir())
    assert page.locator("#drop-title").inner_text() == "Drop pictures here"
    page.set_input_files("#file", chosen)
    wait_for_decisions(page, 20)
    assert page.locator("tr.decision .name").all_inner_texts() == [path.name for path in chosen]
    shown = page.locator("tr.decision .thumbnail img").first
    wait_until(lambda: shown.evaluate("image => image.naturalWidth") == 32)
    page.locator("tr.decision .open").last.click()
    page.locator("#why .training img").first.wait_for()
    assert page.locator("#why-title").inner_text() == chosen[-1].name
    for _ in at_both_widths(page):
        check_page(page, axe)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.keyboard.press("Escape")

    for box in page.locator("tr.decision input").all()[:10]:
        box.check()
    page.locator("#teach-class").select_option(label="a new class…")
    page.get_by_label("Name of the new class").fill("seven")
    page.get_by_role("button", name="Teach").click()
    confirm(page, "Add the class")
    wait_until(lambda: "seven" in picture_server.get("/v1/models/photos")[1]["classes"])

    # Pictures in folders carry their classes.
    page.set_input_files("#folder", pictures / "new")
    wait_for_decisions(page, 40)
    go_to(page, "Measure")
    page.locator("#measure-go").click()
    page.wait_for_selector("#measure-result")
    assert page.locator("#measure table").first.locator("tbody th").all_inner_texts()[:3] == [
        "digit 0",
        "digit 1",
        "digit 4",
    ]


def test_rows_of_a_table_are_drawn_where_they_are_pictures(visit, demo):
    _, offered = demo.get("/v1/demo/samples?n=5&seed=3")
    X = np.array([sample["values"] for sample in offered["samples"]])
    page = visit(demo)
    upload(page, "digits.csv", write_csv(X, [str(sample["digit"]) for sample in offered["samples"]]))
    wait_for_decisions(page, 5)
    drawn = (
        page.locator("tr.decision canvas")
        .nth(2)
        .evaluate("c => [...c.getContext('2d').getImageData(0, 0, 8, 8).data].filter((_, i) => i % 4 === 0)")
    )
    assert np.abs(np.array(drawn) - 255 * (1 - X[2] / X[2].max())).max() <= 1


def test_rows_are_pasted_with_and_without_names(visit, flowers):
    X, _, _ = make_samples(seed=2)
    page = visit(flowers)
    for text, n in (
        (write_csv(X[:3]).decode(), 3),
        ("\n".join("\t".join(map(repr, row.tolist())) for row in X[:5]), 5),
    ):
        choose(page, "Paste")
        page.locator("#paste").fill(text)
        page.locator("#paste-decide").click()
        wait_for_decisions(page, n)
    _, answer = flowers.post("/v1/models/flowers/decide", {"samples": X[:5].tolist()})
    shown = page.locator("tr.decision .answer").all_inner_texts()
    assert shown == ["unknown" if d["verdict"] == "rejected" else d["label"] for d in answer["decisions"]]


def test_a_file_dropped_anywhere_on_the_page_is_decided(visit, flowers):
    X, _, _ = make_samples(seed=2)
    page = visit(flowers, part="#model")
    drop(page, "dropped.csv", write_csv(X))
    wait_for_decisions(page, 75)
    assert page.locator("#decisions-brief").inner_text().startswith("dropped.csv: ")


def test_a_file_dropped_while_a_question_is_open_is_left_alone(visit, flowers):
    X, _, unknown = make_samples(seed=2)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(unknown))
    wait_for_decisions(page, 25)
    page.locator("tr.decision input").first.check()
    page.get_by_role("button", name="Teach").click()
    drop(page, "dropped.csv", write_csv(X))
    page.wait_for_timeout(300)
    assert page.locator("#question").is_visible()
    confirm(page, "Cancel")
    assert page.locator("#decisions-brief").inner_text().startswith("new.csv: ")
    assert page.locator(".teaching-count").inner_text() == "1 sample selected"


def test_a_file_that_has_changed_since_it_was_chosen_is_said_to_have(visit, flowers, tmp_path):
    X, _, _ = make_samples(seed=2)
    page = visit(flowers)
    path = tmp_path / "kept.csv"
    path.write_bytes(write_csv(X))
    page.set_input_files("#file", path)
    wait_for_decisions(page, 75)
    page.wait_for_timeout(1100)  # browsers compare the times of files by the second
    path.write_bytes(write_csv(X[:50]))
    page.expected += ["ERR_UPLOAD_FILE_CHANGED", "ERR_FAILED"]
    page.locator("#reading summary").click()
    page.get_by_role("button", name="Decide again").click()
    alert = page.locator("#decide-job [role=alert] p")
    alert.wait_for()
    assert alert.inner_text() == "kept.csv has changed since it was chosen: choose it again."
    page.set_input_files("#file", path)
    wait_for_decisions(page, 50)


def test_a_table_read_otherwise_has_explanations_and_measures_of_its_own(visit, flowers):
    X, y, _ = make_samples(seed=1)
    page = visit(flowers)
    page.expected.append("status of 422")
    wide = np.column_stack([X, X[:, 0]])  # one column too many: which one is left out makes other samples
    upload(page, "wide.csv", write_csv(wide, y))
    page.locator("#decide-job [role=alert]").wait_for()
    assert page.locator("#reading").get_attribute("open") is not None  # there it can be put right

    def read_without(column):
        page.locator("#reading-ignore").fill(column)
        again = page.locator("#reading").get_by_role("button", name="Decide again")
        press(page, again, "Enter", "#reading")
        wait_for_decisions(page, 75)
        assert page.locator("tr.decision .column-truth").first.inner_text() == "a"
        page.locator("tr.decision .open").first.click()
        page.locator("#why .training").wait_for()
        shown = page.locator("#why .why-rest section p").all_inner_texts()
        page.keyboard.press("Escape")
        return shown

    first = read_without("f6")
    go_to(page, "Measure")
    page.locator("#measure-go").click()
    page.locator("#measure-result").wait_for()
    go_to(page, "Decide")
    assert read_without("f0") != first
    go_to(page, "Measure")
    assert page.locator("#measure-result").count() == 0


def test_a_result_never_stands_under_another_file(visit, flowers):
    X, y, _ = make_samples(seed=1)
    page = visit(flowers)
    upload(page, "first.csv", write_csv(X, y))
    wait_for_decisions(page, 75)
    release = hold(page, "**/evaluate")
    go_to(page, "Measure")
    page.locator("#measure-go").click()
    page.locator("#measure progress").wait_for()
    drop(page, "second.csv", write_csv(X[:30], y[:30]))
    wait_for_decisions(page, 30)
    release()
    go_to(page, "Measure")
    page.wait_for_timeout(500)
    assert page.locator("#measure-result, #measure progress").count() == 0
    assert "Cancelled" not in page.locator("#measure").inner_text()
    page.locator("#measure-go").click()
    page.locator("#measure-result").wait_for()
    assert "30 samples" in page.locator("#measure").inner_text()


def test_a_blank_line_shifts_no_picture_and_quotes_draw_none(visit, demo):
    _, offered = demo.get("/v1/demo/samples?n=4&seed=3")
    X = np.array([sample["values"] for sample in offered["samples"]])
    lines = write_csv(X).decode().splitlines()
    page = visit(demo)
    upload(page, "digits.csv", "\n".join([*lines[:2], "", *lines[2:], ""]).encode())
    wait_for_decisions(page, 4)
    drawn = page.locator("tr.decision canvas")
    assert drawn.count() == 4
    ink = drawn.nth(3).evaluate("c => [...c.getContext('2d').getImageData(0, 0, 8, 8).data].filter((_, i) => !(i % 4))")
    assert np.abs(np.array(ink) - 255 * (1 - X[3] / X[3].max())).max() <= 1
    upload(page, "digits.csv", "\n".join(lines).replace("f0,", '"f0",').encode())
    wait_for_decisions(page, 4)
    assert page.locator("tr.decision canvas").count() == 0


def test_each_drawing_is_counted_once(visit, demo):
    page = visit(demo)
    choose(page, "Draw")
    counted = demo.get("/v1/models/digits/monitor")[1]["summary"]["samples"]
    page.locator(".cell").nth(20).click()
    pad = page.locator(".pad")
    pad.click(position={"x": 40, "y": 60}, button="right")
    assert page.locator(".cell").nth(20).get_attribute("aria-label").endswith("8 of 16")
    pad.click(position={"x": 40, "y": 60})
    assert page.locator(".cell").nth(20).get_attribute("aria-label").endswith("8 of 16")  # strokes leave it
    for n in (1, 2, 3):
        page.locator(".cell").nth(n).click()
        page.get_by_role("button", name="Decide on the drawing").click()
        wait_for_decisions(page, n)
    assert page.locator("tr.decision .name").all_inner_texts() == ["Drawing 1", "Drawing 2", "Drawing 3"]
    assert demo.get("/v1/models/digits/monitor")[1]["summary"]["samples"] == counted + 3


def test_other_files_are_turned_down_in_words(visit, flowers):
    page = visit(flowers)
    upload(page, "notes.pdf", b"%PDF", "application/pdf")
    assert page.locator("#source-problem").inner_text().startswith("notes.pdf is not a table")
    array = io.BytesIO()
    np.save(array, make_samples()[0])
    upload(page, "rows.npy", array.getvalue(), "application/octet-stream")
    wait_for_decisions(page, 75)
    assert page.locator("#source-problem").inner_text() == ""


@both_widths
def test_a_drawn_zero_becomes_64_values_and_a_decision(visit, demo, width):
    page = visit(demo, width)
    choose(page, "Draw")
    pad = page.locator(".pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    angles = np.linspace(-np.pi / 2, 1.5 * np.pi, 40)
    points = [
        (box["x"] + box["width"] * (0.5 + 0.2 * np.cos(a)), box["y"] + box["height"] * (0.5 + 0.36 * np.sin(a)))
        for a in angles
    ]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point)
    page.mouse.up()
    values = [
        int(re.search(r"(\d+) of 16", cell.get_attribute("aria-label"))[1]) for cell in page.locator(".cell").all()
    ]
    assert len(values) == 64 and max(values) >= 14 and min(values) == 0
    grid = np.array(values).reshape(8, 8)
    assert grid[0].sum() > 10 and grid[7].sum() > 10  # as tall as the grid
    assert grid[3:5, 3:5].sum() == 0  # a hole in the middle
    page.get_by_role("button", name="Decide on the drawing").click()
    wait_for_decisions(page, 1)
    assert page.locator("tr.decision .column-candidate").inner_text() == "0"
    page.get_by_role("button", name="Clear").click()
    assert page.get_by_role("button", name="Decide on the drawing").is_disabled()


def test_a_finger_draws_too(visit, demo):
    page = visit(demo, 360, touch=True)
    choose(page, "Draw")
    pad = page.locator(".pad")
    pad.scroll_into_view_if_needed()
    assert pad.evaluate("e => getComputedStyle(e).touchAction") == "none"
    pad.tap()
    assert page.get_by_role("button", name="Decide on the drawing").is_enabled()
    small = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input:not([type=file], [type=checkbox], [type=radio])')]
            .filter(e => e.offsetParent && !e.closest('td') && e.getBoundingClientRect().height < 43.5)
            .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert small == []


def test_the_grid_of_cells_is_drawn_on_by_keys(visit, demo):
    page = visit(demo)
    choose(page, "Draw")
    page.locator(".cell").first.focus()
    for key in (
        "ArrowDown",
        "ArrowRight",
        "Space",
        "ArrowRight",
        "Space",
        "Space",
        "ArrowRight",
        "Space",
        "Space",
        "Space",
    ):
        page.keyboard.press(key)
    labels = [page.locator(".cell").nth(i).get_attribute("aria-label") for i in (9, 10, 11)]
    assert [label.split(": ")[1] for label in labels] == ["8 of 16", "16 of 16", "0 of 16"]
    page.get_by_role("button", name="Decide on the drawing").press("Enter")
    wait_for_decisions(page, 1)


def test_ten_thousand_rows_are_decided_shown_in_pages_and_sorted(visit, flowers):
    X, _, _ = make_samples(seed=3)
    many = np.random.default_rng(0).permutation(np.vstack([X] * 134))[:10_000]
    page = visit(flowers)
    upload(page, "many.csv", write_csv(many))
    wait_for_decisions(page, 10_000)
    assert page.locator("tr.decision").count() == 25
    page.get_by_role("button", name="Last page").click()
    assert page.locator("tr.decision .name").last.inner_text() == "Row 9999"
    page.get_by_role("button", name="Unknown score").click()
    assert page.locator(".pages").inner_text().startswith("1–25 of 10,000")
    page.locator("#page-size").select_option("100")
    assert page.locator("tr.decision").count() == 100


def test_work_is_cancelled_and_the_page_goes_on(visit, flowers):
    X, _, _ = make_samples(seed=3)
    page = visit(flowers)
    page.expected.append("failed: .*/decide net::ERR_ABORTED")
    upload(page, "many.csv", write_csv(np.vstack([X] * 400)))
    page.locator("#decide-job").get_by_role("button", name="Cancel").click()
    assert page.locator("#decide-job").inner_text().startswith("Cancelled")
    upload(page, "few.csv", write_csv(X))
    wait_for_decisions(page, 75)


def test_grouping_is_cancelled_where_it_was_started(visit, flowers):
    *_, unknown = make_samples(seed=3)
    page = visit(flowers)
    page.route("**/discover", lambda route: None)  # an answer that never comes
    upload(page, "new.csv", write_csv(unknown))
    wait_for_decisions(page, 25)
    go_to(page, "Groups")
    page.get_by_role("button", name="Group the rejected").click()
    page.locator("#groups progress").wait_for()
    page.locator("#groups").get_by_role("button", name="Cancel").click()
    page.locator("#groups").get_by_text("Cancelled.").wait_for()
    page.unroute("**/discover")
    page.get_by_role("button", name="Group the rejected").click()
    page.locator("#groups .discovery").wait_for()


# -- why -------------------------------------------------------------------------------------------------------


def test_a_sample_opened_shows_words_training_samples_numbers_and_figure(visit, demo):
    page = visit(demo, 360)
    decide_at_random(page, "A handful", 12)
    page.locator("tr.decision .column-score").nth(3).click()
    why = page.locator("#why")
    why.locator(".training").wait_for()
    assert why.locator("#why-title").inner_text() == "Row 3"
    _, offered = demo.get("/v1/demo/samples?n=12&seed=1")
    values = offered["samples"][3]["values"]
    _, answer = demo.post("/v1/models/digits/explain", {"samples": [values]})
    words = why.locator("section", has=page.get_by_role("heading", name="In words")).locator("p").all_inner_texts()
    check_same_text("\n".join(words), answer["text"])
    items = why.locator(".training li")
    assert items.count() == len(answer["training_samples"])
    assert items.first.locator("b").inner_text() == f"class {answer['training_samples'][0]['label']}"
    assert why.locator(".training img").count() > 0
    assert why.locator("table.evidence tbody tr").count() >= 1
    figure = why.locator(".paper img")
    figure.scroll_into_view_if_needed()
    wait_until(lambda: figure.evaluate("image => image.naturalWidth") > 100)
    turn = why.locator("section", has=page.get_by_role("heading", name="What would change")).locator("p").inner_text()
    assert "threshold" in turn and "%" in turn


def test_keys_go_to_the_next_sample_and_the_focus_returns_to_its_row(visit, demo):
    page = visit(demo)
    decide_at_random(page, "A handful", 12)
    page.locator("tr.decision .open").nth(3).press("Enter")
    assert page.locator("#why-title").inner_text() == "Row 3"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#why-title").inner_text() == "Row 4"
    page.locator("#why .training").wait_for()
    page.keyboard.press("Escape")
    wait_for_focus(page, "open-4")
    page.keyboard.press("ArrowDown")
    wait_for_focus(page, "open-5")


def test_a_double_click_opens_a_sample_and_leaves_it_open(visit, flowers):
    X, _, _ = make_samples(seed=4)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(X))
    wait_for_decisions(page, 75)
    page.locator("tr.decision .column-candidate").first.dblclick()
    page.locator("#why .training").wait_for()
    page.mouse.click(20, 400)
    page.locator("#why").wait_for(state="hidden")


def test_arrow_keys_scroll_the_figure_and_held_keys_ask_for_one_explanation(visit, demo):
    page = visit(demo, 360)
    decide_at_random(page)
    page.locator("tr.decision .open").first.click()
    page.locator("#why .training").wait_for()
    figure = page.locator("#why .paper")
    figure.focus()
    page.keyboard.press("ArrowRight")
    wait_until(lambda: figure.evaluate("e => e.scrollLeft") > 0)
    assert page.locator("#why-title").inner_text() == "Row 0"
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/explain") else None)
    page.locator("#why-title").focus()
    for _ in range(15):
        page.keyboard.press("ArrowRight")
    assert page.locator("#why-title").inner_text() == "Row 15"
    page.locator("#why .training").wait_for()
    assert len(asked) <= 3
    wait_until(lambda: page.locator("#why [aria-live]").inner_text().startswith("Row 15: "))


def test_a_row_of_a_table_is_explained_as_that_row(visit, flowers):
    X, _, unknown = make_samples(seed=4)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    page.locator("#filter-text").fill("Row 90")
    page.locator("tr.decision .open").click()
    page.locator("#why .training").wait_for()
    _, answer = flowers.post("/v1/models/flowers/explain", {"samples": [unknown[15].tolist()]})
    assert page.locator("#why .why-rest section p").first.inner_text() == answer["text"].split("\n")[0]


# -- the threshold ---------------------------------------------------------------------------------------------


def test_the_threshold_shows_what_it_does_at_once_and_is_applied(visit, demo):
    shares = read_known_shares(demo)
    page = visit(demo)
    decide_at_random(page)
    open_threshold(page)
    page.locator("#threshold-share").fill("12")
    target = shares["known"][int(np.ceil(0.88 * len(shares["known"]))) - 1]
    names, shown = (page.locator(f".effect {one}").all_inner_texts() for one in ("tbody th", ".trying"))
    effect = dict(zip(names, shown, strict=True))

    def read(name):
        return float(effect[name].removesuffix(PERCENT)) / 100

    above = shares["known"] > target
    assert read("Known samples rejected") == pytest.approx(above.mean(), abs=6e-4)
    assert read("Known samples right") == pytest.approx((~above & shares["known_right"]).mean(), abs=6e-4)
    assert read("Simulated unknowns rejected") == pytest.approx((shares["simulated"] > target).mean(), abs=6e-4)
    turned = page.locator("input[value=changes] + span b").inner_text()
    assert int(turned) >= 1 and page.locator(".turned").inner_text().startswith(f"{turned} sample")
    page.locator(".segment", has_text="Would change").click()
    assert set(page.locator("tr.decision .turn").all_inner_texts()) == {"would be rejected"}
    rejected = int(effect["Your 200 samples rejected"])

    page.get_by_role("button", name="Reset").click()
    wait_until(lambda: page.locator("tr.turns").count() == 0 and page.locator("input[value=changes]").is_hidden())

    page.locator("#threshold-share").fill("12")
    page.get_by_role("button", name="Apply").click()
    assert "model file" in page.locator("#question-text").inner_text()
    confirm(page, "Apply")
    page.locator("#threshold .done").wait_for()
    _, info = demo.get("/v1/models/digits")
    assert info["held_out"]["rejected"] == pytest.approx(0.12, abs=0.01)
    wait_for_decisions(page, 200)
    wait_until(lambda: abs(int(page.locator("input[value=rejected] + span b").inner_text()) - rejected) <= 2)


def test_the_slider_moves_by_keys_and_says_what_it_does(visit, demo):
    page = visit(demo)
    slider = page.locator("#threshold-slider")
    slider.focus()
    before = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageUp")
    after = slider.get_attribute("aria-valuetext")
    assert before != after and "of known samples" in after and "simulated unknowns" in after
    page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext").startswith(f"0{PERCENT} of known samples")
    page.keyboard.press("End")
    assert re.match(r"(50|49\.\d+)\s% of known samples", slider.get_attribute("aria-valuetext"))


def test_each_class_is_compared_with_its_own_threshold(visit, flowers):
    X, _, _ = make_samples(seed=12)
    flowers.post("/v1/models/flowers/set-threshold", {"target_rejection": 0.2, "per_class": True})
    _, info = flowers.get("/v1/models/flowers")
    assert info["threshold"] is None and len(set(info["thresholds"])) > 1
    page = visit(flowers)
    assert page.locator("#threshold-brief").inner_text() == "one for each class"
    upload(page, "new.csv", write_csv(X[[0, 30, 60]]))
    wait_for_decisions(page, 3)
    for i, row in enumerate(page.locator("tr.decision").all()):
        assert row.locator(".column-candidate").inner_text() == info["classes"][i]
        row.locator(".open").click()
        shown = page.locator("#why .why-top .quiet").last.inner_text().split("threshold ")[1]
        assert float(shown) == pytest.approx(info["thresholds"][i], abs=6e-4)
        page.locator("#why .training").wait_for()
        page.keyboard.press("Escape")


# -- groups, classes, versions ---------------------------------------------------------------------------------


def test_a_named_group_becomes_a_class(visit, demo):
    page = visit(demo, 360)
    decide_at_random(page)
    _, offered = demo.get("/v1/demo/samples?n=200&seed=1")
    go_to(page, "Groups")
    page.get_by_role("button", name="Group the rejected").click()
    group = page.locator(".group").first
    group.wait_for()
    total = int(re.search(r"of (\d+) chosen", group.locator("summary").inner_text())[1])
    group.locator("summary").click()
    group.locator(".member input").first.uncheck()
    assert f"{total - 1} of {total} chosen" in group.locator("summary").inner_text()
    typical = int(re.search(r"\d+", group.locator(".tile").first.get_attribute("aria-label"))[0])
    digit = str(offered["samples"][typical]["digit"])
    page.locator(".group").nth(1).get_by_label("Name").fill("another")
    group.get_by_label("Name").fill(digit)
    group.get_by_role("button", name="Make it a class").click()
    confirm(page, "Add the class")
    group.locator(".done").first.wait_for()
    _, info = demo.get("/v1/models/digits")
    assert info["class_sizes"][digit] == total - 1
    assert page.locator(".group").nth(1).get_by_label("Name").input_value() == "another"  # what was typed stays
    go_to(page, "Decide")
    wait_for_decisions(page, 200)
    page.locator("#filter-class").select_option(digit)
    assert digit in page.locator("tr.decision .answer").all_inner_texts()


def test_classes_are_taught_added_removed_and_versions_restored(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(np.vstack([X[:25], unknown])))
    wait_for_decisions(page, 50)
    _, first = flowers.get("/v1/models/flowers")

    def tick(text):
        page.locator("#filter-text").fill(text)
        page.locator("tr.decision input").first.check()

    for row in ("Row 1", "Row 12", "Row 13"):
        tick(row)
    assert page.locator(".teaching-count").inner_text() == "3 samples selected"
    page.locator("#teach-class").select_option("a")
    page.get_by_role("button", name="Teach").click()
    confirm(page, "Teach")
    page.locator("#teaching-job .done").wait_for()
    _, info = flowers.get("/v1/models/flowers")
    assert info["class_sizes"]["a"] == first["class_sizes"]["a"] + 3

    page.locator(".teaching").wait_for(state="detached")  # the selection has done its work
    page.locator("#filter-text").fill("")
    page.locator(".segment", has_text="Rejected").click()
    page.get_by_label("Select all").check()
    page.locator("#teach-class").select_option(label="a new class…")
    page.get_by_label("Name of the new class").fill("daisy")
    page.get_by_role("button", name="Teach").click()
    confirm(page, "Add the class")
    wait_until(lambda: "daisy" in flowers.get("/v1/models/flowers")[1]["classes"])

    go_to(page, "Model")
    page.get_by_role("button", name="Remove class daisy").click()
    confirm(page, "Remove")
    wait_until(lambda: "daisy" not in flowers.get("/v1/models/flowers")[1]["classes"])
    history = page.locator(".history li")
    history.first.get_by_text("Class daisy removed").wait_for()
    assert [text.split("\n")[0] for text in history.all_inner_texts()[:3]] == [
        "Class daisy removed", f"Class daisy added, {count_daisies(flowers)} samples", "3 samples learned",
    ]  # fmt: skip
    history.get_by_role("button", name=f"Restore version {first['version'][:8]}").first.click()
    confirm(page, "Restore")
    wait_until(lambda: flowers.get("/v1/models/flowers")[1]["version"] == first["version"])
    history.first.get_by_text("restored").wait_for()
    assert [find_overflow(page) for _ in at_both_widths(page)] == [[], []]


def count_daisies(server):
    """Return the number of samples that the class daisy was added with."""
    _, history = server.get("/v1/models/flowers/history")
    return next(line for line in history["versions"] if line["change"] == "add-class")["details"]["samples"]


def test_a_model_is_recalibrated_by_the_samples(visit, flowers):
    X, y, _ = make_samples(seed=6, n=40)
    page = visit(flowers)
    upload(page, "fresh.csv", write_csv(X + 0.1, y))
    wait_for_decisions(page, 120)
    go_to(page, "Model")
    page.get_by_role("button", name="Recalibrate").click()
    confirm(page, "Recalibrate")
    page.locator("#model .done").wait_for()
    _, info = flowers.get("/v1/models/flowers")
    assert info["recalibration"]["samples" if "samples" in info["recalibration"] else "fresh"]


def test_a_name_that_the_server_turns_down_is_said_in_its_words(visit, flowers):
    *_, unknown = make_samples(seed=5)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(unknown))
    wait_for_decisions(page)
    page.get_by_label("Select all").check()
    page.locator("#teach-class").select_option(label="a new class…")
    page.get_by_label("Name of the new class").fill("a")
    page.get_by_role("button", name="Teach").click()
    confirm(page, "Add the class")
    alert = page.locator("#teaching-job [role=alert] p")
    alert.wait_for()
    _, answer = flowers.post("/v1/models/flowers/add-class", {"samples": unknown.tolist(), "name": "a"})
    assert alert.inner_text() == answer["error"].replace("The request", "new.csv")


# -- monitoring ------------------------------------------------------------------------------------------------


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
    assert [find_overflow(page) for _ in at_both_widths(page)] == [[], []]
    page.get_by_role("button", name="Start anew").click()
    confirm(page, "Start anew")
    page.locator(".alarm:not(.raised)").wait_for()


# -- when something is in the way ------------------------------------------------------------------------------


def test_a_model_changed_under_the_page_is_noted_and_decided_again(visit, flowers):
    X, _, _ = make_samples(seed=8)
    page = visit(flowers, hurry=True)
    upload(page, "new.csv", write_csv(X))
    wait_for_decisions(page, 75)
    flowers.post("/v1/models/flowers/set-threshold", {"target_rejection": 0.3})
    note = page.locator("#stale .note")
    note.wait_for()
    assert "The model has changed since" in note.inner_text()
    page.locator("tr.decision .open").first.click()  # nor is an old decision explained by another model
    page.locator("#why .why-rest").get_by_text("The model has changed since").wait_for()
    page.keyboard.press("Escape")
    note.get_by_role("button", name="Decide again").click()
    wait_for_decisions(page, 75)
    note.wait_for(state="detached")
    _, answer = flowers.post("/v1/models/flowers/decide", {"samples": X.tolist(), "record": False})
    rejected = sum(d["verdict"] == "rejected" for d in answer["decisions"])
    assert page.locator("input[value=rejected] + span b").inner_text() == str(rejected)


def test_another_model_is_chosen(visit, flowers):
    X, _, _ = make_samples(seed=8)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(X))
    wait_for_decisions(page, 75)
    page.locator("#model-select").select_option("other")
    wait_until(lambda: page.title().startswith("other"))
    assert page.locator("tr.decision").count() == 0
    upload(page, "new.csv", write_csv(X))
    wait_for_decisions(page, 75)


def test_a_model_chosen_while_samples_are_decided_starts_without_them(visit, flowers):
    X, _, _ = make_samples(seed=8)
    page = visit(flowers)
    page.expected.append("failed: .*/decide net::ERR_ABORTED")
    upload(page, "many.csv", write_csv(np.vstack([X] * 300)))
    page.wait_for_selector("tr.decision")
    page.locator("#model-select").select_option("other")
    wait_until(lambda: page.title().startswith("other"))
    page.wait_for_timeout(700)
    assert page.locator("tr.decision").count() == 0
    assert page.locator("#decide-job").inner_text() == page.locator("#decisions-brief").inner_text() == ""
    upload(page, "new.csv", write_csv(X))
    wait_for_decisions(page, 75)


def test_of_two_models_the_one_chosen_last_is_shown(visit, flowers):
    page = visit(flowers)
    release = hold(page, "**/v1/models/other/scores")
    page.locator("#model-select").select_option("other")
    page.locator("#model-select").select_option("rival")
    wait_until(lambda: page.title().startswith("rival"))
    release()
    page.wait_for_timeout(700)
    assert page.title().startswith("rival") and page.locator("#model-select").input_value() == "rival"


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


def test_the_token_is_asked_for_and_kept(visit, guarded, axe):
    page = visit(guarded, ready=False, hurry=True)
    page.expected.append("status of 401")
    token = page.locator("#token")
    token.wait_for()
    for _ in at_both_widths(page):
        check_page(page, axe)
    page.set_viewport_size({"width": 1280, "height": 900})
    token.fill("ŵrong-token-for-the-page")  # no header can carry it
    token.press("Enter")
    page.locator("#token-problem").get_by_text("ASCII").wait_for()
    token.fill("not-the-token-at-all")
    token.press("Enter")
    page.locator("#token-problem").get_by_text("ASCII").wait_for(state="detached")
    page.locator("#token-problem .error").wait_for()
    page.locator("#token-dialog").get_by_role("button", name="Cancel").click()
    page.wait_for_timeout(1000)  # the page asks the server again, but not the user
    assert page.locator("#token-dialog").is_hidden()
    page.get_by_role("button", name="Give the token").click()
    token.fill(TOKEN)
    token.press("Enter")
    page.wait_for_selector("#model-line:not(:empty)")
    page.complaints.clear()
    page.reload()
    page.wait_for_selector("#model-line:not(:empty)")
    assert not [complaint for complaint in page.complaints if "401" in complaint]


def test_a_read_only_server_says_so_and_offers_no_change(visit, guarded, axe):
    X, _, unknown = make_samples(seed=9)
    page = visit(guarded, ready=False)
    page.expected.append("status of 401")
    page.locator("#token").fill(TOKEN)
    page.locator("#token").press("Enter")
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    page.locator("tr.decision input").first.check()
    open_threshold(page)
    assert page.locator("#threshold").get_by_text("The server is read-only").is_visible()
    for _ in at_both_widths(page):
        check_page(page, axe)
    page.set_viewport_size({"width": 1280, "height": 900})
    go_to(page, "Groups")
    page.get_by_role("button", name="Group the rejected").click()
    page.locator(".group").first.wait_for()
    go_to(page, "Model")
    page.locator("#model").get_by_text("The server is read-only").wait_for()
    go_to(page, "Monitor")
    page.locator("#monitoring").get_by_text("The server is read-only").wait_for()
    for name in ("Apply", "Teach", "Make it a class", "Recalibrate", "Restore", "Remove class", "Start anew"):
        assert page.get_by_role("button", name=name, include_hidden=True).count() == 0


def test_a_method_that_cannot_learn_classes_is_served_as_well(visit, flowers):
    X, _, unknown = make_samples(seed=11)
    page = visit(flowers)
    page.locator("#model-select").select_option("rival")
    wait_until(lambda: page.title().startswith("rival"))
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    page.locator("tr.decision .open").last.click()
    page.locator("#why .why-rest p").first.wait_for()
    page.keyboard.press("Escape")
    go_to(page, "Model")
    page.get_by_text("rival holds osnn, which cannot do update.").first.wait_for()


# -- security --------------------------------------------------------------------------------------------------


def test_inline_script_and_style_do_not_run(visit, demo):
    page = visit(demo)
    page.expected.append("Content Security Policy")
    page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.injected = true';
            document.body.append(script);
            const holder = document.createElement('div');
            holder.innerHTML = '<img src="/none.png" onerror="window.injected = true"><p style="color: red">x</p>';
            document.body.append(holder);
        }"""
    )
    page.expected.append("status of 404")
    page.wait_for_timeout(300)
    assert page.evaluate("window.injected") is None
    assert (
        page.evaluate("getComputedStyle(document.querySelector('body > div:last-child p')).color") != "rgb(255, 0, 0)"
    )


def test_names_from_files_are_text_never_markup(visit, flowers):
    name = '<img src=x onerror="window.injected=1">.csv'
    X, y, _ = make_samples(seed=10)
    page = visit(flowers)
    upload(page, name, write_csv(X, y, ["<b>f0</b>", *(f"f{i}" for i in range(1, 6))]))
    wait_for_decisions(page, 75)
    assert page.locator("#decisions-brief").inner_text().startswith(name)
    assert page.evaluate("document.querySelectorAll('main img[src=x]').length") == 0
    assert page.evaluate("window.injected") is None


def test_the_files_of_the_page_hold_no_inline_code_and_no_address_of_others():
    for path in sorted(PAGE.iterdir()):
        text = path.read_text()
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), path.name
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert forbidden not in text, path.name
        if path.suffix == ".html":
            assert not re.search(r"\sstyle=|\son\w+=|<style|<script>", text)
        assert max(map(len, text.splitlines())) <= 120, path.name


# -- without a mouse --------------------------------------------------------------------------------------------


@both_widths
def test_everything_from_samples_to_an_applied_threshold_works_by_keys_alone(visit, demo, width):
    page = visit(demo, width)
    page.wait_for_selector(".pick")

    def tab_to(selector, most=120):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                outline = page.evaluate(
                    """() => { const e = document.activeElement;
                        const shown = e.matches('.segment input') ? e.nextElementSibling : e;
                        return getComputedStyle(shown).outlineStyle; }"""
                )
                assert outline != "none", f"{selector} has the focus, and it does not show"
                return
        raise AssertionError(f"the focus never reaches {selector}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    tab_to(".pick")
    for key in ("Space", "ArrowRight", "Space", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    tab_to("#source-pick .button.primary")
    page.keyboard.press("Enter")
    wait_for_decisions(page, 3)
    tab_to("tr.decision .open")
    page.keyboard.press("Enter")
    page.locator("#why .training").wait_for()
    page.keyboard.press("ArrowRight")
    assert page.locator("#why-title").inner_text() == "Row 1"
    page.keyboard.press("Escape")
    wait_for_focus(page, "open-1")
    for _ in range(120):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.matches('#threshold-slider, #threshold-fold > summary')"):
            break
    if page.evaluate("document.activeElement.matches('summary')") and width < 900:
        page.keyboard.press("Enter")
        tab_to("#threshold-slider")
    elif page.evaluate("document.activeElement.matches('summary')"):
        tab_to("#threshold-slider")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    tab_to("#threshold .button.primary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "question-no"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#threshold .done").wait_for()
    _, info = demo.get("/v1/models/digits")
    assert info["held_out"]["rejected"] > 0.055


def test_no_key_lets_the_focus_fall_out_of_the_page(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    every = page.locator("thead .tick input")
    press(page, every, "Space", "thead .tick")
    assert page.locator(".teaching-count").inner_text() == "100 samples selected"
    page.locator("tr.decision input").first.uncheck()
    assert every.evaluate("box => [box.checked, box.indeterminate]") == [False, True]
    press(page, page.get_by_role("button", name="Deselect"), "Enter", "thead .tick")
    press(page, page.locator("#page-size"), "ArrowDown", "#page-size")
    press(page, page.get_by_role("button", name="Last page"), "Enter", ".pages")
    assert page.get_by_role("button", name="Next page").get_attribute("aria-disabled") == "true"
    page.locator("tr.decision .open").nth(-2).press("Enter")
    press(page, page.locator("#why-next"), "Enter", "#why-next")
    assert page.locator("#why-title").inner_text() == "Row 99"
    page.keyboard.press("Escape")
    wait_for_focus(page, "open-99")

    # Changes: what was pressed goes, and the focus goes to the heading of its card.
    page.locator("#filter-text").fill("Row 99")
    page.locator("tr.decision input").check()
    press(page, page.get_by_role("button", name="Teach"), "Enter", "#question")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#teaching-job .done").wait_for()
    page.locator(".teaching").wait_for(state="detached")
    assert_focus(page, "#title-decisions")
    assert page.locator("#filter-text").input_value() == "Row 99"  # what was looked at stays
    go_to(page, "Model")
    page.locator(".history li").nth(1).wait_for()
    press(page, page.get_by_role("button", name="Restore version").first, "Enter", "#question")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator(".history li").first.get_by_text("restored").wait_for()
    assert_focus(page, "#history-title")

    # Cancel: the focus stays where the word about it is.
    release = hold(page, "**/discover")
    page.expected.append("failed: .*/discover net::ERR_ABORTED")
    go_to(page, "Groups")
    page.locator("#find-groups").click()
    press(page, page.locator("#groups").get_by_role("button", name="Cancel"), "Enter", "#groups .slot")
    release()


def test_scores_are_written_as_far_as_they_can_be_told(visit, flowers):
    page = visit(flowers)
    written = page.evaluate(
        """async () => { const { score } = await import('/static/wording.js');
            return [score(1 - 1e-10), score(0.99998), score(0.9583), score(0.42), score(-3.14159), score(1234567),
                    score(0.95831, Math.ceil), score(0.95839, Math.floor), score(0.42, Math.ceil), score(null)]; }"""
    )
    assert written == [
        "> 0.999999999", "0.99998", "0.958", "0.42", "-3.14", "1230000", "0.959", "0.958", "0.42", "–",
    ]  # fmt: skip


# -- what is said belongs to what is shown --------------------------------------------------------------------


def apply_share(page, share):
    """Choose a share of known samples to reject, and apply it."""
    open_threshold(page)
    page.locator("#threshold-share").fill(str(share))
    page.locator("#threshold").get_by_role("button", name="Apply").click()
    confirm(page, "Apply")
    page.locator("#threshold .done").wait_for()


def test_what_was_done_to_one_model_is_not_said_of_another(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    page.locator("tr.decision input").first.check()
    page.locator(".teaching").get_by_role("button", name="Teach").click()
    confirm(page, "Teach")
    page.locator("#teaching-job .done").wait_for()
    wait_for_decisions(page, 100)
    apply_share(page, 9)
    assert page.locator("#teaching-job .done").count() == 0, "another change has begun"
    wait_for_decisions(page, 100)
    page.locator("#threshold-slider").press("ArrowRight")
    assert page.locator("#threshold .done").count() == 0, "another threshold is tried"
    page.locator("#threshold").get_by_role("button", name="Reset").click()
    apply_share(page, 8)
    go_to(page, "Monitor")
    page.get_by_role("button", name="Start anew").click()
    confirm(page, "Start anew")
    page.locator("#monitoring .done").wait_for()
    page.locator("#model-select").select_option("rival")
    wait_until(lambda: page.title().startswith("rival"))
    assert page.locator(".slot > .done").count() == 0
    page.locator("#model-select").select_option("flowers")


def test_a_change_is_shown_though_the_page_notices_the_new_version_by_itself(visit, demo):
    page = visit(demo, hurry=True)
    decide_at_random(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url.partition("/v1/")[2]))
    release = hold(page, re.compile(r"/v1/models/digits$"))
    open_threshold(page)
    page.locator("#threshold-share").fill("12")
    page.locator("#threshold").get_by_role("button", name="Apply").click()
    confirm(page, "Apply")
    while "models/digits" not in asked:
        page.wait_for_timeout(100)
    looks = asked.count("models")
    while asked.count("models") < looks + 2:  # the page looks again and again, and sees another version
        page.wait_for_timeout(100)
    release()
    page.locator("#threshold .done").wait_for()
    wait_for_decisions(page, 200)
    wait_until(lambda: page.locator("#stale .note").count() == 0)
    _, info = demo.get("/v1/models/digits")
    rejected = int(page.locator("input[value=rejected] + span b").inner_text())
    effect = page.locator("table.effect tr", has_text="Your 200 samples rejected")
    assert int(effect.locator(".number").first.inner_text()) == rejected
    assert "0.11" in info["threshold_detail"] or "0.12" in info["threshold_detail"]


def test_counts_by_the_version_before_are_not_those_of_now(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = visit(flowers, hurry=True)
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    open_threshold(page)
    row = page.locator("table.effect tr", has_text="Your 100 samples rejected")
    assert row.count() == 1
    page.locator("tr.decision .open").first.click()
    page.locator(".why-rest h3").first.wait_for()
    assert flowers.post("/v1/models/flowers/set-threshold", {"target_rejection": 0.3})[0] == 200
    page.locator("#why-body").get_by_text("The model has changed since").wait_for()
    page.keyboard.press("Escape")
    page.locator("#stale .note").wait_for()
    assert row.count() == 0
    # The note is a live region: what is drawn anew around it must not insert it anew.
    page.evaluate("""() => { window.inserted = 0; new MutationObserver((all) => window.inserted += all.length)
        .observe(document.querySelector("#stale"), {childList: true, subtree: true}); }""")
    for text in ("r", "ro", "row 1"):
        page.locator("#filter-text").fill(text)
    assert page.evaluate("window.inserted") == 0
    page.locator("#stale").get_by_role("button", name="Decide again").click()
    wait_for_decisions(page, 100)
    wait_until(lambda: row.count() == 1)


def test_a_click_inside_a_question_is_no_answer_and_one_beside_it_is_no(visit, demo):
    page = visit(demo)
    open_threshold(page)
    page.locator("#threshold-share").fill("7")
    page.locator("#threshold").get_by_role("button", name="Apply").click()
    box = page.locator("#question").bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    page.mouse.click(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5)
    assert page.locator("#question").is_visible()
    page.mouse.click(box["x"] - 20, box["y"] + 5)
    assert not page.locator("#question").is_visible()


@pytest.mark.parametrize("text", ["60", "", "-3"])
def test_a_share_that_cannot_be_is_said_and_not_applied(visit, demo, text):
    page = visit(demo)
    open_threshold(page)
    share, limits = page.locator("#threshold-share"), page.locator("#threshold-limits")
    apply = page.locator("#threshold").get_by_role("button", name="Apply")
    share.fill("11")
    assert apply.is_enabled() and not limits.is_visible()
    share.fill(text)
    assert limits.inner_text() == f"Give a share from 0 to 50{PERCENT}." and apply.is_disabled()
    assert share.get_attribute("aria-invalid") == "true"
    share.press("Tab")
    assert share.input_value() == "11" and apply.is_enabled() and not limits.is_visible()


def test_scores_that_do_not_crowd_near_one_have_a_plain_scale(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = visit(flowers)
    page.locator("#model-select").select_option("rival")
    wait_until(lambda: page.title().startswith("rival"))
    upload(page, "new.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    assert "crowd" not in page.locator(".legend").inner_text()
    assert int(page.locator("input[value=near] + span b").inner_text()) < 50
    _, scores = flowers.get("/v1/models/rival/scores")
    assert scores["score_range"] == [0, 1] and np.quantile(scores["known"], 0.95) < 0.9


def test_a_pasted_table_and_one_without_names_have_a_column_of_classes(visit, demo):
    X, y = load_digits(return_X_y=True)
    page = visit(demo)
    page.expected.append("status of 422")
    choose(page, "Paste")
    page.locator("#paste").fill(write_csv(X[-20:], y[-20:].tolist()).decode().replace("label", "digit"))
    page.locator("#paste-decide").click()
    page.locator("#decide-job .error").wait_for()
    assert page.locator("#reading-label").is_visible()  # there it can be put right
    page.locator("#reading-label").select_option("digit")
    page.locator("#reading").get_by_role("button", name="Decide again").click()
    wait_for_decisions(page, 20)
    truth = page.locator("td.column-truth")
    assert truth.all_inner_texts() == [str(digit) for digit in y[-20:]]
    rows = "\n".join(" ".join(map(str, row)) for row in X[:3].astype(int))
    page.locator("#paste").fill(rows)
    page.locator("#paste-decide").click()
    wait_for_decisions(page, 3)
    table = np.column_stack([X[-5:], y[-5:]])
    upload(page, "plain.csv", "\n".join(",".join(map(repr, row)) for row in table.tolist()).encode())
    page.locator("#decide-job .error").wait_for()
    page.locator("#reading-label").fill("64")
    page.locator("#reading").get_by_role("button", name="Decide again").click()
    wait_for_decisions(page, 5)
    assert truth.all_inner_texts() == [f"{digit:.1f}" for digit in y[-5:]]
    assert page.locator("tr.decision canvas").count() == 5


def test_one_version_serves_and_a_copy_of_it_is_said_to_be_one(visit, flowers):
    _, before = flowers.get("/v1/models/flowers")
    for body in ({"target_rejection": 0.3}, None):
        action = "set-threshold" if body else "restore"
        assert flowers.post(f"/v1/models/flowers/{action}", body or {"version": before["version"]})[0] == 200
    page = visit(flowers, part="#model")
    page.locator(".history li").first.wait_for()
    assert page.locator(".history .tag", has_text="serves now").count() == 1
    assert page.locator(".history li").first.locator(".tag").inner_text() == "serves now"
    assert page.locator(".history .tag", has_text="the same as now").count() >= 1
    names = page.locator(".history button").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert all(re.match(r"Restore version [0-9a-f]{8}: \w", name) for name in names)


def test_the_parts_of_an_explanation_agree(visit, demo):
    page = visit(demo)
    decide_at_random(page)
    page.locator("input[value=near]").check(force=True)
    page.locator("tr.decision .open").first.click()
    page.locator(".training").wait_for()
    words = page.locator("#why-body").inner_text()
    rebuilt = int(re.search(r"reconstructed from (\d+) training samples", words)[1])
    shown = page.locator(".training li").count()
    assert shown == min(rebuilt, 12) == page.locator(".training img").count()
    if rebuilt > 12:
        assert f"The sample is rebuilt from {rebuilt}; these 12 have the largest weights." in words
    foot = page.locator("table.evidence tfoot")
    limit = float(re.search(r"rejected above (-?[\d.]+)", foot.inner_text())[1])
    total = float(foot.locator(".number").inner_text().replace("\u2212", "-"))
    assert (total > limit) == ("Rejected." in words)
    page.get_by_text("What each class explains").click()
    assert page.locator("details.fold[open] tbody tr").count() == 6
    page.evaluate("location.hash = '#model'")  # as the browser's own Back does
    wait_until(lambda: not page.locator("#why").is_visible())


def test_a_dropped_file_closes_the_explanation_and_is_decided(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    page = visit(flowers, part="#decide")
    upload(page, "first.csv", write_csv(unknown))
    wait_for_decisions(page, 25)
    page.locator("tr.decision .open").first.click()
    page.locator(".why-rest h3").first.wait_for()
    drop(page, "second.csv", write_csv(X))
    wait_for_decisions(page, 75)
    assert not page.locator("#why").is_visible()


def test_what_could_not_be_loaded_is_tried_again(visit, demo):
    page = visit(demo)
    page.expected += ["net::ERR_FAILED", "failed: "]
    page.route("**/v1/demo/samples*", lambda route: route.abort())
    page.reload()
    page.locator("#source-pick .error").wait_for()
    page.unroute("**/v1/demo/samples*")
    page.locator("#source-pick").get_by_role("button", name="Try again").click()
    page.locator(".pick").first.wait_for()
    decide_at_random(page)
    page.route("**/explain*", lambda route: route.abort())
    page.locator("tr.decision .open").first.click()
    page.locator("#why-body .error").wait_for()
    page.unroute("**/explain*")
    page.locator("#why-body").get_by_role("button", name="Try again").click()
    page.locator(".training").wait_for()


def test_a_file_that_could_not_be_read_is_not_offered_for_a_change(visit, flowers):
    page = visit(flowers)
    page.expected.append("status of 422")
    X, _, unknown = make_samples(seed=5)
    upload(page, "wrong.csv", write_csv(X[:, :2]))
    page.locator("#decide-job .error").wait_for()
    go_to(page, "Model")
    button = page.get_by_role("button", name="Recalibrate", exact=True)
    button.wait_for()
    assert button.is_disabled() and page.get_by_text("Decide on the fresh samples first.").is_visible()
    go_to(page, "Decide")
    upload(page, "right.csv", write_csv(np.vstack([X, unknown])))
    wait_for_decisions(page, 100)
    go_to(page, "Model")
    wait_until(button.is_enabled)
    go_to(page, "Groups")
    page.locator("#min-size").fill("1")
    page.get_by_role("button", name="Group the rejected").click()
    assert page.locator("#groups .error").inner_text().startswith("Smallest group: give a whole number of at least 2.")


def test_with_forced_colors_marks_and_choices_are_seen(visit, demo, browser):
    page = visit(demo)
    page.emulate_media(forced_colors="active")
    decide_at_random(page)
    style = "(element, name) => getComputedStyle(element)[name]"
    assert page.locator(".bar-mark").first.evaluate(style, "backgroundColor") != "rgba(0, 0, 0, 0)"
    chosen, other = page.locator("#source .segment span").all()[:2]
    assert chosen.evaluate(style, "outlineStyle") == "solid" and other.evaluate(style, "outlineStyle") == "none"


def test_two_groups_become_one_class(visit, flowers):
    X, _, unknown = make_samples(seed=5)
    moved = make_samples(seed=6)[2] * np.array([1, 1, 1, 1, 4, 1]) + np.array([0, 0, 0, 0, 30, 0])
    page = visit(flowers)
    upload(page, "new.csv", write_csv(np.vstack([X[:25], unknown, moved])))
    wait_for_decisions(page, 75)
    go_to(page, "Groups")
    page.get_by_role("button", name="Group the rejected").click()
    cards = page.locator(".group")
    cards.nth(1).wait_for()
    for place, words in ((0, "Add the class"), (1, "Teach")):
        rows = int(re.match(r"(\d+) samples", cards.nth(place).locator("p.quiet").first.inner_text())[1])
        before = flowers.get("/v1/models/flowers")[1]["class_sizes"].get("daisy", 0)
        cards.nth(place).get_by_label("Name").fill("daisy")
        cards.nth(place).get_by_role("button", name="Make it a class").click()
        confirm(page, words)
        cards.nth(place).locator("p.done").get_by_text("Now of the class daisy.").wait_for()
        assert flowers.get("/v1/models/flowers")[1]["class_sizes"]["daisy"] == before + rows


def test_selected_samples_are_offered_as_the_class_that_most_are_closest_to(visit, flowers):
    X, y, _ = make_samples(seed=5)
    page = visit(flowers)
    upload(page, "new.csv", write_csv(np.vstack([X[y == "a"][:1], X[y == "c"][:3]])))
    wait_for_decisions(page, 4)
    page.get_by_label("Select all").check()
    assert page.locator("#teach-class").input_value() == "c"


def test_an_explanation_fits_beside_a_scroll_bar(visit, demo):
    page = visit(demo, 360)
    decide_at_random(page)
    page.locator("tr.decision .open").first.click()
    page.locator("#why-body").wait_for()
    box = page.locator("#why").bounding_box()
    assert box["x"] >= 0 and box["width"] <= page.evaluate("document.documentElement.clientWidth")


def test_an_error_goes_when_another_file_is_chosen(visit, flowers):
    page = visit(flowers)
    page.expected.append("status of 422")
    upload(page, "empty.csv", b"\n")
    page.locator("#decide-job .error").wait_for()
    upload(page, "text.docx", b"x", "application/octet-stream")
    page.locator("#source-problem .error").get_by_text("text.docx is not a table").wait_for()
    assert page.locator("#decide-job .error").count() == 0
