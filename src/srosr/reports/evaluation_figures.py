"""Figures of an evaluation: scores, OSCR curve, trade-off between thresholds, and confusion matrix."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.plotting import INK, KNOWN_COLOR, PALE, UNKNOWN_COLOR, draw_grid, draw_histogram, remove_spines
from ..evaluation.evaluation import Evaluation
from ..inspection.metric_displays import OpenSetConfusionDisplay, OSCRDisplay
from ..metrics.oscr import oscr_curve
from .evaluation_text import format_score
from .html_page import use_page_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A matrix with more classes than this shows only those that are confused most.
MOST_CLASSES = 30
# Letters of a class name beside the matrix; points of a curve; scores above 1 - 10**-_FARTHEST are drawn there.
_LETTERS, _POINTS, _FARTHEST = 18, 2000, 6.0
_BINS = 60
# The largest side of a small matrix; room for a legend between a panel and its heading.
_SMALL, _PADS = 6.2, {"scores": 24, "confusion": 42}
_DASHES = (0, (4, 2))
_FONT = {"font.size": 9.5}
_HERE = {"marker": "D", "markersize": 7, "color": INK, "linestyle": "none", "markeredgecolor": "white", "zorder": 5}


class Panel(NamedTuple):
    """A part of the figure: its drawing function, its size in inches as a separate figure, and its heading."""

    draw: Callable[[Axes, Evaluation], None]
    size: Callable[[Evaluation], tuple[float, float]]
    heading: str
    #: Kinds of samples that it needs.
    needs: tuple[str, ...]


# -- scores ----------------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    """An axis for scores."""

    place: Callable[[Any], Any]
    low: float
    high: float
    ticks: list[float] | None
    names: list[str] | None
    remark: str


def _choose_scale(found: Evaluation) -> _Scale:
    """Return a linear scale or, for thresholds near 1, one with as much room for 0.99 to 0.999 as for 0 to 0.9."""
    finite = found.score[np.isfinite(found.score)]
    cuts = np.empty(0) if found.thresholds is None else found.thresholds[np.isfinite(found.thresholds)]
    if found.score_range == (0.0, 1.0) and len(cuts) and float(np.median(cuts)) >= 0.9:

        def place(values: Any) -> Any:
            return -np.log10(np.clip(1.0 - np.asarray(values), 10.0**-_FARTHEST, 1.0))

        high = 1.03 * max(2.0, float(np.max(place(np.append(finite, cuts)))))
        whole = [float(k) for k in range(int(high) + 1)]
        return _Scale(place, 0.0, high, whole, ["0", *("0." + "9" * int(k) for k in whole[1:])], "")
    values = np.concatenate([finite, cuts]) if len(finite) + len(cuts) else np.array([0.0, 1.0])
    low, high = (float(q) for q in np.quantile(values, [0.01, 0.99]))
    low, high = min([low, *cuts.tolist()]), max([high, *cuts.tolist()])
    beyond = bool((found.score > high + (high - low) * 0.1).any() or (found.score < low - (high - low) * 0.1).any())
    margin = 0.05 * (high - low) or 0.5
    low, high = max(low - margin, found.score_range[0]), high + margin
    remark = "; values beyond are drawn at the ends" if beyond else ""
    return _Scale(lambda values: np.clip(values, low, high), low, high, None, None, remark)


def draw_scores(ax: Axes, found: Evaluation) -> None:
    """Draw unknown scores of known and of unknown samples, with the threshold."""
    scale = _choose_scale(found)
    bins = np.linspace(scale.low, scale.high, _BINS + 1)
    unknown, right = found.unknown, found.candidate == found.truth
    place = np.asarray(scale.place(found.score))
    known = place[~unknown]
    if len(known):
        draw_histogram(ax, known, bins, KNOWN_COLOR, f"known: {len(known):,} samples")
        wrong = place[~unknown & ~right]
        if len(wrong):
            weights = np.full(len(wrong), 100.0 / len(known))
            ax.hist(
                wrong, bins.tolist(), weights=weights, facecolor=INK, histtype="stepfilled",
                label=f"of these, wrong candidate: {len(wrong):,}",
            )  # fmt: skip
    if unknown.any():
        draw_histogram(ax, place[unknown], bins, UNKNOWN_COLOR, f"unknown: {found.n_unknown:,} samples")
    ax.set_ylim(0, 1.16 * ax.get_ylim()[1])
    _draw_thresholds(ax, found, scale)
    remove_spines(ax)
    if scale.ticks is not None:
        ax.set_xticks(scale.ticks, scale.names)
    ax.set_xlim(scale.low, scale.high)
    ax.set_xlabel(f"unknown score{scale.remark}")
    ax.set_ylabel("% of known, % of unknown" if unknown.any() and len(known) else "% of samples")
    ax.legend(
        frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.1,
        fontsize="small", handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip


def _draw_thresholds(ax: Axes, found: Evaluation, scale: _Scale) -> None:
    if found.thresholds is None:
        return
    cuts = np.asarray(scale.place(found.thresholds))
    low, high = float(cuts.min()), float(cuts.max())
    if found.threshold is None:
        ax.axvspan(low, high, color=PALE, alpha=0.4, linewidth=0, zorder=0)
    for cut in {low, high}:
        ax.axvline(cut, color=INK, linewidth=1.2, linestyle=_DASHES)
    width = scale.high - scale.low
    for cut, text, side, offset, room in (
        (low, "← accepted", "right", -5, low - scale.low),
        (high, "rejected →", "left", 5, scale.high - high),
    ):
        if room > 0.14 * width:
            ax.annotate(
                text, (cut, 0.99), xycoords=("data", "axes fraction"), xytext=(offset, 0), textcoords="offset points",
                ha=side, va="top", fontsize="small",
            )  # fmt: skip


# -- curves ----------------------------------------------------------------------------------------------


def draw_oscr(ax: Axes, found: Evaluation) -> None:
    """Draw the OSCR curve and the position of the model's threshold."""
    fpr, ccr, _ = oscr_curve(found.true, found.candidate, found.score, unknown_label=-1)
    label = f"area {OSCRDisplay(fpr, ccr).area:.3f}"
    kept = _thin_out(len(fpr))
    OSCRDisplay(fpr[kept], ccr[kept]).plot(ax, label=label)
    now = found.now
    assert now.unknown_rejected is not None and now.recognized is not None
    ax.plot([1 - now.unknown_rejected], [now.recognized], **_HERE, label="the model's threshold", clip_on=False)  # type: ignore[arg-type]
    ax.legend(frameon=False, loc="lower right", fontsize="small", handlelength=2.6)


