"""Decisions as rows of a file: CSV, JSON lines or Parquet, batch by batch."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np

from .._support.array_types import AnyArray
from .._support.unknown_label import format_label
from ..classifiers import Decisions

__all__ = ["FORMATS", "DecisionWriter", "format_of"]

#: Formats by the endings of their files.
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
RECOGNIZED, REJECTED = "recognized", "rejected"


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

    Notes
    -----
    A score that is not finite (of numbers too large to be compared) is ``null`` in JSON.
    """

    def __init__(self, stream: BinaryIO, format: str, kept: Sequence[str] = ()) -> None:
        import pyarrow as pa

        self._stream, self._format, self._kept = stream, format, tuple(kept)
        text = pa.string()
        own = {"row": pa.int64(), "label": text, "unknown_score": pa.float64(), "candidate": text, "verdict": text}
        fields = list(own.items())
        fields[1:1] = [(name, text) for name in _free_names(kept, set(own))]
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

        verdict = [REJECTED if rejected else RECOGNIZED for rejected in decisions.rejected.tolist()]
        columns: list[Any] = [
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
        if self._format == "jsonl":
            names, scores = self._schema.names, decisions.unknown_score.tolist()
            columns[-3] = [score if math.isfinite(score) else None for score in scores]
            rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns), strict=True)
            lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)
            self._stream.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
            return
        arrays = [
            pa.array(_sound(column) if field.type == pa.string() else column, type=field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    def _lines(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._stream.write(text.getvalue().encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def _texts(labels: AnyArray) -> list[str]:
    """Labels as text."""
    values = labels.tolist()
    text = {label: format_label(label) for label in set(values)}
    return [text[label] for label in values]


def _free_names(kept: Sequence[str], taken: set[str]) -> list[str]:
    """Names for columns that are kept: their own, with ``data_`` before it until nothing else has it."""
    out = []
    for name in kept:
        free = name
        while free in taken or (free != name and free in kept):
            free = f"data_{free}"
        taken.add(free)
        out.append(free)
    return out


def _sound(texts: Sequence[str]) -> list[str]:
    """Texts that UTF-8 can hold; names of files may have bytes in them that it cannot."""
    return [text.encode("utf-8", "backslashreplace").decode() for text in texts]
