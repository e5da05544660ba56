"""The figures of a report: which there are, how large, what they are called and what is said below them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._support.messages import join_names
from .._support.number_format import capital, number
from .._support.plotting import INK
from ..experiments import LEAST_FOR_INTERVAL, METRIC_INFO, Curve, levels
from .detail_figures import CoverageDisplay, PortraitErrorsDisplay, TargetDisplay, portrait_confusion
from .inline_svg import inline_svg
from .method_panels import MethodGridDisplay, TradeDisplay, grid_size
from .method_styles import OURS, in_order, plain
from .openness_figures import OpennessDisplay, RankingDisplay, ranking_size

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FIGURE_NAME", "Drawing", "Section", "drawn_sections"]

#: What figures are called, in this or another version of the same report.
FIGURE_NAME = re.compile(
    r"(openness|methods)-(f|accuracy)|(recognition|rejection)-accuracy|trade|ranking-(f|accuracy|auroc|oscr)"
    r"|(errors|confusion)-[0-9]+|target|coverage",
    re.ASCII,
)
_CURVES = (5.6, 4.4)
_DPI = 130


@dataclass(frozen=True)
class Drawing:
    """A figure in the page: its id, the ``<svg>``, what is written below, inches of width, and a PNG."""

    name: str
    svg: str
    caption: str
    width: float
    wide: bool = False
    png: bytes = b""


@dataclass(frozen=True)
class Section:
    """Figures that belong together; ``missing`` says why some are not there."""

    name: str
    heading: str
    drawings: list[Drawing]
    missing: list[str]


def drawn_sections(
    results: pd.DataFrame,
    coverage: pd.DataFrame,
    portraits: Mapping[str, Mapping[str, Any]],
    *,
    methods: Sequence[str],
    ours: str = OURS,
    compared: str | None = None,
) -> list[Section]:
    """All figures of a report, by section.

    Parameters
    ----------
    results, coverage : DataFrame
    portraits : dict of str to dict
        By method; methods without one are left out.
    methods : sequence of str
        All that were to run: one without results has an empty panel.
    ours : str
    compared : str, optional
        The method whose thresholds are looked at; None takes ours.
    """
    from matplotlib import style

    there = {str(metric) for metric in results.loc[results["value"].notna(), "metric"].unique()}
    there_are = results[results["value"].notna()]
    most = int(there_are.groupby("method")["trial"].nunique().max()) if len(there_are) else 0
    if most >= LEAST_FOR_INTERVAL:
        band = "Means over trials; bands and whiskers are the 95\N{NO-BREAK SPACE}% intervals of the means."
    else:
        band = "Means over two trials, so without intervals." if most > 1 else "One trial, so without intervals."
    # As on every machine, whatever its settings file says; Matplotlib brings the font.
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    look: dict[str, Any] = dict.fromkeys(inked, INK)
    look |= {"font.family": "DejaVu Sans", "axes.linewidth": 0.8, "figure.facecolor": "none"}
    one_level = len({step for metric in ("f", "accuracy") for step in levels(results, metric)}) == 1
    with style.context(["default", look], after_reset=True):
        sections = (
            [] if one_level else [_openness(results, there, methods, ours, band), _trade(results, there, ours, band)]
        )
        return [
            *sections,
            _ranking(results, there, ours, most >= LEAST_FOR_INTERVAL, one_level),
            _portraits(portraits, ours),
            _targets(coverage, ours, compared or ours, band, one_level),
        ]


def _openness(results: pd.DataFrame, there: set[str], methods: Sequence[str], ours: str, band: str) -> Section:
    drawings, missing = [], []
    for metric in ("f", "accuracy"):
        if metric not in there:
            missing.append(f"No {METRIC_INFO[metric].label} was measured.")
            continue
        display = OpennessDisplay.from_results(results, metric, ours=ours)
        label = METRIC_INFO[metric].label
        all_drawn = set(display.curves) >= set(results.loc[results["metric"] == metric, "method"])
        rest = "" if all_drawn else " All methods are in the panels below."
        text = f"{capital(label)} against openness: {join_names(list(display.curves), 20)}. {band}{rest}"
        drawings.append(_drawing(f"openness-{metric}", _CURVES, display, text, _heard(display.curves, label)))
    for metric in ("f", "accuracy"):
        if metric in there:
            grid = MethodGridDisplay.from_results(results, metric, methods=in_order(methods, ours), ours=ours)
            label = METRIC_INFO[metric].label
            text = (
                f"{capital(label)} against openness of every method: its own curve over those of all the others in "
                f"grey. {band}"
            )
            heard = f"{label} against openness, a panel for each of {len(grid.methods)} methods."
            size = grid_size(len(grid.methods))
            drawings.append(_drawing(f"methods-{metric}", size, grid, text, heard, whole=True, wide=True))
    return Section("openness", "As the problem opens", drawings, missing)


def _trade(results: pd.DataFrame, there: set[str], ours: str, band: str) -> Section:
    drawings, missing = [], []
    for metric, meaning in (
        ("recognition_accuracy", "known samples that are accepted and get the right class"),
        ("rejection_accuracy", "unknown samples that are refused"),
    ):
        label = METRIC_INFO[metric].label
        if metric not in there:
            missing.append(f"No {label} was measured.")
            continue
        display = OpennessDisplay.from_results(results, metric, ours=ours)
        text = f"{capital(label)}: the share of {meaning}. {band}"
        name = metric.replace("_", "-")
        drawings.append(_drawing(name, _CURVES, display, text, _heard(display.curves, label)))
    if {"recognition_accuracy", "rejection_accuracy"} & there:
        trade = TradeDisplay.from_results(results, ours=ours)
        text = (
            "Recognition, rejection and the accuracy that comes of both, of every method. The more open the problem, "
            f"the more samples are unknown, and the nearer accuracy comes to rejection. {band}"
        )
        heard = (
            f"Recognition, rejection and accuracy against openness, a panel for each of {len(trade.methods)} methods."
        )
        size = grid_size(len(trade.methods), 0.35)
        drawings.append(_drawing("trade", size, trade, text, heard, whole=True, wide=True))
    return Section("trade", "Why accuracy rises or falls: recognition and rejection", drawings, missing)


def _ranking(results: pd.DataFrame, there: set[str], ours: str, intervals: bool, one_level: bool) -> Section:
    drawings, missing = [], []
    where = "" if one_level else " at the largest openness"
    # Where the problem does not open further, bars say what curves would.
    shown = ("oscr", "auroc", "f", "accuracy") if one_level else ("auroc", "oscr")
    for metric in shown:
        start = " Bars begin at 0.5, which is chance." if metric == "auroc" else ""
        label = METRIC_INFO[metric].label
        if metric not in there:
            missing.append(f"No {label} was measured.")
            continue
        display = RankingDisplay.from_results(results, metric, ours=ours)
        whiskers = "; whiskers are 95\N{NO-BREAK SPACE}% intervals" if intervals else ""
        text = f"{capital(label)}{where}, the best on top{whiskers}.{start}"
        values = zip(display.methods, display.mean, strict=True)
        heard = f"{label}{where}: " + ", ".join(f"{name} {number(mean)}" for name, mean in values) + "."
        drawings.append(_drawing(f"ranking-{metric}", ranking_size(len(display.methods)), display, text, heard))
    return Section("ranking", f"Ranking{where}", drawings, missing)


def _portraits(portraits: Mapping[str, Mapping[str, Any]], ours: str) -> Section:
    drawings: list[Drawing] = []
    names = in_order((name for name, portrait in portraits.items() if portrait), ours)
    seen: list[Any] = []
    for position, name in enumerate(names):
        portrait = portraits[name]
        errors = [portrait["held_out"], portrait["test"]["known"], portrait["test"]["unknown"]]
        errors = [[part["matched"], part["nonmatched"]] for part in errors]
        if errors not in seen:
            seen.append(errors)
            text = (
                f"Errors of {name} in the first trial, on one scale. Above, of the sample's class (of the best class, "
                "in testing); below, the mean of all other classes. Where the curves of known and unknown samples "
                "part, they can be told apart."
            )
            heard = f"Histograms of matched and non-matched errors of {name}: held-out, known and unknown samples."
            display = PortraitErrorsDisplay.from_portrait(portrait, method=name)
            drawings.append(_drawing(f"errors-{position}", (5.6, 4.9), display, text, heard, whole=True))
    for position, name in enumerate(names):
        confusion = portrait_confusion(portraits[name])
        # The matrix itself in the page, not a picture of it in some resolution.
        side = min(max(1.6 + 0.36 * len(confusion.labels), 4.6), 9.0)
        text = f"Confusion of {name} in the first trial; the last column holds refusals, the last row unknown samples."
        heard = f"Confusion matrix of {name} with {len(confusion.labels) - 1} known classes and the unknown."
        wide = len(confusion.labels) > 12
        drawings.append(
            _drawing(f"confusion-{position}", (side, side), _Crisp(confusion, name), text, heard, wide=wide)
        )
    missing = [] if drawings else ["The first trial left no portrait to draw."]
    return Section("portraits", "One trial from near: errors and confusion", drawings, missing)


def _targets(coverage: pd.DataFrame, ours: str, compared: str, band: str, one_level: bool) -> Section:
    drawings: list[Drawing] = []
    heading = "Thresholds by a target rate"
    if coverage.empty or not coverage["known_refused"].notna().any():
        return Section("targets", heading, drawings, ["No thresholds by a target were looked at."])
    missing = []
    try:
        display = TargetDisplay.from_coverage(coverage, compared)
    except ValueError:
        missing.append(f"No thresholds of {compared} were looked at.")
    else:
        where = "" if one_level else " at the largest openness"
        text = f"What {compared} comes to{where}, by the rate that its threshold is set to keep. {band}"
        heard = f"F-measure, accuracy and share of unknown samples refused of {compared} against the target rate."
        drawings.append(_drawing("target", _CURVES, display, text, heard))
    kept = CoverageDisplay.from_coverage(coverage, ours=ours)
    left = f" Not drawn, for want of room: {join_names(kept.left_out, 20)}." if kept.left_out else ""
    text = (
        "Is the target kept? Known test samples that are refused, against the share that was asked for: on the dotted "
        f"line as asked, above it more.{left} {band}{_levelling([*kept.curves, *kept.left_out])}"
    )
    heard = "Share of known test samples refused against the target: " + join_names(list(kept.curves), 20) + "."
    drawings.append(_drawing("coverage", _CURVES, kept, text, heard))
    return Section("targets", heading, drawings, missing)


def _levelling(methods: Sequence[str]) -> str:
    """Why the paper's rules cannot refuse much, where they are among the methods."""
    rules = [name for name in methods if name.split("-")[0] in ("paper", "matched")]
    if not rules:
        return ""
    return (
        f" {join_names(rules, 6)} can level off: a tail probability is zero for every sample whose errors are below "
        "the tails, and no threshold tells such samples apart."
    )


class _Crisp:
    """A confusion matrix of a method, whose cells stay sharp at any size."""

    def __init__(self, display: Any, method: str) -> None:
        self.display, self.method = display, method

    def plot(self, ax: Any) -> None:
        self.display.plot(ax)
        ax.set_xlabel(f"answered by {plain(self.method)}")
        for image in ax.images:
            image.set_interpolation("none")


def _drawing(
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
    svg = inline_svg(figure, f"figure-{name}", heard)
    return Drawing(f"figure-{name}", svg, text, size[0], wide, picture.getvalue())


def _heard(curves: Mapping[str, Curve], label: str) -> str:
    """The curves in words, for who cannot see them."""
    some = next(iter(curves.values()))
    text = f"{label} against openness from {100 * some.openness[0]:.2f} to {100 * some.openness[-1]:.2f} %: "
    ends = (f"{name} from {number(c.mean[0])} to {number(c.mean[-1])}" for name, c in curves.items())
    return text + ", ".join(ends) + "."
