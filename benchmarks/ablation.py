"""What each part of the calibrated rule contributes: fused score and fused label with one part changed at a time.

``python -m benchmarks.ablation`` fits the recognizer once per trial and evaluates variants of its fused score and of
its label, all from the same codes, on the sets it was designed on and on seeds that the accuracy benchmark does not
use.
"""

from __future__ import annotations

from collections import defaultdict

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
from srosr.evidence.class_scores import ClassScorer
from srosr.evidence.table import DIRECTION, EVIDENCE, FIRST_EVIDENCE, Evidence
from srosr.metrics.oscr import oscr_area
from srosr.metrics.ranking import open_set_auroc
from srosr.scoring.cross_test import CrossTester
from srosr.scoring.fusion import STRENGTHS, find_prior, fit_class_fusion, fit_fusion
from srosr.scoring.splits import draw_folds

FIRST_SEED = 100
LITERATURE = ("matched", "nonmatched", "concentration", "ratio")
METRICS = {"auroc": "AUROC", "oscr": "OSCR", "closed_accuracy": "closed-set accuracy"}


def free_weights(Z: NDArray, unknown: NDArray) -> NDArray:
    """Return the weights of a logistic regression without a sign constraint."""
    y = unknown.astype(float)
    weight = np.where(unknown, 0.5 / y.sum(), 0.5 / (1 - y).sum())
    shrinkage = STRENGTHS[-1]

    def loss(b: NDArray) -> tuple[float, NDArray]:
        margin = Z @ b[:-1] + b[-1]
        error = weight * (expit(margin) - y)
        value = weight @ (np.logaddexp(0, margin) - y * margin) + shrinkage * b[:-1] @ b[:-1]
        return value, np.append(Z.T @ error + 2 * shrinkage * b[:-1], error.sum())

    return minimize(loss, np.zeros(Z.shape[1] + 1), jac=True, method="L-BFGS-B").x[:-1]


def score_variants(clf: SROSRClassifier, values: NDArray, candidate: NDArray) -> dict[str, NDArray]:
    """Return the unknown scores of the test samples under each variant of the fused score."""
    calibration = clf.calibration_
    held_out, simulated = calibration.held_out, calibration.simulated
    fusion, elsewhere = calibration.rule.fusion, calibration.rule.simulated

    def fuse(names: tuple[str, ...]) -> NDArray:
        found = fit_fusion(held_out.values, simulated.values, simulated.unknown, simulated.truth, names)
        return found[0].score(values)

    z = fusion.standardize(values)
    out = {"as it is": z @ fusion.weights, "equal weights": z.sum(axis=1), "prior weights": z @ find_prior(EVIDENCE)}
    out["weights of either sign"] = z @ free_weights(elsewhere.standardize(simulated.values), simulated.unknown)
    own, centers = fusion.score(held_out.values), np.zeros(len(clf.classes_))
    for k in range(len(centers)):
        mine = own[held_out.candidate == k]
        centers[k] = mine.mean() - own.mean() if len(mine) else 0.0
    out["centered on each class"] = out["as it is"] - centers[candidate]
    out["only the four of the literature"] = fuse(LITERATURE)
    out["only the first eight"] = fuse(FIRST_EVIDENCE)
    for name in EVIDENCE:
        out[f"without {name}"] = fuse(tuple(other for other in EVIDENCE if other != name))
    for family in ("standardized", "gaussian", "local", "fused"):
        rest = tuple(other for other in EVIDENCE if not other.startswith(family))
        out[f"without all of {family}"] = fuse(rest)
    for name in EVIDENCE:
        out[f"{name} alone"] = DIRECTION[name] * values[:, EVIDENCE.index(name)]
    return out


def label_variants(clf: SROSRClassifier, X: NDArray, evidence: Evidence) -> dict[str, NDArray]:
    """Return the candidates of the test samples by each kind of class score, and by all but one."""
    fusion = clf.calibration_.class_fusion
    assert fusion is not None and clf._scorer is not None
    scores = clf._scorer.score(clf.dictionary_.query(X)).by_kind | {"residual": -evidence.residuals}
    held = hold_out_scores(clf)
    out = {"as it is": fusion.combine(scores)}
    for kind in fusion.kinds:
        rest = tuple(other for other in fusion.kinds if other != kind)
        out[f"without {kind}"] = fit_class_fusion(rest, *held).combine(scores)
    for kind in fusion.kinds:
        out[f"{kind} alone"] = scores[kind]
    return {name: values.argmax(axis=1) for name, values in out.items()}


def hold_out_scores(clf: SROSRClassifier) -> tuple[list[dict[str, NDArray]], list[NDArray]]:
    """Return the class scores of training samples that were held out, in folds, and the numbers of their classes."""
    dictionary = clf.dictionary_
    tester = CrossTester(dictionary, clf.problem_, n_jobs=1)
    folds = list(draw_folds(dictionary.class_slices, np.random.RandomState(0)))
    plan = tester.hold_out_known(folds)
    found = ClassScorer(dictionary, clf.class_score_names_, [held for _, held in plan]).held_out
    coded = tester.encode(plan)
    scores = [a.by_kind | {"residual": -b.measures.residuals} for a, b in zip(found, coded, strict=True)]
    return scores, [dictionary.class_of[part.hold_out.test] for part in coded]


def run(trial: Trial) -> dict[tuple[str, str], float]:
    """Return metric and value of every variant of the unknown score, and of the label with the same unknown score."""
    clf = SROSRClassifier(random_state=0, n_jobs=1).fit(trial.X, trial.y)
    evidence = clf._gather_evidence(trial.X_test)
    known, truth = ~trial.is_unknown, trial.y_test
    out: dict[tuple[str, str], float] = {}
    scores = score_variants(clf, evidence.values, evidence.candidate)
    for name, score in scores.items():
        out["auroc", name] = open_set_auroc(truth, score, unknown_label=-1)
    for name, candidate in label_variants(clf, trial.X_test, evidence).items():
        labels = clf.classes_[candidate]
        out["closed_accuracy", name] = float(np.mean(labels[known] == truth[known]))
        out["oscr", name] = oscr_area(truth, labels, scores["as it is"], unknown_label=-1)
    return out


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
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        for seed in range(first_seed, first_seed + trials):
            try:
                result = run(TRIALS[name].draw(seed))
            except Unavailable as reason:
                console.print(f"{name}: skipped, {reason}")
                break
            for key, value in result.items():
                found[key][name].append(value)
            progress.print(f"{name}: {seed - first_seed + 1} of {trials} trials")
    done = [name for name in names if found["auroc", "as it is"][name]]
    for metric, title in METRICS.items():
        table = Table("variant", *done, "mean", title=f"{title}: mean of {trials} trials")
        for (which, variant), by_set in found.items():
            if which == metric and done:
                means = [float(np.mean(by_set[name])) for name in done]
                table.add_row(variant, *(f"{mean:.4f}" for mean in [*means, float(np.mean(means))]))
        console.print(table)


if __name__ == "__main__":
    main()
