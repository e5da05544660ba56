"""Tables of text: values separated by commas, semicolons, tabs or |.

pyarrow parses blocks of lines, which is fast. If it fails, Python's `csv` module reads the block again and either
succeeds (numbers such as +1) or finds the line and the column of the fault.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, islice
from typing import BinaryIO, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from .._support.messages import count_of, quote_names, quote_text
from .cells import MISSING, NotAClass, is_number, parse_label_column, parse_labels, parse_number, quote_for_shell
from .columns import Roles, assign_roles
from .read_options import ReadOptions
from .row_source import Block, GivenLabels, InputFile, ReadError, RowSource, raise_as_read_error
from .text_blocks import SEPARATORS, TextBlock, count_lines, cut_into_blocks, read_first_line

_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(?:\.[0-9]{3})*,[0-9]+\Z")
#: How many rows are read to tell columns of text from columns of numbers.
_N_FIRST_ROWS = 1000


class _Layout(NamedTuple):
    """What the first line says: the separator, the names of the columns, the place of a row index."""

    separator: str
    names: tuple[str, ...]
    numbering: int | None


#: From the names of the columns to the places of the features and of those carried along as text.
FindColumns: TypeAlias = Callable[[Sequence[str]], tuple[Sequence[int], Sequence[int]]]


def open_plain_csv(path: str | os.PathLike[str], find_columns: FindColumns) -> RowSource:
    """Open a table with commas and a header, without guessing.

    Names of columns can be anything, blank, numbers or several times the same, and none is taken for a label or an
    index: ``find_columns`` says which columns are features and which are carried along as text. What it raises goes
    to the caller.
    """
    file = InputFile(os.fsdecode(path))
    return TextRows(file, file.name, ReadOptions(labels="no"), find_columns=find_columns)


class TextRows(RowSource):
    """Rows of a text file, or of a stream, which can be read only once."""

    def __init__(
        self,
        source: InputFile | BinaryIO,
        name: str,
        options: ReadOptions,
        given: GivenLabels | None = None,
        find_columns: FindColumns | None = None,
    ) -> None:
        self._source = source
        self._has_header = options.header
        self._is_for_a_model = options.features is not None
        self._is_plain = find_columns is not None
        self._share = 0.0
        layout, blocks = self._open(name)
        first = next(blocks, None)
        if first is None:
            raise ReadError(f"{name} has a header, but no rows: add a line for each sample.")
        self._pending: Iterator[TextBlock] | None = None
        if isinstance(source, InputFile):
            blocks.close()
            self._share = 0.0
        else:
            self._pending = chain([first], blocks)
        if find_columns is not None:
            features, kept = find_columns(layout.names)
            roles = Roles(tuple(features), None, tuple(kept))
        else:
            texts = partial(_find_text_columns, first, layout)
            roles = assign_roles(name, layout.names, options, texts, numbering=layout.numbering, named=options.header)
        self._layout: _Layout = layout
        self._roles: Roles = roles
        notes = list(roles.notes)
        if layout.numbering is not None:
            notes.insert(0, "the first column has no name and is taken for a row index")
        super().__init__(
            name,
            len(roles.features),
            drop_missing=options.drop_missing,
            impute=options.impute,
            feature_names=tuple(layout.names[place] for place in roles.features) if options.header else None,
            label=None if roles.label is None else layout.names[roles.label],
            notes=notes,
            given=given,
        )

    @property
    def fraction(self) -> float | None:
        """Share of the bytes read so far; None for a stream."""
        return self._share if isinstance(self._source, InputFile) else None

    @property
    def may_read_ahead(self) -> bool:
        """False for a stream: who feeds it may wait for the decisions on what is there."""
        return isinstance(self._source, InputFile)

    def _feature_title(self, place: int) -> str:
        return f"column {self._layout.names[self._roles.features[place]]!r}"

    def _open(self, name: str) -> tuple[_Layout, Generator[TextBlock]]:
        """Open the file; return the layout, and the blocks after the header."""
        source = self._source
        with ExitStack() as stack, raise_as_read_error(name):
            raw = stream = stack.enter_context(source.open()) if isinstance(source, InputFile) else source
            if isinstance(source, InputFile) and name.lower().endswith(".gz"):
                stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw)))
            head, rest = read_first_line(stream, name)
            if self._is_plain:
                _, cells = next(_iterate_records(head, name, ","), (0, [""]))
                layout = _Layout(",", tuple(cell.strip() for cell in cells), None)
            else:
                layout = _read_layout(head, name, self._has_header)
            line = head.line + count_lines(head.data)
            if not self._has_header:
                rest, line = head.data + rest, head.line
            blocks = cut_into_blocks(stream, name, layout.separator.encode(), rest, line)
            return layout, self._watch(blocks, raw, name, stack.pop_all())

    def _watch(self, blocks: Iterator[TextBlock], raw: BinaryIO, name: str, opened: ExitStack) -> Generator[TextBlock]:
        """Yield the blocks as long as the file is unchanged; close what was opened."""
        with opened, raise_as_read_error(name):
            for block in blocks:
                if isinstance(self._source, InputFile):
                    self._source.check_unchanged(raw)
                    self._share = min(raw.tell() / self._source.size, 1.0)
                yield block

    def _blocks(self) -> Iterator[Block]:
        if isinstance(self._source, InputFile):
            layout, started = self._open(self.name)
            blocks: Iterator[TextBlock] = started
            if layout != self._layout:
                started.close()
                raise ReadError(f"{self.name} was changed while it was read: run again when it is complete.")
        elif self._pending is None:
            raise ReadError(f"{self.name} can be read only once: save it in a file first.")
        else:
            blocks, self._pending = self._pending, None
        for block in blocks:
            with raise_as_read_error(self.name):
                parsed = self._parse(block)
            if len(parsed.X):
                yield parsed
        self._share = 1.0

    def _parse(self, block: TextBlock) -> Block:
        table = self._parse_fast(block)
        if table is None:
            return self._parse_slowly(block)
        roles = self._roles
        X = np.ascontiguousarray(np.stack([table[str(place)].to_numpy() for place in roles.features]).T)
        labels = None
        if roles.label is not None:
            codes = table[str(roles.label)].combine_chunks().dictionary_encode()
            if isinstance(codes, pa.ChunkedArray):
                codes = codes.combine_chunks()
            distinct = np.empty(len(codes.dictionary), dtype=object)
            try:
                distinct[:] = parse_labels(codes.dictionary.to_pylist())
            except NotAClass as error:
                raise self._not_a_class(block, error.value) from None
            labels = distinct[codes.indices.to_numpy(zero_copy_only=False)]
        kept = {self._layout.names[place]: table[str(place)].to_pylist() for place in roles.kept}
        return Block(X, labels, kept, lambda row: self._line(block, row))

    def _parse_fast(self, block: TextBlock) -> pa.Table | None:
        """Return the columns that are needed; None if pyarrow cannot parse the block."""
        roles = self._roles
        types = {str(place): pa.float64() for place in roles.features}
        types |= {str(place): pa.string() for place in (*roles.kept, roles.label) if place is not None}
        try:
            return pa_csv.read_csv(
                pa.BufferReader(block.data),
                pa_csv.ReadOptions(
                    column_names=[str(place) for place in range(len(self._layout.names))],
                    use_threads=False,
                    block_size=len(block.data) + 1,
                ),
                pa_csv.ParseOptions(delimiter=self._layout.separator, newlines_in_values=b'"' in block.data),
                pa_csv.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=MISSING, strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return None

    def _parse_slowly(self, block: TextBlock) -> Block:
        names, roles = self._layout.names, self._roles
        numbers: list[list[float]] = []
        label_cells: list[str] = []
        kept: dict[str, list[str]] = {names[place]: [] for place in roles.kept}
        for line, cells in _iterate_records(block, self.name, self._layout.separator):
            if len(cells) != len(names):
                raise self._ragged(line, len(cells))
            row = []
            for place in roles.features:
                value = parse_number(cells[place])
                if value is None:
                    raise self._not_a_number(line, names[place], cells[place])
                row.append(value)
            numbers.append(row)
            if roles.label is not None:
                label_cells.append(cells[roles.label])
            for place in roles.kept:
                kept[names[place]].append(cells[place])
        labels = None
        if roles.label is not None:
            try:
                labels = parse_label_column(label_cells)
            except NotAClass as error:
                raise self._not_a_class(block, error.value) from None
        X = np.array(numbers, dtype=np.float64).reshape(len(numbers), len(roles.features))
        return Block(X, labels, kept, lambda row: self._line(block, row))

    def _line(self, block: TextBlock, row: int) -> str:
        line, _ = next(islice(_iterate_records(block, self.name, self._layout.separator), row, None))
        return f"line {line}"

    def _ragged(self, line: int, found: int) -> ReadError:
        expected = len(self._layout.names)
        what = "names in its header" if self._has_header else "values in its first line"
        values = count_of(found, "value")
        return ReadError(f"{self.name} has {values} in line {line}, but {expected} {what}: correct that line.")

    def _not_a_number(self, line: int, column: str, cell: str) -> ReadError:
        where = f"{self.name} has {quote_text(cell)} in line {line}, column {column!r}, which is not a number"
        if _DECIMAL_COMMA.match(cell.strip()):
            return ReadError(f"{where}: save the file with decimal points instead of decimal commas.")
        if len(self._layout.names) == 1 and len(cell.split()) > 1 and all(map(is_number, cell.split())):
            return ReadError(f"{where}: put a comma, semicolon, tab or | between values.")
        if self._is_for_a_model:
            return ReadError(f"{where}; the model needs the column: correct the value, or remove the line.")
        hint = (
            "" if self._roles.label is not None else f" and --label {quote_for_shell(column)} takes it for the labels"
        )
        return ReadError(f"{where}; --ignore {quote_for_shell(column)} leaves the column out{hint}.")

    def _not_a_class(self, block: TextBlock, value: str) -> ReadError:
        place = self._roles.label or 0
        records = _iterate_records(block, self.name, self._layout.separator)
        line = next(line for line, cells in records if cells[place].strip() == value)
        return ReadError(
            f"{self.name} has {value} as the label in line {line}, column {self._layout.names[place]!r}, which looks "
            "like a measurement, not a class; name the column of the labels with --label COLUMN."
        )


def _iterate_records(block: TextBlock, file: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the values of each row that is not blank."""
    reader = csv.reader(io.StringIO(block.data.decode("utf-8"), newline=""), delimiter=separator)
    while True:
        line = block.line + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ReadError(f"{file} cannot be split into values in line {line}: {error}.") from None
        if cells and not (len(cells) == 1 and cells[0].isspace()):
            yield line, cells


