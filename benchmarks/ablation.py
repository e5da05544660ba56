"""What each part of the calibrated rule contributes: the fused score with one part changed at a time.

``python -m benchmarks.ablation`` fits the recognizer once per trial and evaluates variants of its fused score, all from
the same codes, on the sets it was designed on and on seeds that the accuracy benchmark does not use.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, Trial
from srosr import SROSRClassifier
from srosr.metrics import open_set_auroc
from srosr.scoring.fusion import DIRECTION, EVIDENCE, SHRINKAGE, Fusion, fit_fusion
from srosr.thresholds.choice import rejection_threshold

FIRST_SEED = 100
LITERATURE = ("matched", "nonmatched", "concentration", "ratio")


def free_weights(Z: NDArray, unknown: NDArray) -> NDArray:
    """Return the weights of a logistic regression without a sign constraint."""
    y = unknown.astype(float)
    weight = np.where(unknown, 0.5 / y.sum(), 0.5 / (1 - y).sum())

    def loss(b: NDArray) -> tuple[float, NDArray]:
        margin = Z @ b[:-1] + b[-1]
        error = weight * (expit(margin) - y)
        value = weight @ (np.logaddexp(0, margin) - y * margin) + SHRINKAGE * b[:-1] @ b[:-1]
        return value, np.append(Z.T @ error + 2 * SHRINKAGE * b[:-1], error.sum())

    return minimize(loss, np.zeros(Z.shape[1] + 1), jac=True, method="L-BFGS-B").x[:-1]


def fit_fusion_on(names: tuple[str, ...], held_out: Any, simulated: Any) -> Fusion:
    """Fit the fused score to some kinds of evidence; the others are held constant."""
    keep = np.array([name in names for name in EVIDENCE], dtype=float)
    return fit_fusion(held_out.values * keep, simulated.values * keep, simulated.unknown)[0]


def score_variants(clf: SROSRClassifier, values: NDArray, candidate: NDArray) -> dict[str, NDArray]:
    """Return the scores of the test samples under each variant."""
    calibration = clf.calibration_
    held_out, simulated = calibration.held_out, calibration.simulated
    fusion, elsewhere = calibration.rule.fusion, calibration.rule.simulated
    z = fusion.standardize(values)
    out = {"as it is": z @ fusion.weights, "equal weights": z.sum(axis=1)}
    out["weights of either sign"] = z @ free_weights(elsewhere.standardize(simulated.values), simulated.unknown)
    own, centers = fusion.score(held_out.values), np.zeros(len(clf.classes_))
    for k in range(len(centers)):
        mine = own[held_out.candidate == k]
        centers[k] = mine.mean() - own.mean() if len(mine) else 0.0
    out["centered on each class"] = out["as it is"] - centers[candidate]
    keep = np.array([name in LITERATURE for name in EVIDENCE], dtype=float)
    out["only the four of the literature"] = fit_fusion_on(LITERATURE, held_out, simulated).score(values * keep)
    for name in EVIDENCE:
        rest = tuple(other for other in EVIDENCE if other != name)
        keep = np.array([other in rest for other in EVIDENCE], dtype=float)
        out[f"without {name}"] = fit_fusion_on(rest, held_out, simulated).score(values * keep)
    return out


def measure_rejection(clf: SROSRClassifier, values: NDArray, target: float = 0.05) -> dict[str, float]:
    """Return the share of known samples rejected, with the threshold from either pass of held-out samples."""
    calibration = clf.calibration_
    out = {}
    for name, rows in (("a fifth held out", calibration.known), ("a few held out", calibration.held_out)):
        threshold = rejection_threshold(calibration.rule.score(rows.values), target)
        out[name] = float(np.mean(calibration.rule.score(values) > threshold))
    return out


def run(trial: Trial) -> tuple[dict[str, float], dict[str, float]]:
    """Return the AUROC of every variant, and the shares of known test samples rejected."""
    clf = SROSRClassifier(random_state=0).fit(trial.X, trial.y)
    evidence = clf.evidence(trial.X_test)
    values = evidence[list(EVIDENCE)].to_numpy()
    candidate = np.searchsorted(clf.classes_, evidence["candidate"].to_numpy())
    auroc = {
        name: open_set_auroc(trial.y_test, score, unknown_label=-1)
        for name, score in score_variants(clf, values, candidate).items()
    }
    for name in EVIDENCE:
        score = DIRECTION[name] * evidence[name].to_numpy()
        auroc[f"{name} alone"] = open_set_auroc(trial.y_test, score, unknown_label=-1)
    return auroc, measure_rejection(clf, values[~trial.is_unknown])


@click.command(help=__doc__)
@click.option("--sets", default="yaleb,caltech101,uiuc,mnist", show_default=True, help="Sets, separated by commas.")
@click.option("--trials", default=10, show_default=True, help="Trials of each set.")
@click.option("--first-seed", default=FIRST_SEED, show_default=True, help="Of the trials.")
def main(sets: str, trials: int, first_seed: int) -> None:
    """Run the ablation."""
    names = [name.strip() for name in sets.split(",")]
    for name in names:
        if name not in TRIALS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(TRIALS)}.")
    console, progress = Console(), Console(stderr=True)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rejected: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        for seed in range(first_seed, first_seed + trials):
            try:
                auroc, shares = run(TRIALS[name].draw(seed))
            except Unavailable as reason:
                console.print(f"{name}: skipped, {reason}")
                break
            for key, value in auroc.items():
                found[key][name].append(value)
            for key, value in shares.items():
                rejected[key][name].append(value)
            progress.print(f"{name}: {seed - first_seed + 1} of {trials} trials")
    done = [name for name in names if found["as it is"][name]]
    for title, rows in (("AUROC", found), ("Known samples rejected, target 0.05", rejected)):
        table = Table("variant", *done, title=f"{title}: mean of {trials} trials")
        for key in rows:
            table.add_row(key, *(f"{np.mean(rows[key][name]):.4f}" for name in done))
        console.print(table)


if __name__ == "__main__":
    main()
