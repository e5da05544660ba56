"""Time and memory of fit and predict against the number of training samples: ``python -m benchmarks.growth``.

Two sources of samples: mixtures of real embeddings, of any size (`benchmarks.mixtures`), and all training pictures of
six MNIST digits. Every size and method runs in its own process, so that its peak memory can be measured; what is
imported, compiled and drawn before counts neither toward the time nor toward the memory. A size that would take longer
than ``--minutes``, by the growth so far, is skipped, and one that does is stopped.

    python -m benchmarks.growth
    python -m benchmarks.growth --source mnist
    python -m benchmarks.growth --sizes 1000000 --features 128 --methods srosr,k-nn --predict-only --memory 8
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.growth_figure import write_growth
from benchmarks.growth_methods import DEFAULT_METHODS, METHODS, Options
from benchmarks.large import memory_now, memory_peak, reset_peak
from benchmarks.mixtures import count_classes, count_mnist, draw_mixture, draw_mnist, read_embeddings
from benchmarks.problems import Unavailable
from benchmarks.scaling import fit_exponent
from benchmarks.timing import Record, clock
from benchmarks.trials import UNKNOWN, Trial
from srosr.metrics.oscr import oscr_area
from srosr.metrics.ranking import open_set_auroc

SIZES = {"embeddings": "1000,3000,10000,30000,100000", "mnist": "1800,6000,18000,all"}
"""Default sizes of each source."""
SMALL_MODEL = 1800
"""Training pictures of the MNIST trial of the accuracy benchmark, with which larger models are compared."""
EXPONENT_FROM = 3000
"""Exponents are fitted from this number of samples on: below, other things than the samples count."""
MOST_EXPONENT = 1.2
"""The exponent of the fit time that the recognizer is to keep."""
FEW_CODINGS = 100
"""Codings of a pass where only predictions count."""
GIB = 2**30


@dataclass(frozen=True)
class Setting:
    """What one process measures: the source of the samples, their numbers, the method and its options.

    ``n_classes`` None is the number that `count_classes` returns.
    """

    source: str
    method: str
    n: int
    n_features: int = 512
    n_classes: int | None = None
    n_test: int = 2000
    options: Options = field(default_factory=Options)

    def draw(self) -> Trial:
        """Draw the samples.

        Raises
        ------
        Unavailable
            If a file is missing.
        """
        if self.source == "mnist":
            return draw_mnist(self.n, self.options.seed, self.n_test)
        n_classes = count_classes(self.n) if self.n_classes is None else self.n_classes
        return draw_mixture(read_embeddings(), self.n, n_classes, self.n_features, self.options.seed, self.n_test)


def measure_growth(setting: Setting) -> Record:
    """Draw the samples, fit and predict in this process; return times, memory and accuracy."""
    trial, method = setting.draw(), METHODS[setting.method]
    with warnings.catch_warnings(), threadpool_limits(setting.options.jobs):
        warnings.simplefilter("ignore")
        _warm_up(setting)
        X_test, y_test, shape, n_classes = trial.X_test, trial.y_test, trial.X.shape, len(np.unique(trial.y))
        data_bytes = trial.X.nbytes + X_test.nbytes
        before = memory_now()
        reset_peak()
        started = time.process_time()
        fit_seconds, model = clock(partial(method.fit, trial.X, trial.y, setting.options))
        fit_cpu_seconds, fit_peak = time.process_time() - started, memory_peak()
        del trial  # a model that keeps the samples has a copy of its own, or counts them
        between = memory_now()
        reset_peak()
        predict_seconds, (candidate, score) = clock(lambda: method.answer(model, X_test))
        predict_peak = memory_peak()
    known = y_test != UNKNOWN
    return {
        "source": setting.source,
        "method": setting.method,
        "title": method.title,
        "n": shape[0],
        "n_features": shape[1],
        "n_classes": n_classes,
        "n_test": len(y_test),
        "max_codings": setting.options.max_codings,
        "threads": setting.options.jobs,
        "seed": setting.options.seed,
        "fit_seconds": fit_seconds,
        "fit_cpu_seconds": fit_cpu_seconds,
        "fit_bytes": fit_peak - before,
        "predict_ms": 1e3 * predict_seconds / len(y_test),
        "predict_bytes": predict_peak - between,
        "predict_peak_bytes": predict_peak,
        "data_bytes": data_bytes,
        "auroc": open_set_auroc(y_test, score, unknown_label=UNKNOWN),
        "oscr": oscr_area(y_test, candidate, score, unknown_label=UNKNOWN),
        "closed_accuracy": float(np.mean(candidate[known] == y_test[known])),
    }


def _warm_up(setting: Setting) -> None:
    """Fit and predict a few samples, so that modules are imported and compiled code is loaded."""
    X, y = np.eye(9)[np.arange(30) % 9], np.arange(30) % 3
    method = METHODS[setting.method]
    method.answer(method.fit(X, y, replace(setting.options, max_codings=None)), X)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that happened."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _send_measurement(setting: Setting, out: Connection) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        found: Record = measure_growth(setting)
    except MemoryError as error:
        found = {"reason": f"not enough memory: {error}"}
    except Exception as error:  # a method that fails is a result, not the end of the run
        found = {"reason": f"failed: {type(error).__name__}: {error}"}
    out.send(found)


def run_alone(setting: Setting, seconds: float) -> Record:
    """Measure in a process of its own; return a record, or the ``reason`` why there is none."""
    context = multiprocessing.get_context("spawn")
    incoming, outgoing = context.Pipe(duplex=False)
    # Not a daemon: joblib would have it use one thread. It ends with its parent all the same.
    process = context.Process(target=_send_measurement, args=(setting, outgoing))
    process.start()
    outgoing.close()
    try:
        if not incoming.poll(seconds):
            return {"reason": f"stopped after {seconds / 60:.3g} minutes"}
        found: Record = incoming.recv()
        return found
    except EOFError:
        process.join()
        return {"reason": f"the process ended with exit code {process.exitcode}"}
    finally:
        process.kill()
        process.join()
        incoming.close()


def expect_seconds(records: Sequence[Record], n: int) -> float | None:
    """Return how long n samples would take, by the growth of one method's records so far; None without any."""
    series = sorted((r["n"], r["fit_seconds"] + 1e-3 * r["predict_ms"] * r["n_test"]) for r in records)
    if not series:
        return None
    last, seconds = series[-1]
    exponent = fit_exponent(*map(list, zip(*series[-2:], strict=True))) if len(series) > 1 else 1.0
    return seconds * (n / last) ** max(exponent, 1.0)


