"""Check the paper's claims against the results of its experiments: ``python -m benchmarks.claims srosr-results``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from benchmarks import report
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.result_tables import read_results, read_table
from srosr.experiments.statistics import MeanInterval, mean_interval

EXPERIMENTS = ("yaleb", "mnist", "mnist-full", "uiuc", "caltech256", "caltech256-clip", "caltech101")
RULES = ("paper", "paper-5-percent", "paper-lasso", "calibrated", "calibrated-f")
"""The paper's rule with its codes and threshold, with the threshold of the others, with our codes; and ours."""
RIVALS = ("w-svm", "w-svm-original", "sci", "ratio", "naive")
OURS = ("calibrated", "calibrated-f")
LASSO_RULES = ("paper-lasso", "calibrated", "calibrated-f")
LASSO_RIVALS = ("sci-lasso", "ratio-lasso", "naive-lasso")
"""Rivals on our codes, for rules on our codes; on MNIST the methods at the paper's ε have few trials."""
METRICS = {"f": "F", "accuracy": "accuracy"}
RENAMED_METRICS = {"known_refused": "known_rejected"}
"""Metrics whose old names are in the committed tables."""


def read_experiment(path: Path) -> pd.DataFrame:
    """Read a table of results, with the present names of the metrics."""
    results = read_results(path)
    return results.assign(metric=results["metric"].replace(RENAMED_METRICS))


def pair_differences(results: pd.DataFrame, metric: str, one: str, other: str) -> pd.DataFrame:
    """Return the differences one − other, with a row per common trial and a column per level of openness."""
    values = results[results["metric"] == metric]
    a, b = (
        values[values["method"] == name].pivot(index="trial", columns="openness", values="value")
        for name in (one, other)
    )
    return (a - b).dropna()


def count_levels(differences: pd.DataFrame) -> tuple[int, int, int]:
    """Return the number of levels at which one is ahead, behind, and neither, by the 95 % interval of the mean."""
    intervals = [mean_interval(differences[level]) for level in differences]
    ahead = sum(i.low > 0 for i in intervals)
    behind = sum(i.high < 0 for i in intervals)
    return ahead, behind, len(intervals) - ahead - behind


def fit_slopes(differences: pd.DataFrame) -> MeanInterval:
    """Return the change of a difference per point of openness (1 %), from a straight line in every trial."""
    openness = 100 * np.asarray(differences.columns, dtype=float)
    centered = openness - openness.mean()
    slopes = differences.to_numpy() @ centered / (centered @ centered)
    return mean_interval(slopes)


def _format_interval(interval: MeanInterval, digits: int = 3) -> str:
    mean = f"{interval.mean:+.{digits}f}"
    return mean if np.isnan(interval.half_width) else f"{mean} ± {interval.half_width:.{digits}f}"


def choose_pairs(there: Iterable[str]) -> list[tuple[str, str]]:
    """Return each available rule with each available rival that it is compared with."""
    pairs = [(rule, rival) for rule in RULES for rival in (*RIVALS, *(LASSO_RIVALS if rule in LASSO_RULES else ()))]
    pairs += [(rule, rival) for rule in OURS for rival in ("paper", "paper-lasso")]
    return [pair for pair in pairs if set(pair) <= set(there)]


def tabulate_levels(out: Any, results: pd.DataFrame) -> Any:
    """Return a table of levels ahead, behind and even, and of mean differences, by rule, rival and metric."""
    headings = [f"{label}: {what}" for label in METRICS.values() for what in ("levels + / − / =", "mean difference")]
    table = report.new_table(out, "method", "against", "trials", *headings)
    for rule, rival in choose_pairs(results["method"].unique()):
        row, n = [], 0
        for metric in METRICS:
            differences = pair_differences(results, metric, rule, rival)
            n = len(differences)
            row += [
                "{} / {} / {}".format(*count_levels(differences)),
                _format_interval(mean_interval(differences.mean(axis=1))),
            ]
        table.add_row(rule, rival, str(n), *row)
    return table


def measure_course(results: pd.DataFrame, metric: str, method: str) -> tuple[MeanInterval, MeanInterval, MeanInterval]:
    """Return a metric at the smallest and at the largest openness, and the change between them."""
    values = results[(results["metric"] == metric) & (results["method"] == method)]
    table = values.pivot(index="trial", columns="openness", values="value")
    first, last = table[table.columns[0]], table[table.columns[-1]]
    return mean_interval(first), mean_interval(last), mean_interval(last - first)


def find_epsilon_methods(experiment: str) -> list[str]:
    """Return the methods of an experiment on codes within some epsilon of a sample, like the paper's."""
    settings = load_protocol(experiment).methods
    return [setting.name for setting in settings if setting.parameters.get("problem", {}).get("name") == "bpdn"]


