"""Displays of metrics show the numbers of the metrics, in the given axes, with distinguishable curves."""

import sys
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from srosr._support.plotting import KNOWN_COLOR, UNKNOWN_COLOR
from srosr.classifiers.srosr_classifier import SROSRClassifier
from srosr.inspection.metric_displays import OpenSetConfusionDisplay, OSCRDisplay
from srosr.metrics.confusion import open_set_confusion
from srosr.metrics.oscr import oscr_area, oscr_curve
from srosr.metrics.unknown_classes import mark_unknown

X, Y = load_digits(return_X_y=True)
TRAIN = (np.arange(len(Y)) < 400) & (Y < 5)
NEW = np.arange(len(Y)) >= 1500

# By score: right, unknown, wrong, right.
ROWS = (["a", "?", "b", "b"], ["a", "a", "a", "b"], [0.1, 0.3, 0.4, 0.8])
TRUE = ["a", "a", "b", "b", "?", "?", "?", "?"]
PRED = ["a", "a", "b", "?", "a", "?", "?", "?"]


@pytest.fixture(autouse=True)
def no_windows():
    matplotlib.use("Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module")
def clf():
    return SROSRClassifier(n_repeats=4, random_state=0).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture
def ax():
    return Figure(figsize=(6, 6)).add_subplot()


def cells(display):
    """Return the colors of the cells as drawn."""
    (image,) = display.ax_.images
    return np.asarray(image.get_array())


# --- the numbers ---


def test_the_curve_is_that_of_the_metric():
    display = OSCRDisplay.from_predictions(*ROWS, unknown_label="?", name="mine")
    fpr, ccr, _ = oscr_curve(*ROWS, unknown_label="?")
    assert np.array_equal(display.fpr, fpr) and np.array_equal(display.ccr, ccr)
    # 1/3 of the known samples come before the only unknown one.
    assert display.area == oscr_area(*ROWS, unknown_label="?") == pytest.approx(1 / 3)


def test_of_an_estimator_the_curve_is_that_of_its_candidates_and_scores(clf):
    display = OSCRDisplay.from_estimator(clf, X[NEW], Y[NEW])
    marked = mark_unknown(Y[NEW], clf.classes_, unknown_label=-1)
    area = oscr_area(marked, clf.candidate(X[NEW]), clf.unknown_score(X[NEW]), unknown_label=-1)
    assert display.area == pytest.approx(area) and area > 0.8
    assert display.name == "SROSRClassifier"


def test_the_confusion_is_that_of_the_metric(clf):
    display = OpenSetConfusionDisplay.from_predictions(TRUE, PRED, unknown_label="?")
    assert display.labels.tolist() == ["a", "b", "?"]
    assert display.matrix.tolist() == [[2, 0, 0], [0, 1, 1], [1, 0, 3]]
    display = OpenSetConfusionDisplay.from_estimator(clf, X[NEW], Y[NEW])
    marked = mark_unknown(Y[NEW], clf.classes_, unknown_label=-1)
    labels, matrix = open_set_confusion(marked, clf.predict(X[NEW]), unknown_label=-1)
    assert np.array_equal(display.labels, labels) and np.array_equal(display.matrix, matrix)


def test_a_pipeline_is_treated_like_its_last_step(clf):
    pipe = make_pipeline(FunctionTransformer(lambda A: A / 2), clf)
    curve = OSCRDisplay.from_estimator(pipe, 2 * X[NEW], Y[NEW])
    assert np.array_equal(curve.ccr, OSCRDisplay.from_estimator(clf, X[NEW], Y[NEW]).ccr)
    confusion = OpenSetConfusionDisplay.from_estimator(pipe, 2 * X[NEW], Y[NEW])
    assert np.array_equal(confusion.matrix, OpenSetConfusionDisplay.from_estimator(clf, X[NEW], Y[NEW]).matrix)


def test_unknown_classes_have_rows_of_their_own(clf):
    few = NEW & (Y < 3)
    assert OpenSetConfusionDisplay.from_estimator(clf, X[few], Y[few]).matrix.shape == (6, 6)


# --- the drawing ---


def make_oscr():
    return OSCRDisplay.from_predictions(*ROWS, unknown_label="?", name="mine")


def make_confusion():
    return OpenSetConfusionDisplay.from_predictions(TRUE, PRED, unknown_label="?")


@pytest.mark.parametrize("make", [make_oscr, make_confusion])
def test_displays_draw_into_the_axes_they_are_given_and_return_themselves(make, ax):
    display = make()
    assert display.plot(ax) is display
    assert display.ax_ is ax and display.figure_ is ax.figure and ax.has_data()
    ax.figure.canvas.draw()


@pytest.mark.parametrize("make", [make_oscr, make_confusion])
def test_without_axes_a_figure_of_pyplot_is_made(make):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    display = make().plot()
    assert [plt.figure(n) for n in plt.get_fignums() if n not in before] == [display.figure_]


@pytest.fixture
def no_pyplot(monkeypatch):
    """Make an import of pyplot an error."""
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)


