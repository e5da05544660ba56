"""A text file in blocks of whole lines, so that memory does not grow with the file.

Blocks end at a line end outside quotes. A quote opens only at the start of a value, as in RFC 4180 and in the parsers
that read the blocks; elsewhere it is a character like others.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from .._support.array_types import AnyArray
from .row_source import ReadError

#: Characters that may stand between values, in the order of preference.
SEPARATORS = b"\t;|,"
_BLOCK = 2 * 1024**2
_PIECE = 256 * 1024
_LONGEST_LINE = 64 * 1024**2
_QUOTE = 0x22
_MARK = re.compile(rb'["\r\n]')
_OTHER_ENCODINGS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TextBlock(NamedTuple):
    """Whole lines, and the number of the first of them (from 1)."""

    data: bytes
    line: int


def read_first_line(stream: BinaryIO, file: str) -> tuple[TextBlock, bytes]:
    """Return the first line that is not blank, and what was read after it; a byte order mark is removed."""
    data = _remove_mark(_read(stream, _BLOCK), file)
    while True:
        fresh = _read(stream, _BLOCK) if len(data) <= _LONGEST_LINE else b""
        start, line = 0, 1
        for end in find_line_ends(data, SEPARATORS):
            whole = 0 < end < len(data) or not fresh
            if end > 0 and whole and data[start:end].strip():
                return _check_text(data[start:end], line, file), data[end:] + fresh
            if end > 0:
                line += count_lines(data[start:end])
                start = end
            elif not fresh:
                opened = end + len(data)
                raise _open_quote(file, line + count_lines(data[start:opened]))
        if not fresh:
            if len(data) > _LONGEST_LINE:
                raise _too_long(file, line)
            if not data[start:].strip():
                raise ReadError(f"{file} has nothing but blank lines: give a file with samples in it.")
            return _check_text(data[start:], line, file), b""
        data += fresh


def _read(stream: BinaryIO, size: int) -> bytes:
    """Read so many bytes, fewer only at the end.

    By several calls: Python notices a signal that comes while a pipe is read only when a call returns, so that a
    request to end would wait for the rest of a block.
    """
    read_once = getattr(stream, "read1", stream.read)
    pieces = []
    while size > 0 and (piece := read_once(min(size, _PIECE))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def cut_into_blocks(
    stream: BinaryIO, file: str, separator: bytes, rest: bytes, line: int, size: int = _BLOCK
) -> Iterator[TextBlock]:
    """Cut a stream into checked blocks of about ``size`` bytes; ``rest``, which starts at ``line``, comes before it."""
    while fresh := _read(stream, size):
        data = rest + fresh
        cut, opened = _find_cut(data, separator)
        if cut:
            yield _check_text(data[:cut], line, file)
            line += count_lines(data[:cut])
        elif len(data) > _LONGEST_LINE:
            raise _too_long(file, line) if opened < 0 else _open_quote(file, line + count_lines(data[:opened]))
        rest = data[cut:]
    if rest:
        _, opened = _find_cut(rest, separator)
        if opened >= 0:
            raise _open_quote(file, line + count_lines(rest[:opened]))
        yield _check_text(rest, line, file)


def find_line_ends(data: bytes, separators: bytes) -> Iterator[int]:
    """Yield the places after each line end outside quotes.

    If a quote is still open at the end, the last number is its place minus the length of the data, which is negative.
    """
    before = separators + b"\r\n"
    place = 0
    while mark := _MARK.search(data, place):
        at = mark.start()
        if data[at] != _QUOTE:
            place = at + (2 if data[at : at + 2] == b"\r\n" else 1)
            yield place
        elif at and data[at - 1] not in before:
            place = at + 1
        else:
            close = data.find(b'"', at + 1)
            while close >= 0 and data[close + 1 : close + 2] == b'"':
                close = data.find(b'"', close + 2)
            if close < 0:
                yield at - len(data)
                return
            place = close + 1


def _find_cut(data: bytes, separators: bytes) -> tuple[int, int]:
    """Return where the last whole line ends (0 if none does), and where a quote is still open (-1 if none is)."""
    # A carriage return at the very end may be half of a line end.
    stop = len(data) - data.endswith(b"\r")
    if b'"' not in data:
        return _find_last_end(data, 0, stop), -1
    quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)
    if not _is_regular(data, quotes, separators):
        cut, opened = 0, -1
        for place in find_line_ends(data, separators):
            if place < 0:
                opened = place + len(data)
            elif place <= stop:
                cut = place
        return cut, opened
    number = len(quotes)
    opened = int(quotes[-1]) if number % 2 else -1
    end = opened if number % 2 else stop
    number -= number % 2
    while number:
        if cut := _find_last_end(data, int(quotes[number - 1]) + 1, end):
            return cut, opened
        end, number = int(quotes[number - 2]), number - 2
    return _find_last_end(data, 0, end), opened


def _find_last_end(data: bytes, start: int, stop: int) -> int:
    return data.rfind(b"\n", start, stop) + 1 or data.rfind(b"\r", start, stop) + 1


def _is_regular(data: bytes, quotes: AnyArray, separators: bytes) -> bool:
    """Return whether every other quote opens a value or is the second of a pair, so that counting quotes is enough."""
    opening = quotes[::2]
    before = np.frombuffer(data, np.uint8)[np.maximum(opening - 1, 0)]
    allowed = np.zeros(256, dtype=bool)
    allowed[list(separators + b'\r\n"')] = True
    return bool((allowed[before] | (opening == 0)).all())


def count_lines(data: bytes) -> int:
    """Return the number of line ends, in quotes or not."""
    ends = data.count(b"\n")
    if b"\r" in data:
        ends += data.count(b"\r") - data.count(b"\r\n")
    return ends


def _remove_mark(data: bytes, file: str) -> bytes:
    if data.startswith(_OTHER_ENCODINGS):
        raise ReadError(f"{file} is text in UTF-16 or UTF-32, as its line 1 shows: save it as UTF-8.")
    if data.startswith(b"\x1f\x8b"):
        raise ReadError(f"{file} is compressed by gzip: name it with .gz at the end, or unpack it.")
    if data.startswith(b"PK\x03\x04"):
        raise ReadError(f"{file} is a workbook or an archive, not text: save the table as comma-separated values.")
    if data.startswith(b"PAR1"):
        raise ReadError(f"{file} is a Parquet file: name it with .parquet at the end.")
    if data[:4096].count(0) > len(data[:4096]) // 4:
        raise ReadError(f"{file} has many zero bytes from line 1 on, as text in UTF-16 has: save it as UTF-8.")
    return data.removeprefix(codecs.BOM_UTF8)


def _check_text(data: bytes, line: int, file: str) -> TextBlock:
    if b"\0" in data:
        wrong = line + count_lines(data[: data.index(b"\0")])
        raise ReadError(f"{file} has a zero byte in line {wrong}, so that it is not text: save it as text in UTF-8.")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            wrong = line + count_lines(data[: error.start])
            raise ReadError(f"{file} is not in UTF-8, as line {wrong} shows: save it as text in UTF-8.") from None
    return TextBlock(data, line)


def _open_quote(file: str, line: int) -> ReadError:
    return ReadError(f"{file} has a quote in line {line} that is never closed: close it, or double quotes in text.")


def _too_long(file: str, line: int) -> ReadError:
    return ReadError(f"{file} has more than {_LONGEST_LINE >> 20} MiB in line {line}: end each sample with a new line.")
