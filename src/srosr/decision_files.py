"""Decisions as rows of a file: CSV, JSON lines or Parquet, batch by batch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np

from ._types import AnyArray
from .base import Decisions

__all__ = ["FORMATS", "DecisionWriter", "format_of"]

#: Formats by the endings of their files.
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
RECOGNISED, REFUSED = "recognised", "refused"


def format_of(ending: str) -> str | None:
    """The format that an ending stands for."""
    return FORMATS.get(ending.lower())


class DecisionWriter:
    """Writes decisions: row, label, unknown score, candidate, verdict, and columns that were kept.

    Parameters
    ----------
    stream : binary file
        Stays open.
    format : {"csv", "jsonl", "parquet"}
    kept : sequence of str
        Names of further columns, which come after ``row``; one that is also a name of ours gets ``data_`` before it.
    """

    def __init__(self, stream: BinaryIO, format: str, kept: Sequence[str] = ()) -> None:
        import pyarrow as pa

        self._stream, self._format, self._kept = stream, format, tuple(kept)
        text = pa.string()
        own = {"row": pa.int64(), "label": text, "unknown_score": pa.float64(), "candidate": text, "verdict": text}
        fields = list(own.items())
        fields[1:1] = [(f"data_{name}" if name in own else name, text) for name in kept]
        self._schema = pa.schema(fields)
        self._writer: Any = None
        if format == "csv":
            self._lines([self._schema.names])
        elif format == "parquet":
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(stream, self._schema)
        elif format != "jsonl":
            raise ValueError(f"format must be csv, jsonl or parquet, got {format!r}.")

    def write(self, numbers: AnyArray, decisions: Decisions, kept: dict[str, list[str]]) -> None:
        """Write a batch.

        Parameters
        ----------
        numbers : ndarray of int (n,)
            Rows of the file that the samples are from.
        decisions : Decisions
        kept : dict of str to list of str
            Further columns.
        """
        import pyarrow as pa

        verdict = [REFUSED if refused else RECOGNISED for refused in decisions.refused.tolist()]
        columns = [
            numbers,
            *(kept[name] for name in self._kept),
            _texts(decisions.label),
            decisions.unknown_score,
            _texts(decisions.candidate),
            verdict,
        ]
        if self._format == "csv":
            # pyarrow's writer puts every text in quotes; this one only where they are needed, at 1 µs a value.
            self._lines(zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns), strict=True))
            return
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, self._schema, strict=True)]
        batch = pa.record_batch(arrays, schema=self._schema)
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())
        self._stream.write("".join(lines).encode())

    def _lines(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._stream.write(text.getvalue().encode())

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def _texts(labels: AnyArray) -> list[str]:
    """Labels as text."""
    return [str(label) for label in labels.tolist()]
