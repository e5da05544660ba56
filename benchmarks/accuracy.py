"""Recognition of known and rejection of unknown classes on real data: ``python -m benchmarks.accuracy``."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import click
import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from benchmarks import coverage, report, standings
from benchmarks.methods import METHODS, PAPER_METHODS, Method, Setting, assess, methods_to_fit
from benchmarks.problems import Unavailable
from benchmarks.standings import Record
from benchmarks.trials import TRIALS, Trial

RESULTS = Path(__file__).parent / "results"
N_TRIALS = 20
COVERAGE_TRIALS = 50
QUICK_TRIALS = 2
QUICK_SAMPLES = 100
"""Known test samples of a quick run, and as many unknown ones."""
QUICK_REPEATS = 5
"""Repeats of cross-testing in a quick run."""
SETTINGS = ("paper-yaleb",)


def fewer(trial: Trial, seed: int, most: int = QUICK_SAMPLES) -> Trial:
    """Return the trial with at most ``most`` known and as many unknown test samples."""
    rng, unknown = np.random.default_rng(seed), trial.is_unknown
    kept = [rng.permutation(np.flatnonzero(part))[:most] for part in (~unknown, unknown)]
    rows = np.sort(np.concatenate(kept))
    return replace(trial, X_test=trial.X_test[rows], y_test=trial.y_test[rows])


def methods_of(mode: str) -> dict[str, Method]:
    """Return the methods of a mode: "accuracy", "coverage" or one of `SETTINGS`."""
    return PAPER_METHODS if mode in SETTINGS else METHODS


def run_trial(name: str, seed: int, mode: str, methods: list[str], quick: bool) -> Record:
    """Draw one trial and run every method on it, all on one thread.

    Returns
    -------
    dict
        ``trial`` (sizes), ``records`` (one for each method), and ``failed`` (method and error). A method that fails
        does not affect the others.
    """
    trial = TRIALS[name].draw(seed)
    if quick:
        trial = fewer(trial, seed)
    where = {"set": name, "seed": seed}
    out: Record = {
        "trial": where
        | {
            "n_train": len(trial.X),
            "n_features": trial.X.shape[1],
            "n_classes": len(np.unique(trial.y)),
            "n_known": int(np.sum(~trial.is_unknown)),
            "n_unknown": int(np.sum(trial.is_unknown)),
            "repeated_share": trial.repeated_share,
        },
        "records": [],
        "failed": [],
    }
    setting = Setting(seed, 1, QUICK_REPEATS if quick else None, TRIALS[name].tail_size)
    for key in methods:
        try:
            if key == coverage.SPLIT:
                with threadpool_limits(1):
                    out["records"].append(where | {"method": key} | coverage.measure_promises(trial, setting))
                continue
            with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
                warnings.simplefilter("always")
                answers = methods_of(mode)[key](trial, setting)
            found = [where | {"method": as_name} | assess(trial, said) for as_name, said in answers.items()]
        except Exception as error:
            out["failed"].append(where | {"method": key, "error": f"{type(error).__name__}: {error}"})
            continue
        if caught:
            found[0]["warnings"] = dict(Counter(w.category.__name__ for w in caught))
        out["records"] += found
    return out


class Book:
    """All measurements of a run, written to disk after every trial.

    Parameters
    ----------
    path : Path
    settings : dict
        Settings of the run; a file is resumed only with the same settings.
    resume : bool
        Keep the records in the file and measure the rest.
    """

    def __init__(self, path: Path, settings: dict[str, Any], resume: bool = False) -> None:
        self.path, self.started = path, time.perf_counter()
        environment = report.environment([])
        for name in ("scikit-learn", "srosr"):
            environment["versions"][name] = metadata.version(name) if _installed(name) else None
        self.content: dict[str, Any] = {
            "environment": environment,
            "settings": settings,
            "trials": [],
            "records": [],
            "failed": [],
            "skipped": [],
            "seconds": 0.0,
        }
        if resume and path.exists():
            old = json.loads(path.read_text())
            if old.get("settings") != settings:
                raise click.UsageError(
                    f"{path.name} holds a run with other settings, {old.get('settings')}: use another --json, or omit "
                    "--resume to overwrite it."
                )
            for key in ("trials", "records"):
                self.content[key] = old[key]

    @property
    def records(self) -> list[Record]:
        """Return the records, one for each set, seed and method."""
        return self.content["records"]

    def of(self, name: str, key: str = "records") -> list[Record]:
        """Return the records or trials of one set, in the order of the seeds."""
        return sorted((r for r in self.content[key] if r["set"] == name), key=lambda r: r["seed"])

    def missing(self, name: str, seed: int, methods: list[str]) -> list[str]:
        """Return the methods that have no record for this trial."""
        there = {r["method"].split()[0] for r in self.records if (r["set"], r["seed"]) == (name, seed)}
        return [key for key in methods if key not in there]

    def add(self, result: Record) -> None:
        """Add the result of a trial and write the file."""
        trial = result["trial"]
        if not any((t["set"], t["seed"]) == (trial["set"], trial["seed"]) for t in self.content["trials"]):
            self.content["trials"].append(trial)
        new = {(r["set"], r["seed"], r["method"]) for r in result["records"]}
        kept = [r for r in self.records if (r["set"], r["seed"], r["method"]) not in new]
        self.content["records"] = kept + result["records"]
        self.content["failed"] += result["failed"]
        self.write()

    def write(self, **more: Any) -> None:
        """Write everything; the file is either the old or the new one, never partial."""
        self.content["seconds"] = time.perf_counter() - self.started
        self.content |= more
        report.write_json(self.path, self.content)


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _results(work: list[tuple[str, int, str, list[str], bool]], jobs: int) -> Iterator[Record]:
    """Yield results as they finish, each trial in its own process if ``jobs`` is above one."""
    if jobs == 1:
        yield from (run_trial(*each) for each in work)
    else:
        yield from Parallel(jobs, return_as="generator_unordered")(delayed(run_trial)(*each) for each in work)


def run_set(
    book: Book, name: str, seeds: Iterable[int], methods: list[str], *, jobs: int, tick: Callable[[], None]
) -> None:
    """Run the missing trials of one set; each is written to disk as soon as it is done."""
    mode, quick = book.content["settings"]["mode"], book.content["settings"]["quick"]
    work = []
    for seed in seeds:
        if left := book.missing(name, seed, methods):
            work.append((name, seed, mode, left, quick))
        else:
            tick()
    for result in _results(work, jobs):
        book.add(result)
        tick()


def _chosen(text: str | None, available: Iterable[str], option: str) -> list[str]:
    names = list(available)
    if text is None:
        return names
    wanted = {part.strip().lower() for part in text.split(",") if part.strip()}
    if unknown := wanted - set(names) or (not wanted and {"nothing"}):
        raise click.BadParameter(f"{', '.join(sorted(unknown))} is not among: {', '.join(names)}", param_hint=option)
    return [name for name in names if name in wanted]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--sets", metavar="SETS", help=f"Comma-separated data sets: {', '.join(TRIALS)}.  [up to orl]")
@click.option(
    "--trials", type=click.IntRange(1), help=f"Trials of each set.  [{N_TRIALS}, coverage: {COVERAGE_TRIALS}]"
)
@click.option("--first-seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the first trial.")
@click.option("--methods", "names", metavar="METHODS", help=f"Comma-separated methods: {', '.join(METHODS)}.  [all]")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Trials to run at once, one process each."
)
@click.option("--quick", is_flag=True, help=f"Only {QUICK_TRIALS} trials with few test samples and repeats.")
@click.option(
    "--coverage",
    "only_coverage",
    is_flag=True,
    help="Only the false rejection of calibrated at its default target, and what a calibration split promises.",
)
@click.option("--setting", type=click.Choice(SETTINGS), help="The paper's own parameters: paper rule, matched tail.")
@click.option("--resume", is_flag=True, help="Keep what the JSON file holds and run the rest.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the records go, after every trial.  [accuracy.json, coverage.json ... in benchmarks/results]",
)
def main(
    sets: str | None,
    trials: int | None,
    first_seed: int,
    names: str | None,
    jobs: int,
    quick: bool,
    only_coverage: bool,
    setting: str | None,
    resume: bool,
    path: Path | None,
) -> None:
    """Compare our rules, their single kinds of evidence and all rivals on the same open set trials.

    Trials depend only on set and seed. Data sets are found under SROSR_DATA_DIR; missing ones are skipped, with the
    reason. No method sees an unknown sample in training.
    """
    mode = setting or ("coverage" if only_coverage else "accuracy")
    if setting and only_coverage:
        raise click.UsageError("--setting and --coverage are two different runs: choose one.")
    if names is not None and mode != "accuracy":
        raise click.UsageError(f"--methods has no effect with --{'coverage' if only_coverage else 'setting'}: omit it.")
    if setting and sets is not None:
        raise click.UsageError(f"--sets has no effect with --setting {setting}: omit it.")
    if mode == "accuracy":
        methods = methods_to_fit(_chosen(names, METHODS, "--methods"))
    else:
        methods = ["calibrated", coverage.SPLIT] if only_coverage else list(PAPER_METHODS)
    usual = ",".join(name for name, trial_set in TRIALS.items() if not trial_set.extra)
    chosen = ["yaleb"] if setting else _chosen(sets or usual, TRIALS, "--sets")
    n_trials = trials or (QUICK_TRIALS if quick else COVERAGE_TRIALS if only_coverage else N_TRIALS)
    seeds = range(first_seed, first_seed + n_trials)
    out, err = report.console(), Console(stderr=True)
    book = Book(path or RESULTS / f"{mode}{'-quick' if quick else ''}.json", {"mode": mode, "quick": quick}, resume)

    for name in chosen:
        try:
            with _progress(err, name, n_trials) as tick:
                run_set(book, name, seeds, methods, jobs=jobs, tick=tick)
        except Unavailable as reason:
            book.content["skipped"].append({"set": name, "reason": str(reason)})
            out.print(f"skipped {name}: {reason}")
            continue
        if mode == "accuracy" and book.of(name):
            title = standings.set_title(TRIALS[name], book.of(name, "trials"))
            report.show(out, title, standings.set_table(out, book.of(name)))

    if not book.records:
        out.print("Nothing was measured and nothing was written: no data set was found.")
        sys.exit(1)
    _conclude(out, book, mode)
    caught: Counter[str] = Counter()
    for r in book.records:
        caught.update(r.get("warnings", {}))
    if caught:
        out.print("Warnings: " + ", ".join(f"{n} {category}" for category, n in caught.most_common()))
    failed = book.content["failed"]
    for f in failed:
        out.print(f"FAILED {f['set']} seed {f['seed']} {f['method']}: {f['error']}", markup=False)
    out.print(f"{len(book.records)} records in {book.path.name}, {book.content['seconds']:.0f} s")
    sys.exit(1 if failed else 0)


def _conclude(out: Console, book: Book, mode: str) -> None:
    """Print and write the summary over all sets."""
    if mode == "coverage":
        lines = standings.coverage([r for r in book.records if r["method"] != coverage.SPLIT])
        report.show(out, "Share of known test samples rejected", standings.coverage_table(out, lines))
        promises = coverage.summarize_promises(book.records)
        title = "Promises of a calibration split: target, class p-values, prediction sets, false discovery rate"
        report.show(out, title, coverage.promises_table(out, promises))
        book.write(coverage=lines, promises=promises)
        return
    if mode in SETTINGS:
        title = "Extended Yale B at the paper's setting: epsilon 0.001, tail 0.10, threshold 0.007, openness 35.45 %"
        report.show(out, title, standings.rules_table(out, book.of("yaleb")))
        out.print("Mean ± standard error over the trials; paired differences with 95 % t-intervals.")
        book.write()
        return
    out.print(standings.LEGEND)
    lines = standings.overview(book.records)
    if lines:
        title = "AUROC: calibrated, its best single evidence and its best rival (ahead: ± half of 95 % interval)"
        report.show(out, title, standings.overview_table(out, lines))
    for metric, called in {"auroc": "AUROC", "oscr": "OSCR", "f": "F-measure (Scheirer)"}.items():
        title = f"{called}, mean over the trials, methods by mean rank; * best of a set"
        report.show(out, title, standings.grid_table(out, book.records, metric))
    book.write(overview=lines)


@contextmanager
def _progress(err: Console, name: str, n_trials: int) -> Iterator[Callable[[], None]]:
    """Yield a function to call after every trial: it shows a bar on a terminal, a line per trial elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=err, transient=True, redirect_stdout=False, disable=not err.is_terminal)
    task, done = bar.add_task(name, total=n_trials), count(1)

    def tick() -> None:
        bar.advance(task)
        i = next(done)
        if not err.is_terminal:
            err.print(f"{name}: {i} of {n_trials} trials")

    with bar:
        yield tick


if __name__ == "__main__":
    main()