def describe_times(times: pd.DataFrame, epsilon: Iterable[str]) -> str:
    """Return the minutes of all methods, of those on codes at the paper's epsilon, and of their longest trial."""
    spent = times[["fit_seconds", "predict_seconds", "measure_seconds"]].sum(axis=1) / 60
    hard = spent[times["method"].isin(list(epsilon))]
    text = f"{spent.sum():.1f} minutes on one core"
    if hard.empty:
        return f"{text}."
    longest = hard.groupby(times["trial"]).sum().max()
    return (
        f"{text}, {hard.sum():.1f} of them for methods on codes at the paper's epsilon, up to {longest:.1f} per trial."
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Print, for each experiment in FOLDER, how its results compare with the paper's claims.

    "+ / − / =": at how many levels of openness the method is ahead, behind, or neither, by the 95 % interval of the
    paired difference over trials. Differences are means over all levels.
    """
    out = report.console()
    found = 0
    for name in EXPERIMENTS:
        path = folder / name / "results.parquet"
        if not path.exists():
            continue
        found += 1
        results = read_experiment(path)
        n_trials = results["trial"].nunique()
        out.print(f"\n{name}: {n_trials} {'trial' if n_trials == 1 else 'trials'}", style="bold")
        if (times := folder / name / "times.parquet").exists():
            out.print(describe_times(read_table(times, "times"), find_epsilon_methods(name)))
        report.show(out, "1. Ahead of W-SVM, SCI, ratio and naive", tabulate_levels(out, results))
        report.show(
            out,
            "2. Both tails ahead of the matched one alone",
            _tabulate_fusion(out, results),
        )
        report.show(out, "3. Margins as openness grows: change for one point (1 %)", _tabulate_slopes(out, results))
        report.show(out, "4. Accuracy, recognition and rejection, from the smallest to the largest openness",
                    _tabulate_course(out, results))  # fmt: skip
        if OURS[0] in set(results["method"]):
            report.show(
                out, "5. Ours by AUROC and OSCR, against the best of the others", _tabulate_ranking(out, results)
            )
        if LASSO_RIVALS[0] in set(results["method"]):
            report.show(out, "6. Codes at the paper's epsilon against Lasso codes, AUROC on the same trials",
                        _tabulate_codes(out, results))  # fmt: skip
    if not found:
        raise click.ClickException(f"{folder} has no results of {', '.join(EXPERIMENTS)}.")


def _tabulate_fusion(out: Any, results: pd.DataFrame) -> Any:
    table = report.new_table(out, "fused", "matched", "trials", "F", "levels", "accuracy", "levels", "AUROC", "OSCR")
    for one, other in (("paper", "matched"), ("paper-lasso", "matched-lasso")):
        if not {one, other} <= set(results["method"]):
            continue
        cells, n = [], 0
        for metric in ("f", "accuracy", "auroc", "oscr"):
            differences = pair_differences(results, metric, one, other)
            n = len(differences)
            cells.append(_format_interval(mean_interval(differences.mean(axis=1))))
            if metric in METRICS:
                cells.append("{} / {} / {}".format(*count_levels(differences)))
        table.add_row(one, other, str(n), *cells)
    return table


def _tabulate_slopes(out: Any, results: pd.DataFrame) -> Any:
    table = report.new_table(out, "method", "against", "F", "accuracy")
    for rule, rival in choose_pairs(results["method"].unique()):
        table.add_row(
            rule, rival, *(_format_interval(fit_slopes(pair_differences(results, m, rule, rival)), 4) for m in METRICS)
        )
    return table


def _tabulate_course(out: Any, results: pd.DataFrame) -> Any:
    table = report.new_table(out, "method", "accuracy", "change", "recognition", "rejection", "F", "change")
    for method in (*RULES, "matched", "matched-lasso", *RIVALS, *LASSO_RIVALS):
        if method not in set(results["method"]):
            continue
        cells = []
        for metric in ("accuracy", "recognition_accuracy", "rejection_accuracy", "f"):
            first, last, change = measure_course(results, metric, method)
            cells.append(f"{first.mean:.3f} → {last.mean:.3f}")
            if metric in METRICS:
                cells.append(_format_interval(change))
        table.add_row(method, *cells)
    return table


def _tabulate_ranking(out: Any, results: pd.DataFrame) -> Any:
    """Return ours against the best other method with all trials, at the largest openness and over all levels."""
    table = report.new_table(out, "metric", "ours", "best other", "its mean", "difference", "over all levels")
    trials = results.groupby("method")["trial"].nunique()
    others = [name for name in trials.index if trials[name] == trials.max() and name not in OURS]
    for metric in ("auroc", "oscr"):
        means = {name: measure_course(results, metric, name)[1].mean for name in (*others, OURS[0])}
        best = max(others, key=lambda name: means[name])
        differences = pair_differences(results, metric, OURS[0], best)
        last = mean_interval(differences[differences.columns[-1]])
        whole = mean_interval(differences.mean(axis=1))
        table.add_row(
            metric, f"{means[OURS[0]]:.3f}", best, f"{means[best]:.3f}", _format_interval(last), _format_interval(whole)
        )
    return table


def _tabulate_codes(out: Any, results: pd.DataFrame) -> Any:
    """Return AUROC on both kinds of codes at the largest openness, over common trials."""
    table = report.new_table(out, "method", "trials", "epsilon", "Lasso", "difference")
    values = results[results["metric"] == "auroc"]
    last = values[values["openness"] == values["openness"].max()]
    by_trial = last.pivot(index="trial", columns="method", values="value")
    for method in ("paper", "matched", "sci", "ratio", "naive"):
        if {method, f"{method}-lasso"} <= set(by_trial):
            both = by_trial[[method, f"{method}-lasso"]].dropna()
            one, other = both[method], both[f"{method}-lasso"]
            difference = _format_interval(mean_interval(one - other))
            table.add_row(method, str(len(both)), f"{one.mean():.3f}", f"{other.mean():.3f}", difference)
    return table


if __name__ == "__main__":
    main()