def measure_method(settings: Sequence[Setting], minutes: float) -> tuple[list[Record], list[Record]]:
    """Measure one method at growing sizes; return the records, and the sizes that were skipped with the reason."""
    records: list[Record] = []
    skipped: list[Record] = []
    for setting in settings:
        where = {"method": setting.method, "n": setting.n}
        expected = expect_seconds(records, setting.n)
        if skipped:
            found: Record = {"reason": "a smaller one did not finish"}
        elif expected is not None and expected > 60 * minutes:
            found = {"reason": f"it would take about {expected / 60:.3g} minutes, more than {minutes:g}"}
        else:
            started = time.perf_counter()
            found = run_alone(setting, 60 * minutes)
            found["whole_seconds"] = time.perf_counter() - started
        if "reason" in found:
            skipped.append(where | {"reason": found["reason"]})
            _note(f"{setting.method}, {setting.n:,} samples: skipped, {found['reason']}")
        else:
            records.append(found)
            _note(
                f"{setting.method}, {found['n']:,} samples: fit {found['fit_seconds']:.1f} s, "
                f"predict {found['predict_ms']:.3g} ms a sample"
            )
    return records, skipped


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- what is printed -------------------------------------------------------------------------------------


def find_exponents(records: Sequence[Record], least: int = EXPONENT_FROM) -> list[Record]:
    """Return the exponents of fit and predict time of each method, from ``least`` samples on; None for one size."""
    out: list[Record] = []
    for method in dict.fromkeys(r["method"] for r in records):
        series = [r for r in records if r["method"] == method and r["n"] >= least]
        sizes = [r["n"] for r in series]
        line: Record = {"method": method, "from": min(sizes, default=None), "to": max(sizes, default=None)}
        for key in ("fit_seconds", "predict_ms"):
            line[key] = fit_exponent(sizes, [r[key] for r in series]) if len(set(sizes)) > 1 else None
        out.append(line)
    return out


