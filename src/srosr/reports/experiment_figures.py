"""The figures of an experiment report, with their sizes, names and captions."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._support.messages import join_names
from .._support.number_format import capitalize, format_number
from ..experiments import LEAST_FOR_INTERVAL, METRIC_INFO, Curve, find_levels
from .detail_figures import CoverageDisplay, PortraitErrorsDisplay, TargetDisplay, make_confusion_display
from .html_page import Drawing, render_inline_svg, use_page_style
from .method_panels import MethodGridDisplay, TradeDisplay, compute_grid_size
from .method_styles import OURS, escape_label, order_methods
from .openness_figures import OpennessDisplay, RankingDisplay, compute_ranking_size

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FIGURE_NAME", "Section", "draw_sections"]

#: File names of figures, in this or another version of the same report.
FIGURE_NAME = re.compile(
    r"(openness|methods)-(f|accuracy)|(recognition|rejection)-accuracy|trade|ranking-(f|accuracy|auroc|oscr)"
    r"|(errors|confusion)-[0-9]+|target|coverage",
    re.ASCII,
)
_CURVES = (5.6, 4.4)
_DPI = 130


@dataclass(frozen=True)
class Section:
    """Figures that belong together; ``missing`` explains which could not be drawn."""

    name: str
    heading: str
    drawings: list[Drawing]
    missing: list[str]


def draw_sections(
    results: pd.DataFrame,
    coverage: pd.DataFrame,
    portraits: Mapping[str, Mapping[str, Any]],
    *,
    methods: Sequence[str],
    ours: str = OURS,
    compared: str | None = None,
) -> list[Section]:
    """Draw all figures of a report, by section.

    Parameters
    ----------
    results, coverage : DataFrame
    portraits : dict of str to dict
        By method.
    methods : sequence of str
        All requested methods; one without results has an empty panel.
    ours : str
    compared : str, optional
        The method whose thresholds are shown; None takes ours.
    """
    there = {str(metric) for metric in results.loc[results["value"].notna(), "metric"].unique()}
    valued = results[results["value"].notna()]
    most = int(valued.groupby("method")["trial"].nunique().max()) if len(valued) else 0
    if most >= LEAST_FOR_INTERVAL:
        band = "Means over trials; bands and whiskers are the 95\N{NO-BREAK SPACE}% intervals of the means."
    else:
        band = "Means over two trials, without intervals." if most > 1 else "One trial, without intervals."
    one_level = len({step for metric in ("f", "accuracy") for step in find_levels(results, metric)}) == 1
    with use_page_style(**{"figure.facecolor": "none"}):
        sections = (
            []
            if one_level
            else [_draw_openness(results, there, methods, ours, band), _draw_trade(results, there, ours, band)]
        )
        return [
            *sections,
            _draw_ranking(results, there, ours, most >= LEAST_FOR_INTERVAL, one_level),
            _draw_portraits(portraits, ours),
            _draw_targets(coverage, ours, compared or ours, band, one_level),
        ]


def _draw_openness(results: pd.DataFrame, there: set[str], methods: Sequence[str], ours: str, band: str) -> Section:
    drawings, missing = [], []
    for metric in ("f", "accuracy"):
        if metric not in there:
            missing.append(f"No {METRIC_INFO[metric].label} was measured.")
            continue
        display = OpennessDisplay.from_results(results, metric, ours=ours)
        label = METRIC_INFO[metric].label
        all_drawn = set(display.curves) >= set(results.loc[results["metric"] == metric, "method"])
        rest = "" if all_drawn else " All methods are in the panels below."
        text = f"{capitalize(label)} against openness: {join_names(list(display.curves), 20)}. {band}{rest}"
        drawings.append(
            _draw_figure(f"openness-{metric}", _CURVES, display, text, _describe_curves(display.curves, label))
        )
    for metric in ("f", "accuracy"):
        if metric in there:
            grid = MethodGridDisplay.from_results(results, metric, methods=order_methods(methods, ours), ours=ours)
            label = METRIC_INFO[metric].label
            text = f"{capitalize(label)} of every method against openness; the curves of all others are in gray. {band}"
            heard = f"{label} against openness, in one panel per method, {len(grid.methods)} in all."
            size = compute_grid_size(len(grid.methods))
            drawings.append(_draw_figure(f"methods-{metric}", size, grid, text, heard, whole=True, wide=True))
    return Section("openness", "Metrics against openness", drawings, missing)


def _draw_trade(results: pd.DataFrame, there: set[str], ours: str, band: str) -> Section:
    drawings, missing = [], []
    for metric, meaning in (
        ("recognition_accuracy", "known samples that are accepted as their class"),
        ("rejection_accuracy", "unknown samples that are rejected"),
    ):
        label = METRIC_INFO[metric].label
        if metric not in there:
            missing.append(f"No {label} was measured.")
            continue
        display = OpennessDisplay.from_results(results, metric, ours=ours)
        text = f"{capitalize(label)}: the share of {meaning}. {band}"
        name = metric.replace("_", "-")
        drawings.append(_draw_figure(name, _CURVES, display, text, _describe_curves(display.curves, label)))
    if {"recognition_accuracy", "rejection_accuracy"} & there:
        trade = TradeDisplay.from_results(results, ours=ours)
        text = (
            "Recognition, rejection and the resulting accuracy of every method. The higher the openness, the more "
            f"samples are unknown, and the closer accuracy comes to rejection. {band}"
        )
        heard = (
            f"Recognition, rejection and accuracy against openness, one panel per method, {len(trade.methods)} in all."
        )
        size = compute_grid_size(len(trade.methods), 0.35)
        drawings.append(_draw_figure("trade", size, trade, text, heard, whole=True, wide=True))
    return Section("trade", "Recognition and rejection", drawings, missing)


def _draw_ranking(results: pd.DataFrame, there: set[str], ours: str, intervals: bool, one_level: bool) -> Section:
    drawings, missing = [], []
    where = "" if one_level else " at the largest openness"
    # With one level of openness, bars replace the curves.
    shown = ("oscr", "auroc", "f", "accuracy") if one_level else ("auroc", "oscr")
    for metric in shown:
        start = " Bars begin at 0.5, the value of random scores." if metric == "auroc" else ""
        label = METRIC_INFO[metric].label
        if metric not in there:
            missing.append(f"No {label} was measured.")
            continue
        display = RankingDisplay.from_results(results, metric, ours=ours)
        whiskers = "; whiskers are 95\N{NO-BREAK SPACE}% intervals" if intervals else ""
        text = f"{capitalize(label)}{where}, best at the top{whiskers}.{start}"
        values = zip(display.methods, display.mean, strict=True)
        heard = f"{label}{where}: " + ", ".join(f"{name} {format_number(mean)}" for name, mean in values) + "."
        drawings.append(
            _draw_figure(f"ranking-{metric}", compute_ranking_size(len(display.methods)), display, text, heard)
        )
    return Section("ranking", f"Ranking{where}", drawings, missing)


def _draw_portraits(portraits: Mapping[str, Mapping[str, Any]], ours: str) -> Section:
    drawings: list[Drawing] = []
    names = order_methods((name for name, portrait in portraits.items() if portrait), ours)
    seen: list[Any] = []
    for position, name in enumerate(names):
        portrait = portraits[name]
        errors = [portrait["held_out"], portrait["test"]["known"], portrait["test"]["unknown"]]
        errors = [[part["matched"], part["nonmatched"]] for part in errors]
        if errors not in seen:
            seen.append(errors)
            text = (
                f"Errors of {name} in the first trial, on one scale. Top: the error of the sample's class (for test "
                "samples, of the best class). Bottom: the mean error of all other classes. The less the curves of "
                "known and unknown samples overlap, the better they can be separated."
            )
            heard = f"Histograms of matched and non-matched errors of {name}: held-out, known and unknown samples."
            display = PortraitErrorsDisplay.from_portrait(portrait, method=name)
            drawings.append(_draw_figure(f"errors-{position}", (5.6, 4.9), display, text, heard, whole=True))
    for position, name in enumerate(names):
        confusion = make_confusion_display(portraits[name])
        # As vectors, so that cells are sharp at any size.
        side = min(max(1.6 + 0.36 * len(confusion.labels), 4.6), 9.0)
        text = (
            f"Confusion of {name} in the first trial. The last column holds rejections, the last row unknown samples."
        )
        heard = f"Confusion matrix of {name} with {len(confusion.labels) - 1} known classes and the unknown."
        wide = len(confusion.labels) > 12
        drawings.append(
            _draw_figure(
                f"confusion-{position}", (side, side), _SharpConfusion(confusion, name), text, heard, wide=wide
            )
        )
    missing = [] if drawings else ["The first trial has no details to show."]
    return Section("portraits", "Errors and confusion in one trial", drawings, missing)


def _draw_targets(coverage: pd.DataFrame, ours: str, compared: str, band: str, one_level: bool) -> Section:
    drawings: list[Drawing] = []
    heading = "Thresholds for target rates"
    if coverage.empty or not coverage["known_rejected"].notna().any():
        return Section("targets", heading, drawings, ["No thresholds for target rates were measured."])
    missing = []
    try:
        display = TargetDisplay.from_coverage(coverage, compared)
    except ValueError:
        missing.append(f"No thresholds of {compared} were measured.")
    else:
        where = "" if one_level else " at the largest openness"
        text = f"Metrics of {compared}{where}, against the target rate of its threshold. {band}"
        heard = f"F-measure, accuracy and share of unknown samples rejected of {compared} against the target rate."
        drawings.append(_draw_figure("target", _CURVES, display, text, heard))
    kept = CoverageDisplay.from_coverage(coverage, ours=ours)
    left = f" Not drawn: {join_names(kept.left_out, 20)}." if kept.left_out else ""
    text = (
        "Share of known test samples that are rejected, against the target share. The dotted line is the target; above "
        f"it, more are rejected.{left} {band}{_explain_leveling([*kept.curves, *kept.left_out])}"
    )
    heard = "Share of known test samples rejected against the target: " + join_names(list(kept.curves), 20) + "."
    drawings.append(_draw_figure("coverage", _CURVES, kept, text, heard))
    return Section("targets", heading, drawings, missing)


def _explain_leveling(methods: Sequence[str]) -> str:
    """Return why the paper's rules cannot reach high rates, if they are among the methods."""
    rules = [name for name in methods if name.split("-")[0] in ("paper", "matched")]
    if not rules:
        return ""
    return (
        f" {join_names(rules, 6)} can level off: the tail probability of every sample whose errors are below the tails "
        "is zero, and no threshold separates such samples."
    )


