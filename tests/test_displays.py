"""Displays show the right numbers in the given axes, and use pyplot only if no axes are given."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from same import check_same
from sklearn.datasets import load_digits

from srosr import class_residuals
from srosr.classifiers.srosr_classifier import SROSRClassifier
from srosr.exceptions import CalibrationWarning
from srosr.inspection.explanation_display import ExplanationDisplay
from srosr.inspection.model_displays import ErrorHistogramDisplay, NonMatchedDisplay, TailDisplay
from srosr.tails.gpd import GPDTail, fit_tail

X, Y = load_digits(return_X_y=True)
TRAIN = (np.arange(len(Y)) < 400) & (Y < 5)
NEW = np.arange(len(Y)) >= 1500


@pytest.fixture(autouse=True)
def no_windows():
    matplotlib.use("Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module")
def clf():
    return SROSRClassifier(n_repeats=6, random_state=0).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture
def ax():
    return Figure(figsize=(12, 4)).add_subplot()


def heights(ax):
    return [patch.get_height() for patch in ax.patches]


# --- the numbers ---


def test_errors_are_the_residual_of_the_own_class_and_the_mean_of_the_others(clf):
    rows = clf.calibration_.known
    display = ErrorHistogramDisplay.from_estimator(clf)
    assert np.array_equal(display.matched, rows.matched)
    assert display.nonmatched == pytest.approx(rows.nonmatched / 4)
    own = ErrorHistogramDisplay.from_estimator(clf, label=3)
    assert np.array_equal(own.matched, rows.matched[rows.truth == 3]) and own.label == 3


def test_sums_of_samples_are_those_of_all_classes_but_the_best(clf):
    display = NonMatchedDisplay.from_estimator(clf, X[NEW], Y[NEW])
    residuals = class_residuals(X[NEW], clf.encode(X[NEW]), clf.dictionary_)
    sums = residuals.sum(axis=1) - residuals.min(axis=1)
    assert display.known == pytest.approx(sums[Y[NEW] < 5])
    assert display.unknown == pytest.approx(sums[Y[NEW] >= 5])
    assert display.unknown.mean() < display.known.mean()


def test_without_samples_simulated_unknowns_are_shown(clf):
    display = NonMatchedDisplay.from_estimator(clf)
    rows = clf.calibration_.simulated
    assert display.source == "simulated"
    assert display.unknown == pytest.approx(4 * rows.values[rows.unknown, 1])
    assert len(display.known) + len(display.unknown) == len(rows)
    # Means of fewer classes, times all: comparable with sums over all classes.
    assert display.known.mean() == pytest.approx(clf.calibration_.known.nonmatched.mean(), rel=0.1)


@pytest.mark.parametrize("kind", ["matched", "nonmatched"])
def test_the_tail_is_the_one_the_recognizer_uses(clf, kind):
    display = TailDisplay.from_estimator(clf, 2, kind)
    used = getattr(clf.calibration_.tails, kind)[2]
    assert display.tail is used
    assert np.mean(display.errors > used.u) == pytest.approx(used.rho)
    assert len(display.observed) == used.n_excesses


def test_a_small_class_shows_the_tail_it_shares():
    few = np.flatnonzero(TRAIN)
    few = np.r_[few[Y[few] != 2], few[Y[few] == 2][:5]]
    clf = SROSRClassifier(n_repeats=4, random_state=0).fit(X[few], Y[few])
    display = TailDisplay.from_estimator(clf, 2)
    rows = clf.calibration_.known
    assert display.label is None and len(display.errors) == len(rows)
    check_same(display.tail, fit_tail(rows.matched, clf.tail_size, groups=rows.sample, warn=False))


def test_the_quantiles_of_a_true_tail_lie_on_the_diagonal(ax):
    tail = GPDTail(1.0, 0.5, -0.3, 0.1)
    errors = np.r_[0.2, 0.9, tail.ppf((np.arange(40) + 0.5) / 40)]
    display = TailDisplay(errors[::-1], tail, label="a").plot(ax)
    np.testing.assert_allclose(display.expected, display.observed)
    assert len(display.observed) == 40
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), np.column_stack([display.expected, display.observed]))
    assert ax.texts[0].get_text() == "u = 1\nσ = 0.5\nξ = −0.3"
    assert not len(TailDisplay(np.ones(3), tail).plot(ax).observed)


def test_the_explanation_shown_is_the_recognizers(clf):
    x = X[NEW][0]
    assert ExplanationDisplay.from_estimator(clf, x).explanation.to_dict() == clf.explain(x).to_dict()


# --- the drawing ---


@pytest.mark.parametrize(
    "make",
    [
        ErrorHistogramDisplay.from_estimator,
        NonMatchedDisplay.from_estimator,
        lambda clf: TailDisplay.from_estimator(clf, 1),
        lambda clf: ExplanationDisplay.from_estimator(clf, X[0]),
    ],
)
def test_displays_draw_into_the_axes_they_are_given_and_return_themselves(clf, make, ax):
    display = make(clf)
    assert display.plot(ax) is display
    assert display.figure_ is ax.figure
    assert display.ax_ is display.axes_[0]
    if len(display.axes_) > 1:
        assert all(panel in ax.child_axes for panel in display.axes_)
    else:
        assert display.ax_ is ax and ax.has_data()
    ax.figure.canvas.draw()


def test_several_axes_are_used_as_the_panels(clf):
    four = Figure().subplots(2, 2)
    assert clf.explain(X[0]).plot(four, image_shape=(8, 8)).axes_ == tuple(four.ravel())
    with pytest.raises(ValueError, match="4 of them"):
        clf.explain(X[0]).plot(Figure().subplots(1, 3), image_shape=(8, 8))


def test_without_axes_a_figure_of_pyplot_is_made(clf):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    display = ErrorHistogramDisplay.from_estimator(clf).plot()
    assert [plt.figure(n) for n in plt.get_fignums() if n not in before] == [display.figure_]


@pytest.fixture
def no_pyplot(monkeypatch):
    """Make an import of pyplot an error."""
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)


def test_given_axes_load_no_pyplot(no_pyplot, ax):
    assert ErrorHistogramDisplay(np.arange(9.0), np.arange(9.0)).plot(ax).ax_ is ax
    with pytest.raises(ImportError, match="pyplot"):
        ErrorHistogramDisplay(np.arange(9.0), np.arange(9.0)).plot()


@pytest.mark.slow
def test_importing_displays_loads_no_matplotlib():
    code = """
