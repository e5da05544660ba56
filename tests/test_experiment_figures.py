"""Figures of experiments show the numbers of the tables and every method, distinguishable in gray."""

import doctest
import importlib
import math
import re
import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from experiment_tables import METHODS, PAPER, TARGETS, failing, made_up, portrait, without
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from scale import slow_except
from scipy import stats

from srosr.experiments.statistics import Curve
from srosr.reports.detail_figures import (
    choose_coverage_methods,
    compute_coverage_curves,
    compute_target_curves,
    draw_confusion,
    draw_coverage,
    draw_errors,
    draw_target,
    make_confusion_display,
)
from srosr.reports.experiment_figures import draw_sections
from srosr.reports.html_page import render_inline_svg
from srosr.reports.method_styles import (
    OURS_COLOR,
    assign_strokes,
    choose_featured,
    escape_label,
    label_method,
    order_methods,
    shorten_names,
)
from srosr.reports.openness_figures import (
    compute_grid_size,
    compute_ranking,
    compute_ranking_size,
    compute_trade_curves,
    draw_method_grid,
    draw_openness,
    draw_ranking,
    draw_trade,
    require_curves,
    sort_summary,
)

TABLES = without(made_up(METHODS, n_levels=5, n_trials=8), "svm", range(3, 8))
RESULTS, COVERAGE = TABLES["results"], TABLES["coverage"]
FEW = RESULTS[RESULTS["method"].isin(PAPER)]
ONE = made_up(PAPER[:3], n_levels=1, n_trials=1)
NAMES = ["hand-painted-porcelain-cup", "hand-painted-porcelain-cap", "a$b$c", "_hidden", "<b>&amp;"]


@pytest.fixture(autouse=True)
def strict():
    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def figure(size=(5.6, 4.4)):
    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    return made


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def means(metric, method, results=RESULTS):
    rows = results[(results["metric"] == metric) & (results["method"] == method)]
    return rows.groupby("openness")["value"].mean().sort_index()


def openness(ax, results=RESULTS, metric="f", **how):
    draw_openness(ax, require_curves(results, metric), metric, **how)
    return ax


def grid(figure, results=RESULTS, metric="f", methods=None):
    curves = require_curves(results, metric)
    return draw_method_grid(figure, curves, metric, methods=methods or order_methods(curves))


def trade(figure, results=RESULTS):
    curves, methods = compute_trade_curves(results)
    return draw_trade(figure, curves, methods=methods)


def ranking(ax, results=RESULTS, metric="auroc"):
    """Axes with bars, and the methods from the top."""
    summary, level = compute_ranking(results, metric)
    draw_ranking(ax, summary, metric, level.openness)
    return ax, summary


def bars(mean, half_width, n, metric):
    """Axes with bars of the methods a, b … and their table."""
    index = pd.Index(list("abc")[: len(mean)], name="method")
    summary = sort_summary(pd.DataFrame({"mean": mean, "half_width": half_width, "n": n}, index), metric)
    ax = figure().add_subplot()
    draw_ranking(ax, summary, metric, 0.2)
    return ax, summary


def target(ax, coverage=COVERAGE, method="calibrated"):
    draw_target(ax, compute_target_curves(coverage, method), method)
    return ax


def coverage(ax, table=COVERAGE):
    curves = compute_coverage_curves(table, "known_rejected")
    draw_coverage(ax, curves, choose_coverage_methods(curves)[0])
    return ax


DRAWINGS = {
    "openness": ((5.6, 4.4), False, openness),
    "grid": (compute_grid_size(len(METHODS)), True, grid),
    "trade": (compute_grid_size(20, 0.35), True, trade),
    "small grid": (compute_grid_size(len(PAPER)), True, lambda figure: grid(figure, FEW)),
    "small trade": (compute_grid_size(len(PAPER), 0.35), True, lambda figure: trade(figure, FEW)),
    "ranking": (compute_ranking_size(20), False, ranking),
    "errors": ((5.6, 4.9), True, lambda figure: draw_errors(figure, portrait(20))),
    "confusion": ((9.0, 9.0), False, lambda ax: make_confusion_display(portrait(20, names=NAMES * 4)).plot(ax)),
    "target": ((5.6, 4.4), False, target),
    "coverage": ((5.6, 4.4), False, coverage),
}