class _SharpConfusion:
    """A confusion matrix of a method with cells that stay sharp at any size."""

    def __init__(self, display: Any, method: str) -> None:
        self.display, self.method = display, method

    def plot(self, ax: Any) -> None:
        self.display.plot(ax)
        ax.set_xlabel(f"answer of {escape_label(self.method)}")
        for image in ax.images:
            image.set_interpolation("none")


def _draw_figure(
    name: str,
    size: tuple[float, float],
    display: Any,
    text: str,
    heard: str,
    *,
    whole: bool = False,
    wide: bool = False,
) -> Drawing:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    display.plot(figure if whole else figure.add_subplot())
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=_DPI, facecolor="white", metadata={"Software": None})
    svg = render_inline_svg(figure, f"figure-{name}", heard)
    return Drawing(f"figure-{name}", svg, text, size[0], wide, picture.getvalue())


def _describe_curves(curves: Mapping[str, Curve], label: str) -> str:
    """Return the curves in words, for screen readers."""
    some = next(iter(curves.values()))
    text = f"{label} against openness from {100 * some.openness[0]:.2f} to {100 * some.openness[-1]:.2f} %: "
    ends = (f"{name} from {format_number(c.mean[0])} to {format_number(c.mean[-1])}" for name, c in curves.items())
    return text + ", ".join(ends) + "."