import sys
import srosr.inspection.model_displays, srosr.inspection.metric_displays, srosr.inspection.explanation
assert "matplotlib" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_bars_are_the_numbers_and_the_candidate_is_colored(clf, ax):
    display = clf.explain(X[0]).plot(ax)
    e = display.explanation
    residuals, evidence, atoms = display.axes_
    assert heights(residuals)[:5] == pytest.approx(list(e.residuals.values()))
    colored = [
        i for i, bar in enumerate(residuals.patches) if matplotlib.colors.to_hex(bar.get_facecolor()) == "#1f6f8b"
    ]
    assert colored == [list(e.residuals).index(e.candidate)]
    weighed = [part.contribution for part in e.evidence if part.weight > 0][::-1]
    assert [bar.get_width() for bar in evidence.patches] == pytest.approx(weighed)
    assert sum(len(line.get_xdata()) for line in atoms.lines if line.get_marker() == "o") == len(e.atoms)


def test_of_many_kinds_of_evidence_the_last_bar_sums_up_those_that_matter_least(clf, ax, monkeypatch):
    monkeypatch.setattr("srosr.inspection.explanation_display.MAX_KINDS", 4)
    display = clf.explain(X[0]).plot(ax)
    e, shown = display.explanation, [bar.get_width() for bar in display.axes_[1].patches]
    weighed = [part.contribution for part in e.evidence if part.weight > 0]
    assert len(weighed) > 4 == len(shown)
    assert sum(shown) == pytest.approx(e.score)
    assert sorted(shown[1:]) == pytest.approx(sorted(sorted(weighed, key=abs)[-3:]))


