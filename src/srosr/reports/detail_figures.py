"""Figures of details: errors and confusion of one trial, and thresholds for target rates.

A display holds numbers: ``from_portrait`` or ``from_coverage`` builds it from the records of an experiment, and
``plot`` draws it into given axes or a new pyplot figure and stores ``ax_`` or ``axes_``, and ``figure_``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, KNOWN_COLOR, PALE, SHADE, UNKNOWN_COLOR, find_bins, make_panels, remove_spines
from ..experiments import Curve, mean_interval
from ..inspection import OpenSetConfusionDisplay
from .method_styles import OURS, OURS_COLOR, escape_label, label_method, order_methods, shorten_names
from .openness_figures import compute_value_limits, place_legend_above

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CoverageDisplay",
    "PortraitErrorsDisplay",
    "TargetDisplay",
    "compute_coverage_curves",
    "make_confusion_display",
]

#: The largest number of gray curves that are distinguishable.
MAX_PALE = 6
_PALE_STROKES: tuple[tuple[Any, str], ...] = (
    ("-", "s"),
    ((0, (6, 2)), "^"),
    ((0, (1, 1.2)), "v"),
    ((0, (6, 2, 1.5, 2)), "D"),
    ((0, (3, 1.5)), "X"),
    ((0, (9, 2, 1.5, 2, 1.5, 2)), "P"),
)
_FAINT = "#8d92a1"
_GROUPS: tuple[tuple[str, str, Any], ...] = (
    ("held-out training", INK, (0, (1, 1))),
    ("test, known", KNOWN_COLOR, "-"),
    ("test, unknown", UNKNOWN_COLOR, (0, (5, 1.5))),
)


class PortraitErrorsDisplay:
    """Histograms of matched and of non-matched errors of one trial, on one scale.

    The matched error of a sample is the residual of its class (for test samples, of the best class); the non-matched
    error is the mean residual of all other classes.

    Parameters
    ----------
    matched, nonmatched : tuple of three ndarray
        Errors of held-out training samples, known test samples and unknown test samples.
    method : str, optional
        Name of the method, for the titles.

    Attributes
    ----------
    axes_ : tuple of two Axes
    figure_ : Figure
    """

    axes_: tuple[Axes, ...]
    figure_: Figure

    def __init__(self, matched: Sequence[Array], nonmatched: Sequence[Array], *, method: str = "") -> None:
        self.method = method
        self.matched, self.nonmatched = (
            tuple(_keep_finite(values) for values in three) for three in (matched, nonmatched)
        )

    @classmethod
    def from_portrait(cls, portrait: Mapping[str, Any], *, method: str = "") -> PortraitErrorsDisplay:
        """Build the display from the portrait of a method.

        Parameters
        ----------
        portrait : dict
        method : str, optional
        """
        parts = (portrait["held_out"], portrait["test"]["known"], portrait["test"]["unknown"])
        return cls([part["matched"] for part in parts], [part["nonmatched"] for part in parts], method=method)

    def plot(self, figure: Any = None, *, bins: int = 50) -> PortraitErrorsDisplay:
        """Draw the histograms, one above the other.

        Parameters
        ----------
        figure : Figure or SubFigure, optional
        bins : int
        """
        if figure is None:
            from matplotlib import pyplot as plt

            figure = plt.figure(figsize=(5.6, 4.9), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        whose = f"{escape_label(self.method)}: " if self.method else ""
        everything = [values for values in (*self.matched, *self.nonmatched) if len(values)]
        edges = find_bins(bins, *everything) if everything else np.linspace(0.0, 1.0, bins + 1)
        for ax, three, name in ((upper, self.matched, "matched error"), (lower, self.nonmatched, "non-matched error")):
            for values, (label, color, dashes) in zip(three, _GROUPS, strict=True):
                weights = np.full(len(values), 100.0 / max(len(values), 1))
                steps = {"x": values, "bins": edges.tolist(), "weights": weights, "color": color}
                ax.hist(**steps, alpha=0.14, histtype="stepfilled")
                count = f"{len(values):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
                ax.hist(**steps, histtype="step", linewidth=1.4, linestyle=dashes, label=f"{label} ({count})")
            remove_spines(ax)
            ax.set_ylabel("% of samples")
            ax.set_title(whose + name, fontsize="medium", loc="left", pad=4)
        lower.set_xlim(edges[0], edges[-1])
        lower.set_xlabel("reconstruction error")
        figure.legend(
            handles=_make_legend_handles(upper), loc="outside upper left", ncols=3, frameon=False, fontsize="small",
            columnspacing=1.2, handlelength=2.2,
        )  # fmt: skip
        self.axes_, self.figure_ = (upper, lower), figure
        return self


def make_confusion_display(portrait: Mapping[str, Any]) -> OpenSetConfusionDisplay:
    """Return the confusion matrix of a portrait, with long class names shortened.

    Parameters
    ----------
    portrait : dict
    """
    names = [*map(escape_label, shorten_names(list(portrait["class_names"]))), "unknown"]
    matrix = np.asarray(portrait["confusion"], dtype=np.int64)
    if matrix.shape != (len(names), len(names)):
        raise ValueError(
            f"the confusion matrix of a portrait with {len(names) - 1} classes must be {len(names)} by {len(names)}, "
            f"not {matrix.shape}."
        )
    return OpenSetConfusionDisplay(np.array(names, dtype=object), matrix)


class TargetDisplay:
    """Metrics against the target rate of the threshold, at the largest openness.

    Parameters
    ----------
    f, accuracy, unknown_rejected : Curve
        Against the target rate, which is stored in place of openness.
    method : str

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, f: Curve, accuracy: Curve, unknown_rejected: Curve, *, method: str = OURS) -> None:
        self.f, self.accuracy, self.unknown_rejected, self.method = f, accuracy, unknown_rejected, method

    @classmethod
    def from_coverage(cls, coverage: pd.DataFrame, method: str = OURS) -> TargetDisplay:
        """Build the display of one method from a coverage table.

        Parameters
        ----------
        coverage : DataFrame
            With the columns trial, method, target, known_rejected, unknown_rejected, f and accuracy.
        method : str
        """
        found = [
            compute_coverage_curves(coverage, column).get(method) for column in ("f", "accuracy", "unknown_rejected")
        ]
        if any(one is None for one in found):
            raise ValueError(f"coverage has no rows of the method {method!r}.")
        return cls(*found, method=method)  # type: ignore[arg-type]

    def plot(self, ax: Axes | None = None) -> TargetDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, optional
        """
        (ax,) = make_panels(ax, 1, (5.6, 4.4), [1.0])
        kinds: tuple[tuple[Curve, str, str, Any, str], ...] = (
            (self.f, "F-measure", KNOWN_COLOR, "-", "o"),
            (self.accuracy, "accuracy", INK, (0, (6, 2)), "s"),
            (self.unknown_rejected, "unknown samples rejected", UNKNOWN_COLOR, (0, (2, 1.2)), "^"),
        )
        for curve, label, color, dashes, marker in kinds:
            line: dict[str, Any] = {
                "color": color,
                "linestyle": dashes,
                "marker": marker,
                "markersize": 5.5,
                "linewidth": 1.8,
            }
            ax.plot(curve.openness, curve.mean, **line, label=label, zorder=3)
            _draw_band(ax, curve, color)
        _scale_target_axis(ax, "x", self.f.openness)
        ax.set_xlim(0.85 * self.f.openness[0], 1.15 * self.f.openness[-1])
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_ylim(*compute_value_limits([curve for curve, *_ in kinds]))
        ax.set_xlabel("target share of known samples rejected, in %")
        ax.set_ylabel(escape_label(self.method) + (", mean over trials" if self.f.n_trials > 1 else ", one trial"))
        place_legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class CoverageDisplay:
    """Share of known test samples rejected, against the target rate.

    A method that keeps its target is on the diagonal; above it, more samples are rejected.

    Parameters
    ----------
    curves : dict of str to Curve
        Against the target rate, which is stored in place of openness. All but ours are drawn in gray.
    ours : str

    Attributes
    ----------
    left_out : list of str
        Methods that are not drawn.
    ax_ : Axes
    figure_ : Figure
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, curves: Mapping[str, Curve], *, ours: str = OURS) -> None:
        self.n_trials = max((c.n_trials for c in curves.values()), default=0)
        others = [name for name in order_methods(curves, ours) if name != ours]
        kept, self.left_out = others[:MAX_PALE], others[MAX_PALE:]
        self.curves = {name: curves[name] for name in ([ours] if ours in curves else []) + kept}
        self.ours = ours

    @classmethod
    def from_coverage(
        cls, coverage: pd.DataFrame, *, methods: Sequence[str] | None = None, ours: str = OURS
    ) -> CoverageDisplay:
        """Build the display from a coverage table.

        Parameters
        ----------
        coverage : DataFrame
        methods : sequence of str, optional
            None takes the first ones in the order of all figures.
        ours : str
        """
        found = compute_coverage_curves(coverage, "known_rejected")
        kept = {name: curve for name, curve in found.items() if methods is None or name in (*methods, ours)}
        if not kept:
            raise ValueError("coverage has no rows of these methods.")
        return cls(kept, ours=ours)

    def plot(self, ax: Axes | None = None) -> CoverageDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, optional
        """
        (ax,) = make_panels(ax, 1, (5.6, 4.4), [1.0])
        ends = np.concatenate([c.openness for c in self.curves.values()])
        low, high = float(ends.min()), float(ends.max())
        ax.plot([0.0, high], [0.0, high], color=INK, linewidth=1.0, linestyle=(0, (1, 2)), label="target", zorder=1)
        pale = iter(_PALE_STROKES)
        stroke: dict[str, Any]
        for name, curve in self.curves.items():
            label = escape_label(label_method(name, self.ours, curve.n_trials, self.n_trials))
            if name == self.ours:
                stroke = {"color": OURS_COLOR, "linewidth": 2.6, "marker": "o", "markersize": 6.5, "zorder": 4}
                _draw_band(ax, curve, OURS_COLOR)
            else:
                dashes, marker = next(pale)
                stroke = {"color": _FAINT, "linestyle": dashes, "linewidth": 1.1, "marker": marker, "markersize": 4.5}
                stroke |= {"zorder": 3, "markerfacecolor": PALE}
            ax.plot(curve.openness, curve.mean, **stroke, label=label)
        _scale_target_axis(ax, "x", ends)
        _scale_target_axis(ax, "y", ends)
        top = max([high, *(float(np.nanmax(np.fmax(c.mean, c.high))) for c in self.curves.values())])
        ax.set_xlim(0.85 * low, 1.1 * high)
        ax.set_ylim(0.0, min(1.1 * top, 1.0))
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel("target share of known samples rejected, in %")
        ax.set_ylabel("known test samples rejected, in %")
        place_legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


def compute_coverage_curves(coverage: pd.DataFrame, column: str) -> dict[str, Curve]:
    """Return mean and interval of a column of the coverage table at every target, by method.

    Parameters
    ----------
    coverage : DataFrame
    column : str
        Such as "known_rejected" or "f".

    Returns
    -------
    curves : dict of str to Curve
        With the target in place of openness.
    """
    drawn = {}
    for method, rows in coverage[coverage[column].notna()].groupby("method"):
        by_target = {float(target): mean_interval(one[column]) for target, one in rows.groupby("target")}
        targets = sorted(by_target)
        mean, half = (np.array([getattr(by_target[t], name) for t in targets]) for name in ("mean", "half_width"))
        drawn[str(method)] = Curve(np.array(targets), mean, half, int(rows["trial"].nunique()))
    return drawn


def _scale_target_axis(ax: Axes, which: str, targets: Array) -> None:
    """Set a logarithmic scale that begins at zero."""
    smallest = float(targets[targets > 0].min()) if (targets > 0).any() else 0.01
    axis, rescale = (ax.xaxis, ax.set_xscale) if which == "x" else (ax.yaxis, ax.set_yscale)
    rescale("symlog", linthresh=smallest, linscale=0.35)
    ticks = [t for t in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if t == 0 or t >= smallest]
    axis.set_ticks(ticks, labels=[f"{100 * t:g}" for t in ticks])
    axis.set_ticks([], minor=True)


def _draw_band(ax: Axes, curve: Curve, color: str) -> None:
    ax.fill_between(curve.openness, curve.low, curve.high, color=color, alpha=0.16, linewidth=0, zorder=2)


def _keep_finite(values: Any) -> Array:
    kept = np.asarray(values, dtype=np.float64)
    return kept[np.isfinite(kept)]


def _make_legend_handles(ax: Axes) -> list[Any]:
    """Return lines for the legend of the outlines."""
    from matplotlib.lines import Line2D

    _, labels = ax.get_legend_handles_labels()
    return [
        Line2D([], [], color=color, linestyle=dashes, linewidth=1.6, label=label)
        for label, (_, color, dashes) in zip(labels, _GROUPS, strict=True)
    ]
