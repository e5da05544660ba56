r"""Figures of how methods fare as a problem opens: curves against openness, and rankings at the largest.

A display holds numbers; ``from_results`` makes it from the table of results of an experiment, ``plot`` draws it and
leaves what was drawn in ``ax_`` or ``axes_``, and ``figure_``. Without a place to draw in, a new figure is made with
pyplot; with it, pyplot has no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array
from .._support.plotting import INK, PALE, SHADE, make_panels, remove_spines
from ..experiments import METRIC_INFO, Curve, curves, levels, summarise, values_at
from .method_styles import OURS, OURS_COLOUR, featured, named, plain, shortened, strokes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OpennessDisplay", "RankingDisplay", "curves_of", "legend_above", "ranking_size", "value_limits"]


class OpennessDisplay:
    r"""A metric against openness, a curve a method: means over trials with their 95 % intervals.

    Parameters
    ----------
    curves : dict of str to Curve
    metric : str
    ours : str, default "calibrated"
        The method drawn in strong strokes over the others.
    n_trials : int, optional
        What methods with fewer trials are said to have fewer than; None takes the most that a curve has.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from srosr.reports.openness_figures import OpennessDisplay
    >>> from srosr.experiments.statistics import Curve
    >>> one = Curve(np.array([0.1, 0.2]), np.array([0.9, 0.8]), np.array([0.02, 0.03]), 10)
    >>> d = OpennessDisplay({"calibrated": one}, "f").plot(Figure().add_subplot())
    >>> d.ax_.get_xlabel(), d.ax_.get_ylabel()
    ('openness in %', 'F-measure')
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self, curves: Mapping[str, Curve], metric: str, *, ours: str = OURS, n_trials: int | None = None
    ) -> None:
        self.curves, self.metric, self.ours = dict(curves), metric, ours
        self.n_trials = max((c.n_trials for c in self.curves.values()), default=0) if n_trials is None else n_trials

    @classmethod
    def from_results(
        cls, results: pd.DataFrame, metric: str, *, methods: Sequence[str] | None = None, ours: str = OURS
    ) -> OpennessDisplay:
        """The curves of a table of results.

        Parameters
        ----------
        results : DataFrame
        metric : str
        methods : sequence of str, optional
            None takes all, or where they are many ours and those of the paper.
        ours : str
        """
        found = curves_of(results, metric)
        chosen = featured(found, ours) if methods is None else list(methods)
        kept = {name: found[name] for name in chosen if name in found}
        return cls(kept, metric, ours=ours, n_trials=max(c.n_trials for c in found.values()))

    def plot(self, ax: Axes | None = None) -> OpennessDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, optional
        """
        (ax,) = make_panels(ax, 1, (5.6, 4.4), [1.0])
        looks = strokes(list(self.curves), self.ours)
        single = all(len(c.openness) == 1 for c in self.curves.values())
        for position, (name, curve) in enumerate(self.curves.items()):
            stroke, front = looks[name], 4 if name == self.ours else 3
            # Points at one openness stand beside each other, to be told apart.
            x = 100 * curve.openness + (0.5 * (position - (len(self.curves) - 1) / 2) if single else 0.0)
            label = plain(named(name, self.ours, curve.n_trials, self.n_trials))
            if single:
                ax.errorbar(
                    x, curve.mean, _whiskers(curve.mean, curve.half_width), **stroke.line(), label=label, zorder=front
                )
            else:
                ax.plot(x, curve.mean, **stroke.line(), label=label, zorder=front)
                ax.fill_between(x, curve.low, curve.high, color=stroke.colour, alpha=0.13, linewidth=0, zorder=2)
        remove_spines(ax)
        ax.grid(color=SHADE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_ylim(*value_limits(self.curves.values()))
        if single:
            ax.set_xticks([100 * c.openness[0] for c in self.curves.values()][:1])
            ax.margins(x=0.2)
        ax.set_xlabel("openness in %")
        ax.set_ylabel(METRIC_INFO[self.metric].label)
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class RankingDisplay:
    r"""Bars of a metric at one openness, the best on top, with 95 % intervals; our method stands out.

    Parameters
    ----------
    methods : sequence of str
    mean, half_width : ndarray (n_methods,)
    n : ndarray of int (n_methods,)
        Trials of each.
    metric : str
    openness : float
        Where it was measured.
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
        """All methods at the largest openness of a table of results.

        Parameters
        ----------
        results : DataFrame
        metric : str
        ours : str
        """
        steps = levels(results, metric)
        if not steps:
            raise ValueError(f"results has no value of the metric {metric!r}.")
        found = summarise(values_at(results, metric, steps[-1]))
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
        (ax,) = make_panels(ax, 1, ranking_size(len(self.methods)), [1.0])
        # Chance ranks known and unknown samples alike: an AUROC of one half is nothing.
        start = 0.5 if self.metric == "auroc" else 0.0
        places = np.arange(len(self.methods))
        is_ours = np.array([name == self.ours for name in self.methods])
        colours = np.where(is_ours, OURS_COLOUR, PALE).tolist()
        ax.barh(places, self.mean - start, left=start, color=colours, height=0.68, zorder=2)
        whiskers = _whiskers(self.mean, self.half_width)
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
            plain(named(name, self.ours, int(n), most))
            for name, n in zip(shortened(self.methods, 22), self.n, strict=True)
        ]
        ax.set_yticks(places, names)
        for label, ours in zip(ax.get_yticklabels(), is_ours, strict=True):
            label.set_fontweight("bold" if ours else "normal")
        ax.set_ylim(len(places) - 0.4, -0.6)
        # Room for the numbers behind the bars.
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