def drawn(name):
    """Return a figure of one kind."""
    size, whole, draw = DRAWINGS[name]
    made = figure(size)
    draw(made if whole else made.add_subplot())
    return made


# --- curves against openness ---


def test_a_curve_has_the_means_of_the_table_against_openness_in_per_cent():
    by_label = {line.get_label(): line for line in openness(figure().add_subplot()).lines}
    expected = means("f", "calibrated")
    line = by_label["calibrated (ours)"]
    assert line.get_xdata() == pytest.approx(100 * expected.index.to_numpy())
    assert line.get_ydata() == pytest.approx(expected.to_numpy())


def test_the_band_is_the_95_per_cent_interval_over_trials():
    ax = openness(figure().add_subplot(), methods=["paper"])
    rows = RESULTS[(RESULTS["metric"] == "f") & (RESULTS["method"] == "paper")]
    last = rows[rows["openness"] == rows["openness"].max()]["value"]
    expected = stats.ttest_1samp(last, 0.0).confidence_interval(0.95)
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    at_end = corners[corners[:, 0] == corners[:, 0].max()][:, 1]
    assert (at_end.min(), at_end.max()) == pytest.approx(expected)


def test_the_methods_of_the_paper_are_drawn_in_full_and_ours_in_front():
    ax = openness(figure().add_subplot(), metric="accuracy")
    assert [label.split(" (")[0] for label in legend_of(ax)] == list(PAPER)
    ours, *others = ax.lines
    assert all(ours.get_linewidth() > other.get_linewidth() for other in others)
    assert all(ours.get_zorder() > other.get_zorder() for other in others)


def test_strokes_differ_without_their_colors():
    looks = assign_strokes(list(PAPER))
    assert len({(str(s.dashes), s.marker, s.filled) for s in looks.values()}) == len(PAPER)
    assert len({str(s.dashes) for s in looks.values()}) == len(PAPER)
    assert len({(s.marker, s.filled) for s in looks.values()}) == len(PAPER)
    assert len({s.color for s in looks.values()}) == len(PAPER)


def test_strokes_are_dark_enough_on_white_in_gray():
    """At least 2.5 : 1 against white, by the contrast of the web's guidelines."""
    for stroke in assign_strokes(list(PAPER)).values():
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(stroke.color)]
        assert 1.05 / (np.dot([0.2126, 0.7152, 0.0722], linear) + 0.05) > 2.5


def test_a_method_keeps_its_stroke_whoever_else_is_there():
    assert assign_strokes(["calibrated", "naive"])["naive"] == assign_strokes(list(PAPER))["naive"]
    assert assign_strokes(["w-svm-original"])["w-svm-original"] == assign_strokes(list(PAPER))["w-svm"]
    both = assign_strokes(["w-svm", "w-svm-original"])
    assert both["w-svm"] != both["w-svm-original"]