def _read_layout(head: TextBlock, file: str, header: bool) -> _Layout:
    separator = _find_separator(head.data, header)
    _, cells = next(_iterate_records(head, file, separator), (0, [""]))
    if not header:
        return _Layout(separator, tuple(str(place) for place in range(len(cells))), None)
    names = [cell.strip() for cell in cells]
    numbering = 0 if names[0] == "" and len(names) > 1 else None
    numbers = [name for name in names if is_number(name)]
    if numbers and numbers not in ([str(n) for n in range(len(numbers))], [str(n + 1) for n in range(len(numbers))]):
        raise ReadError(
            f"{file} has numbers where names should be in line {head.line} ({quote_names(numbers, 3)}); "
            "if it has no header, say --no-header."
        )
    for place, name in enumerate(names):
        if not name and place != numbering:
            raise ReadError(f"{file} has no name for column {place + 1} in line {head.line}: give it one.")
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise ReadError(
            f"{file} has several columns of the same name in line {head.line}: {quote_names(twice, 5)}; give each "
            "its own."
        )
    return _Layout(separator, tuple(names), numbering)


def _find_separator(line: bytes, header: bool) -> str:
    """Return the separator of the first line: the most frequent one outside quotes."""
    outside = re.sub(rb'"[^"]*"', b"", line)
    counts = {chr(sign): outside.count(sign) for sign in SEPARATORS}
    if not header:  # commas may be in the numbers
        return next((sign for sign, count in counts.items() if count), ",")
    return max(counts, key=lambda sign: counts[sign]) if any(counts.values()) else ","


def _find_text_columns(block: TextBlock, layout: _Layout) -> Sequence[int]:
    """Return the places of the columns that are mostly text in the first rows; decimal commas are not text."""
    texts = np.zeros(len(layout.names), dtype=np.int64)
    numbers = np.zeros(len(layout.names), dtype=np.int64)
    with suppress(ReadError):  # raised again when the block is read
        for _, cells in islice(_iterate_records(block, "", layout.separator), _N_FIRST_ROWS):
            if len(cells) != len(layout.names):
                continue
            for place, cell in enumerate(cells):
                value = parse_number(cell)
                if value is None and not _DECIMAL_COMMA.match(cell.strip()):
                    texts[place] += 1
                elif value is None or not math.isnan(value):
                    numbers[place] += 1
    return np.flatnonzero(texts > numbers).tolist()