def draw_trade(ax: Axes, found: Evaluation) -> None:
    """Draw the share of unknown samples rejected against that of known samples, over all thresholds."""
    unknown = found.unknown
    values, rank = np.unique(found.score, return_inverse=True)
    rejected = [
        np.append(1.0, 1.0 - np.cumsum(np.bincount(rank[which], minlength=len(values))) / np.count_nonzero(which))
        for which in (~unknown, unknown)
    ]
    kept = _thin_out(len(values) + 1)
    ax.plot([0, 1], [0, 1], color=PALE, linewidth=1.0, linestyle=_DASHES)
    ax.plot(
        rejected[0][kept], rejected[1][kept], color=UNKNOWN_COLOR, linewidth=2.0, clip_on=False, label="any threshold"
    )
    shown: list[float] = []
    for effect in found.threshold_effects:
        if effect.unknown_rejected is None or effect.known_rejected is None or effect.threshold is None:
            continue
        at = (effect.known_rejected, effect.unknown_rejected)
        ax.plot(*at, "o", color=UNKNOWN_COLOR, markersize=4.5, clip_on=False, zorder=4)
        # Labels of points that are close would overlap.
        if not shown or abs(at[0] - shown[-1]) > 0.07:
            shown.append(at[0])
            label = format_score(effect.threshold)
            ax.annotate(label, at, xytext=(7, -4), textcoords="offset points", va="top", fontsize="x-small")
    now = found.now
    assert now.unknown_rejected is not None and now.known_rejected is not None
    ax.plot([now.known_rejected], [now.unknown_rejected], **_HERE, label="the model's threshold", clip_on=False)  # type: ignore[arg-type]
    draw_grid(ax)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("known samples rejected")
    ax.set_ylabel("unknown samples rejected")
    ax.legend(frameon=False, loc="lower right", fontsize="small", handlelength=2.6)


