"""Results of ``benchmarks.accuracy`` as Markdown and as a figure: ``python -m benchmarks.comparison``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.accuracy import RESULTS
from benchmarks.standings import SMALLER_IS_BETTER, Record, best_of, by_method, difference, grid, mean_ranks
from benchmarks.trials import TRIALS

METRICS = {
    "auroc": "AUROC",
    "oscr": "area under OSCR",
    "f": "F-measure (Scheirer)",
    "f_macro": "F-measure (macro)",
    "accuracy": "open set accuracy",
    "closed_accuracy": "closed-set accuracy",
    "fpr95": "FPR at 95 % TPR (known positive)",
    "false_rejection": "known samples rejected",
    "fit_seconds": "seconds to fit",
}
FEWEST_TRIALS = 5
"""Fewest trials for which an interval of the mean is shown."""
OURS = ("calibrated", "paper", "matched")
COLORS = {"calibrated": "#c1272d", "paper": "#e07b39", "matched": "#e0a458"}


def markdown(records: Sequence[Record], metric: str) -> str:
    """Return a table of all methods on all sets; the best of a set is bold."""
    cells, names = grid(records, metric), list(dict.fromkeys(r["set"] for r in records))
    ranks, digits = mean_ranks(cells, metric), 2 if metric == "fit_seconds" else 4
    lines = [f"| method | {' | '.join(names)} | mean rank |", "|---" * (len(names) + 2) + "|"]
    for method, row in cells.items():
        texts = []
        for name in names:
            if name not in row:
                texts.append("–")
                continue
            text = f"{row[name].mean:.{digits}f}".removeprefix("0")
            texts.append(f"**{text}**" if row[name].mean == best_of(cells, name, metric) else text)
        lines.append(f"| {method} | {' | '.join(texts)} | {ranks[method]:.1f} |")
    return "\n".join(lines)


def tabulate_differences(records: Sequence[Record], metric: str, ours: str = "calibrated") -> str:
    """Return a table of how far ours is ahead of every method on every set, paired, ± half of the 95 % interval.

    Where ours is behind and the interval does not contain zero, the entry is bold.
    """
    names = list(dict.fromkeys(r["set"] for r in records))
    per_set = {name: by_method([r for r in records if r["set"] == name]) for name in names}
    lines = [f"| {ours} ahead of | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    sign, digits = (-1.0 if metric in SMALLER_IS_BETTER else 1.0), 2 if metric == "fit_seconds" else 4
    for method in grid(records, metric):
        texts = []
        for methods in per_set.values():
            gap = None if method == ours else difference(methods.get(ours, []), methods.get(method, []), metric)
            if gap is None:
                texts.append("–")
                continue
            half = "" if math.isnan(gap.half) else f" ±{gap.half:.{digits}f}"
            text = re.sub(r"(?<!\d)0\.", ".", f"{sign * gap.mean:+.{digits}f}{half}").replace("-", "−")
            texts.append(f"**{text}**" if sign * gap.mean < -gap.half else text)
        if method != ours:
            lines.append(f"| {method} | {' | '.join(texts)} |")
    return "\n".join(lines)


def behind(records: Sequence[Record], metric: str = "auroc", ours: str = "calibrated") -> list[str]:
    """Return a line for each set and method with a better mean than ours, with the paired difference."""
    sign, lines = (-1.0 if metric in SMALLER_IS_BETTER else 1.0), []
    for name in dict.fromkeys(r["set"] for r in records):
        methods = by_method([r for r in records if r["set"] == name])
        for method, rows in methods.items():
            gap = difference(methods[ours], rows, metric) if ours in methods else None
            if method in OURS or method.startswith("evidence") or gap is None or sign * gap.mean >= 0:
                continue
            verdict = "" if math.isnan(gap.half) or abs(gap.mean) > gap.half else ", undecided"
            lines.append(f"{name}: {method} ahead by {abs(gap.mean):.4f} ±{gap.half:.4f}{verdict}")
    return lines


def figure(records: Sequence[Record], metric: str) -> Any:
    """Draw a panel for each set and a line for each method, with 95 % intervals of the mean; ours in color."""
    from matplotlib.figure import Figure

    cells, names = grid(records, metric), list(dict.fromkeys(r["set"] for r in records))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    height = 0.55 + 0.17 * len(cells)
    fig = Figure(figsize=(3.6 * columns, rows * height + 0.4), layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False, sharey=True)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    places = {method: i for i, method in enumerate(cells)}
    for ax, name in zip(axes.flat, names, strict=False):
        best = best_of(cells, name, metric)
        ax.axvline(best, color="#bbbbbb", linewidth=0.8, zorder=0)
        for method, row in cells.items():
            if name not in row:
                continue
            s, color = row[name], COLORS.get(method, "#44546a")
            half = 0.0 if s.n < FEWEST_TRIALS else s.half
            ax.errorbar(s.mean, places[method], xerr=half, fmt="o", color=color, markersize=4, linewidth=1.2)
        ax.set_title(TRIALS[name].title if name in TRIALS else name, fontsize=8)
        ax.set_yticks(range(len(cells)), list(cells), fontsize=7)
        ax.set_ylim(len(cells) - 0.4, -0.6)
        ax.tick_params(axis="x", labelsize=7)
        ax.grid(axis="x", color="#eeeeee", zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    for label in (label for ax in axes.flat for label in ax.get_yticklabels()):
        label.set_color(COLORS.get(label.get_text(), "#222222"))
    intervals = any(s.n >= FEWEST_TRIALS for row in cells.values() for s in row.values())
    what = "mean over trials" + (" and its 95 % interval" if intervals else "")
    fig.suptitle(f"{METRICS[metric]}: {what}; gray line: the best", fontsize=9)
    return fig


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=RESULTS / "accuracy.json")
@click.option(
    "--metric", type=click.Choice(tuple(METRICS)), default="auroc", show_default=True, help="What to compare."
)
@click.option(
    "--figure", "picture", type=click.Path(path_type=Path, dir_okay=False), help="Also draw a figure: .png, .svg, .pdf."
)
@click.option("--paired", "is_paired", is_flag=True, help="Also print how far ours is ahead of each method.")
def main(path: Path, metric: str, picture: Path | None, is_paired: bool) -> None:
    """Print the records of benchmarks.accuracy (PATH, its JSON) as a Markdown table, and where ours is behind."""
    records = json.loads(path.read_text())["records"]
    if not records:
        raise click.ClickException(f"{path.name} holds no records: run python -m benchmarks.accuracy first.")
    if not any(r.get(metric) is not None for r in records):
        raise click.ClickException(
            f"{path.name} holds no {metric}: it is not a file of benchmarks.accuracy, or it is from an earlier version."
        )
    click.echo(
        f"{METRICS[metric]}, mean over {len({r['seed'] for r in records})} trials\n\n{markdown(records, metric)}\n"
    )
    if is_paired and metric != "false_rejection":
        click.echo(f"{tabulate_differences(records, metric)}\n")
    for line in behind(records, metric) if metric != "false_rejection" else []:
        click.echo(line)
    if picture is not None:
        try:
            figure(records, metric).savefig(picture, dpi=110)
        except ValueError as error:
            raise click.ClickException(f"{picture}: {error}") from None
        click.echo(f"wrote {picture}")


if __name__ == "__main__":
    main()
