"""Which kind of evidence decides on which data: ``python -m benchmarks.evidence_shares --figure evidence.png``.

The difference between the mean fused scores of unknown and of known test samples is a sum over the kinds of evidence:
the share of each kind says how much of the separation is due to it. In the same way the mean lead of the own class of
known test samples over the best other class is a sum over the kinds of class scores.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, Trial
from srosr import SROSRClassifier
from srosr.evidence.class_scores import CLASS_SCORES
from srosr.evidence.table import EVIDENCE

FIRST_SEED = 100


def measure_shares(trial: Trial) -> tuple[NDArray, NDArray]:
    """Return the shares of the kinds of evidence in the separation, and of the class scores in the lead, of one fit."""
    clf = SROSRClassifier(random_state=0, n_jobs=1).fit(trial.X, trial.y)
    evidence, unknown = clf._gather_evidence(trial.X_test), trial.is_unknown
    parts = clf.calibration_.rule.fusion.contributions(evidence.values)
    separation = parts[unknown].mean(axis=0) - parts[~unknown].mean(axis=0)
    fusion = clf.calibration_.class_fusion
    assert fusion is not None and clf._scorer is not None
    known = trial.X_test[~unknown]
    scores = clf._scorer.score(clf.dictionary_.query(known)).by_kind | {"residual": -evidence.residuals[~unknown]}
    truth, rows = np.searchsorted(clf.classes_, trial.y_test[~unknown]), np.arange(len(known))
    others = evidence.class_scores[~unknown].copy()
    others[rows, truth] = -np.inf
    rival = others.argmax(axis=1)
    leads = np.array([np.mean(scores[kind][rows, truth] - scores[kind][rows, rival]) for kind in fusion.kinds])
    leads *= fusion.weights / fusion.scale
    return separation / separation.sum(), leads / leads.sum()


def draw(shares: dict[str, dict[str, NDArray]], path: Path) -> None:
    """Draw both tables of shares as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 8.2), layout="constrained")
    axes = figure.subplots(2, 1, height_ratios=[18, 8])
    headings = ("Evidence: what separates unknown from known samples", "Class scores: what puts the right class ahead")
    for ax, heading, names, by_set in zip(axes, headings, (EVIDENCE, CLASS_SCORES), shares.values(), strict=True):
        values = 100 * np.array(list(by_set.values())).T
        ax.imshow(np.clip(values, 0, None), cmap="Blues", aspect="auto", vmin=0, vmax=60)
        for (i, j), value in np.ndenumerate(values):
            color = "white" if value > 36 else "black"
            if abs(value) >= 0.5:
                ax.text(j, i, f"{value:.0f}".replace("-", "−"), ha="center", va="center", fontsize=8, color=color)
        ax.set_yticks(range(len(names)), names)
        titles = [TRIALS[name].title.split(",")[0].replace(" ", "\n", 1) for name in by_set]
        ax.set_xticks(range(len(by_set)), titles, fontsize=8.5)
        ax.tick_params(length=0)
        ax.set_title(f"{heading}, % of the whole", loc="left", fontsize=10)
        for side in ax.spines.values():
            side.set_visible(False)
    figure.savefig(path, dpi=130)


@click.command(help=__doc__)
@click.option("--sets", help="Sets, separated by commas.  [up to orl]")
@click.option("--trials", default=5, show_default=True, help="Trials of each set.")
@click.option("--first-seed", default=FIRST_SEED, show_default=True, help="Of the trials.")
@click.option("--figure", type=click.Path(path_type=Path, dir_okay=False), help="Draw the shares, as a PNG or SVG.")
def main(sets: str | None, trials: int, first_seed: int, figure: Path | None) -> None:
    """Measure the shares and print them."""
    usual = [name for name, trial_set in TRIALS.items() if not trial_set.extra]
    names = usual if sets is None else [name.strip() for name in sets.split(",")]
    for name in names:
        if name not in TRIALS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(TRIALS)}.")
    console, progress = Console(), Console(stderr=True)
    shares: dict[str, dict[str, NDArray]] = {"evidence": {}, "class scores": {}}
    for name in names:
        found: dict[str, list[NDArray]] = defaultdict(list)
        try:
            for seed in range(first_seed, first_seed + trials):
                for key, value in zip(shares, measure_shares(TRIALS[name].draw(seed)), strict=True):
                    found[key].append(value)
                progress.print(f"{name}: {seed - first_seed + 1} of {trials} trials")
        except Unavailable as reason:
            console.print(f"{name}: skipped, {reason}")
            continue
        for key, values in found.items():
            shares[key][name] = np.mean(values, axis=0)
    for (key, by_set), kinds in zip(shares.items(), (EVIDENCE, CLASS_SCORES), strict=True):
        table = Table(key, *by_set, title=f"Share in %, mean of {trials} trials")
        for i, kind in enumerate(kinds):
            table.add_row(kind, *(f"{100 * values[i]:.0f}" for values in by_set.values()))
        console.print(table)
    if figure is not None and shares["evidence"]:
        draw(shares, figure)
        console.print(f"Figure: {figure}")


if __name__ == "__main__":
    main()
