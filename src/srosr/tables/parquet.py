"""Rows of Parquet files, read part of a row group at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .._support.array_types import Array
from .._support.messages import quote_names
from .cells import NotAClass, parse_label_column, quote_for_shell
from .columns import assign_roles
from .read_options import ReadOptions
from .row_source import Block, GivenLabels, InputFile, ReadError, RowSource, raise_as_read_error

#: Numbers in a block, 2 MiB of them.
_BLOCK = 2**18
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_NUMERIC = (
    pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null,
)  # fmt: skip
#: Name that pandas gives the column of an unnamed row index.
_INDEX = "__index_level_0__"


class ParquetRows(RowSource):
    """Rows of a Parquet file."""

    def __init__(self, file: InputFile, options: ReadOptions, given: GivenLabels | None = None) -> None:
        self._file = file
        with raise_as_read_error(file.name), file.open() as stream:
            table = pq.ParquetFile(stream)
            schema, n_rows = table.schema_arrow, table.metadata.num_rows
        if not n_rows:
            raise ReadError(f"{file.name} has no rows: give a file with samples in it.")
        names = tuple(schema.names)
        twice = [name for name, n in Counter(names).items() if n > 1]
        if twice:
            same = quote_names(twice, 5)
            raise ReadError(f"{file.name} has several columns of the same name: {same}; give each its own.")
        numbering = names.index(_INDEX) if _INDEX in names else None
        kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
        texts = [place for place, kind in enumerate(kinds) if any(is_kind(kind) for is_kind in _TEXT)]
        roles = assign_roles(file.name, names, options, lambda: texts, numbering=numbering)
        used = {*roles.features, *roles.kept, *(() if roles.label is None else (roles.label,))}
        for place in sorted(used):
            if pa.types.is_nested(kinds[place]):
                raise _unusable_column(file.name, names[place], f"nested values ({kinds[place]})")
        for place in roles.features:
            if not any(is_kind(kinds[place]) for is_kind in _NUMERIC):
                raise _unusable_column(file.name, names[place], f"values of the type {kinds[place]}, not numbers")
        self._names = names
        self._roles = roles
        self._columns = [names[place] for place in sorted(used)]
        notes = list(roles.notes)
        if numbering is not None:
            notes.insert(0, f"the column {_INDEX!r} is taken for a row index")
        super().__init__(
            file.name,
            len(roles.features),
            drop_missing=options.drop_missing,
            impute=options.impute,
            feature_names=tuple(names[place] for place in roles.features),
            label=None if roles.label is None else names[roles.label],
            n_rows=n_rows,
            notes=notes,
            given=given,
        )
        self._n_read = 0

    @property
    def fraction(self) -> float | None:
        """Share of the rows read so far."""
        return min(self._n_read / (self.n_rows or 1), 1.0)

    def _blocks(self) -> Iterator[Block]:
        self._n_read = 0
        size = max(1, _BLOCK // len(self._columns))
        with raise_as_read_error(self.name), self._file.open() as stream:
            table = pq.ParquetFile(stream, buffer_size=2**16, pre_buffer=False)
            for batch in table.iter_batches(batch_size=size, columns=self._columns, use_threads=False):
                self._file.check_unchanged(stream)
                yield self._parse_batch(batch, self._n_read)
                self._n_read += batch.num_rows
        if self._n_read != self.n_rows:
            raise ReadError(f"{self.name} is damaged: it has {self._n_read} rows, but announces {self.n_rows}.")

    def _parse_batch(self, batch: pa.RecordBatch, first: int) -> Block:
        names, roles = self._names, self._roles
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        X = np.ascontiguousarray(np.stack([_to_numbers(columns[names[place]]) for place in roles.features]).T)
        labels = None
        if roles.label is not None:
            try:
                labels = parse_label_column(_to_texts(columns[names[roles.label]]))
            except NotAClass as error:
                row = first + _to_texts(columns[names[roles.label]]).index(error.cell)
                raise ReadError(
                    f"{self.name} has {error.value} as the label in row {row}, column {names[roles.label]!r}, which "
                    "looks like a measurement, not a class; name the column of the labels with --label COLUMN."
                ) from None
        kept = {names[place]: _to_texts(columns[names[place]]) for place in roles.kept}
        return Block(X, labels, kept, lambda row: f"row {first + row}")


def _unusable_column(file: str, column: str, what: str) -> ReadError:
    return ReadError(
        f"{file} has {what}, in the column {column!r}; --ignore {quote_for_shell(column)} leaves the column out."
    )


def _decode_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _to_numbers(column: pa.Array) -> Array:
    """Return a column in double precision, NaN for nulls."""
    column = _decode_dictionary(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    cast = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64)


def _to_texts(column: pa.Array) -> list[str]:
    """Return cells as text, "" for nulls."""
    column = _decode_dictionary(column)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.large_string())
    return ["" if cell is None else str(cell) for cell in column.to_pylist()]