def compare_models(records: Sequence[Record], small: int = SMALL_MODEL) -> list[str]:
    """Return how much better the largest model of each method is than that of ``small`` samples, on the same test."""
    lines = []
    for method in dict.fromkeys(r["method"] for r in records):
        series = {r["n"]: r for r in records if r["method"] == method}
        if small not in series or max(series) == small:
            continue
        old, new = series[small], series[max(series)]
        gains = [
            f"{name} {new[key]:.4f} ({new[key] - old[key]:+.4f})"
            for key, name in (("auroc", "AUROC"), ("oscr", "OSCR"), ("closed_accuracy", "closed-set accuracy"))
        ]
        lines.append(f"{method}, {new['n']:,} samples against {small:,} on the same test: {', '.join(gains)}")
    return lines


def make_table(out: Console, records: Sequence[Record]) -> Table:
    """Return the table of the measurements."""
    columns = ("method", "N", "classes", "fit s", "fit GiB", "predict ms", "predict GiB", "AUROC", "OSCR", "accuracy")
    table = report.new_table(out, *columns)
    previous = None
    for r in records:
        if previous not in (None, r["method"]) and out.is_terminal:
            table.add_section()
        previous = r["method"]
        table.add_row(
            r["method"],
            f"{r['n']:,}",
            f"{r['n_classes']:,}",
            f"{r['fit_seconds']:.2f}",
            f"{r['fit_bytes'] / GIB:.2f}",
            f"{r['predict_ms']:.3g}",
            f"{r['predict_bytes'] / GIB:.2f}",
            f"{r['auroc']:.4f}",
            f"{r['oscr']:.4f}",
            f"{r['closed_accuracy']:.4f}",
        )
    return table


def make_exponent_table(out: Console, exponents: Sequence[Record]) -> Table:
    """Return the table of the exponents."""
    table = report.new_table(out, "method", "from N", "to N", "fit time", "predict time")
    for line in exponents:
        sizes = ("–" if line[key] is None else f"{line[key]:,}" for key in ("from", "to"))
        slopes = ("–" if line[key] is None else f"{line[key]:.2f}" for key in ("fit_seconds", "predict_ms"))
        table.add_row(line["method"], *sizes, *slopes)
    return table


def describe_source(setting: Setting) -> str:
    """Return the title of a run."""
    cores = f"threads: {setting.options.jobs}"
    if setting.source == "mnist":
        return f"Training pictures of six MNIST digits, test pictures of all ten, {cores}"
    return f"Mixtures of CLIP embeddings, {setting.n_features} features, {cores}"


# -- the command -----------------------------------------------------------------------------------------


def parse_sizes(text: str, source: str, seed: int) -> list[int]:
    """Return numbers of samples in growing order; "all" is what MNIST holds."""
    most = count_mnist(seed) if source == "mnist" else None
    sizes = set()
    for word in text.split(","):
        if word.strip() == "all" and most is not None:
            sizes.add(most)
            continue
        try:
            n = int(word)
        except ValueError:
            raise click.BadParameter(f"{word.strip()!r} is not a number of samples.", param_hint="--sizes") from None
        if n < 100 or (most is not None and n > most):
            limit = "at least 100" if most is None else f"from 100 to {most}"
            raise click.BadParameter(f"{n} samples; give {limit}.", param_hint="--sizes")
        sizes.add(n)
    return sorted(sizes)


def _parse_methods(text: str | None) -> list[str]:
    names = list(DEFAULT_METHODS) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in METHODS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(METHODS)}.", param_hint="--methods")
    return names


def check_memory(records: Sequence[Record], limit: float) -> list[str]:
    """Return for each method whether the process that predicts over most samples stays within ``limit`` GiB."""
    lines = []
    for method in dict.fromkeys(r["method"] for r in records):
        r = max((r for r in records if r["method"] == method), key=lambda r: r["n"])
        peak = r["predict_peak_bytes"] / GIB
        verdict = "yes" if peak <= limit else "NO"
        lines.append(
            f"{method}, {r['n']:,} samples: the process that predicts takes {peak:.2f} GiB in all, model and library "
            f"included; at most {limit:g}: {verdict}"
        )
    return lines


