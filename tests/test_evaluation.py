"""What an evaluation promises: the library's metrics, honest intervals, whole files or none, a page of its own."""

import csv
import importlib
import io
import json
import os
from html.parser import HTMLParser

import numpy as np
import pytest
from browser_runs import open_browser
from click.testing import CliRunner
from same import check_same
from scale import slow_except
from scipy.stats import binomtest
from worlds import World

import srosr
from srosr import KNNDistance, SROSRClassifier
from srosr._support.atomic_files import write_atomically
from srosr._support.unknown_label import format_label
from srosr.classifiers.base import Decisions
from srosr.cli.app import main
from srosr.evaluation import metric_table
from srosr.evaluation.evaluation import TARGETS, EvaluationCollector, UnexpectedLabel, evaluate
from srosr.evaluation.metric_table import MEASURES, bootstrap, compute_values, wilson
from srosr.reports.evaluation_figures import MOST_CLASSES, PANELS, choose_classes, draw_evaluation
from srosr.reports.evaluation_page import render_evaluation
from srosr.reports.evaluation_text import describe_results, find_remarks, format_score

NASTY = "<script>alert('&')</script>"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Worked by hand: cats and dogs are known, fox and elk are not; what scores above 0.5 is rejected.
#        truth   candidate  score
HAND = [
    ("cat", "cat", 0.1),  # right
    ("cat", "cat", 0.2),  # right
    ("cat", "dog", 0.3),  # mistaken
    ("dog", "dog", 0.4),  # right
    ("dog", "dog", 0.7),  # rejected
    ("fox", "cat", 0.35),  # accepted
    ("fox", "dog", 0.8),  # rejected
    ("elk", "dog", 0.9),  # rejected
]


RESAMPLES = metric_table._RESAMPLES


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Draw few resamples for intervals, which take nearly all of the time: only their width depends on the number."""
    monkeypatch.setattr(metric_table, "_RESAMPLES", 25)
    monkeypatch.setattr(metric_table, "_FEWEST", 25)


def decided(candidate, score, threshold=0.5, unknown="?"):
    candidate, score = np.asarray(candidate), np.asarray(score, dtype=float)
    rejected = ~(score <= threshold)
    labels = candidate.astype(object)
    labels[rejected] = unknown
    return Decisions(labels, candidate, score, rejected)


def by_hand(**changes):
    truth, candidate, score = zip(*HAND, strict=True)
    return evaluate(decided(candidate, score), truth, ["cat", "dog"], thresholds=np.full(2, 0.5), **changes)


def random_case(seed, n=400, n_classes=4, n_strange=3, ties=False):
    """Return labels, candidates and scores of samples, some of them unknown."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes + n_strange, n)
    guess = rng.integers(0, n_classes, n)
    candidate = np.where((truth < n_classes) & (rng.random(n) < 0.8), truth, guess)
    score = np.clip(rng.normal(0.4 + 0.25 * (truth >= n_classes), 0.15), 0, 1)
    return truth, candidate, score.round(1) if ties else score


def evaluated(seed=0, threshold=0.55, **changes):
    truth, candidate, score = random_case(seed, **changes)
    k = changes.get("n_classes", 4)
    return evaluate(decided(candidate, score, threshold), truth, range(k), thresholds=np.full(k, threshold))


class Page(HTMLParser):
    """The tags, attributes and text of a page; every tag that is opened is closed."""

    VOID = ("meta", "link", "br", "img")

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(found, **changes):
    given = {"title": "A title", "facts": [("model", "m.srosr")]} | changes
    return Page(render_evaluation(found, **given).decode("utf-8"))


# --- metrics ---


