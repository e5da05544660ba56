"""From records to tables: the same records give the same files, byte for byte, in whatever order they came.

========  ======================================================================================
results   experiment, trial, n_unknown, openness, method, metric, value
coverage  experiment, trial, method, target, known_refused, unknown_refused, f, accuracy
times     experiment, trial, method, fit_seconds, predict_seconds, measure_seconds, coding_seconds
failures  experiment, trial, method, reason
========  ======================================================================================

Floats in CSV are written by ``repr`` and so read back to the same bits; NaN is ``nan``.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.atomic_files import write_atomically
from .run_identity import blame_folder

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "TABLES",
    "coverage_table",
    "failures_table",
    "read_results",
    "read_table",
    "results_table",
    "times_table",
    "write_tables",
]

#: The columns of each table and what they hold.
TABLES: dict[str, dict[str, type]] = {
    "results": {
        "experiment": str,
        "trial": int,
        "n_unknown": int,
        "openness": float,
        "method": str,
        "metric": str,
        "value": float,
    },
    "coverage": {
        "experiment": str,
        "trial": int,
        "method": str,
        "target": float,
        "known_refused": float,
        "unknown_refused": float,
        "f": float,
        "accuracy": float,
    },
    "times": {
        "experiment": str,
        "trial": int,
        "method": str,
        "fit_seconds": float,
        "predict_seconds": float,
        "measure_seconds": float,
        "coding_seconds": float,
    },
    "failures": {"experiment": str, "trial": int, "method": str, "reason": str},
}
_PARQUET = ("results", "times")
_DTYPES = {str: "str", int: "int64", float: "float64"}

Records = Iterable[dict[str, Any]]


def results_table(experiment: str, records: Records, methods: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """One row for each trial, number of unknown classes, method and metric, in this order.

    Parameters
    ----------
    experiment : str
        Its name, in the first column.
    records : iterable of dict
        With "trial", "method" and "values", a list of [n_unknown, openness, metric, value]. Failures have none.
    methods, metrics : sequence of str
        In the order of the table.

    Raises
    ------
    ValueError
        If a method or metric is not among these, or something comes twice.
    """
    method_rank, metric_rank = _ranks(methods, "methods"), _ranks(metrics, "metrics")
    rows: dict[tuple[int, int, int, int], tuple[Any, ...]] = {}
    for record in records:
        trial, method = record["trial"], record["method"]
        rank = _rank(method_rank, method, "methods")
        for n_unknown, openness, metric, value in record["values"]:
            place = (trial, n_unknown, rank, _rank(metric_rank, metric, "metrics"))
            if place in rows:
                raise ValueError(
                    f"trial {trial} has {metric} of {method} with {n_unknown} unknown classes twice; give every record "
                    "once."
                )
            rows[place] = (experiment, trial, n_unknown, openness, method, metric, value)
    return _frame("results", [rows[place] for place in sorted(rows)])


def coverage_table(experiment: str, records: Records, methods: Sequence[str]) -> pd.DataFrame:
    """What thresholds by a target rate came to: one row for each trial, method and target.

    Parameters
    ----------
    experiment, records, methods :
        As for :func:`results_table`; "coverage" of a record is a list of [target, known_refused, unknown_refused, f,
        accuracy].
    """
    rows = []
    for record in _in_order(records, methods):
        rows += [(experiment, record["trial"], record["method"], *values) for values in sorted(record["coverage"])]
    return _frame("coverage", rows)


def times_table(experiment: str, times: Records, methods: Sequence[str]) -> pd.DataFrame:
    """Seconds: one row for each trial and method.

    Parameters
    ----------
    experiment, methods :
        As for :func:`results_table`.
    times : iterable of dict
        With "trial", "method", "fit", "predict", "measure" and "coding"; seconds that were not taken are NaN.
    """
    rows = []
    for one in _in_order(times, methods):
        seconds = tuple(one.get(kind) for kind in ("fit", "predict", "measure", "coding"))
        rows.append((experiment, one["trial"], one["method"], *seconds))
    return _frame("times", rows)


def failures_table(experiment: str, records: Records, methods: Sequence[str]) -> pd.DataFrame:
    """What failed, and why: one row for each trial and method.

    Parameters
    ----------
    experiment, records, methods :
        As for :func:`results_table`; "error" of a record is None or the reason.
    """
    failed = [record for record in _in_order(records, methods) if record["error"] is not None]
    return _frame("failures", [(experiment, record["trial"], record["method"], record["error"]) for record in failed])


def write_tables(
    folder: str | os.PathLike[str],
    experiment: str,
    records: Records,
    times: Records,
    methods: Sequence[str],
    metrics: Sequence[str],
) -> dict[str, pd.DataFrame]:
    """Write all tables: each as CSV, results and times as Parquet too.

    Parameters
    ----------
    folder : path
    experiment, records, times, methods, metrics :
        As for :func:`results_table` and :func:`times_table`.

    Returns
    -------
    tables : dict of str to DataFrame
        What was written, by the names of :data:`TABLES`.

    Raises
    ------
    ResultsFolderError
        If a file cannot be written. The records are not touched.
    """
    records = list(records)
    tables = {
        "results": results_table(experiment, records, methods, metrics),
        "coverage": coverage_table(experiment, records, methods),
        "times": times_table(experiment, times, methods),
        "failures": failures_table(experiment, records, methods),
    }
    for name, table in tables.items():
        _write(Path(folder, f"{name}.csv"), _csv(name, table))
        if name in _PARQUET:
            _write(Path(folder, f"{name}.parquet"), _parquet(name, table))
    return tables


def read_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The table of results, to the bit.

    Parameters
    ----------
    path : path
        Of the folder of a run, or of a ``results.parquet`` or ``results.csv``.
    """
    return read_table(path, "results")


