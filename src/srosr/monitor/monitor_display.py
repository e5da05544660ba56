"""The figure of a monitor: rejection rate, capital, share near the threshold and mix of classes over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.plotting import INK, KNOWN_COLOR, PALE, UNKNOWN_COLOR, Display, draw_grid
from .block_counts import BlockCounts
from .monitor_report import MonitorReport, estimate_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES = (0, (4, 2))
#: Classes with a color of their own; the others share one.
_MOST_CLASSES = 8
# Okabe and Ito's colors, which color-blind readers can tell apart, light and dark in turn.
_CLASS_COLORS = ("#0072b2", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#56b4e9", "#d55e00", "#5b4a3f")
#: Width and height in inches.
FIGURE_SIZE = (8.4, 8.6)
_HEIGHTS = (1.2, 1.2, 0.8, 1.2)
_LETTERS = 18
#: Letters of a legend that fit beside the heading of a panel; a longer one goes below the figure.
_LONGEST_LEGEND = 40


class MonitorDisplay(Display):
    """The history of a stream, see :meth:`srosr.Monitor.plot`.

    It holds the numbers; ``plot(figure=None)`` draws four panels above each other.

    Parameters
    ----------
    report : MonitorReport
    blocks : sequence of BlockCounts
        In the order of the stream, each beginning where the one before ends.

    Attributes
    ----------
    axes_ : tuple of Axes
    ax_ : Axes
    figure_ : Figure
    """

    def __init__(self, report: MonitorReport, blocks: Sequence[BlockCounts]) -> None:
        self.report, self.blocks = report, tuple(blocks)

    def plot(self, figure: Figure | None = None) -> MonitorDisplay:
        """Draw the four panels.

        Parameters
        ----------
        figure : Figure, optional
            An empty figure; by default a new one, made with pyplot.
        """
        if not self.blocks:
            raise ValueError("the monitor has seen no samples yet: nothing can be drawn.")
        if figure is None:
            from matplotlib import pyplot as plt

            figure = plt.figure(figsize=FIGURE_SIZE, layout="constrained")
        axes = figure.subplots(len(_HEIGHTS), 1, sharex=True, height_ratios=list(_HEIGHTS))
        self._draw_rejection(axes[0])
        self._draw_capital(axes[1])
        self._draw_near(axes[2])
        self._draw_mix(axes[3])
        for ax in axes:
            ax.set_xlim(0, self._edges[-1])
            for alarm in self.report.alarms:
                ax.axvline(alarm.sample, color=UNKNOWN_COLOR, linewidth=1.0, zorder=2)
        axes[-1].set_xlabel("sample of the stream")
        axes[-1].xaxis.set_major_formatter("{x:,.0f}")
        figure.align_ylabels()
        return self._keep_axes(*axes)

    @property
    def _edges(self) -> IntArray:
        return np.array([0, *(block.end for block in self.blocks)])

    def _draw_rejection(self, ax: Axes) -> None:
        self._draw_rate(ax, [block.rejected for block in self.blocks], KNOWN_COLOR, "rejected, by block")
        if self.report.target is not None:
            ax.axhline(
                100 * self.report.target, color=INK, linewidth=1.2, linestyle=_DASHES,
                label=f"target for known samples: {100 * self.report.target:.3g} %",
            )  # fmt: skip
        _finish(ax, "rejection rate", "% of samples")

    def _draw_near(self, ax: Axes) -> None:
        if self.report.near is None:
            ax.text(0.5, 0.5, "no held-out scores", transform=ax.transAxes, ha="center", va="center", color=INK)
        else:
            self._draw_rate(ax, [block.near for block in self.blocks], INK, "near the threshold, by block")
        _finish(ax, "near the threshold", "% of samples")

    def _draw_rate(self, ax: Axes, counts: Sequence[int], color: str, label: str) -> None:
        """Draw the rate of each block as a step, with its interval as a band."""
        rates = [estimate_rate(n, block.samples) for n, block in zip(counts, self.blocks, strict=True)]
        low, share, high = np.array([[100.0 * getattr(r, name) for r in rates] for name in ("low", "share", "high")])
        ax.fill_between(
            self._edges, _repeat_last(low), _repeat_last(high), step="post", color=color, alpha=0.22, linewidth=0,
            label="95 % interval",
        )  # fmt: skip
        ax.stairs(share, self._edges, baseline=None, color=color, linewidth=1.8, label=label)
        ax.set_ylim(0, min(100.0, max(1.0, 1.15 * float(high.max()))))

    def _draw_capital(self, ax: Axes) -> None:
        limit = self.report.log10_alarm
        logs = [0.0, *(block.log_capital / math.log(10.0) for block in self.blocks)]
        places, heights = self._list_capital(logs, limit)
        ax.plot(places, heights, color=KNOWN_COLOR, linewidth=1.8, label="capital, at the end of each block")
        value = f"{10**limit:,.4g}" if limit < 9 else f"10^{limit:.1f}"
        ax.axhline(limit, color=INK, linewidth=1.2, linestyle=_DASHES, label=f"alarm at {value}")
        if self.report.alarms:
            samples = [alarm.sample for alarm in self.report.alarms]
            ax.plot(
                samples, [limit] * len(samples), "D", color=UNKNOWN_COLOR, markersize=7, markeredgecolor="white",
                label=f"alarm at sample {samples[-1]:,}", zorder=4,
            )  # fmt: skip
        low, high = min(logs), max(*logs, limit)
        ax.set_ylim(low - 0.08 * (high - low), high + 0.12 * (high - low))
        _finish(ax, "capital bet against “no change”", "log₁₀ of the capital")

    def _list_capital(self, logs: list[float], limit: float) -> tuple[Array, Array]:
        """Return the points of the capital's line: ends of blocks, alarms, and 1 again where the watch began."""
        points = [*zip(self._edges.tolist(), logs, strict=True)]
        points += [(alarm.sample, limit) for alarm in self.report.alarms]
        start = self.report.watch_start
        if start > 0:
            points = [point for point in points if point[0] != start]
            points += [(start - 0.5, math.nan), (start, 0.0)]
        places, heights = zip(*sorted(points, key=lambda point: point[0]), strict=True)
        return np.array(places), np.array(heights)

    def _draw_mix(self, ax: Axes) -> None:
        counts = np.array([block.accepted for block in self.blocks], dtype=np.float64)
        totals = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        shares, names = 100.0 * counts / totals, [one.label for one in self.report.classes]
        shown = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:_MOST_CLASSES])
        layers: list[tuple[Array, str, str]] = [
            (shares[:, k], color, _shorten(names[k])) for k, color in zip(shown, _CLASS_COLORS, strict=False)
        ]
        if len(names) > len(shown):
            others = shares.sum(axis=1) - shares[:, shown].sum(axis=1)
            layers.append((others, PALE, f"{len(names) - len(shown):,} others"))
        base = np.zeros(len(self.blocks))
        for layer, color, name in layers:
            ax.stairs(
                base + layer, self._edges, baseline=base, fill=True, facecolor=color, edgecolor="white", linewidth=0.5,
                label=name,
            )  # fmt: skip
            base = base + layer
        ax.set_ylim(0, 100)
        beside = sum(len(name) + 4 for _, _, name in layers) <= _LONGEST_LEGEND + 4 * len(layers)
        _finish(ax, "classes of accepted samples", "% of accepted", columns=len(layers) if beside else 0)
        if not beside:
            ax.figure.legend(  # type: ignore[union-attr, call-overload]
                *ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize="small",
                handlelength=1.4,
            )  # fmt: skip


def _repeat_last(values: Array) -> Array:
    return np.append(values, values[-1])


def _shorten(name: str) -> str:
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"


def _finish(ax: Axes, heading: str, label: str, columns: int = 3) -> None:
    draw_grid(ax, axis="y")
    ax.set_title(heading, loc="left", fontsize="medium", fontweight="bold", pad=6)
    ax.set_ylabel(label)
    handles: Any = ax.get_legend_handles_labels()
    if handles[0] and columns:
        ax.legend(
            *handles, frameon=False, ncols=columns, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1,
            borderpad=0.1, fontsize="small", handlelength=1.4, columnspacing=1.2,
        )  # fmt: skip