@pytest.mark.parametrize("make", [make_oscr, make_confusion])
def test_given_axes_load_no_pyplot(make, no_pyplot, ax):
    assert make().plot(ax).ax_ is ax


def test_the_legend_has_the_area_and_the_name(ax):
    display = make_oscr().plot(ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mine: area 0.333"]
    assert np.array_equal(display.line_.get_xdata(), display.fpr)
    assert np.array_equal(display.line_.get_ydata(), display.ccr)
    OSCRDisplay(display.fpr, display.ccr).plot(ax)
    assert ax.get_legend().get_texts()[1].get_text() == "area 0.333"


def test_curves_in_one_figure_differ_in_color_and_dashes(ax):
    drawn = [make_oscr().plot(ax).line_ for _ in range(6)]
    assert len({to_hex(line.get_color()) for line in drawn}) == 6
    assert [line.is_dashed() for line in drawn] == [False] + [True] * 5
    assert len(ax.get_legend().get_texts()) == 6
    assert make_oscr().plot(make_oscr().plot(ax).ax_).ax_ is ax


def test_a_line_can_be_drawn_as_one_likes_by_either_of_matplotlibs_names(ax):
    line = make_oscr().plot(ax, c="black", ls=":", label="other").line_
    assert to_hex(line.get_color()) == "#000000" and line.get_linestyle() == ":"
    assert ax.get_legend().get_texts()[0].get_text() == "other"


def test_the_dot_at_the_end_is_the_closed_set_accuracy(ax):
    make_oscr().plot(ax)
    (dot,) = (line for line in ax.lines if line.get_marker() == "o")
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (1.0, pytest.approx(2 / 3))


def test_right_and_wrong_cells_differ_in_color_and_shares_of_the_row_in_depth(ax):
    found = cells(make_confusion().plot(ax))
    assert to_hex(found[0, 0]) == KNOWN_COLOR  # all of the row
    assert to_hex(found[0, 1]) == to_hex(found[1, 0]) == "#ffffff"
    lightness = found.sum(axis=2)
    # Rows hold shares of 1; 1/2 and 1/2; 1/4 and 3/4.
    assert lightness[0, 0] < lightness[2, 2] < lightness[1, 1]
    assert lightness[1, 2] < lightness[2, 0] < lightness[0, 1]
    assert found[2, 0].argmax() == 0 and found[2, 2].argmin() == 0  # reddish, not reddish
    wrong = OpenSetConfusionDisplay(["a", "?"], [[0, 3], [0, 0]]).plot(Figure().add_subplot())
    assert to_hex(cells(wrong)[0, 1]) == UNKNOWN_COLOR


def test_one_sample_among_thousands_is_still_to_be_seen(ax):
    found = cells(OpenSetConfusionDisplay(["a", "?"], [[5000, 1], [0, 5000]]).plot(ax))
    assert found[0, 1].min() < 0.92


def test_cells_hold_their_counts_where_there_is_room(ax):
    make_confusion().plot(ax)
    assert sorted(text.get_text() for text in ax.texts) == ["1", "1", "1", "2", "3"]
    many = OpenSetConfusionDisplay(np.arange(41), np.eye(41, dtype=int))
    assert not many.plot(Figure().add_subplot()).ax_.texts
    assert len(many.plot(Figure().add_subplot(), counts=True).ax_.texts) == 41
    assert not make_confusion().plot(Figure().add_subplot(), counts=False).ax_.texts


def test_ticks_name_the_classes_and_call_a_number_unknown(ax):
    OpenSetConfusionDisplay.from_predictions([7, 3, -1], [7, -1, -1], unknown_label=-1).plot(ax)
    for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
        assert [tick.get_text() for tick in ticks] == ["3", "7", "unknown"]


def test_names_of_forty_classes_do_not_run_into_each_other():
    names = np.array([f"person {k:02d}" for k in range(40)] + ["unknown"])
    display = OpenSetConfusionDisplay(names, np.eye(41, dtype=int)).plot()
    display.figure_.canvas.draw()
    for ticks, low, high in (
        (display.ax_.get_xticklabels(), "x0", "x1"),
        (display.ax_.get_yticklabels()[::-1], "y0", "y1"),
    ):
        boxes = [tick.get_window_extent() for tick in ticks]
        assert all(getattr(a, high) <= getattr(b, low) for a, b in pairwise(boxes))


# --- what cannot be shown ---


def test_what_cannot_be_shown_raises_with_the_reason(clf):
    known = NEW & (Y < 5)
    with pytest.raises(ValueError, match="no unknown samples"):
        OSCRDisplay.from_estimator(clf, X[known], Y[known])
    with pytest.raises(ValueError, match=r"Pass what candidate\(X\) returns"):
        OSCRDisplay.from_predictions(["a", "?"], ["?", "?"], [0.1, 0.2], unknown_label="?")
    with pytest.raises(TypeError, match="FunctionTransformer has no classes_"):
        OSCRDisplay.from_estimator(FunctionTransformer(), X, Y)
    with pytest.raises(TypeError, match="SROSRClassifier has no classes_"):
        OpenSetConfusionDisplay.from_estimator(SROSRClassifier(), X, Y)