def read_table(path: str | os.PathLike[str], name: str) -> pd.DataFrame:
    """A table as :func:`write_tables` wrote it.

    Parameters
    ----------
    path : path
        Of the folder of a run, or of one ``.parquet`` or ``.csv`` file.
    name : str
        One of :data:`TABLES`.
    """
    file = Path(path)
    if file.is_dir():
        file = file / f"{name}.{'parquet' if name in _PARQUET else 'csv'}"
    if file.suffix == ".parquet":
        import pyarrow.parquet as pq

        columns = pq.read_table(file).to_pydict()
        header, rows = tuple(columns), list(zip(*columns.values(), strict=True))
    else:
        with open(file, encoding="utf-8", newline="") as text:
            header, *rows = [tuple(row) for row in csv.reader(text)] or [()]
    if list(header) != list(TABLES[name]):
        raise ValueError(f"{file} does not have the columns of the table {name}: {', '.join(TABLES[name])}.")
    return _frame(name, rows)


def _frame(name: str, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd

    kinds = TABLES[name]
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(kinds)
    return pd.DataFrame(
        {
            column: pd.Series([_as(kind, value) for value in values], dtype=_DTYPES[kind])
            for (column, kind), values in zip(kinds.items(), columns, strict=True)
        }
    )


def _as(kind: type, value: Any) -> Any:
    if kind is str:
        # A reason may quote the name of a file that is not valid text.
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if kind is float and value is None:
        return math.nan
    return kind(value)


def _csv(name: str, table: pd.DataFrame) -> bytes:
    text = io.StringIO()
    # The writer leaves a carriage return in a text bare, which readers take for the end of a line.
    bare = any("\r" in value for column, kind in TABLES[name].items() if kind is str for value in table[column])
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL)
    writer.writerow(TABLES[name])
    # Python's own numbers: the writer puts their repr.
    writer.writerows(zip(*(table[column].tolist() for column in table), strict=True))
    return text.getvalue().encode("utf-8")


def _parquet(name: str, table: pd.DataFrame) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    # Without pandas' notes, which name its version.
    schema = pa.schema([pa.field(column, types[kind], nullable=False) for column, kind in TABLES[name].items()])
    arrays = [pa.array(table[field.name].tolist(), field.type) for field in schema]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink)
    return sink.getvalue()


def _write(path: Path, data: bytes) -> None:
    with blame_folder(path):
        write_atomically(path, data)


def _in_order(records: Records, methods: Sequence[str]) -> list[dict[str, Any]]:
    ranks = _ranks(methods, "methods")
    placed: dict[tuple[int, int], dict[str, Any]] = {}
    for record in records:
        place = (record["trial"], _rank(ranks, record["method"], "methods"))
        if place in placed:
            raise ValueError(f"trial {record['trial']} has {record['method']} twice; give every record once.")
        placed[place] = record
    return [placed[place] for place in sorted(placed)]


def _ranks(names: Sequence[str], argument: str) -> dict[str, int]:
    ranks = {name: rank for rank, name in enumerate(names)}
    if len(ranks) != len(names):
        raise ValueError(f"{argument} names something twice: {', '.join(names)}.")
    return ranks


def _rank(ranks: dict[str, int], name: str, argument: str) -> int:
    if name not in ranks:
        raise ValueError(f"records have {name!r}, which is not among {argument}: {', '.join(ranks)}.")
    return ranks[name]