def test_a_variant_of_ours_shares_name_and_color_and_differs_in_its_dashes():
    drawn = assign_strokes(["calibrated", "calibrated-f", "paper"])
    assert drawn["calibrated"].color == drawn["calibrated-f"].color == OURS_COLOR
    assert drawn["calibrated"].dashes != drawn["calibrated-f"].dashes
    assert [label_method(name, 3, 3) for name in ("calibrated-f", "calibratedly", "paper")] == [
        "calibrated-f (ours)", "calibratedly", "paper",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_caption_says_where_methods_are_that_the_figure_has_no_room_for():
    def caption(methods):
        some = RESULTS[RESULTS["method"].isin(methods) & (RESULTS["metric"] == "f")]
        drawings = draw_sections(some, COVERAGE, {}, methods=list(methods))[0].drawings
        return next(one.caption for one in drawings if one.name == "figure-openness-f")

    assert "All methods are in the panels below." in caption(METHODS[:10])
    assert "below" not in caption(PAPER)


def test_the_confusion_in_a_report_names_its_method():
    ax = figure().add_subplot()
    draw_confusion(ax, portrait(), "paper")
    assert ax.get_xlabel() == "answer of paper"


def test_the_featured_methods_are_ours_and_the_papers_or_else_the_first():
    assert choose_featured(METHODS) == list(PAPER)
    assert choose_featured(["svm", "w-svm-original", "calibrated"]) == ["calibrated", "svm", "w-svm-original"]
    assert choose_featured(["svm", "paper"], ours="svm") == ["svm", "paper"]
    others = [f"other-{i:02d}" for i in range(12)]
    assert choose_featured([*others, "w-svm-original", "calibrated"]) == ["calibrated", "w-svm-original"]
    assert choose_featured([*others, "calibrated", "calibrated-f", "calibrated-g"]) == [
        "calibrated", "calibrated-f", "calibrated-g", *others[:6],
    ]  # fmt: skip
    assert choose_featured([*others, "calibrated", "calibrated-f", "calibrated-g", "paper"]) == [
        "calibrated", "calibrated-f", "paper",
    ]  # fmt: skip


def test_methods_come_in_one_order_ours_first():
    assert order_methods(["svm", "naive", "knn", "calibrated"]) == ["calibrated", "naive", "knn", "svm"]
    assert order_methods(["svm", "naive", "calibrated"], ours="svm")[0] == "svm"


def test_the_legend_says_if_a_method_has_fewer_trials():
    ax = openness(figure().add_subplot(), methods=["calibrated", "svm"])
    assert legend_of(ax) == ["calibrated (ours)", "svm (3 of 8 trials)"]


def test_a_missing_metric_raises_an_error():
    for compute in (require_curves, compute_ranking):
        with pytest.raises(ValueError, match="results has no value of the metric 'loss'"):
            compute(RESULTS, "loss")
    with pytest.raises(ValueError, match="neither recognition_accuracy nor rejection_accuracy"):
        compute_trade_curves(RESULTS[RESULTS["metric"] == "f"])


def test_methods_at_one_openness_stand_side_by_side():
    ax = openness(figure().add_subplot(), ONE["results"])
    assert len({float(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1}) == 3
    assert ax.get_xticks().tolist() == [0.0]


def test_missing_values_leave_a_gap_and_no_more():
    results = RESULTS.copy()
    level = results["openness"].unique()[2]
    results.loc[(results["method"] == "sci") & (results["openness"] == level), "value"] = math.nan
    ax = openness(figure().add_subplot(), results)
    heights = {line.get_label(): np.asarray(line.get_ydata()) for line in ax.lines}
    assert np.isnan(heights["sci"]).tolist() == [False, False, True, False, False]
    assert not np.isnan(heights["ratio"]).any()


# --- small multiples ---


def test_every_method_has_a_panel_with_its_curve_in_color_over_all_others():
    axes = grid(figure(compute_grid_size(len(PAPER))), FEW)
    assert len(axes) == len(PAPER) == 7
    for method, ax in zip(order_methods(PAPER), axes, strict=True):
        assert len(ax.lines) == len(PAPER)
        top = max(ax.lines, key=lambda line: line.get_zorder())
        assert top.get_ydata() == pytest.approx(means("f", method).to_numpy())
        assert (to_hex(top.get_color()) == OURS_COLOR) == (method == "calibrated")
        assert method in ax.get_title(loc="left")
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in axes}) == 1


def test_a_panel_says_fewer_trials_and_one_without_a_curve_that_there_is_no_result():
    methods = [*METHODS, "lost"]
    panel = dict(zip(methods, grid(figure(compute_grid_size(len(methods))), methods=methods), strict=True))
    assert panel["svm"].get_title(loc="left").endswith("3 of 8 trials")
    assert [text.get_text() for text in panel["lost"].texts] == ["no result"] and not panel["lost"].lines


def test_panels_of_recognition_and_rejection_have_both_and_accuracy():
    axes = trade(figure(compute_grid_size(len(PAPER))), FEW)
    assert compute_trade_curves(FEW)[1] == order_methods(PAPER) and len(axes) == len(PAPER)
    lines = [np.asarray(line.get_ydata()) for line in axes[1].lines]
    assert [len(line) for line in lines] == [5, 4, 5]  # nothing to reject without an unknown class
    for line, metric in zip(lines, ("recognition_accuracy", "rejection_accuracy", "accuracy"), strict=True):
        expected = means(metric, "paper").to_numpy()
        assert line == pytest.approx(expected[-len(line) :])