def test_the_hand_worked_example_has_the_hand_worked_metrics():
    value = {name: measure.value for name, measure in by_hand().measures.items()}
    assert value["accuracy"] == 5 / 8
    assert value["recognition_accuracy"] == 3 / 5
    assert value["rejection_accuracy"] == 2 / 3
    assert value["known_rejected"] == 1 / 5
    assert value["closed_set_accuracy"] == 4 / 5
    assert value["f"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 2))
    assert value["f_micro"] == pytest.approx(2 * 3 / (5 + 5))
    # cat: precision 2/3, recall 2/3; dog: 1/2 and 1/2.
    assert value["f_macro"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert value["normalized_accuracy"] == pytest.approx((3 / 5 + 2 / 3) / 2)
    assert value["harmonic_normalized_accuracy"] == pytest.approx(2 / (5 / 3 + 3 / 2))
    assert value["youden_j"] == pytest.approx(2 / 3 - 1 / 5)
    # Known below 0.35: three; all five below 0.8 and 0.9.
    assert value["auroc"] == pytest.approx((3 + 5 + 5) / 15)
    assert value["oscr"] == pytest.approx((2 + 4 + 4) / 15)
    assert value["fpr95"] == pytest.approx(1 / 3)
    assert value["ccr_at_fpr_1"] == value["ccr_at_fpr_10"] == 2 / 5
    assert value["openness"] == pytest.approx(1 - np.sqrt(4 / (2 + 4)))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_metric_is_that_of_the_library(seed, ties):
    truth, candidate, score = random_case(seed, ties=ties)
    found = evaluate(decided(candidate, score), truth, range(4)).measures
    true, pred = np.where(truth < 4, truth, -1), np.where(score <= 0.5, candidate, -1)
    expected = {
        "accuracy": srosr.open_set_accuracy(true, pred, unknown_label=-1),
        "recognition_accuracy": srosr.recognition_accuracy(true, pred, unknown_label=-1),
        "rejection_accuracy": srosr.rejection_accuracy(true, pred, unknown_label=-1),
        "f": srosr.open_set_f_measure(true, pred, unknown_label=-1),
        "f_macro": srosr.open_set_f_measure(true, pred, unknown_label=-1, variant="macro"),
        "auroc": srosr.open_set_auroc(true, score, unknown_label=-1),
        "oscr": srosr.oscr_area(true, candidate, score, unknown_label=-1),
        "openness": srosr.openness(4, 4, 7),
    }
    check_same({name: found[name].value for name in expected}, expected)
    assert set(found) == set(MEASURES)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_resampled_is_what_the_library_measures_on_repeated_samples(seed, ties):
    truth, candidate, score = random_case(seed, n=150, ties=ties)
    order = np.argsort(score, kind="stable")
    truth, candidate, score = truth[order], candidate[order], score[order]
    true, pred = np.where(truth < 4, truth, -1), np.where(score <= 0.5, candidate, -1)
    times = np.random.default_rng(seed).integers(0, 4, len(truth))
    found = compute_values(true, pred, candidate, score, times)
    rows = np.repeat(np.arange(len(truth)), times)
    repeated = evaluate(decided(candidate[rows], score[rows]), truth[rows], range(4)).measures
    assert set(found) == {name for name, measure in repeated.items() if measure.way != "Wilson"} - {"openness"}
    for name, value in found.items():
        assert value == pytest.approx(repeated[name].value, abs=1e-12), name


def test_shares_have_wilsons_interval():
    for successes, n in ((0, 5), (3, 7), (5, 5), (480, 1000)):
        expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
        assert wilson(successes, n) == pytest.approx((expected.low, expected.high), abs=1e-12)
    share = evaluated().measures["rejection_accuracy"]
    assert share.way == "Wilson" and share.interval.low < share.value < share.interval.high


def test_bootstrap_intervals_are_as_wide_as_values_of_other_samples_scatter(monkeypatch):
    monkeypatch.setattr(metric_table, "_RESAMPLES", RESAMPLES)
    others = []
    for seed in range(1, 101):
        truth, _, score = random_case(seed, n=300)
        others.append(srosr.open_set_auroc(np.where(truth < 4, truth, -1), score, unknown_label=-1))
    interval = evaluated(0, n=300).measures["auroc"].interval
    assert (interval.high - interval.low) / (4 * np.std(others)) == pytest.approx(1.0, abs=0.3)


def test_intervals_come_from_the_seed():
    truth, candidate, score = random_case(0)
    given = (np.where(truth < 4, truth, -1), np.where(score <= 0.5, candidate, -1), candidate, score)

    def intervals(seed):
        return bootstrap(lambda weight: compute_values(*given, weight), given[0] < 0, seed)

    assert intervals(3) == intervals(3) != intervals(4)


def test_few_samples_and_samples_that_all_agree_have_no_bootstrap_interval():
    assert by_hand().measures["auroc"].interval is None
    truth = np.repeat([0, 1, 2], 20)
    perfect = evaluate(decided(np.minimum(truth, 1), np.where(truth < 2, 0.1, 0.9)), truth, [0, 1]).measures
    assert perfect["auroc"].value == 1.0 and perfect["auroc"].interval is None
    assert perfect["accuracy"].interval.low < 1.0


def test_without_unknown_samples_what_needs_them_has_no_value_but_a_reason():
    truth, candidate, score = random_case(1, n_strange=0)
    found = evaluate(decided(candidate, score), truth, range(4)).measures
    without = {name for name, measure in found.items() if measure.value is None}
    assert without == {name for name, kind in MEASURES.items() if kind.needs in ("unknown", "both")}
    assert all(found[name].remark == "there are no unknown samples" for name in without)
    assert found["f"].value is not None and found["openness"].value == 0.0


def test_without_known_samples_rejection_is_all_there_is():
    found = evaluate(decided([0, 1, 0], [0.1, 0.9, 0.9]), ["x", "y", "x"], [0, 1]).measures
    assert {name for name, measure in found.items() if measure.value is not None} == {
        "accuracy",
        "rejection_accuracy",
        "openness",
    }
    assert found["rejection_accuracy"].value == 2 / 3
    assert found["auroc"].remark == "there are no known samples"


# --- labels ---


def test_labels_are_compared_with_classes_as_text():
    truth = np.array(["3", "7", "8"], dtype=object)
    for classes in ([3, 7], [3.0, 7.0], ["3", "7"]):
        candidate = np.array(classes)[[0, 1, 0]]
        found = evaluate(decided(candidate, [0.1, 0.1, 0.9]), truth, classes)
        assert (found.names, found.unknown_labels) == (("3", "7"), ("8",))
        assert found.measures["accuracy"].value == 1.0
    assert format_label(np.float64(2.5)) == "2.5" and format_label(np.True_) == "True"


def test_an_unexpected_label_raises_an_error_with_its_name_and_row_if_unknown_labels_are_given():
    truth, candidate, score = zip(*HAND, strict=True)
    given = decided(candidate, score)
    assert evaluate(given, truth, ["cat", "dog"], unknown=["fox", "elk"]).n_unknown == 3
    with pytest.raises(UnexpectedLabel, match=r"row 7 has the label 'elk'.*--unknown"):
        evaluate(given, truth, ["cat", "dog"], unknown=["fox"])
    with pytest.raises(UnexpectedLabel, match="'dog' is a class of the model"):
        EvaluationCollector(np.array(["cat", "dog"]), ["dog"])


def test_batches_give_what_the_whole_gives():
    truth, candidate, score = random_case(2)
    whole = evaluate(decided(candidate, score), truth, range(4))
    collector = EvaluationCollector(np.arange(4))
    for rows in np.array_split(np.arange(len(truth)), 7):
        collector.add(truth[rows].astype(str), decided(candidate[rows], score[rows]), rows)
    check_same(collector.evaluate().as_dict()["metrics"], whole.as_dict()["metrics"])
    assert collector.evaluate().worst == whole.worst


def test_labels_that_do_not_match_the_samples_raise_an_error():
    with pytest.raises(ValueError, match="3 labels for 2 decisions"):
        evaluate(decided([0, 1], [0.1, 0.2]), [0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match="no samples"):
        EvaluationCollector(np.arange(2)).evaluate()


def test_a_sample_without_a_score_counts_as_the_most_unusual():
    found = evaluate(decided([0, 1, 0], [0.1, 0.2, np.nan]), [0, 1, 5], [0, 1])
    assert found.measures["auroc"].value == 1.0 and found.rejected.tolist() == [False, False, True]
    assert json.dumps(found.as_dict(), allow_nan=False)


# --- class by class, thresholds, mistakes ---


def test_a_line_a_label_says_what_became_of_its_samples():
    cat, dog, fox, elk = by_hand().class_counts
    assert (cat.samples, cat.right, cat.rejected, cat.wrong, cat.mistaken_for) == (3, 2, 0, 1, "dog")
    assert (dog.samples, dog.right, dog.rejected, dog.wrong, dog.mistaken_for) == (2, 1, 1, 0, None)
    assert (fox.samples, fox.right, fox.rejected, fox.wrong, fox.mistaken_for) == (2, 1, 1, 1, "cat")
    assert (elk.samples, elk.right, elk.wrong, elk.known) == (1, 1, 0, False)


def test_lines_and_confusion_count_every_sample_once():
    found = evaluated(3)
    assert sum(line.samples for line in found.class_counts) == sum(found.confusion.values()) == len(found.truth)
    assert all(line.right + line.rejected + line.wrong == line.samples for line in found.class_counts if line.known)
    labels, matrix = srosr.open_set_confusion(found.true, found.answered, unknown_label=-1, classes=range(4))
    for (label, answer), n in found.confusion.items():
        if label < 4:
            assert matrix[label, answer] == n
    assert len(labels) == 5


def test_traded_thresholds_keep_to_their_share_and_are_the_lowest_that_do():
    found = evaluated(5)
    known, unknown = found.score[~found.unknown], found.score[found.unknown]
    for trade in found.threshold_effects:
        assert trade.target in TARGETS
        assert trade.known_rejected == np.mean(known > trade.threshold) <= trade.target
        assert trade.unknown_rejected == np.mean(unknown > trade.threshold)
        assert np.mean(known >= trade.threshold) > trade.target  # one score lower rejects too many
    assert found.now.known_rejected == np.mean(known > 0.55)


def test_the_worst_mistakes_are_named_by_row_the_worst_first():
    found = by_hand()
    assert [(one.row, one.label, one.candidate) for one in found.worst["accepted"]] == [(5, "fox", "cat")]
    assert [(one.row, one.label) for one in found.worst["rejected"]] == [(4, "dog")]
    assert [(one.row, one.label, one.candidate) for one in found.worst["mistaken"]] == [(2, "cat", "dog")]
    many = evaluated(6)
    scores = [one.unknown_score for one in many.worst["accepted"]]
    accepted = np.sort(many.score[many.unknown & ~many.rejected])
    assert scores == accepted[:10].tolist()


def test_remarks_warn_of_what_is_easily_overlooked():
    found = evaluate(decided(["Cat", "dog"], [0.1, 0.2]), ["cat", "dog"], ["Cat", "dog", "elk"])
    said = " ".join(find_remarks(found, None, "x.csv"))
    assert "'cat' counts as unknown, because the class of the model is called 'Cat'" in said
    assert "2 classes of the model have no sample in x.csv: Cat, elk" in said
    nothing = evaluate(decided(["a"], [0.1]), ["z"], ["a", "b"])
    assert "No label of x.csv is a class of the model" in find_remarks(nothing, None, "x.csv")[0]
    assert "No sample has the label 'q', given with --unknown." in find_remarks(nothing, ["z", "q"], "x.csv")


def test_sentences_and_scores_say_no_more_than_is_so():
    assert describe_results(by_hand()) == [
        "Of 5 known samples, 60.0 % were recognized, 20.0 % rejected and 20.0 % mistaken for another class, most often "
        "cat for dog (1).",
        "Of 3 unknown samples, 66.7 % were rejected; most often accepted was fox, as cat (1).",
        "Without any threshold, an unknown sample has a higher score than a known one in 86.7 % of all pairs (AUROC); "
        "in 66.7 % the known sample also has the right candidate class (OSCR).",
    ]
    shown = {0.99996: "0.9999600", 0.957: "0.9570", 1.0: "1.00", -2.5: "−2.50", np.inf: "∞", None: "–"}
    assert {value: format_score(value) for value in shown} == shown


# --- JSON ---


@pytest.mark.parametrize("case", ["both", "known", "unknown"])
def test_json_has_no_value_that_json_does_not_know(case):
    if case == "both":
        found = evaluated()
    else:
        found = evaluate(decided([0, 1], [0.1, np.inf]), [0, 1] if case == "known" else [7, 8], [0, 1])
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert read["samples"]["all"] == read["samples"]["known"] + read["samples"]["unknown"]
    assert set(read["metrics"]) == set(MEASURES)


# --- figure ---


@pytest.mark.parametrize(
    ("kind", "begins"),
    slow_except([("png", PNG_SIGNATURE)], [("png", PNG_SIGNATURE), ("pdf", b"%PDF"), ("svg", b"<?xml")]),
)
def test_the_figure_has_the_format_asked_for_and_is_the_same_each_time(kind, begins):
    found = by_hand()
    drawn = draw_evaluation(found, file_format=kind)
    assert drawn.startswith(begins)
    assert drawn == draw_evaluation(found, file_format=kind)


@pytest.mark.parametrize("spread", slow_except(["infinite"], ["near one", "unbounded", "one value", "infinite"]))
def test_scores_on_any_scale_are_drawn(spread):
    truth, candidate, score = random_case(0, n=60)
    score, threshold, scale = {
        "near one": (1 - 10 ** (-8 * score), 0.98, (0.0, 1.0)),
        "unbounded": (np.exp(9 * score), 80.0, (0.0, np.inf)),
        "one value": (np.full(60, 2.0), 2.0, (-np.inf, np.inf)),
        "infinite": (np.full(60, np.inf), 2.0, (-np.inf, np.inf)),
    }[spread]
    found = evaluate(
        decided(candidate, score, threshold), truth, range(4), thresholds=np.full(4, threshold), score_range=scale
    )
    assert draw_evaluation(found).startswith(PNG_SIGNATURE)


def test_of_many_classes_the_most_confused_are_in_the_matrix():
    k = MOST_CLASSES + 10
    truth = np.repeat(np.arange(k), 3)
    candidate = truth.copy()
    candidate[truth == 33] = 2
    found = evaluate(decided(candidate, np.full(len(truth), 0.1)), truth, range(k))
    shown = choose_classes(found).tolist()
    assert len(shown) == MOST_CLASSES and {2, 33} <= set(shown)
    assert "the 30 with the most mistakes are shown" in page_of(found).text


# --- page ---


def test_the_page_stands_alone_and_has_every_figure():
    page = page_of(evaluated(7))
    outside = [
        value
        for _, attributes in page.tags
        for key, value in attributes.items()
        if key in ("src", "href", "xlink:href", "srcset", "data") and not value.startswith(("#", "data:"))
    ]
    assert outside == [] and not page.all("script") and not page.all("iframe")
    assert [figure["id"] for figure in page.all("figure")] == list(PANELS)
    assert len(page.all("svg")) == len(PANELS)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_shows_the_numbers_of_the_evaluation():
    found = by_hand()
    text = page_of(found).text
    assert all(kind.label in text for kind in MEASURES.values())
    assert "62.5 %" in text and "0.867" in text
    for sentence in describe_results(found):
        assert sentence in text


@pytest.mark.parametrize("only_unknown", [True, False])
def test_the_page_of_one_kind_of_samples_says_what_is_missing(only_unknown):
    found = evaluate(decided([0, 1], [0.1, 0.9]), [7, 8] if only_unknown else [0, 1], [0, 1])
    page = page_of(found)
    assert [figure["id"] for figure in page.all("figure")] == ["scores", "confusion"]
    assert f"there are no {'known' if only_unknown else 'unknown'} samples" in page.text


def test_names_are_shown_and_never_run():
    found = evaluate(decided([NASTY, "$b"], [0.1, 0.2]), ["$b", f"{NASTY}{{{{ 7 * 7 }}}}"], [NASTY, "$b"])
    page = page_of(found, title=NASTY, facts=[(NASTY, NASTY)], notes=[NASTY])
    assert not page.all("script") and NASTY in page.text and "{{ 7 * 7 }}" in page.text


@pytest.mark.slow
def test_the_page_fits_a_telephone_and_a_laptop(tmp_path):
    long = "a-class-with-a-name-that-is-much-longer-than-any-other-name-here"
    truth, candidate, score = random_case(0)
    classes = np.array(["a", "b", "c", long])
    truth = np.append(classes, [long.upper(), "x", "y"])[truth]
    found = evaluate(decided(classes[candidate], score), truth, classes, thresholds=np.array([0.4, 0.5, 0.5, 0.5]))
    page = tmp_path / "report.html"
    page.write_bytes(render_evaluation(found, title=long * 3, facts=[("data", long * 5)], notes=[long * 4]))
    with open_browser() as browser:
        for width in (360, 1280):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            asked = []
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(page.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


# --- the command ---


def write_table(path, X, y, label="kind"):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{i}" for i in range(X.shape[1])), label])
        writer.writerows([*row, name] for row, name in zip(X.tolist(), y, strict=True))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return models with numbered classes and with text classes, and tables of known and unknown samples."""
    folder = tmp_path_factory.mktemp("evaluate")
    world = World(0, n_known=3, n_unknown=2)
    X, y = world.known(25)
    KNNDistance().fit(X, y).save(folder / "numbers.srosr")
    X_test, y_test = world.known(15)
    strange = world.of(np.repeat([3, 4], 12))
    X_all, y_all = np.concatenate([X_test, strange]), [*map(str, y_test), *["weed"] * 12, *["soil"] * 12]
    write_table(folder / "test.csv", X_all, y_all)
    write_table(folder / "known.csv", X_test, y_test)
    write_table(folder / "strange.csv", strange, ["weed"] * 24)
    folder.joinpath("arrays.npz").write_bytes(_npz(X=X_all, y=np.array(y_all)))
    SROSRClassifier(n_repeats=5, random_state=0).fit(X, np.array(["a", "b", "c"])[y]).save(folder / "text.srosr")
    write_table(folder / "letters.csv", X_test, np.array(["a", "b", "c"])[y_test])
    return folder


def _npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def run(*arguments):
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def fails(answer, *words):
    """Check that a command ends with status 2, one sentence and no traceback."""
    assert answer.exit_code == 2, answer.output
    text = answer.stderr.strip().splitlines()
    assert len(text) == 1 and text[0].startswith("Error: "), answer.stderr
    assert all(word in text[0] for word in words), text[0]


def test_the_command_prints_what_the_library_measures(made):
    from srosr import load

    answer = run(made / "numbers.srosr", made / "test.csv", "--label", "kind", "--json")
    assert answer.exit_code == 0, answer.output
    read = json.loads(answer.stdout)
    clf = load(made / "numbers.srosr")
    with open(made / "test.csv", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    X = np.array([row[:-1] for row in rows], dtype=float)
    true = np.array([int(row[-1]) if row[-1].isdigit() else -1 for row in rows])
    accuracy = srosr.open_set_accuracy(true, clf.predict(X), unknown_label=-1)
    auroc = srosr.open_set_auroc(true, clf.unknown_score(X), unknown_label=-1)
    assert read["metrics"]["accuracy"]["value"] == pytest.approx(accuracy)
    assert read["metrics"]["auroc"]["value"] == pytest.approx(auroc)
    assert read["samples"] == {"all": 69, "known": 45, "unknown": 24}
    assert read["unknown_labels"] == ["weed", "soil"]


def test_arrays_are_as_good_as_a_table(made):
    table = run(made / "numbers.srosr", made / "test.csv", "--label", "kind", "--json")
    arrays = run(made / "numbers.srosr", made / "arrays.npz", "--json")
    check_same(json.loads(arrays.stdout)["metrics"], json.loads(table.stdout)["metrics"])


def test_the_screen_shows_metrics_with_meaning_and_a_line_a_class(made):
    answer = run(made / "numbers.srosr", made / "test.csv", "--label", "kind")
    assert answer.exit_code == 0
    for kind in MEASURES.values():
        assert kind.label in answer.stdout and kind.meaning in answer.stdout
    assert "unknown    24 samples: weed, soil" in answer.stdout
    assert "\x1b" not in answer.output


def test_a_model_on_sparse_codes_and_text_classes_is_evaluated_without_unknown_samples(made):
    answer = run(made / "text.srosr", made / "letters.csv")
    assert answer.exit_code == 0, answer.output
    assert "Every label of" in answer.stderr and "there are no unknown samples" in answer.stdout


def test_labels_marked_as_unknown_are_accepted_and_any_other_raises_an_error(made, tmp_path):
    given = (made / "numbers.srosr", made / "test.csv", "--label", "kind")
    fails(run(*given, "--unknown", "weed", "--out", tmp_path / "new"), "test.csv", "row 57", "'soil'", "--unknown")
    assert not (tmp_path / "new").exists()
    answer = run(*given, "--unknown", "weed", "--unknown", "soil", "--unknown", "rock")
    assert answer.exit_code == 0 and "'rock'" in answer.stderr
    fails(run(*given, "--unknown", "2"), "'2' is a class of the model")


def test_a_folder_gets_report_figure_and_numbers(made, tmp_path):
    out = tmp_path / "a" / "b"
    answer = run(made / "numbers.srosr", made / "test.csv", "--label", "kind", "--out", out)
    assert answer.exit_code == 0, answer.output
    assert sorted(os.listdir(out)) == ["evaluation.json", "figure.png", "report.html"]
    assert (out / "figure.png").read_bytes().startswith(PNG_SIGNATURE)
    read = json.loads((out / "evaluation.json").read_text("utf-8"))
    page = Page((out / "report.html").read_text("utf-8"))
    assert "How well numbers.srosr does on test.csv" in page.text
    assert f"{100 * read['metrics']['accuracy']['value']:.1f} %" in page.text
    assert f"Report: {out / 'report.html'}" in answer.stdout


def test_the_figure_alone_can_be_had(made, tmp_path):
    figure = tmp_path / "scores.pdf"
    assert run(made / "numbers.srosr", made / "known.csv", "--label", "kind", "--figure", figure, "-q").output == ""
    assert figure.read_bytes().startswith(b"%PDF") and os.listdir(tmp_path) == ["scores.pdf"]


def test_nothing_is_left_when_a_file_cannot_be_written(made, tmp_path, monkeypatch):
    def full(path, data):
        if path.name == "report.html":
            raise OSError(28, "No space left on device")
        write_atomically(path, data)

    monkeypatch.setattr(importlib.import_module("srosr.cli.evaluate"), "write_atomically", full)
    monkeypatch.setattr("srosr.reports.evaluation_figures.draw_evaluation", lambda *_, **__: b"a picture")
    monkeypatch.setattr("srosr.reports.evaluation_page.render_evaluation", lambda *_, **__: b"a page")
    out = tmp_path / "new"
    answer = run(made / "numbers.srosr", made / "test.csv", "--label", "kind", "--out", out)
    fails(answer, "report.html", "No space left on device")
    assert os.listdir(tmp_path) == []


def test_bad_input_is_reported_in_one_sentence(made, tmp_path):
    model, test = made / "numbers.srosr", made / "test.csv"
    fails(run(tmp_path / "none.srosr", test), "none.srosr does not exist")
    fails(run(test, test), "test.csv")
    fails(run(model, tmp_path / "none.csv"), "none.csv")
    fails(run(model, test, "--label", "species"), "species")
    fails(run(model, test, "--label", "kind", "--figure", tmp_path / "a.txt"), "--figure", ".png")
    fails(run(model, test, "--label", "kind", "--out", test), "is a file", "--out")
    (tmp_path / "narrow.csv").write_text("x0,kind\n1,2\n")
    fails(run(model, tmp_path / "narrow.csv", "--label", "kind"), "narrow.csv")
    (tmp_path / "empty.csv").write_text("")
    fails(run(model, tmp_path / "empty.csv", "--out", tmp_path / "out"), "empty.csv")
    assert sorted(os.listdir(tmp_path)) == ["empty.csv", "narrow.csv"]


def test_help_teaches_by_example():
    answer = run("--help")
    assert answer.exit_code == 0
    for word in ("Examples:", "--unknown weed --unknown soil", "--out", "--figure", "--json"):
        assert word in answer.output
