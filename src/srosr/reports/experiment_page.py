"""The report of an experiment: headline, tables, figures, paired tests, settings, times and versions."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.atomic_files import make_folder, remove_leftovers, write_atomically
from .._support.messages import capitalize, format_duration, format_number, join_names
from .._support.parameter_checks import check_count
from ..experiments.result_tables import METRIC_INFO, Metric
from ..experiments.run_identity import name_file_in_errors
from ..experiments.statistics import LEAST_FOR_INTERVAL, Level, find_levels, values_at
from .detail_figures import compute_coverage_curves
from .experiment_figures import FIGURE_NAME, draw_sections
from .experiment_text import (
    HEADLINE_METRICS,
    Column,
    average_if_several,
    build_column,
    count_trials,
    describe_few_trials,
    format_comparison,
    order_by_f_measure,
    rank_by_metric,
    tabulate_times,
    write_headline,
)
from .html_page import Drawing, render_page
from .method_styles import OURS, order_methods

if TYPE_CHECKING:
    import pandas as pd

# Targets in the table of coverage.
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
    asked: Mapping[str, int],
    started: datetime | str | None = None,
    finished: datetime | str | None = None,
    elapsed: float | None = None,
    notes: Sequence[str] = (),
    advice: Sequence[str] = (),
    opening: str | None = None,
    method_settings: Mapping[str, Any] | None = None,
    figures: str | os.PathLike[str] | None = None,
) -> None:
    """Write the report of an experiment to `path` atomically.

    Parameters
    ----------
    path : path-like
        Its folder is created.
    title, about, source : str
        About the experiment and its data; an empty line in `about` begins a new paragraph.
    settings : sequence of (name, value)
        A dict is written as ``name = value`` pairs.
    results, coverage, times, failures : DataFrame
        The tables of the experiment.
    portraits : dict of str to dict
        Errors, scores and confusion of the first trial, by method.
    versions : sequence of dict
        Versions by name for each part of the run; equal ones are shown once.
    asked : dict of str to int
        Number of trials that were requested of each method; if one is missing, the report says that it is incomplete.
    started, finished, elapsed : optional
        Of the run; elapsed in seconds.
    notes, advice : sequence of str
        Notes on the run, and paragraphs of a recommendation, which is at the top.
    opening : str, optional
        Description of the only level of openness, instead of its number.
    method_settings : dict of str to dict or str, optional
    figures : path-like, optional
        A folder for every figure as a PNG file; figures of an earlier report that are no longer drawn are removed.

    Raises
    ------
    ValueError
        If `results` lacks a column or holds several experiments, or `asked` has no method.
    ResultsFolderError
        If a file cannot be written; an existing file is kept.
    """
    if not asked:
        raise ValueError("asked is empty; give the requested number of trials of each method.")
    asked = {str(name): check_count(f"asked[{name!r}]", n) for name, n in asked.items()}
    experiments = results["experiment"].unique() if "experiment" in results.columns else []
    if len(experiments) > 1:
        raise ValueError(
            f"results holds {len(experiments)} experiments ({', '.join(map(str, sorted(experiments)))}); write a "
            "separate report for each."
        )
    seen = {str(name) for table in (results, failures, times) for name in table["method"].unique()}
    methods = order_methods({*asked, *seen})
    order = order_by_f_measure(results, methods)
    trials = count_trials(results)
    most = max(trials.values(), default=0)
    # Our method is compared with all others or, if it was not requested, the best one.
    compared = OURS if OURS in methods else _find_best(results)
    extent = _summarize_extent(results, failures, asked, opening)
    moments = [("started", _format_moment(started)), ("finished", _format_moment(finished))]
    moments.append(("took", None if elapsed is None else format_duration(elapsed)))
    page: dict[str, Any] = {
        "title": title,
        "about": [part.strip() for part in about.split("\n\n") if part.strip()],
        "extent": extent,
        "run_facts": [
            ("data", source),
            ("trials", f"{extent['complete']} of {extent['asked']}"),
            ("openness", extent["levels"]),
            ("methods", f"{len(methods)}: {', '.join(methods)}"),
            *((name, when) for name, when in moments if when is not None),
        ],
        "advice": list(advice),
        "failures": _group_failures(failures, methods),
        "lost": [name for name in methods if not trials.get(name) and name in set(failures["method"])],
        "notes": list(notes),
        "headline": write_headline(results, OURS if OURS in methods else None),
        "ours": OURS,
        "compared": compared,
        "most": most,
        "intervals": most >= LEAST_FOR_INTERVAL,
        "few": describe_few_trials(most),
        "trials": trials,
        "order": order,
        "tables": _build_columns(results, trials),
        "sections": [],
        "coverage": _tabulate_coverage(coverage, order),
        "paired": [] if compared is None else _tabulate_pairs(results, compared, order),
        "settings": [(name, _format_setting(value)) for name, value in settings],
        "method_settings": [(str(name), _format_setting(value)) for name, value in (method_settings or {}).items()],
        "times": tabulate_times(times, methods),
        "versions": _tabulate_versions(versions),
    }
    if trials:
        page["sections"] = draw_sections(results, coverage, portraits, methods=methods, compared=compared)
    tables = [column for columns in page["tables"].values() for column in columns]
    page["marks"] = {cell.mark for column in tables for cell in column.cells.values()}
    path = Path(path)
    with name_file_in_errors(path.parent, "make the folder"):
        make_folder(path.parent)
    if figures is not None:
        _write_figures(Path(figures), [drawing for section in page["sections"] for drawing in section.drawings])
    content = render_page("experiment_page.html.j2", page)
    with name_file_in_errors(path):
        write_atomically(path, content)


def _write_figures(folder: Path, drawings: Sequence[Drawing]) -> None:
    """Write every figure as a file and remove figures of an earlier report; other files stay."""
    with name_file_in_errors(folder, "make the folder"):
        make_folder(folder)
        remove_leftovers(folder)
    drawn = {drawing.name.removeprefix("figure-"): drawing.png for drawing in drawings}
    for name, png in drawn.items():
        with name_file_in_errors(folder / f"{name}.png"):
            write_atomically(folder / f"{name}.png", png)
    for old in sorted(folder.glob("*.png")):
        if old.stem not in drawn and FIGURE_NAME.fullmatch(old.stem):
            with name_file_in_errors(old, "remove"):
                old.unlink(missing_ok=True)


# -- the run ------------------------------------------------------------------------------------------------


def _summarize_extent(
    results: pd.DataFrame, failures: pd.DataFrame, asked: Mapping[str, int], opening: str | None
) -> dict[str, Any]:
    """Return how many of the requested trials are complete, that is, have a result or failure of every method."""
    there = {(int(t), str(m)) for one in (results, failures) for t, m in zip(one["trial"], one["method"], strict=True)}
    n_asked = max(asked.values())
    due = [{(trial, name) for name, n in asked.items() if trial < n} for trial in range(n_asked)]
    complete = sum(pairs <= there for pairs in due)
    steps = sorted({step for metric in ("f", "accuracy") for step in find_levels(results, metric)})
    return {
        "asked": n_asked,
        "complete": complete,
        "begun": sum(bool(pairs & there) for pairs in due) - complete,
        "levels": opening.removeprefix("openness ") if opening else _describe_levels(steps),
        "largest": opening or (format_level(steps[-1]) if steps else "the largest openness"),
    }


def _describe_levels(steps: Sequence[Level]) -> str:
    if not steps:
        return "none yet"
    if len(steps) == 1:
        return format_level(steps[0])
    return f"{len(steps)} levels, from {format_level(steps[0])} to {format_level(steps[-1])}"


def _format_moment(when: datetime | str | None) -> str | None:
    return when.isoformat(sep=" ", timespec="seconds") if isinstance(when, datetime) else when


def _group_failures(failures: pd.DataFrame, methods: Sequence[str]) -> list[dict[str, str]]:
    rows = []
    for (method, reason), group in failures.groupby(["method", "reason"]):
        numbers = sorted(int(t) for t in group["trial"].unique())
        which = "trial " if len(numbers) == 1 else f"{len(numbers)} trials: "
        rows.append({"method": str(method), "reason": str(reason), "trials": which + join_names(numbers, 12)})
    return sorted(rows, key=lambda row: (methods.index(row["method"]), row["reason"]))


# -- tables of numbers --------------------------------------------------------------------------------------


def _build_columns(results: pd.DataFrame, trials: dict[str, int]) -> dict[str, list[Column]]:
    """Return the columns of the main metrics, at the largest openness and averaged, and of the further metrics."""
    there = {str(metric) for metric in results.loc[results["value"].notna(), "metric"].unique()}
    tables: dict[str, list[Column]] = {"largest": [], "averaged": [], "more": []}
    for metric in [*METRIC_INFO, *sorted(there - set(METRIC_INFO))]:
        if metric not in there:
            continue
        info = METRIC_INFO.get(metric, Metric(metric, 0))
        label = info.label + {1: "", -1: " (smaller is better)", 0: ""}[info.better]
        at_largest = build_column(values_at(results, metric, find_levels(results, metric)[-1]), metric, label, trials)
        tables["largest" if metric in HEADLINE_METRICS else "more"].append(at_largest)
        averaged = average_if_several(results, metric) if metric in HEADLINE_METRICS else None
        if averaged is not None:
            tables["averaged"].append(build_column(averaged, metric, label, trials))
    return tables


def _find_best(results: pd.DataFrame) -> str | None:
    """Return the best method by the first main metric with values, at the largest openness."""
    for metric in HEADLINE_METRICS:
        if steps := find_levels(results, metric):
            outcome = rank_by_metric(values_at(results, metric, steps[-1]), 1)
            return None if outcome is None else outcome.best[0]
    return None


def _tabulate_pairs(results: pd.DataFrame, compared: str, order: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each main metric that compares one method with every other."""
    tables = []
    for metric in HEADLINE_METRICS:
        steps = find_levels(results, metric)
        if not steps:
            continue
        largest = format_comparison(values_at(results, metric, steps[-1]), compared)
        averaged = average_if_several(results, metric)
        beside = {} if averaged is None else format_comparison(averaged, compared)
        rows = [(name, largest.get(name), beside.get(name)) for name in order if name in largest or name in beside]
        if rows:
            most = max(cell["n"] for _, *cells in rows for cell in cells if cell)
            smallest = min(1.0, len(rows) * 2.0 ** (1 - most))
            least = f"{smallest:.2g}" if smallest >= 0.05 else ""
            label = capitalize(METRIC_INFO[metric].label)
            tables.append({"label": label, "rows": rows, "averaged": bool(beside), "most": most, "least": least})
    return tables