def test_the_lowest_panel_of_each_column_has_numbers_below():
    made = figure(compute_grid_size(6))
    axes = grid(made, FEW, methods=PAPER[:6])
    made.canvas.draw()
    numbered = [any(label.get_visible() for label in ax.get_xticklabels()) for ax in axes]
    assert numbered == [False, False, True, True, True, True]


# --- rankings ---


def test_bars_are_sorted_with_the_best_on_top_and_ours_stands_out():
    ax, summary = ranking(figure(compute_ranking_size(20)).add_subplot())
    last = RESULTS[(RESULTS["metric"] == "auroc") & (RESULTS["openness"] == RESULTS["openness"].max())]
    expected = last.groupby("method")["value"].mean().sort_values(ascending=False)
    assert summary.index.tolist() == expected.index.tolist()
    assert summary["mean"].to_numpy() == pytest.approx(expected.to_numpy())
    assert [label.get_text().split(" (")[0] for label in ax.get_yticklabels()] == expected.index.tolist()
    bars = ax.patches
    assert [bar.get_x() + bar.get_width() for bar in bars] == pytest.approx(expected.to_numpy())
    top, bottom = ax.get_ylim()[1], ax.get_ylim()[0]
    assert top < bottom and bars[0].get_y() < bars[-1].get_y()
    reds = [m for m, bar in zip(summary.index, bars, strict=True) if to_hex(bar.get_facecolor()) == OURS_COLOR]
    assert reds == ["calibrated"]


def test_whiskers_of_a_ranking_are_the_intervals():
    ax, summary = ranking(figure(compute_ranking_size(20)).add_subplot(), metric="oscr")
    last = RESULTS[(RESULTS["metric"] == "oscr") & (RESULTS["openness"] == RESULTS["openness"].max())]
    (whiskers,) = ax.collections
    for method, segment in zip(summary.index, whiskers.get_segments(), strict=True):
        expected = stats.ttest_1samp(last[last["method"] == method]["value"], 0.0).confidence_interval(0.95)
        assert segment[:, 0] == pytest.approx(expected)


def test_a_bar_without_an_interval_has_no_whisker():
    (whiskers,) = bars([0.9, 0.7], [0.05, np.nan], [3, 1], "oscr")[0].collections
    np.testing.assert_allclose([segment[:, 0] for segment in whiskers.get_segments()], [[0.85, 0.95]])


