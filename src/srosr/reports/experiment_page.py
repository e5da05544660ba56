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

from .. import __version__
from .._support.atomic_files import make_folder, remove_leftovers, write_atomically
from .._support.messages import join_names
from .._support.number_format import capital, duration, number
from .._support.parameter_checks import check_count
from ..experiments import LEAST_FOR_INTERVAL, METRIC_INFO, Level, Metric, blame_folder, levels, values_at
from .detail_figures import coverage_curves
from .experiment_figures import FIGURE_NAME, Drawing, drawn_sections
from .experiment_text import (
    HEADLINE_METRICS,
    Column,
    averaged_or_none,
    column_of,
    few_trials,
    headline,
    judged,
    paired_cells,
    ranked,
    trials_of,
)
from .experiment_times import times_by_method
from .method_styles import OURS, in_order

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
    asked: Mapping[str, int],
    started: datetime | str | None = None,
    finished: datetime | str | None = None,
    elapsed: float | None = None,
    notes: Sequence[str] = (),
    advice: Sequence[str] = (),
    opening: str | None = None,
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
    asked : dict of str to int
        How many trials each method was to run, the first ones; where one is missing, the report says that it is
        incomplete.
    started, finished : datetime or str, optional
    elapsed : float, optional
        Seconds.
    notes : sequence of str
        What the reader must know besides.
    advice : sequence of str
        What to do about it, a paragraph each; the report begins with them.
    opening : str, optional
        The one level of openness in words, where its numbers do not say all.
    method_settings : dict of str to dict or str, optional
        Of each method.
    ours : str, default "calibrated"
        The method that is compared with all others. Where it was not to run, the one with the best F-measure is.
    figures : path-like, optional
        A folder that gets every figure as a PNG file too, and loses those that are not drawn any more.

    Raises
    ------
    ValueError
        If `results` lacks a column or holds several experiments, or `asked` has no method.
    ResultsFolderError
        If a file cannot be written; one that was there before is still there.
    """
    if not asked:
        raise ValueError("asked has no method; give the number of trials that each was to run.")
    asked = {str(name): check_count(f"asked[{name!r}]", n) for name, n in asked.items()}
    experiments = results["experiment"].unique() if "experiment" in results.columns else []
    if len(experiments) > 1:
        raise ValueError(
            f"results holds {len(experiments)} experiments ({', '.join(map(str, sorted(experiments)))}); write a "
            "report for each."
        )
    seen = {str(name) for table in (results, failures, times) for name in table["method"].unique()}
    methods = in_order({*asked, *seen}, ours)
    order = ranked(results, methods, ours)
    trials = trials_of(results)
    most = max(trials.values(), default=0)
    compared = ours if ours in methods else _best(results)
    page: dict[str, Any] = {
        "title": title,
        "about": [part.strip() for part in about.split("\n\n") if part.strip()],
        "source": source,
        "extent": _extent(results, failures, methods, asked, opening),
        "advice": list(advice),
        "when": _when(started, finished, elapsed),
        "failures": _failures(failures, methods),
        "lost": [name for name in methods if not trials.get(name) and name in set(failures["method"])],
        "notes": list(notes),
        "headline": headline(results, ours if ours in methods else None),
        "ours": ours,
        "compared": compared,
        "most": most,
        "intervals": most >= LEAST_FOR_INTERVAL,
        "few": few_trials(most),
        "trials": trials,
        "order": order,
        "tables": _standings(results, trials),
        "sections": [],
        "coverage": _coverage(coverage, order),
        "paired": [] if compared is None else _paired(results, compared, order),
        "settings": [(name, _plain(value)) for name, value in settings],
        "method_settings": [(str(name), _plain(value)) for name, value in (method_settings or {}).items()],
        "times": times_by_method(times, methods),
        "versions": _versions(versions),
        "version": __version__,
    }
    if trials:
        page["sections"] = drawn_sections(results, coverage, portraits, methods=methods, ours=ours, compared=compared)
    tables = [column for columns in page["tables"].values() for column in columns]
    page["marks"] = {cell.mark for column in tables for cell in column.cells.values()}
    path = Path(path)
    with blame_folder(path.parent, "make the folder"):
        make_folder(path.parent)
    if figures is not None:
        _write_figures(Path(figures), [drawing for section in page["sections"] for drawing in section.drawings])
    content = _rendered(page).encode("utf-8", "backslashreplace")
    with blame_folder(path):
        write_atomically(path, content)


def _write_figures(folder: Path, drawings: Sequence[Drawing]) -> None:
    """Every figure as a file; those of an earlier report that are not drawn any more go, other files stay."""
    with blame_folder(folder, "make the folder"):
        make_folder(folder)
        remove_leftovers(folder)
    drawn = {drawing.name.removeprefix("figure-"): drawing.png for drawing in drawings}
    for name, png in drawn.items():
        with blame_folder(folder / f"{name}.png"):
            write_atomically(folder / f"{name}.png", png)
    for old in sorted(folder.glob("*.png")):
        if old.stem not in drawn and FIGURE_NAME.fullmatch(old.stem):
            with blame_folder(old, "remove"):
                old.unlink(missing_ok=True)


def _rendered(page: dict[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # The one thing that is not escaped, for it is made here and escapes what it holds.
    env.filters["as_svg"] = Markup
    text = resources.files(__package__).joinpath("experiment_page.html.j2").read_text("utf-8")
    return env.from_string(text).render(page)


# -- what was run -------------------------------------------------------------------------------------------


def _extent(
    results: pd.DataFrame,
    failures: pd.DataFrame,
    methods: Sequence[str],
    asked: Mapping[str, int],
    opening: str | None,
) -> dict[str, Any]:
    """How much of what was asked for is there. A trial is complete when all that it was to run is done or failed."""
    there = {(int(t), str(m)) for table in (results, failures) for t, m in _pairs(table)}
    n_asked = max(asked.values())
    due = [{(trial, name) for name, n in asked.items() if trial < n} for trial in range(n_asked)]
    complete = sum(pairs <= there for pairs in due)
    steps = sorted({step for metric in ("f", "accuracy") for step in levels(results, metric)})
    return {
        "asked": n_asked,
        "complete": complete,
        "begun": sum(bool(pairs & there) for pairs in due) - complete,
        "methods": methods,
        "levels": opening.removeprefix("openness ") if opening else _levels(steps),
        "largest": opening or (level_text(steps[-1]) if steps else "the largest openness"),
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
        rows.append({"method": str(method), "reason": str(reason), "trials": which + join_names(numbers, 12)})
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


def _best(results: pd.DataFrame) -> str | None:
    """The method that is best by the first main metric there is, at the largest openness."""
    for metric in HEADLINE_METRICS:
        if steps := levels(results, metric):
            outcome = judged(values_at(results, metric, steps[-1]), 1)
            return None if outcome is None else outcome.best[0]
    return None


def _paired(results: pd.DataFrame, compared: str, order: Sequence[str]) -> list[dict[str, Any]]:
    """A table for each main metric: one method against every other."""
    tables = []
    for metric in HEADLINE_METRICS:
        steps = levels(results, metric)
        if not steps:
            continue
        largest = paired_cells(values_at(results, metric, steps[-1]), compared)
        averaged = averaged_or_none(results, metric)
        beside = {} if averaged is None else paired_cells(averaged, compared)
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


def level_text(level: Level) -> str:
    """An openness in words."""
    few = {0: "no unknown class", 1: "1 unknown class"}
    classes = few.get(level.n_unknown, f"{level.n_unknown} unknown classes")
    return f"openness {100 * level.openness:.2f}\N{NO-BREAK SPACE}% ({classes})"