def curves_of(results: pd.DataFrame, metric: str) -> dict[str, Curve]:
    found = curves(results, metric)
    if not found:
        raise ValueError(f"results has no value of the metric {metric!r}.")
    return found


def value_limits(drawn: Iterable[Curve]) -> tuple[float, float]:
    """Ends of an axis that holds all curves with their intervals, and does not go beyond what a share can be."""
    ends = [c.mean + sign * np.nan_to_num(c.half_width) for c in drawn for sign in (-1.0, 1.0)]
    values = np.concatenate(ends) if ends else np.empty(0)
    values = np.clip(values[np.isfinite(values)], 0.0, 1.0)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = max(0.04 * (high - low), 0.01)
    # A marker on the edge is to be seen whole.
    return max(low - room, -0.02), min(high + room, 1.02)


def ranking_size(n_methods: int) -> tuple[float, float]:
    """Inches of a figure with so many bars."""
    return 5.6, 0.8 + 0.25 * max(n_methods, 3)


def _whiskers(mean: Array, half_width: Array) -> Array:
    """Lengths of whiskers, down and up, within what a share can be: none where there is no interval."""
    half = np.nan_to_num(half_width)
    return np.stack([np.clip(mean, 0.0, half), np.clip(1.0 - mean, 0.0, half)])


def legend_above(ax: Axes) -> None:
    """A legend over the axes, in as many columns as there is room for."""
    handles, labels = ax.get_legend_handles_labels()
    # Alone in its figure, it gets most of the width once the layout is done.
    share = 0.88 if len(ax.figure.axes) == 1 else ax.get_position().width
    room = share * float(ax.figure.get_figwidth())  # type: ignore[union-attr]
    columns = next(n for n in range(4, 0, -1) if n == 1 or _legend_width(labels, n) < room)
    ax.legend(
        handles, labels, frameon=False, ncols=columns, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2,
        borderpad=0.1, fontsize="small", handlelength=3.2, columnspacing=1.2, labelspacing=0.35,
    )  # fmt: skip


def _legend_width(labels: Sequence[str], columns: int) -> float:
    """Inches that a legend takes, nearly: handle and gap of each column, and its longest label."""
    rows = -(-len(labels) // columns)
    longest = [max(map(len, labels[first : first + rows])) for first in range(0, len(labels), rows)]
    return sum(0.58 + 0.067 * n for n in longest)