def test_bands_whiskers_and_ticks_stay_within_what_a_share_can_be():
    wide = Curve(np.array([0.1, 0.2]), np.array([0.95, 0.1]), np.array([0.3, 0.3]), 3)
    assert wide.low == pytest.approx([0.65, 0.0]) and wide.high == pytest.approx([1.0, 0.4])
    ax = figure().add_subplot()
    draw_openness(ax, {"calibrated": wide}, "f")
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.0, 1.0))
    low, high = ax.get_ylim()
    assert low >= -0.05 and high <= 1.05
    ax, _ = bars(wide.mean, wide.half_width, [3, 3], "oscr")
    ends = [segment[:, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends, [[0.65, 1.0], [0.0, 0.4]])
    assert max(ax.get_xticks()) <= 1.0 and ax.get_xlim()[1] < 1.2


def test_where_small_is_good_the_smallest_is_on_top():
    assert bars([0.9, 0.1], [0.0, 0.0], [3, 3], "fpr95")[1].index.tolist() == ["b", "a"]


def test_an_auroc_below_chance_is_drawn_to_the_left():
    ax, _ = bars([0.9, 0.4], [0.0, 0.0], [3, 3], "auroc")
    assert ax.patches[1].get_width() == pytest.approx(-0.1) and ax.get_xlim()[0] <= 0.4


# --- one trial from near ---


def test_both_error_histograms_have_one_scale_and_each_curve_all_samples():
    made = figure()
    upper, lower = draw_errors(made, portrait())
    assert upper.get_xlim() == lower.get_xlim()
    for ax in (upper, lower):
        outlines = [patch for patch in ax.patches if not patch.get_fill()]
        assert len(outlines) == 3
        for outline in outlines:
            heights = outline.get_xy()[1:-1:2, 1]
            assert len(heights) == 50 and heights.sum() == pytest.approx(100)
    (legend,) = made.legends
    assert [text.get_text().split(" (")[0] for text in legend.get_texts()] == [
        "held-out training", "test, known", "test, unknown",
    ]  # fmt: skip


def test_figures_of_one_method_name_it():
    errors = draw_errors(figure(), portrait(), method="ours & $theirs")
    assert [ax.get_title(loc="left") for ax in errors] == [
        r"ours & \$theirs: matched error", r"ours & \$theirs: non-matched error",
    ]  # fmt: skip
    assert target(figure().add_subplot(), method="paper").get_ylabel() == "paper, mean over trials"
    assert target(figure().add_subplot(), ONE["coverage"]).get_ylabel() == "calibrated, one trial"


def test_errors_of_a_trial_without_unknown_samples_are_drawn():
    one = portrait()
    one["test"]["unknown"] = {"matched": [], "nonmatched": [], "score": []}
    one["held_out"]["matched"][0] = None
    made = figure()
    draw_errors(made, one)
    counts = [re.sub(r"[^0-9]", "", text.get_text()) for text in made.legends[0].get_texts()]
    assert counts[2] == "0" and counts[0] == str(len(one["held_out"]["matched"]) - 1)


def test_the_confusion_is_that_of_the_portrait_with_the_unknown_last():
    one = portrait(5, names=NAMES)
    display = make_confusion_display(one)
    assert display.matrix.tolist() == one["confusion"] and display.labels.tolist()[-1] == "unknown"
    ax = display.plot(figure().add_subplot()).ax_
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert len(set(shown)) == 6 and max(map(len, shown)) <= 17


def test_a_confusion_matrix_that_does_not_match_its_names_raises_an_error():
    with pytest.raises(ValueError, match="with 4 classes must be 5 by 5"):
        make_confusion_display(portrait(5) | {"class_names": list("abcd")})


def test_names_are_cut_and_stay_different():
    long = [f"the class with the number {i} of a long list" for i in range(12)]
    cut = shorten_names(long)
    assert len(set(cut)) == 12 and max(map(len, cut)) <= 14
    assert shorten_names(["short", "two\nlines"]) == ["short", "two lines"]


# --- thresholds by a target ---


def test_the_target_figure_has_the_means_of_the_table():
    ax = target(figure().add_subplot())
    rows = COVERAGE[COVERAGE["method"] == "calibrated"].groupby("target").mean(numeric_only=True)
    for line, column in zip(ax.lines, ("f", "accuracy", "unknown_rejected"), strict=True):
        assert line.get_xdata() == pytest.approx(TARGETS) and line.get_ydata() == pytest.approx(rows[column].to_numpy())


def test_the_coverage_figure_has_a_diagonal_ours_with_a_band_and_six_others():
    ax = coverage(figure().add_subplot())
    diagonal, ours, *others = ax.lines
    assert np.array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    rows = COVERAGE[COVERAGE["method"] == "calibrated"].groupby("target")["known_rejected"].mean()
    assert ours.get_ydata() == pytest.approx(rows.to_numpy())
    assert len(others) == 6 and len(ax.collections) == 1
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in others}) == 6
    shown, left_out = choose_coverage_methods(compute_coverage_curves(COVERAGE, "known_rejected"))
    assert set(shown) | set(left_out) == set(METHODS) and len(left_out) == 17


def test_the_diagonal_of_the_coverage_figure_is_straight():
    ax = coverage(figure().add_subplot())
    ticks = ax.get_xticks()[1:]
    x = ax.transData.transform(np.column_stack([ticks, ticks]))
    slopes = np.diff(x[:, 1]) / np.diff(x[:, 0])
    assert slopes == pytest.approx(np.full(len(slopes), slopes[0]))


def test_coverage_of_a_missing_method_raises_an_error():
    with pytest.raises(ValueError, match="coverage has no rows of the method 'lost'"):
        compute_target_curves(COVERAGE, "lost")
    with pytest.raises(ValueError, match="coverage has no rows"):
        coverage(figure().add_subplot(), COVERAGE[:0])


