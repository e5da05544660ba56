"""``srosr compare``: compare all methods on the user's own data, with classes left out in turn."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .._support.atomic_files import write_atomically
from .._support.messages import choose_from, count_of, format_number, format_seconds, join_names
from ..operations.input_errors import InputError, convert_errors
from .comparison_data import read_comparison_data
from .console import err, jobs_option, json_option, out, print_json, quiet_option, seed_option
from .input_data import FeatureOptions, data_options, feature_options
from .trial_progress import prepare_folder, stop, trial_progress

if TYPE_CHECKING:
    from ..experiments.comparison_protocol import ComparisonProtocol
    from ..reports.recommendation import Recommendation, Standing
    from ..reports.reproduction import Reproduction
    from ..tables.read_options import ReadOptions
    from .comparison_data import ComparisonData

CRITERIA = ("oscr", "auroc", "f", "accuracy")
#: Short names of the metrics; the table shows the one that methods are ranked by and two more.
HEADINGS = {"oscr": "OSCR", "auroc": "AUROC", "f": "F", "accuracy": "accuracy"}


class _Comparison(NamedTuple):
    """The samples, the protocol, the metric to rank by, and what returns the command that fits a method."""

    found: ComparisonData
    protocol: ComparisonProtocol
    by: str
    fit_command: Callable[[str], str]


@click.command()
@click.argument("data", metavar="DATA")
@data_options()
@feature_options
@click.option("--methods", metavar="METHODS", help="Comma-separated methods of srosr fit.  [all]")
@click.option(
    "--folds", type=click.IntRange(2), metavar="N",
    help="Groups of classes that are left out in turn.  [one per class, at most 5]",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(1, 10_000), metavar="R",
    help="Rounds, each with new groups of which every one is left out once.  [enough for 10 trials]",
)  # fmt: skip
@click.option(
    "--test-share", type=click.FloatRange(0.05, 0.9), default=0.3, show_default=True, metavar="SHARE",
    help="Share of the samples of each known class to hold out for testing.",
)  # fmt: skip
@click.option(
    "--target-rejection", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
    metavar="SHARE", help="Share of known samples that a method may reject.",
)  # fmt: skip
@click.option(
    "--max-samples", type=click.IntRange(3), metavar="N",
    help="Largest number of samples per class.  [200; fewer with more than 20 classes]",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(CRITERIA), default=CRITERIA[0], show_default=True,
    help="Metric to rank methods by: area under the OSCR curve, AUROC, F-measure or accuracy.",
)  # fmt: skip
@jobs_option("Trials to run in parallel, each in a process with one thread.")
@seed_option("Seed of the trials and the methods.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for report, tables and figures.  [srosr-compare, or srosr-compare-standardized]",
)  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Repeat what failed in an earlier run into the same folder.")
@json_option
@quiet_option
def compare(
    data: str,
    options: ReadOptions,
    features: FeatureOptions,
    methods: str | None,
    max_samples: int | None,
    by: str,
    jobs: int | None,
    seed: int,
    out: Path | None,
    retry_failed: bool,
    as_json: bool,
    quiet: bool,
    **turns: Any,
) -> None:
    """Compare all methods on your own labeled data and recommend one.

    No unknown sample is needed: known classes serve as unknown ones. The classes are divided into groups, and each
    group is left out of training once per round. In each such trial every method is fitted to the same samples of the
    other classes, with its defaults, and tested on held-out samples of these and all samples of the left-out classes.

    The method with the highest mean of --by over all trials is recommended, together with those that the trials cannot
    distinguish from it. Report and tables are written to the folder --out. If the command is interrupted, the same
    command continues where it stopped.

    DATA is what "srosr fit" takes, with at least three classes. Exit status 1 means that a method failed in some
    trial; the others are compared all the same.

    \b
    Examples:
      srosr compare iris.csv --label species
      srosr compare train.parquet --ignore id --standardize --jobs 4
      srosr compare embeddings.npy --labels names.txt --methods calibrated,knn,w-svm --rounds 5
      srosr compare photos/ --features pixels --by f
      srosr compare train.csv --json | jq .recommendation.method
    """
    from ..datasets.dataset import DatasetError
    from ..distributed.worker_task import ExecutorError
    from ..experiments.comparison_protocol import plan_comparison
    from ..experiments.protocol import ProtocolError
    from ..experiments.run_identity import ResultsFolderError

    out = out or Path("srosr-compare-standardized" if features.standardize else "srosr-compare")
    wanted = _parse_methods(methods)
    console = err()
    try:
        with convert_errors(ProtocolError, DatasetError, ResultsFolderError, ExecutorError):
            found = read_comparison_data(data, options, features, most=max_samples, seed=seed, shown=not quiet)
            # Workers find the samples under a name that depends only on their content.
            file = (out / f"samples-{found.dataset.fingerprint()[:16]}.npz").absolute()
            protocol = plan_comparison(
                found.dataset, file=str(file), standardize=features.standardize, methods=wanted, **turns
            )
            notes = [*found.notes, *_note_small_classes(found)]
            protocol = replace(protocol, about="\n\n".join([protocol.about, " ".join(notes)]))
            if not quiet:
                for note in notes:
                    console.print(f"Note: {note}", style="yellow")
            fit_command = partial(_fit_command, data, options, features, protocol)
            comparison = _Comparison(found, protocol, by, fit_command)
            choices = {"methods": wanted, "seed": seed, "retry_failed": retry_failed}
            outcome = _run_trials(comparison, out, file, jobs or os.cpu_count() or 1, quiet, choices)
    except KeyboardInterrupt:
        raise stop(console, out) from None
    ranking, advice = _rank_and_recommend(comparison, outcome.tables)
    failures = _select_methods(protocol, outcome.tables["failures"])
    if as_json:
        print_json(_to_dict(comparison, outcome, ranking, advice, failures, notes))
    elif not quiet:
        _print_results(comparison, outcome, ranking, advice, failures)
    if not failures.empty:
        raise click.exceptions.Exit(1)


def _parse_methods(methods: str | None) -> list[str] | None:
    """Return the methods asked for; raise if there is an unknown one, or only one."""
    from ..rivals.methods import open_set_methods

    if methods is None:
        return None
    there = open_set_methods()
    names = list(dict.fromkeys(part.strip() for part in methods.split(",") if part.strip()))
    for name in names:
        if name not in there:
            raise InputError(f"--methods: there is no method {name!r}{choose_from(name, there)}")
    if len(names) < 2:
        raise InputError("--methods: give at least two methods, separated by commas, as in calibrated,knn.")
    return names


def _note_small_classes(found: ComparisonData) -> list[str]:
    """Return a note on the classes that are too small to be known."""
    import numpy as np

    from ..experiments.comparison_protocol import LEAST_SAMPLES

    sizes = np.bincount(found.dataset.y)
    small = [found.dataset.class_names[c] for c in np.flatnonzero(sizes < LEAST_SAMPLES)]
    if not small:
        return []
    has = "has" if len(small) == 1 else "have"
    return [f"{join_names(small, 5)} {has} fewer than {LEAST_SAMPLES} samples: always unknown, never trained on."]


# -- the run -----------------------------------------------------------------------------------------------


def _run_trials(
    comparison: _Comparison, out: Path, file: Path, jobs: int, quiet: bool, options: dict[str, Any]
) -> Reproduction:
    """Run the trials that are missing; the copy of the samples that workers read exists while they run."""
    from ..experiments.runner import make_executor
    from ..reports.reproduction import reproduce

    def advise(tables: dict[str, Any]) -> list[str]:
        from ..reports.recommendation import describe_rule

        advice = _rank_and_recommend(comparison, tables)[1]
        if advice is None:
            return ["No method finished a trial, so none can be recommended."]
        fit = f"To fit it: {comparison.fit_command(advice.method)}"
        parts = [*advice.sentences, " ".join(advice.cautions), describe_rule(comparison.by), fit]
        return [part for part in parts if part]

    found, protocol = comparison.found, comparison.protocol
    with prepare_folder(out):
        made = not file.exists()
        _write_samples(file, found)
        try:
            showing: Any = nullcontext() if quiet else trial_progress(err(), protocol.name)
            with showing as progress:
                outcome = reproduce(
                    protocol, out, make_executor(min(jobs, protocol.trials)), dataset=found.dataset,
                    on_progress=progress, advise=advise, **options,
                )  # fmt: skip
            made = True
        finally:
            # A file that was there before may belong to another run into the same folder.
            if made:
                with suppress(OSError):
                    file.unlink()
    return outcome


def _write_samples(file: Path, found: ComparisonData) -> None:
    import numpy as np

    data, content = found.dataset, BytesIO()
    np.savez(content, X=data.X, y=data.y, class_names=np.array(data.class_names))
    write_atomically(file, content.getvalue())


def _rank_and_recommend(
    comparison: _Comparison, tables: dict[str, Any]
) -> tuple[list[Standing], Recommendation | None]:
    from ..reports.recommendation import rank_standings, recommend

    found, protocol, by, _ = comparison
    results, times = (_select_methods(protocol, tables[name]) for name in ("results", "times"))
    ranking = rank_standings(results, times, protocol.methods, by)
    n_classes = len(found.dataset.class_names)
    return ranking, recommend(results, ranking, by, n_classes=n_classes, folds=protocol.folds)


def _select_methods(protocol: ComparisonProtocol, table: Any) -> Any:
    """Return the rows of the methods that were asked for; an earlier run into the same folder may have had others."""
    return table[table["method"].isin([setting.name for setting in protocol.methods])]


# -- output ------------------------------------------------------------------------------------------------


def _print_results(
    comparison: _Comparison,
    outcome: Reproduction,
    ranking: list[Standing],
    advice: Recommendation | None,
    failures: Any,
) -> None:
    from ..reports.recommendation import describe_rule

    console = out()
    if advice is None:
        console.print("No method finished a trial, so none can be recommended.")
    else:
        console.print(_tabulate(comparison, outcome, ranking, advice))
        first, *rest = advice.sentences
        console.print(first, style="bold")
        for sentence in (*rest, *advice.cautions, describe_rule(comparison.by)):
            console.print(sentence)
    for method, own in failures.groupby("method", sort=False):
        reason = own["reason"].iloc[0]
        console.print(f"FAILED {method} in {len(own)} of {_count_trials(outcome)} trials: {reason}", style="red")
    if advice is not None:
        console.print(f"Fit it: {comparison.fit_command(advice.method)}")
    console.print(f"Report: {outcome.report}")


def _count_trials(outcome: Reproduction) -> int:
    return len({*outcome.tables["results"]["trial"], *outcome.tables["failures"]["trial"]})


def _tabulate(comparison: _Comparison, outcome: Reproduction, ranking: list[Standing], advice: Recommendation) -> Any:
    from rich import box
    from rich.table import Table

    _, protocol, by, _ = comparison
    words = protocol.merge_levels(outcome.tables["results"])[1]
    n = advice.n_trials
    table = Table(
        title=f"{protocol.title}: {count_of(n, 'trial')}, {words}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
        title_justify="left", title_style="bold", header_style="bold", caption_justify="left", caption_style="dim",
    )  # fmt: skip
    means = [by, *(metric for metric in HEADINGS if metric != by)][:3]
    table.add_column("method", no_wrap=True)
    headings = [HEADINGS[metric] for metric in means]
    for heading in (*headings, "known\nrejected", "unknown\nrejected", "fit\ns", "predict\ns"):
        table.add_column(heading, justify="right", no_wrap=True)
    spread = False
    for s in ranking:
        half = s.values[by].half_width
        spread |= half == half
        cells = [format_number(s.values[metric].mean) for metric in means]
        cells[0] += f"±{format_number(half)}" if half == half else ""
        cells += [f"{100 * s.values[metric].mean:.1f} %" for metric in ("known_rejected", "rejection_accuracy")]
        cells += [_format_seconds(s.fit_seconds), _format_seconds(s.predict_seconds)]
        few = f" ({s.n_trials})" if s.n_trials < n else ""
        table.add_row(s.method + few, *cells, style="bold" if s.method == advice.method else "")
    what = "Means over trials" if n > 1 else "One trial"
    interval = ", ± half of the 95 % interval" if spread else ""
    is_incomplete = any(s.n_trials < n for s in ranking)
    fewer = "; in parentheses, the number of finished trials where it is smaller" if is_incomplete else ""
    table.caption = (
        f"{what}{interval}; {100 * _get_target_rejection(protocol):g} % of known samples were to be rejected{fewer}."
    )
    return table


def _format_seconds(value: float) -> str:
    return format_number(value) if not value >= 10 else format_seconds(value)


def _get_target_rejection(protocol: ComparisonProtocol) -> float:
    return float(protocol.methods[0].parameters["target_rejection"])


def _fit_command(
    data: str, options: ReadOptions, features: FeatureOptions, protocol: ComparisonProtocol, method: str
) -> str:
    """Return the command that fits the method to the same data."""
    words = ["srosr", "fit", data]
    given = {
        "--label": options.label, "--labels": options.labels_file, "--array": options.array,
        "--features": features.features, "--size": features.size,
    }  # fmt: skip
    for option, value in given.items():
        if value is not None:
            words += [option, str(value)]
    for column in options.ignore:
        words += ["--ignore", column]
    flags = {
        "--no-header": not options.header, "--drop-missing": options.drop_missing,
        "--skip-broken": options.skip_broken, "--standardize": features.standardize,
    }  # fmt: skip
    words += [flag for flag, given in flags.items() if given]
    words += ["--method", method]
    if _get_target_rejection(protocol) != 0.05:
        words += ["--target-rejection", f"{_get_target_rejection(protocol):g}"]
    return shlex.join(words)


def _to_dict(
    comparison: _Comparison,
    outcome: Reproduction,
    ranking: list[Standing],
    advice: Recommendation | None,
    failures: Any,
    notes: list[str],
) -> dict[str, Any]:
    """Return all results as a JSON-serializable dict."""
    from ..reports.recommendation import describe_rule

    found, protocol, by, fit_command = comparison
    data = found.dataset
    methods = []
    for s in ranking:
        metrics = {name: {"mean": i.mean, "half_width": _nan_to_none(i.half_width)} for name, i in s.values.items()}
        methods.append({
            "method": s.method, "trials": s.n_trials, "metrics": metrics,
            "fit_seconds": _nan_to_none(s.fit_seconds), "predict_seconds": _nan_to_none(s.predict_seconds),
        })  # fmt: skip
    recommendation: dict[str, Any] | None = None
    if advice is not None:
        rivals = [
            {k: v if isinstance(v, str) else _nan_to_none(v) for k, v in asdict(r).items()} for r in advice.rivals
        ]
        recommendation = {
            "method": advice.method,
            "reason": " ".join(advice.sentences),
            "not_distinguishable": [r.method for r in advice.rivals if r.even],
            "best_against": rivals,
            "cautions": list(advice.cautions),
            "rule": describe_rule(by),
            "fit": fit_command(advice.method),
        }
    return {
        "data": {
            "name": data.name, "samples": found.n_seen, "samples_used": len(data.y),
            "classes": list(data.class_names), "label": found.label,
        },
        "by": by,
        "trials": _count_trials(outcome),
        "folds": protocol.folds,
        "target_rejection": _get_target_rejection(protocol),
        "recommendation": recommendation,
        "methods": methods,
        "failures": failures[["trial", "method", "reason"]].to_dict("records"),
        "notes": notes,
        "report": str(outcome.report),
    }  # fmt: skip


def _nan_to_none(value: float) -> float | None:
    return value if value == value else None
