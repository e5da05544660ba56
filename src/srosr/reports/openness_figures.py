"""Figures of metrics against openness, and rankings at the largest openness.

A display holds numbers: ``from_results`` builds it from the results table of an experiment, and ``plot`` draws it into
given axes or a new pyplot figure and stores ``ax_`` or ``axes_``, and ``figure_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, PALE, SHADE, make_panels, remove_spines
from ..experiments import METRIC_INFO, Curve, compute_curves, find_levels, summarize, values_at
from .method_styles import OURS, OURS_COLOR, assign_strokes, choose_featured, escape_label, label_method, shorten_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "OpennessDisplay",
    "RankingDisplay",
    "compute_ranking_size",
    "compute_value_limits",
    "place_legend_above",
    "require_curves",
]


class OpennessDisplay:
    """A metric against openness, one curve per method: means over trials with their 95 % intervals.

    Parameters
    ----------
    curves : dict of str to Curve
    metric : str
    ours : str, default "calibrated"
        The method drawn in bold over the others.
    n_trials : int, optional
        Methods with fewer trials than this are marked; None takes the largest number of any curve.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from srosr.reports.openness_figures import OpennessDisplay
    >>> from srosr.experiments import Curve
    >>> one = Curve(np.array([0.1, 0.2]), np.array([0.9, 0.8]), np.array([0.02, 0.03]), 10)
    >>> d = OpennessDisplay({"calibrated": one}, "f").plot(Figure().add_subplot())
    >>> d.ax_.get_xlabel(), d.ax_.get_ylabel()
    ('openness in %', 'F-measure')
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self, compute_curves: Mapping[str, Curve], metric: str, *, ours: str = OURS, n_trials: int | None = None
    ) -> None:
        self.curves, self.metric, self.ours = dict(compute_curves), metric, ours
        self.n_trials = max((c.n_trials for c in self.curves.values()), default=0) if n_trials is None else n_trials

    @classmethod
    def from_results(
        cls, results: pd.DataFrame, metric: str, *, methods: Sequence[str] | None = None, ours: str = OURS
    ) -> OpennessDisplay:
        """Build the display from a results table.

        Parameters
        ----------
        results : DataFrame
        metric : str
        methods : sequence of str, optional
            None takes all or, if they are many, ours and those of the paper.
        ours : str
        """
        found = require_curves(results, metric)
        chosen = choose_featured(found, ours) if methods is None else list(methods)
        kept = {name: found[name] for name in chosen if name in found}
        return cls(kept, metric, ours=ours, n_trials=max(c.n_trials for c in found.values()))

    def plot(self, ax: Axes | None = None) -> OpennessDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, optional
        """
        (ax,) = make_panels(ax, 1, (5.6, 4.4), [1.0])
        looks = assign_strokes(list(self.curves), self.ours)
        single = all(len(c.openness) == 1 for c in self.curves.values())
        for position, (name, curve) in enumerate(self.curves.items()):
            stroke, front = looks[name], 4 if name == self.ours else 3
            # At a single openness, points are shifted sideways so that they do not overlap.
            x = 100 * curve.openness + (0.5 * (position - (len(self.curves) - 1) / 2) if single else 0.0)
            label = escape_label(label_method(name, self.ours, curve.n_trials, self.n_trials))
            if single:
                ax.errorbar(
                    x,
                    curve.mean,
                    _compute_whiskers(curve.mean, curve.half_width),
                    **stroke.line(),
                    label=label,
                    zorder=front,
                )
            else:
                ax.plot(x, curve.mean, **stroke.line(), label=label, zorder=front)
                ax.fill_between(x, curve.low, curve.high, color=stroke.color, alpha=0.13, linewidth=0, zorder=2)
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_ylim(*compute_value_limits(self.curves.values()))
        if single:
            ax.set_xticks([100 * c.openness[0] for c in self.curves.values()][:1])
            ax.margins(x=0.2)
        ax.set_xlabel("openness in %")
        ax.set_ylabel(METRIC_INFO[self.metric].label)
        place_legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class RankingDisplay:
    """Bars of a metric at one openness, best at the top, with 95 % intervals; our method is highlighted.

    Parameters
    ----------
    methods : sequence of str
    mean, half_width : ndarray (n_methods,)
    n : ndarray of int (n_methods,)
        Number of trials of each method.
    metric : str
    openness : float
        The openness of the values.
    ours : str

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        methods: Sequence[str],
        mean: Array,
        half_width: Array,
        n: Any,
        *,
        metric: str,
        openness: float,
        ours: str = OURS,
    ) -> None:
        sign = METRIC_INFO[metric].better or 1
        order = sorted(range(len(methods)), key=lambda i: (-sign * mean[i], methods[i]))
        self.methods = [methods[i] for i in order]
        self.mean, self.half_width, self.n = (np.asarray(v)[order] for v in (mean, half_width, n))
        self.metric, self.openness, self.ours = metric, openness, ours

    @classmethod
    def from_results(cls, results: pd.DataFrame, metric: str, *, ours: str = OURS) -> RankingDisplay:
        """Build the display from a results table, at the largest openness.

        Parameters
        ----------
        results : DataFrame
        metric : str
        ours : str
        """
        steps = find_levels(results, metric)
        if not steps:
            raise ValueError(f"results has no value of the metric {metric!r}.")
        found = summarize(values_at(results, metric, steps[-1]))
        return cls(
            [str(name) for name in found.index], found["mean"].to_numpy(), found["half_width"].to_numpy(),
            found["n"].to_numpy(), metric=metric, openness=steps[-1].openness, ours=ours,
        )  # fmt: skip

    def plot(self, ax: Axes | None = None) -> RankingDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : Axes, optional
        """
        (ax,) = make_panels(ax, 1, compute_ranking_size(len(self.methods)), [1.0])
        # Random scores have an AUROC of one half.
        start = 0.5 if self.metric == "auroc" else 0.0
        places = np.arange(len(self.methods))
        is_ours = np.array([name == self.ours for name in self.methods])
        colors = np.where(is_ours, OURS_COLOR, PALE).tolist()
        ax.barh(places, self.mean - start, left=start, color=colors, height=0.68, zorder=2)
        whiskers = _compute_whiskers(self.mean, self.half_width)
        known = np.isfinite(self.half_width)
        ax.errorbar(
            self.mean[known], places[known], xerr=whiskers[:, known], fmt="none", ecolor=INK, elinewidth=1.1,
            capsize=2.5, zorder=3,
        )  # fmt: skip
        for place, mean, half in zip(places, self.mean, whiskers[1], strict=True):
            ax.annotate(
                f"{mean:.3f}", (max(mean + half, start), place), xytext=(5, 0), textcoords="offset points",
                va="center", fontsize="small", color=INK,
            )  # fmt: skip
        most = int(np.max(self.n)) if len(self.n) else 0
        names = [
            escape_label(label_method(name, self.ours, int(n), most))
            for name, n in zip(shorten_names(self.methods, 22), self.n, strict=True)
        ]
        ax.set_yticks(places, names)
        for label, ours in zip(ax.get_yticklabels(), is_ours, strict=True):
            label.set_fontweight("bold" if ours else "normal")
        ax.set_ylim(len(places) - 0.4, -0.6)
        # Room for the numbers beside the bars.
        low = min(start, float(np.min(self.mean - whiskers[0]))) if len(self.mean) else start
        high = max(start, float(np.max(self.mean + whiskers[1]))) if len(self.mean) else 1.0
        ax.set_xlim(low, low + max(high - low, 0.1) * 1.16)
        ax.set_xticks([tick for tick in ax.get_xticks() if low <= tick <= min(ax.get_xlim()[1], 1.0)])
        remove_spines(ax)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.axvline(start, color=INK, linewidth=0.8, zorder=4)
        ax.grid(axis="x", color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        metric = METRIC_INFO[self.metric]
        ax.set_xlabel(f"{metric.label} at openness {100 * self.openness:.2f} %")
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


# -- what the figures share -----------------------------------------------------------------------------------


def require_curves(results: pd.DataFrame, metric: str) -> dict[str, Curve]:
    """Return the curves of a metric; raise ValueError if there are none."""
    found = compute_curves(results, metric)
    if not found:
        raise ValueError(f"results has no value of the metric {metric!r}.")
    return found


def compute_value_limits(drawn: Iterable[Curve]) -> tuple[float, float]:
    """Return the limits of an axis for all curves with their intervals, within the range of a share."""
    ends = [c.mean + sign * np.nan_to_num(c.half_width) for c in drawn for sign in (-1.0, 1.0)]
    values = np.concatenate(ends) if ends else np.empty(0)
    values = np.clip(values[np.isfinite(values)], 0.0, 1.0)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = max(0.04 * (high - low), 0.01)
    # A margin keeps markers at the edge whole.
    return max(low - room, -0.02), min(high + room, 1.02)


def compute_ranking_size(n_methods: int) -> tuple[float, float]:
    """Return the size in inches of a figure with so many bars."""
    return 5.6, 0.8 + 0.25 * max(n_methods, 3)


def _compute_whiskers(mean: Array, half_width: Array) -> Array:
    """Return the lengths of whiskers, down and up, within the range of a share; zero without an interval."""
    half = np.nan_to_num(half_width)
    return np.stack([np.clip(mean, 0.0, half), np.clip(1.0 - mean, 0.0, half)])


def place_legend_above(ax: Axes) -> None:
    """Place the legend above the axes, in as many columns as fit."""
    handles, labels = ax.get_legend_handles_labels()
    # Single axes get most of the width once the layout is done.
    share = 0.88 if len(ax.figure.axes) == 1 else ax.get_position().width
    room = share * float(ax.figure.get_figwidth())  # type: ignore[union-attr]
    columns = next(n for n in range(4, 0, -1) if n == 1 or _estimate_legend_width(labels, n) < room)
    ax.legend(
        handles, labels, frameon=False, ncols=columns, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2,
        borderpad=0.1, fontsize="small", handlelength=3.2, columnspacing=1.2, labelspacing=0.35,
    )  # fmt: skip


def _estimate_legend_width(labels: Sequence[str], columns: int) -> float:
    """Return the approximate width of a legend in inches: handle, gap and longest label of each column."""
    rows = -(-len(labels) // columns)
    longest = [max(map(len, labels[first : first + rows])) for first in range(0, len(labels), rows)]
    return sum(0.58 + 0.067 * n for n in longest)