# --- all of them ---


@pytest.mark.parametrize("name", slow_except([name for name in DRAWINGS if name not in ("grid", "trade")], DRAWINGS))
def test_nothing_is_cut_off_at_the_edges_and_the_tables_stay_as_they_were(name):
    before = RESULTS.copy(), COVERAGE.copy()
    made = drawn(name)
    made.canvas.draw()
    box = made.get_tightbbox()
    width, height = made.get_size_inches()
    assert box.x0 > -0.02 and box.y0 > -0.02 and box.x1 < width + 0.02 and box.y1 < height + 0.02
    pd.testing.assert_frame_equal(RESULTS, before[0])
    pd.testing.assert_frame_equal(COVERAGE, before[1])


def test_names_are_shown_as_they_are():
    methods = ["calibrated", *NAMES]
    tables = made_up(methods, 2, 2)
    ax = openness(figure().add_subplot(), tables["results"], methods=methods)
    ax.figure.canvas.draw()
    assert "a\\$b\\$c" in legend_of(ax) and len(legend_of(ax)) == 6
    assert escape_label("tab\tbell\a") == "tab bell?"
    grid(figure(), tables["results"])[0].figure.canvas.draw()


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(ONE, id="one trial of one level"),
        pytest.param(made_up(PAPER[:1], 3, 2), id="one method"),
        pytest.param(
            failing(made_up(PAPER, 3, 3), "paper", range(3)), id="a method that failed", marks=pytest.mark.slow
        ),
        pytest.param(
            without(made_up(PAPER, 3, 50), "paper", range(5, 50)), id="5 of 50 trials", marks=pytest.mark.slow
        ),
    ],
)
def test_degenerate_tables_are_drawn_without_a_warning(tables):
    for draw, table in ((openness, "results"), (target, "coverage"), (coverage, "coverage")):
        draw(figure().add_subplot(), tables[table]).figure.canvas.draw()
    ranking(figure().add_subplot(), tables["results"], "accuracy")[0].figure.canvas.draw()
    for draw in (grid, trade):
        draw(figure(), tables["results"])[0].figure.canvas.draw()


@pytest.mark.slow
def test_drawing_leaves_pyplot_alone():
    code = """
import sys
import test_experiment_figures as t
sys.modules.pop("matplotlib.pyplot", None)
for name in t.DRAWINGS:
    t.drawn(name)
assert "matplotlib.pyplot" not in sys.modules, "pyplot was imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, cwd=Path(__file__).parent)


# --- figures as SVG ---


def svg_of(name="figure-a", label="A figure"):
    made = figure()
    openness(made.add_subplot())
    return render_inline_svg(made, name, label)


def test_an_svg_is_the_same_each_time():
    assert svg_of() == svg_of()


def test_ids_begin_with_the_figure_are_there_once_and_every_reference_has_its_target():
    root = ElementTree.fromstring(svg_of("figure-b"))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids)) and all(one.startswith("figure-b-") for one in ids)
    text = ElementTree.tostring(root, encoding="unicode")
    references = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text)
    assert references and all((a or b) in ids for a, b in references)


def test_letters_are_outlines_and_nothing_tells_the_date():
    root = ElementTree.fromstring(svg_of())
    tags = {element.tag for element in root.iter()}
    assert "text" not in tags and "metadata" not in tags and "style" not in tags and "path" in tags
    assert root.get("role") == "img" and root.get("viewBox") and root.get("width") is None


def test_the_label_of_an_svg_is_escaped():
    root = ElementTree.fromstring(svg_of(label='<script>"&'))
    assert root.get("aria-label") == '<script>"&'


@pytest.mark.parametrize("name", ["", "A", "a b", 'a"', "1a"])
def test_a_name_that_is_no_valid_id_raises_an_error(name):
    with pytest.raises(ValueError, match="name must be lower-case letters"):
        render_inline_svg(figure(), name, "x")


@pytest.mark.parametrize("module", ["method_styles", "openness_figures"])
def test_the_examples_of_the_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(f"srosr.reports.{module}"))
    assert found.failed == 0 and found.attempted