def test_pictures_are_the_sample_and_the_first_atoms(clf):
    display = clf.explain(X[NEW][3]).plot(Figure().subplots(1, 4), image_shape=(8, 8))
    shown = [np.asarray(image.get_array()) for image in display.axes_[0].images]
    assert np.array_equal(shown[0], X[NEW][3].reshape(8, 8))
    for picture, atom in zip(shown[1:], display.explanation.atoms, strict=False):
        training = X[TRAIN][atom.row]
        assert picture.ravel() == pytest.approx(training / np.linalg.norm(training))


def test_many_classes_are_reduced_to_those_that_matter(ax):
    rng = np.random.default_rng(0)
    labels = np.array([f"somebody with a long name {k}" for k in range(40)])
    clf = SROSRClassifier(n_repeats=1, random_state=0).fit(rng.random((80, 60)), np.tile(labels, 2))
    display = clf.explain(rng.random(60)).plot(ax)
    e = display.explanation
    shown = [tick.get_text() for tick in display.axes_[0].get_xticklabels()]
    assert len(shown) == 15 and len(display.axes_[2].get_xticks()) <= 15
    assert "15 of 40" in display.axes_[0].get_xlabel()
    assert heights(display.axes_[0])[0] == min(e.residuals.values())
    ax.figure.canvas.draw()


@pytest.mark.parametrize("rule", ["calibrated", "paper", "matched"])
def test_zero_samples_and_zero_codes_can_be_drawn(rule):
    rng = np.random.default_rng(0)
    A = np.abs(rng.normal(size=(60, 9)))
    A[:, -1] = 0.0
    clf = SROSRClassifier(n_repeats=2, rule=rule, random_state=0).fit(A, np.arange(60) % 3)
    for x in (np.zeros(9), np.eye(9)[-1], A[0]):
        display = clf.explain(x).plot(Figure().subplots(1, 4), image_shape=(3, 3))
        display.figure_.canvas.draw()


# --- what cannot be shown ---


def test_what_cannot_be_shown_raises_with_the_reason(clf, ax):
    with pytest.raises(ValueError, match="not one of the classes"):
        ErrorHistogramDisplay.from_estimator(clf, label=7)
    with pytest.raises(ValueError, match="kind must be"):
        TailDisplay.from_estimator(clf, 1, "both")
    with pytest.raises(ValueError, match="pass X with y"):
        NonMatchedDisplay.from_estimator(clf, X[:5])
    with pytest.raises(ValueError, match="one label for each"):
        NonMatchedDisplay.from_estimator(clf, X[:5], Y[:4])
    with pytest.raises(ValueError, match="no unknown sample"):
        NonMatchedDisplay.from_estimator(clf, X[:5], [0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match="64 features"):
        clf.explain(X[0]).plot(ax, image_shape=(8, 9))
    rbf = SROSRClassifier(kernel="rbf", gamma=1.0, n_repeats=1, random_state=0).fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(ValueError, match="linear kernel"):
        rbf.explain(X[0]).plot(ax, image_shape=(8, 8))


def test_two_classes_and_lonely_classes_have_no_simulated_openness_or_no_errors():
    two = np.flatnonzero(TRAIN & (Y < 2))
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X[two], Y[two])
    with pytest.raises(ValueError, match="pass X and y"):
        NonMatchedDisplay.from_estimator(clf)
    one_each = np.unique(Y, return_index=True)[1][:4]
    with pytest.warns(CalibrationWarning):
        lonely = SROSRClassifier(n_repeats=2, random_state=0).fit(X[one_each], Y[one_each])
    with pytest.raises(ValueError, match="no class has two samples"):
        ErrorHistogramDisplay.from_estimator(lonely)
    with pytest.raises(ValueError, match="two samples"):
        TailDisplay.from_estimator(lonely, 1)