_OUTPUT: Any = click.Path(path_type=Path, dir_okay=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--source", type=click.Choice(tuple(SIZES)), default="embeddings", show_default=True)
@click.option(
    "--sizes",
    help=f"Training samples, separated by commas.  [embeddings: {SIZES['embeddings']}; mnist: {SIZES['mnist']}]",
)
@click.option("--features", type=click.IntRange(2, 512), default=512, show_default=True, help="Of a mixture.")
@click.option("--classes", type=click.IntRange(2), help="Of a mixture.  [one for 30 samples, at most 1,000]")
@click.option("--methods", metavar="METHODS", help=f"Some of {', '.join(METHODS)}.  [{','.join(DEFAULT_METHODS)}]")
@click.option("--max-codings", type=click.IntRange(1), help="Codings of a pass of srosr.  [its default]")
@click.option("--test", "n_test", type=click.IntRange(20), default=2000, show_default=True, help="Test samples.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Threads.  [all cores]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=20.0, show_default=True,
              help="The most that one size of one method may take.")  # fmt: skip
@click.option("--predict-only", is_flag=True, help=f"Fit srosr with {FEW_CODINGS} codings a pass: only predict counts.")
@click.option("--memory", type=click.FloatRange(0, min_open=True), help="GiB that a process that predicts may take.")
@click.option("--json", "path", type=_OUTPUT, help="Where the records go.")
@click.option("--figure", type=_OUTPUT, help="Where a figure goes: PNG, SVG or PDF.")
def main(
    source: str, sizes: str | None, features: int, classes: int | None, methods: str | None, max_codings: int | None,
    n_test: int, jobs: int, seed: int, minutes: float, predict_only: bool, memory: float | None, path: Path | None,
    figure: Path | None,
) -> None:  # fmt: skip
    """Measure how time and memory of fit and predict grow with the number of training samples."""
    out = report.console()
    names = _parse_methods(methods)
    if predict_only and max_codings is None:
        max_codings = FEW_CODINGS
    try:
        counts = parse_sizes(sizes or SIZES[source], source, seed)
        if source == "embeddings":
            read_embeddings()
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    if classes is not None and classes > counts[0]:
        raise click.BadParameter(
            f"{classes} classes of {counts[0]} samples; give at most these.", param_hint="--classes"
        )
    common = Setting(source, "", 0, features, classes, n_test, Options(seed, jobs, max_codings))
    records: list[Record] = []
    skipped: list[Record] = []
    for name in names:
        settings = [replace(common, method=name, n=n) for n in counts]
        found, left = measure_method(settings, minutes)
        records, skipped = records + found, skipped + left
    if not records:
        raise click.ClickException("nothing was measured: every size of every method was skipped.")
    exponents = find_exponents(records)
    title = describe_source(common)
    report.show(out, title, make_table(out, records))
    _print_notes(out, records, skipped, names)
    report.show(out, f"Exponents of N, fitted from {EXPONENT_FROM:,} samples on", make_exponent_table(out, exponents))
    for line in exponents:
        if line["method"] == "srosr" and line["fit_seconds"] is not None and not predict_only:
            verdict = "yes" if line["fit_seconds"] <= MOST_EXPONENT else "NO"
            out.print(f"srosr, fit time: at most {MOST_EXPONENT:g}: {verdict}")
    for text in compare_models(records) if source == "mnist" else []:
        out.print(text)
    for text in check_memory(records, memory) if memory is not None else []:
        out.print(text)
    if path is not None:
        content = {"environment": report.environment([]), "records": records, "skipped": skipped}
        report.write_json(path, content | {"exponents": exponents})
    if figure is not None:
        write_growth(figure, records, title)


def _print_notes(out: Console, records: Sequence[Record], skipped: Sequence[Record], names: Sequence[str]) -> None:
    """Print what the columns mean, what the methods are, and which sizes were skipped."""
    out.print(
        "GiB: peak memory of the fit beyond the data, and of predict beyond data and model. predict ms: of a sample."
    )
    for name in names:
        out.print(f"{name}: {METHODS[name].title}")
    codings = {r["max_codings"] for r in records if r["method"] == "srosr"} - {None}
    for n in codings:
        out.print(f"srosr was fitted with {n:,} codings a pass")
    for line in skipped:
        out.print(f"{line['method']}, {line['n']:,} samples: skipped, {line['reason']}")


if __name__ == "__main__":
    main()