def _tabulate_coverage(coverage: pd.DataFrame, order: Sequence[str]) -> dict[str, Any]:
    """Return the percentage of known samples rejected, by method and target."""
    found = compute_coverage_curves(coverage, "known_rejected") if len(coverage) else {}
    targets = sorted({float(t) for curve in found.values() for t in curve.openness})
    if len(targets) > _TARGETS:
        targets = [targets[round(i * (len(targets) - 1) / (_TARGETS - 1))] for i in range(_TARGETS)]
    rows = []
    for name in order:
        if name in found:
            at = dict(zip(found[name].openness.tolist(), found[name].mean.tolist(), strict=True))
            rows.append((name, [format_number(100 * at.get(target, math.nan), 1) for target in targets]))
    return {"targets": [f"{100 * target:g} %" for target in targets], "rows": rows}


def _tabulate_versions(versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a row per name and a column per different set of versions."""
    different: list[dict[str, str]] = []
    for given in versions:
        one = {str(name): _format_setting(value) for name, value in given.items()}
        if one not in different:
            different.append(one)
    names = list(dict.fromkeys(name for one in different for name in one))
    return {"n": len(different), "rows": [(name, [one.get(name, "–") for one in different]) for name in names]}


# -- values as text -----------------------------------------------------------------------------------------


def _format_setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_format_setting(part)}" for name, part in value.items()) or "default"
    if isinstance(value, (list, tuple)):
        return ", ".join(_format_setting(part) for part in value)
    return str(value)


def format_level(level: Level) -> str:
    """Return a level of openness in words."""
    few = {0: "no unknown class", 1: "1 unknown class"}
    classes = few.get(level.n_unknown, f"{level.n_unknown} unknown classes")
    return f"openness {100 * level.openness:.2f}\N{NO-BREAK SPACE}% ({classes})"
