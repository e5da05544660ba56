"""The figures of an experiment report, with their sizes, names and captions."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .._support.messages import capitalize, format_number, join_names
from ..experiments.result_tables import METRIC_INFO
from ..experiments.statistics import LEAST_FOR_INTERVAL, Curve, find_levels
from .detail_figures import (
    choose_coverage_methods,
    compute_coverage_curves,
    compute_target_curves,
    draw_confusion,
    draw_coverage,
    draw_errors,
    draw_target,
)
from .html_page import Drawing, render_inline_svg, use_page_style
from .method_styles import OURS, choose_featured, order_methods
from .openness_figures import (
    compute_grid_size,
    compute_ranking,
    compute_ranking_size,
    compute_trade_curves,
    draw_method_grid,
    draw_openness,
    draw_ranking,
    draw_trade,
    require_curves,
)

if TYPE_CHECKING:
    import pandas as pd

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
    compared: str | None = None,
) -> list[Section]:
    """Draw all figures of a report, by section.

    ``methods`` are all requested ones; one without results has an empty panel. The thresholds of ``compared`` (None:
    ours) are shown.
    """
    valued = results[results["value"].notna()]
    there = set(valued["metric"])
    most = int(valued.groupby("method")["trial"].nunique().max()) if len(valued) else 0
    if most >= LEAST_FOR_INTERVAL:
        band = "Means over trials; bands and whiskers are the 95\N{NO-BREAK SPACE}% intervals of the means."
    else:
        band = "Means over two trials, without intervals." if most > 1 else "One trial, without intervals."
    one_level = len({step for metric in ("f", "accuracy") for step in find_levels(results, metric)}) == 1
    with use_page_style(**{"figure.facecolor": "none"}):
        sections = []
        if not one_level:
            sections = [_draw_openness(results, there, methods, band), _draw_trade(results, there, band)]
        return [
            *sections,
            _draw_ranking(results, there, most >= LEAST_FOR_INTERVAL, one_level),
            _draw_portraits(portraits),
            _draw_targets(coverage, compared or OURS, band, one_level),
        ]


def _draw_openness(results: pd.DataFrame, there: set[str], methods: Sequence[str], band: str) -> Section:
    shown = [metric for metric in ("f", "accuracy") if metric in there]
    missing = [f"No {METRIC_INFO[metric].label} was measured." for metric in ("f", "accuracy") if metric not in there]
    found = {metric: require_curves(results, metric) for metric in shown}
    drawings = []
    for metric, curves in found.items():
        featured = choose_featured(curves)
        all_drawn = set(featured) >= set(results.loc[results["metric"] == metric, "method"])
        rest = "" if all_drawn else " All methods are in the panels below."
        text = f"{capitalize(METRIC_INFO[metric].label)} against openness: {join_names(featured, 20)}. {band}{rest}"
        drawings.append(_draw_curves(f"openness-{metric}", curves, metric, text))
    names = order_methods(methods)
    for metric, curves in found.items():
        label = METRIC_INFO[metric].label
        text = f"{capitalize(label)} of every method against openness; the curves of all others are in gray. {band}"
        heard = f"{label} against openness, in one panel per method, {len(names)} in all."
        draw = partial(draw_method_grid, curves=curves, metric=metric, methods=names)
        size = compute_grid_size(len(names))
        drawings.append(_draw_figure(f"methods-{metric}", size, draw, text, heard, whole=True, wide=True))
    return Section("openness", "Metrics against openness", drawings, missing)


def _draw_trade(results: pd.DataFrame, there: set[str], band: str) -> Section:
    drawings, missing = [], []
    for metric, meaning in (
        ("recognition_accuracy", "known samples that are accepted as their class"),
        ("rejection_accuracy", "unknown samples that are rejected"),
    ):
        if metric not in there:
            missing.append(f"No {METRIC_INFO[metric].label} was measured.")
            continue
        curves = require_curves(results, metric)
        text = f"{capitalize(METRIC_INFO[metric].label)}: the share of {meaning}. {band}"
        drawings.append(_draw_curves(metric.replace("_", "-"), curves, metric, text))
    if drawings:
        trade, methods = compute_trade_curves(results)
        text = (
            "Recognition, rejection and the resulting accuracy of every method. The higher the openness, the more "
            f"samples are unknown, and the closer accuracy comes to rejection. {band}"
        )
        heard = f"Recognition, rejection and accuracy against openness, one panel per method, {len(methods)} in all."
        draw = partial(draw_trade, curves=trade, methods=methods)
        size = compute_grid_size(len(methods), 0.35)
        drawings.append(_draw_figure("trade", size, draw, text, heard, whole=True, wide=True))
    return Section("trade", "Recognition and rejection", drawings, missing)


def _draw_ranking(results: pd.DataFrame, there: set[str], intervals: bool, one_level: bool) -> Section:
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
        summary, level = compute_ranking(results, metric)
        whiskers = "; whiskers are 95\N{NO-BREAK SPACE}% intervals" if intervals else ""
        text = f"{capitalize(label)}{where}, best at the top{whiskers}.{start}"
        values = ", ".join(f"{name} {format_number(mean)}" for name, mean in summary["mean"].items())
        draw = partial(draw_ranking, summary=summary, metric=metric, openness=level.openness)
        size = compute_ranking_size(len(summary))
        drawings.append(_draw_figure(f"ranking-{metric}", size, draw, text, f"{label}{where}: {values}."))
    return Section("ranking", f"Ranking{where}", drawings, missing)


def _draw_portraits(portraits: Mapping[str, Mapping[str, Any]]) -> Section:
    drawings: list[Drawing] = []
    draw: Callable[[Any], object]
    names = order_methods((name for name, portrait in portraits.items() if portrait))
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
            draw = partial(draw_errors, portrait=portrait, method=name)
            drawings.append(_draw_figure(f"errors-{position}", (5.6, 4.9), draw, text, heard, whole=True))
    for position, name in enumerate(names):
        n_labels = len(portraits[name]["class_names"]) + 1
        side = min(max(1.6 + 0.36 * n_labels, 4.6), 9.0)
        text = (
            f"Confusion of {name} in the first trial. The last column holds rejections, the last row unknown samples."
        )
        heard = f"Confusion matrix of {name} with {n_labels - 1} known classes and the unknown."
        draw = partial(draw_confusion, portrait=portraits[name], method=name)
        drawings.append(_draw_figure(f"confusion-{position}", (side, side), draw, text, heard, wide=n_labels > 12))
    missing = [] if drawings else ["The first trial has no details to show."]
    return Section("portraits", "Errors and confusion in one trial", drawings, missing)


def _draw_targets(coverage: pd.DataFrame, compared: str, band: str, one_level: bool) -> Section:
    drawings: list[Drawing] = []
    heading = "Thresholds for target rates"
    if coverage.empty or not coverage["known_rejected"].notna().any():
        return Section("targets", heading, drawings, ["No thresholds for target rates were measured."])
    missing = []
    try:
        target = compute_target_curves(coverage, compared)
    except ValueError:
        missing.append(f"No thresholds of {compared} were measured.")
    else:
        where = "" if one_level else " at the largest openness"
        text = f"Metrics of {compared}{where}, against the target rate of its threshold. {band}"
        heard = f"F-measure, accuracy and share of unknown samples rejected of {compared} against the target rate."
        drawings.append(
            _draw_figure("target", _CURVES, partial(draw_target, curves=target, method=compared), text, heard)
        )
    curves = compute_coverage_curves(coverage, "known_rejected")
    drawn, left_out = choose_coverage_methods(curves)
    left = f" Not drawn: {join_names(left_out, 20)}." if left_out else ""
    text = (
        "Share of known test samples that are rejected, against the target share. The dotted line is the target; above "
        f"it, more are rejected.{left} {band}{_explain_leveling([*drawn, *left_out])}"
    )
    heard = "Share of known test samples rejected against the target: " + join_names(drawn, 20) + "."
    draw = partial(draw_coverage, curves=curves, methods=drawn)
    drawings.append(_draw_figure("coverage", _CURVES, draw, text, heard))
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


def _draw_curves(name: str, curves: Mapping[str, Curve], metric: str, text: str) -> Drawing:
    """Draw the curves of the featured methods."""
    label, featured = METRIC_INFO[metric].label, choose_featured(curves)
    some = curves[featured[0]].openness
    ends = (f"{n} from {format_number(curves[n].mean[0])} to {format_number(curves[n].mean[-1])}" for n in featured)
    heard = f"{label} against openness from {100 * some[0]:.2f} to {100 * some[-1]:.2f} %: {', '.join(ends)}."
    draw = partial(draw_openness, curves=curves, metric=metric, methods=featured)
    return _draw_figure(name, _CURVES, draw, text, heard)


def _draw_figure(
    name: str,
    size: tuple[float, float],
    draw: Callable[[Any], object],
    text: str,
    heard: str,
    *,
    whole: bool = False,
    wide: bool = False,
) -> Drawing:
    """Draw into the axes of a new figure, or into the ``whole`` figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure if whole else figure.add_subplot())
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=_DPI, facecolor="white", metadata={"Software": None})
    svg = render_inline_svg(figure, f"figure-{name}", heard)
    return Drawing(f"figure-{name}", svg, text, size[0], wide, picture.getvalue())