def _thin_out(n: int) -> IntArray:
    """Return indices of at most `_POINTS` of n points, including the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, _POINTS)).round().astype(np.int64))


# -- confusion -------------------------------------------------------------------------------------------


def draw_confusion(ax: Axes, found: Evaluation) -> None:
    """Draw the confusion matrix; of many classes, those that are confused most."""
    classes = choose_classes(found)
    OpenSetConfusionDisplay(_shorten_names(found, classes), _build_matrix(found, classes)).plot(ax)


def choose_classes(found: Evaluation) -> IntArray:
    """Return the classes in the matrix: all, or those that occur in the most mistakes."""
    k = len(found.names)
    if k <= MOST_CLASSES:
        return np.arange(k)
    mistakes: IntArray = np.zeros(k, dtype=np.int64)
    for (label, answer), n in found.confusion.items():
        if label != answer and (label < k or answer >= 0):
            for number in {label, answer} - {-1, *range(k, k + len(found.unknown_labels))}:
                mistakes[number] += n
    return np.sort(np.argsort(-mistakes, kind="stable")[:MOST_CLASSES])


def _build_matrix(found: Evaluation, classes: IntArray) -> IntArray:
    k, n = len(found.names), len(classes)
    place = {int(number): i for i, number in enumerate(classes)} | {-1: n}
    matrix: IntArray = np.zeros((n + 1, n + 1), dtype=np.int64)
    for (label, answer), count in found.confusion.items():
        row = n if label >= k else place.get(label)
        column = place.get(answer)
        if row is not None and column is not None:
            matrix[row, column] += count
    return matrix


def _shorten_names(found: Evaluation, classes: IntArray) -> AnyArray:
    names = [found.names[i] for i in classes.tolist()]
    short = [name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…" for name in names]
    # Matplotlib reads a dollar as mathematics.
    escaped = [name.replace("$", r"\$") for name in short]
    return np.array([*escaped, "unknown"], dtype=object)


def _compute_confusion_size(found: Evaluation) -> tuple[float, float]:
    n = min(len(found.names), MOST_CLASSES) + 1
    side = float(np.clip(2.2 + 0.36 * n, 4.4, 9.5))
    return side, side


# -- the whole -------------------------------------------------------------------------------------------

PANELS: dict[str, Panel] = {
    "scores": Panel(draw_scores, lambda _: (5.8, 3.9), "Unknown scores", ()),
    "oscr": Panel(draw_oscr, lambda _: (5.2, 4.4), "OSCR curve", ("known", "unknown")),
    "trade": Panel(draw_trade, lambda _: (5.2, 4.4), "Trade-off between thresholds", ("known", "unknown")),
    "confusion": Panel(draw_confusion, _compute_confusion_size, "Answers", ()),
}


def choose_panels(found: Evaluation) -> dict[str, Panel]:
    """Return the panels that can be drawn with these samples."""
    there = {"known": found.n_known, "unknown": found.n_unknown}
    return {name: panel for name, panel in PANELS.items() if all(there[need] for need in panel.needs)}


@contextmanager
def draw_panel(found: Evaluation, name: str) -> Iterator[Figure]:
    """Draw one panel as a separate figure without background."""
    from matplotlib.figure import Figure

    panel = PANELS[name]
    with use_page_style(**_FONT):
        figure = Figure(figsize=panel.size(found), layout="constrained", facecolor="none")
        panel.draw(figure.add_subplot(), found)
        yield figure


def draw_evaluation(found: Evaluation, *, file_format: str = "png", title: str = "") -> bytes:
    """Draw all panels in one figure and return the bytes of a png, pdf or svg file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    there = choose_panels(found)
    side, curves = _compute_confusion_size(found)[0], "oscr" in there
    # A small matrix is one of two or four equal panels; a large one stands beside the others.
    small = side <= _SMALL
    if small:
        width, height = 12.8, 9.6 if curves else 5.0
    else:
        width, height = (9.6 + side, max(side, 8.4) + 0.8) if curves else (7.4 + side, side + 0.8)
    written = io.BytesIO()
    with (
        use_page_style(**_FONT),
        rc_context({"svg.hashsalt": "srosr", "svg.fonttype": "path", "text.parse_math": False}),
    ):
        figure = Figure(figsize=(width, height), dpi=120, layout="constrained", facecolor="white")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # type: ignore[call-arg, union-attr]
        if title:
            figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=12.5)
        axes: dict[str, Axes]
        if small and curves:
            axes = figure.subplot_mosaic([["scores", "confusion"], ["oscr", "trade"]])  # type: ignore[arg-type]
        elif curves:
            first, second = np.ravel(figure.subfigures(1, 2, width_ratios=[9.6, side], wspace=0.03))  # type: ignore[arg-type]
            axes = first.subplot_mosaic([["scores", "scores"], ["oscr", "trade"]], height_ratios=[1.0, 1.1])  # type: ignore[arg-type]
            axes["confusion"] = second.subplots()
        else:
            axes = figure.subplot_mosaic([["scores", "confusion"]])  # type: ignore[arg-type]
        for name, panel in there.items():
            panel.draw(axes[name], found)
            axes[name].set_title(
                panel.heading, loc="left", fontsize="medium", fontweight="bold", pad=_PADS.get(name, 8)
            )
        dates: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(file_format, {})
        figure.savefig(written, format=file_format, metadata=dates)
    return written.getvalue()
