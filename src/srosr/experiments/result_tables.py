"""The tables of an experiment, built from its records. Files do not depend on the order of the records.

========  ======================================================================================
results   experiment, trial, n_unknown, openness, method, metric, value
coverage  experiment, trial, method, target, known_rejected, unknown_rejected, f, accuracy
times     experiment, trial, method, fit_seconds, predict_seconds, measure_seconds, coding_seconds
failures  experiment, trial, method, reason
========  ======================================================================================

Floats in CSV are written by ``repr``, which reads back to the same bits; NaN is ``nan``. :data:`METRIC_INFO` has the
labels of the metrics.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.atomic_files import PathLike, write_atomically
from .run_identity import name_file_in_errors

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Metric:
    """The label of a metric and its direction."""

    label: str
    #: 1 if larger is better, -1 if smaller is, 0 for one side of a trade-off.
    better: int = 1


#: The metrics of the tables by name, in the order in which they are shown.
METRIC_INFO: dict[str, Metric] = {
    "f": Metric("F-measure"),
    "accuracy": Metric("accuracy"),
    "auroc": Metric("AUROC"),
    "oscr": Metric("OSCR"),
    "f_macro": Metric("macro F-measure"),
    "closed_set_accuracy": Metric("closed-set accuracy"),
    "fpr95": Metric("FPR at 95 % TPR", -1),
    "recognition_accuracy": Metric("recognition accuracy", 0),
    "rejection_accuracy": Metric("rejection accuracy", 0),
    "known_rejected": Metric("known rejected", 0),
}

_TYPES = dict.fromkeys(("experiment", "method", "metric", "reason"), str) | dict.fromkeys(("trial", "n_unknown"), int)
#: The columns of each table and their types.
TABLES: dict[str, dict[str, type]] = {
    name: {column: _TYPES.get(column, float) for column in columns}
    for name, columns in {
        "results": ("experiment", "trial", "n_unknown", "openness", "method", "metric", "value"),
        "coverage": ("experiment", "trial", "method", "target", "known_rejected", "unknown_rejected", "f", "accuracy"),
        "times": (
            "experiment", "trial", "method", "fit_seconds", "predict_seconds", "measure_seconds", "coding_seconds",
        ),
        "failures": ("experiment", "trial", "method", "reason"),
    }.items()
}  # fmt: skip
_PARQUET = ("results", "times")
_DTYPES = {str: "str", int: "int64", float: "float64"}

Records = Iterable[dict[str, Any]]


def build_results_table(
    experiment: str, records: Records, methods: Sequence[str], metrics: Sequence[str]
) -> pd.DataFrame:
    """Return one row per trial, number of unknown classes, method and metric, in this order.

    ``values`` of a record is a list of [n_unknown, openness, metric, value], empty for failures; methods and metrics
    are in the order given. Raises ValueError if a record has another method or metric, or occurs twice.
    """
    method_rank, metric_rank = _rank_names(methods, "methods"), _rank_names(metrics, "metrics")
    rows: dict[tuple[int, int, int, int], tuple[Any, ...]] = {}
    for record in records:
        trial, method = record["trial"], record["method"]
        rank = _look_up_rank(method_rank, method, "methods")
        for n_unknown, openness, metric, value in record["values"]:
            place = (trial, n_unknown, rank, _look_up_rank(metric_rank, metric, "metrics"))
            if place in rows:
                raise ValueError(
                    f"trial {trial} has {metric} of {method} with {n_unknown} unknown classes twice; give each record "
                    "once."
                )
            rows[place] = (experiment, trial, n_unknown, openness, method, metric, value)
    return _build_frame("results", [rows[place] for place in sorted(rows)])


def build_coverage_table(experiment: str, records: Records, methods: Sequence[str]) -> pd.DataFrame:
    """Return the results of thresholds for target rates: one row per trial, method and target.

    ``coverage`` of a record is a list of [target, known_rejected, unknown_rejected, f, accuracy].
    """
    rows = []
    for record in _sort_records(records, methods):
        rows += [(experiment, record["trial"], record["method"], *values) for values in sorted(record["coverage"])]
    return _build_frame("coverage", rows)


def build_times_table(experiment: str, times: Records, methods: Sequence[str]) -> pd.DataFrame:
    """Return the times in seconds: one row per trial and method; missing times become NaN."""
    rows = []
    for one in _sort_records(times, methods):
        seconds = tuple(one.get(kind) for kind in ("fit", "predict", "measure", "coding"))
        rows.append((experiment, one["trial"], one["method"], *seconds))
    return _build_frame("times", rows)


def build_failures_table(experiment: str, records: Records, methods: Sequence[str]) -> pd.DataFrame:
    """Return the failures and their reasons: one row per trial and method."""
    failed = [record for record in _sort_records(records, methods) if record["error"] is not None]
    return _build_frame(
        "failures", [(experiment, record["trial"], record["method"], record["error"]) for record in failed]
    )


def write_tables(
    folder: PathLike, experiment: str, records: Records, times: Records, methods: Sequence[str], metrics: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """Write all tables as CSV, and results and times as Parquet too; return them by the names in :data:`TABLES`.

    Raises ResultsFolderError if a file cannot be written.
    """
    records = list(records)
    tables = {
        "results": build_results_table(experiment, records, methods, metrics),
        "coverage": build_coverage_table(experiment, records, methods),
        "times": build_times_table(experiment, times, methods),
        "failures": build_failures_table(experiment, records, methods),
    }
    for name, table in tables.items():
        for suffix in ("csv", "parquet") if name in _PARQUET else ("csv",):
            write_table(Path(folder, f"{name}.{suffix}"), name, table)
    return tables


def write_table(path: PathLike, name: str, table: pd.DataFrame) -> None:
    """Write one table as a ``.parquet`` or ``.csv`` file, in the form of :func:`write_tables`."""
    file = Path(path)
    encode = _encode_parquet if file.suffix == ".parquet" else _encode_csv
    data = encode(name, table)
    with name_file_in_errors(file):
        write_atomically(file, data)


def read_results(path: PathLike) -> pd.DataFrame:
    """Read the table of results from the folder of a run, or from its ``results.parquet`` or ``results.csv``."""
    return read_table(path, "results")


def read_table(path: PathLike, name: str) -> pd.DataFrame:
    """Read a table of :func:`write_tables` from the folder of a run or from one ``.parquet`` or ``.csv`` file."""
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
    return _build_frame(name, rows)


def _build_frame(name: str, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd

    kinds = TABLES[name]
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(kinds)
    return pd.DataFrame(
        {
            column: pd.Series([_convert(kind, value) for value in values], dtype=_DTYPES[kind])
            for (column, kind), values in zip(kinds.items(), columns, strict=True)
        }
    )


def _convert(kind: type, value: Any) -> Any:
    if kind is str:
        # A reason may quote a file name that is not valid text.
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if kind is float and value is None:
        return math.nan
    return kind(value)


def _encode_csv(name: str, table: pd.DataFrame) -> bytes:
    text = io.StringIO()
    # The writer does not quote a carriage return, which readers take for the end of a line.
    bare = any("\r" in value for column, kind in TABLES[name].items() if kind is str for value in table[column])
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL)
    writer.writerow(TABLES[name])
    # Python's own numbers, which the writer formats by repr.
    writer.writerows(zip(*(table[column].tolist() for column in table), strict=True))
    return text.getvalue().encode("utf-8")


def _encode_parquet(name: str, table: pd.DataFrame) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    # Without the metadata of pandas, which contain its version.
    schema = pa.schema([pa.field(column, types[kind], nullable=False) for column, kind in TABLES[name].items()])
    arrays = [pa.array(table[field.name].tolist(), field.type) for field in schema]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink)
    return sink.getvalue()


def _sort_records(records: Records, methods: Sequence[str]) -> list[dict[str, Any]]:
    ranks = _rank_names(methods, "methods")
    placed: dict[tuple[int, int], dict[str, Any]] = {}
    for record in records:
        place = (record["trial"], _look_up_rank(ranks, record["method"], "methods"))
        if place in placed:
            raise ValueError(f"trial {record['trial']} has {record['method']} twice; give each record once.")
        placed[place] = record
    return [placed[place] for place in sorted(placed)]


def _rank_names(names: Sequence[str], argument: str) -> dict[str, int]:
    ranks = {name: rank for rank, name in enumerate(names)}
    if len(ranks) != len(names):
        raise ValueError(f"{argument} contains a name twice: {', '.join(names)}.")
    return ranks


def _look_up_rank(ranks: dict[str, int], name: str, argument: str) -> int:
    if name not in ranks:
        raise ValueError(f"records have {name!r}, which is not in {argument}: {', '.join(ranks)}.")
    return ranks[name]
