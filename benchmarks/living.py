"""A model that is changed instead of fitted again: ``python -m benchmarks.living``.

Three tables on the trials of :mod:`benchmarks.trials`:

- *update*: a model is fitted to nine tenths of the training samples and learns the last tenth by ``update``; another is
  fitted to all of them. How much faster the update is, how often the two answer the same (and how often two fits with
  different seeds do), and how well each does.
- *recalibrate*: the same for a hundred fresh known samples by which the threshold is set anew.
- *domain*: known samples rejected at the target of 0.05 before and after ``recalibrate`` with a hundred fresh known
  samples of the test side, on the others. On the standard split of USPS the test side is harder than the training side.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections import defaultdict
from typing import Any

import click
import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.problems import Unavailable
from benchmarks.trials import TRIALS, UNKNOWN, Trial
from srosr import SROSRClassifier
from srosr.metrics.oscr import oscr_area
from srosr.metrics.ranking import open_set_auroc

SETS = ("yaleb", "mnist", "uiuc", "clip", "usps", "letter", "coil20")
FRESH = 100
"""Known test samples by which a model is recalibrated."""
NEW_SHARE = 0.1
"""Share of the training samples that a model learns by an update."""

Record = dict[str, Any]


def measure(name: str, seed: int) -> Record:
    """Fit, update and recalibrate on one trial, on one thread."""
    trial = TRIALS[name].draw(seed)
    rng = np.random.default_rng(seed)
    new = np.zeros(len(trial.y), np.bool_)
    for k in np.unique(trial.y):
        own = rng.permutation(np.flatnonzero(trial.y == k))
        new[own[: max(round(NEW_SHARE * len(own)), 1)]] = True
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        clf = SROSRClassifier(random_state=seed, n_jobs=1).fit(trial.X[~new], trial.y[~new])
        out: Record = {}
        refit, out["refit_seconds"] = _time(lambda: SROSRClassifier(random_state=seed, n_jobs=1).fit(trial.X, trial.y))
        updated, out["update_seconds"] = _time(lambda: copy.copy(clf).update(trial.X[new], trial.y[new]))
        out |= _compare(trial, clf, updated, refit) | _recalibrate(trial, refit, rng)
        another = SROSRClassifier(random_state=seed + 1000, n_jobs=1).fit(trial.X, trial.y)
        out["same_label_seeds"] = float(np.mean(another.predict(trial.X_test) == refit.predict(trial.X_test)))
    return out


def _time(work: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _compare(trial: Trial, before: Any, updated: Any, refit: Any) -> Record:
    out: Record = {}
    decisions = {name: clf.decide(trial.X_test) for name, clf in (("updated", updated), ("refit", refit))}
    out["same_label"] = float(np.mean(decisions["updated"].label == decisions["refit"].label))
    for name, said in (*decisions.items(), ("before", before.decide(trial.X_test))):
        out[f"{name}_auroc"] = open_set_auroc(trial.y_test, said.unknown_score, unknown_label=UNKNOWN)
        out[f"{name}_oscr"] = oscr_area(trial.y_test, said.candidate, said.unknown_score, unknown_label=UNKNOWN)
        out[f"{name}_rejected"] = float(np.mean(said.rejected[~trial.is_unknown]))
    return out


def _recalibrate(trial: Trial, clf: Any, rng: np.random.Generator) -> Record:
    """Recalibrate with some of the known test samples; the others, and the unknown ones, show what it did."""
    known = rng.permutation(np.flatnonzero(~trial.is_unknown))
    fresh, rest = known[:FRESH], np.setdiff1d(np.arange(len(trial.y_test)), known[:FRESH])
    is_known = ~trial.is_unknown[rest]
    out: Record = {"n_fresh": len(fresh)}
    before = clf.decide(trial.X_test[rest]).rejected
    again, out["recalibrate_seconds"] = _time(
        lambda: copy.copy(clf).recalibrate(trial.X_test[fresh], trial.y_test[fresh])
    )
    after = again.decide(trial.X_test[rest]).rejected
    for name, rejected in (("before", before), ("after", after)):
        out[f"known_rejected_{name}"] = float(np.mean(rejected[is_known]))
        out[f"unknown_rejected_{name}"] = float(np.mean(rejected[~is_known]))
    return out


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--sets", default=",".join(SETS), show_default=True, metavar="SETS", help="Comma-separated data sets.")
@click.option("--trials", type=click.IntRange(1), default=3, show_default=True, help="Trials of each set.")
def main(sets: str, trials: int) -> None:
    """Compare models that are updated and recalibrated with models that are fitted again."""
    out: Console = report.console()
    records: dict[str, list[Record]] = defaultdict(list)
    for name in (part.strip() for part in sets.split(",")):
        if name not in TRIALS:
            raise click.BadParameter(f"{name} is not among: {', '.join(TRIALS)}", param_hint="--sets")
        try:
            for seed in range(trials):
                records[name].append(measure(name, seed))
        except Unavailable as reason:
            out.print(f"skipped {name}: {reason}")
    if not any(records.values()):
        raise click.ClickException("nothing was measured: no data set was found.")
    _show_updates(out, records)
    _show_recalibrations(out, records)
    out.print(f"Means over {trials} trials; ± the spread between them. Times on one thread.")


def _show_updates(out: Console, records: dict[str, list[Record]]) -> None:
    table = report.new_table(
        out, "set", "refit s", "update s", "ratio", "same label", "two seeds", "AUROC before", "updated", "refit",
        "OSCR updated", "refit", "known rejected", "refit",
    )  # fmt: skip
    for name, rows in records.items():
        if rows:
            seconds = [_mean(rows, key) for key in ("refit_seconds", "update_seconds")]
            keys = (
                "same_label", "same_label_seeds", "before_auroc", "updated_auroc", "refit_auroc", "updated_oscr",
                "refit_oscr", "updated_rejected", "refit_rejected",
            )  # fmt: skip
            ratio = f"{seconds[0] / seconds[1]:.1f}"
            table.add_row(name, *(f"{s:.3f}" for s in seconds), ratio, *(f"{_mean(rows, key):.4f}" for key in keys))
    report.show(out, "update with a tenth of the training samples, and a fit to all of them", table)


def _show_recalibrations(out: Console, records: dict[str, list[Record]]) -> None:
    table = report.new_table(
        out, "set", "fresh", "recalibrate s", "ratio to refit", "known rejected before", "after",
        "unknown rejected before", "after",
    )  # fmt: skip
    for name, rows in records.items():
        if rows:
            seconds = _mean(rows, "recalibrate_seconds")
            cells = [
                f"{_mean(rows, key):.4f} ± {np.std([row[key] for row in rows]):.4f}"
                for key in (f"{kind}_rejected_{when}" for kind in ("known", "unknown") for when in ("before", "after"))
            ]
            ratio = f"{_mean(rows, 'refit_seconds') / seconds:.1f}"
            table.add_row(name, f"{_mean(rows, 'n_fresh'):.0f}", f"{seconds:.3f}", ratio, *cells)
    report.show(out, f"recalibrate with {FRESH} known samples of the test side, target 0.05", table)


def _mean(rows: list[Record], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


if __name__ == "__main__":
    main()
