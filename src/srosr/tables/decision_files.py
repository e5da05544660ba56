"""Decisions written to a file batch by batch, as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from .._support.array_types import AnyArray
from .._support.unknown_label import format_label
from ..classifiers.base import Decisions

#: Formats by file suffix.
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
RECOGNIZED, REJECTED = "recognized", "rejected"
#: Columns that are written where they are asked for: the classes that cannot be excluded, with a bar between them; the
#: p-value; the share of the sample's values that were missing and imputed.
MORE_COLUMNS = ("prediction_set", "p_value", "imputed")
#: Key of the origin in the metadata of a Parquet file.
_ORIGIN = b"srosr.origin"


def find_format(suffix: str) -> str | None:
    """Return the output format for a file suffix, or None."""
    return FORMATS.get(suffix.lower())


class DecisionWriter:
    """Writes row, label, unknown score, candidate, verdict, and the columns that were kept, to an open file.

    The kept columns come after ``row``; one that equals the name of another column is prefixed by ``data_``. Columns of
    :data:`MORE_COLUMNS` come last, if they are asked for in ``more``. A score that is not finite (the features are too
    large) is ``null`` in JSON. A Parquet file can carry its ``origin``, a JSON-serializable dict, for
    :func:`read_origin`.
    """

    def __init__(
        self,
        stream: BinaryIO,
        format: str,
        kept: Sequence[str] = (),
        origin: dict[str, Any] | None = None,
        *,
        more: Sequence[str] = (),
    ) -> None:
        import pyarrow as pa

        self._stream, self._format, self._kept = stream, format, tuple(kept)
        self._more = tuple(name for name in MORE_COLUMNS if name in more)
        text = pa.string()
        own = {"row": pa.int64(), "label": text, "unknown_score": pa.float64(), "candidate": text, "verdict": text}
        own |= {name: text if name == "prediction_set" else pa.float64() for name in self._more}
        fields = list(own.items())
        fields[1:1] = [(name, text) for name in _make_unique(kept, set(own))]
        notes = None if origin is None else {_ORIGIN: json.dumps(origin, sort_keys=True).encode()}
        self._schema = pa.schema(fields, metadata=notes)
        self._writer: Any = None
        if format == "csv":
            self._write_csv([self._schema.names])
        elif format == "parquet":
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(stream, self._schema)
        elif format != "jsonl":
            raise ValueError(f"format must be csv, jsonl or parquet, got {format!r}.")

    def write(
        self, numbers: AnyArray, decisions: Decisions, kept: dict[str, list[str]], more: Mapping[str, Any] | None = None
    ) -> None:
        """Write the decisions on the rows with these numbers, and the further columns by name."""
        import pyarrow as pa

        verdict = [REJECTED if rejected else RECOGNIZED for rejected in decisions.rejected.tolist()]
        columns: list[Any] = [
            numbers,
            *(kept[name] for name in self._kept),
            _format_labels(decisions.label),
            decisions.unknown_score,
            _format_labels(decisions.candidate),
            verdict,
            *((more or {})[name] for name in self._more),
        ]
        if self._format == "csv":
            # pyarrow's writer quotes every text; this one quotes only where needed, at 1 µs a value.
            self._write_csv(zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns), strict=True))
            return
        if self._format == "jsonl":
            names, scores = self._schema.names, decisions.unknown_score.tolist()
            columns[names.index("unknown_score")] = [score if math.isfinite(score) else None for score in scores]
            rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns), strict=True)
            lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)
            self._stream.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
            return
        arrays = [
            pa.array(_make_encodable(column) if field.type == pa.string() else column, type=field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    def _write_csv(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._stream.write(text.getvalue().encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def read_origin(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the origin that a Parquet file of decisions carries; None if it has none or is no such file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_schema(path).metadata or {}
        origin = json.loads(metadata[_ORIGIN])
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return None
    return origin if isinstance(origin, dict) else None


def _format_labels(labels: AnyArray) -> list[str]:
    """Return labels as text."""
    values = labels.tolist()
    text = {label: format_label(label) for label in set(values)}
    return [text[label] for label in values]


def _make_unique(kept: Sequence[str], taken: set[str]) -> list[str]:
    """Return names for the kept columns: their own, prefixed by ``data_`` until they are unique."""
    out = []
    for name in kept:
        free = name
        while free in taken or (free != name and free in kept):
            free = f"data_{free}"
        taken.add(free)
        out.append(free)
    return out


def _make_encodable(texts: Sequence[str]) -> list[str]:
    """Return texts that UTF-8 can hold: names of files may contain bytes that it cannot."""
    return [text.encode("utf-8", "backslashreplace").decode() for text in texts]
