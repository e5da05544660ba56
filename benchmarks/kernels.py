"""Is another kernel better than the linear one? ``python -m benchmarks.kernels``.

The default rule with the linear kernel and with Gaussian ones, :math:`\\exp(-\\gamma\\|a - b\\|^2)` on samples of unit
length, :math:`\\gamma` being a quarter, one or four over their mean squared distance. The last column is what a choice
among them could go by: the area under the ROC curve on simulated unknowns (known classes left out in turn).
"""

from __future__ import annotations

from collections import defaultdict

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, Trial
from srosr import SROSRClassifier
from srosr.metrics.oscr import oscr_area
from srosr.metrics.ranking import open_set_auroc

FIRST_SEED = 100
FACTORS = (0.25, 1.0, 4.0)
COLUMNS = ("AUROC", "OSCR", "closed-set accuracy", "AUROC on simulated unknowns")


def measure_kernels(trial: Trial) -> dict[str, tuple[float, ...]]:
    """Return the columns of each kernel on a trial."""
    unit = trial.X / np.linalg.norm(trial.X, axis=1, keepdims=True).clip(1e-300)
    mean = 2.0 * (1.0 - np.square(np.linalg.norm(unit.mean(axis=0))))
    kernels = {"linear": SROSRClassifier(random_state=0)}
    for factor in FACTORS:
        kernels[f"Gaussian, {factor:g} over the mean"] = SROSRClassifier(
            kernel="rbf", gamma=factor / mean, normalize="feature", random_state=0
        )
    out, known = {}, ~trial.is_unknown
    for name, clf in kernels.items():
        clf.fit(trial.X, trial.y)
        score, candidate = -clf.log_p_value(trial.X_test), clf.candidate(trial.X_test)
        simulated = clf.calibration_.simulated
        out[name] = (
            open_set_auroc(trial.y_test, score, unknown_label=-1),
            oscr_area(trial.y_test, candidate, score, unknown_label=-1),
            float(np.mean(candidate[known] == trial.y_test[known])),
            float(roc_auc_score(simulated.unknown, clf.calibration_.simulated_scores)),
        )
    return out


@click.command(help=__doc__)
@click.option("--sets", default="yaleb,caltech101,uiuc,mnist", show_default=True, help="Sets, separated by commas.")
@click.option("--trials", default=3, show_default=True, help="Trials of each set.")
@click.option("--first-seed", default=FIRST_SEED, show_default=True, help="Of the trials.")
def main(sets: str, trials: int, first_seed: int) -> None:
    """Measure the kernels and print a table for each set."""
    console, progress = Console(), Console(stderr=True)
    for name in (part.strip() for part in sets.split(",")):
        if name not in TRIALS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(TRIALS)}.")
        found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        try:
            for seed in range(first_seed, first_seed + trials):
                for kernel, values in measure_kernels(TRIALS[name].draw(seed)).items():
                    found[kernel].append(values)
                progress.print(f"{name}: {seed - first_seed + 1} of {trials} trials")
        except Unavailable as reason:
            console.print(f"{name}: skipped, {reason}")
            continue
        table = Table("kernel", *COLUMNS, title=f"{name}: mean of {trials} trials")
        for kernel, rows in found.items():
            table.add_row(kernel, *(f"{value:.4f}" for value in np.mean(rows, axis=0)))
        console.print(table)


if __name__ == "__main__":
    main()
