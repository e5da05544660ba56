"""The report of an experiment: one page that holds everything it shows, for the screen, the telephone and paper.

The page asks for nothing outside itself: no script, no font, no picture that is not in it. The same tables give the
same page, byte for byte, but for the times that are handed in.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..parameter_checks import check_count
from .atomic_file import make_folder, write_atomically
from .detail_figures import coverage_curves
from .method_strokes import OURS, in_order
from .metric_info import METRIC_INFO, Metric
from .report_figures import drawn_sections
from .report_text import (
    HEADLINE_METRICS,
    Column,
    averaged_or_none,
    capital,
    column_of,
    headline,
    level_text,
    listed,
    number,
    paired_cells,
    ranked,
    trials_of,
)
from .statistics import Level, levels, values_at

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_report"]

# So many targets of the table of coverage stand side by side.
_TARGETS = 6


def write_report(
    path: str | os.PathLike[str],
    *,
    title: str,
    about: str,
    source: str,
    settings: Sequence[tuple[str, Any]],
    results: pd.DataFrame,
    coverage: pd.DataFrame,
    times: pd.DataFrame,
    failures: pd.DataFrame,
    portraits: Mapping[str, Mapping[str, Any]],
    versions: Sequence[Mapping[str, Any]],
    n_trials_asked: int,
    started: datetime | str | None = None,
    finished: datetime | str | None = None,
    elapsed: float | None = None,
    notes: Sequence[str] = (),
    methods: Sequence[str] | None = None,
    method_settings: Mapping[str, Any] | None = None,
    ours: str = OURS,
    figures: str | os.PathLike[str] | None = None,
) -> None:
    """Write the report of an experiment to `path`, complete or not at all.

    Parameters
    ----------
    path : path-like
        Such as ``report.html``; the folder is made.
    title : str
        What was run.
    about : str
        What it is for; an empty line begins a new paragraph.
    source : str
        The data and where they come from.
    settings : sequence of (name, value)
        Of the experiment. A value that is a dict is written as ``name = value`` pairs.
    results, coverage, times, failures : DataFrame
        The tables of the experiment.
    portraits : dict of str to dict
        Of the first trial, by method.
    versions : sequence of dict
        Name to version, of programs and machine, for each part of the run that had its own; equal ones are shown once.
    n_trials_asked : int
        Trials that were to run; where there are fewer, the report says that it is incomplete.
    started, finished : datetime or str, optional
    elapsed : float, optional
        Seconds.
    notes : sequence of str
        What the reader must know besides.
    methods : sequence of str, optional
        Methods that were to run; None takes those of the tables.
    method_settings : dict of str to dict or str, optional
        Of each method.
    ours : str, default "calibrated"
        The method that is compared with all others.
    figures : path-like, optional
        A folder that gets every figure as a PNG file too.

    Raises
    ------
    ValueError
        If `results` lacks a column or holds several experiments.
    OSError
        If the file cannot be written; one that was there before is still there.
    """
    check_count("n_trials_asked", n_trials_asked)
    experiments = results["experiment"].unique() if "experiment" in results.columns else []
    if len(experiments) > 1:
        raise ValueError(
            f"results holds {len(experiments)} experiments ({', '.join(map(str, sorted(experiments)))}); write a "
            "report for each."
        )
    seen = {str(name) for table in (results, failures, times) for name in table["method"].unique()}
    methods = in_order(seen if methods is None else {*map(str, methods), *seen}, ours)
    order = ranked(results, methods, ours)
    trials = trials_of(results)
    page: dict[str, Any] = {
        "title": title,
        "about": [part.strip() for part in about.split("\n\n") if part.strip()],
        "source": source,
        "extent": _extent(results, failures, methods, n_trials_asked),
        "when": _when(started, finished, elapsed),
        "failures": _failures(failures, methods),
        "lost": [name for name in methods if not trials.get(name) and name in set(failures["method"])],
        "notes": list(notes),
        "headline": headline(results, ours),
        "ours": ours,
        "most": max(trials.values(), default=0),
        "trials": trials,
        "order": order,
        "tables": _standings(results, trials),
        "sections": drawn_sections(results, coverage, portraits, methods=methods, ours=ours) if trials else [],
        "coverage": _coverage(coverage, order),
        "paired": _paired(results, ours, order),
        "settings": [(name, _plain(value)) for name, value in settings],
        "method_settings": [(str(name), _plain(value)) for name, value in (method_settings or {}).items()],
        "times": _times(times, methods),
        "versions": _versions(versions),
        "version": __version__,
    }
    path = Path(path)
    make_folder(path.parent)
    if figures is not None:
        make_folder(Path(figures))
        for drawing in (drawing for section in page["sections"] for drawing in section.drawings):
            write_atomically(Path(figures, f"{drawing.name.removeprefix('figure-')}.png"), drawing.png)
    write_atomically(path, _rendered(page).encode("utf-8", "backslashreplace"))


def _rendered(page: dict[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # The one thing that is not escaped, for it is made here and escapes what it holds.
    env.filters["as_svg"] = Markup
    text = resources.files(__package__).joinpath("report.html.j2").read_text("utf-8")
    return env.from_string(text).render(page)


# -- what was run -------------------------------------------------------------------------------------------


def _extent(results: pd.DataFrame, failures: pd.DataFrame, methods: Sequence[str], asked: int) -> dict[str, Any]:
    """How much of what was asked for is there. A trial is complete when every method has a result or a failure."""
    pairs = {(int(t), str(m)) for table in (results, failures) for t, m in _pairs(table)}
    by_trial: dict[int, int] = {}
    for trial, _ in pairs:
        by_trial[trial] = by_trial.get(trial, 0) + 1
    complete = sum(n == len(methods) for n in by_trial.values())
    steps = sorted({step for metric in ("f", "accuracy") for step in levels(results, metric)})
    return {
        "asked": asked,
        "complete": complete,
        "begun": len(by_trial) - complete,
        "methods": methods,
        "levels": _levels(steps),
        "largest": level_text(steps[-1]) if steps else "the largest openness",
    }


def _pairs(table: pd.DataFrame) -> Any:
    return table[["trial", "method"]].drop_duplicates().itertuples(index=False, name=None)


def _levels(steps: Sequence[Level]) -> str:
    if not steps:
        return "none yet"
    if len(steps) == 1:
        return level_text(steps[0])
    return f"{len(steps)} levels, from {level_text(steps[0])} to {level_text(steps[-1])}"


def _when(started: Any, finished: Any, elapsed: float | None) -> list[tuple[str, str]]:
    given = [("started", _moment(started)), ("finished", _moment(finished))]
    given.append(("took", None if elapsed is None else duration(elapsed)))  # type: ignore[arg-type]
    return [(name, text) for name, text in given if text]


def _moment(when: datetime | str | None) -> str | None:
    return when.isoformat(sep=" ", timespec="seconds") if isinstance(when, datetime) else when


def _failures(failures: pd.DataFrame, methods: Sequence[str]) -> list[dict[str, str]]:
    """Failures of one method for one reason together."""
    rows = []
    for (method, reason), group in failures.groupby(["method", "reason"]):
        numbers = sorted(int(t) for t in group["trial"].unique())
        which = "trial " if len(numbers) == 1 else f"{len(numbers)} trials: "
        rows.append({"method": str(method), "reason": str(reason), "trials": which + listed([*map(str, numbers)], 12)})
    return sorted(rows, key=lambda row: (methods.index(row["method"]), row["reason"]))


# -- tables of numbers --------------------------------------------------------------------------------------


def _standings(results: pd.DataFrame, trials: dict[str, int]) -> dict[str, list[Column]]:
    """Columns at the largest openness, averaged over levels, and of the further metrics."""
    there = {str(metric) for metric in results.loc[results["value"].notna(), "metric"].unique()}
    tables: dict[str, list[Column]] = {"largest": [], "averaged": [], "more": []}
    for metric in [*METRIC_INFO, *sorted(there - set(METRIC_INFO))]:
        if metric not in there:
            continue
        info = METRIC_INFO.get(metric, Metric(metric, 0))
        label = info.label + {1: "", -1: " (small is good)", 0: ""}[info.better]
        at_largest = column_of(values_at(results, metric, levels(results, metric)[-1]), metric, label, trials)
        tables["largest" if metric in HEADLINE_METRICS else "more"].append(at_largest)
        averaged = averaged_or_none(results, metric) if metric in HEADLINE_METRICS else None
        if averaged is not None:
            tables["averaged"].append(column_of(averaged, metric, label, trials))
    return tables


def _paired(results: pd.DataFrame, ours: str, order: Sequence[str]) -> list[dict[str, Any]]:
    """A table for each main metric: ours against every other method."""
    tables = []
    for metric in HEADLINE_METRICS:
        steps = levels(results, metric)
        if not steps:
            continue
        largest = paired_cells(values_at(results, metric, steps[-1]), ours)
        averaged = averaged_or_none(results, metric)
        beside = {} if averaged is None else paired_cells(averaged, ours)
        rows = [(name, largest.get(name), beside.get(name)) for name in order if name in largest or name in beside]
        if rows:
            most = max(cell["n"] for _, *cells in rows for cell in cells if cell)
            least = min(1.0, len(rows) * 2.0 ** (1 - most))
            tables.append(
                {
                    "label": capital(METRIC_INFO[metric].label),
                    "rows": rows,
                    "averaged": bool(beside),
                    "most": most,
                    "least": f"{least:.2g}" if least >= 0.05 else "",
                }
            )
    return tables


def _coverage(coverage: pd.DataFrame, order: Sequence[str]) -> dict[str, Any]:
    """Share of known samples refused, in per cent, by method and target."""
    found = coverage_curves(coverage, "known_refused") if len(coverage) else {}
    targets = sorted({float(t) for curve in found.values() for t in curve.openness})
    if len(targets) > _TARGETS:
        targets = [targets[round(i * (len(targets) - 1) / (_TARGETS - 1))] for i in range(_TARGETS)]
    rows = []
    for name in order:
        if name in found:
            at = dict(zip(found[name].openness.tolist(), found[name].mean.tolist(), strict=True))
            rows.append((name, [number(100 * at.get(target, math.nan), 1) for target in targets]))
    return {"targets": [f"{100 * target:g} %" for target in targets], "rows": rows}


def _times(times: pd.DataFrame, methods: Sequence[str]) -> dict[str, Any]:
    """Seconds of each method, a trial, and how much of them went into coding."""
    rows, total = [], 0.0
    for name in methods:
        # Where a process died there are no seconds.
        own = times[(times["method"] == name) & times["fit_seconds"].notna()]
        if own.empty:
            continue
        kinds = ("fit", "predict", "measure", "coding")
        fit, predict, measure, coding = (float(own[f"{kind}_seconds"].sum()) for kind in kinds)
        n, spent = len(own), fit + predict + measure
        share = min(coding / spent, 1.0) if spent > 0 else math.nan
        total += spent
        rows.append(
            {
                "method": name,
                "fit": seconds(fit / n),
                "predict": seconds(predict / n),
                "measure": seconds(measure / n),
                "all": duration(spent),
                "coding": "–" if math.isnan(share) else f"{100 * share:.0f} %",
                "rest": "–" if math.isnan(share) else f"{100 * (1 - share):.0f} %",
            }
        )
    return {"rows": rows, "total": duration(total)}


def _versions(versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parts of the run beside each other: a row a name, a column a different set of versions."""
    different: list[dict[str, str]] = []
    for given in versions:
        one = {str(name): _plain(value) for name, value in given.items()}
        if one not in different:
            different.append(one)
    names = list(dict.fromkeys(name for one in different for name in one))
    return {"n": len(different), "rows": [(name, [one.get(name, "–") for one in different]) for name in names]}


# -- values as text -----------------------------------------------------------------------------------------


def _plain(value: Any) -> str:
    """A setting as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_plain(part)}" for name, part in value.items()) or "as they come"
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(part) for part in value)
    return str(value)


def seconds(value: float) -> str:
    """Seconds with three digits that count."""
    if math.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def duration(value: float) -> str:
    """Seconds in words that suit their size."""
    if math.isnan(value):
        return "–"
    if value < 60:
        return f"{seconds(value)} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
