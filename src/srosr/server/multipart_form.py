"""The parts of a multipart body: files and fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from .answers import ApiError

_MOST_FIELDS = 100
_LONGEST_NAME = 1000
_MOST_HEADERS, _LONGEST_HEADER = 16, 8192


@dataclass
class FormPart:
    """A part of a form: a file if it has a file name, else a field."""

    name: str
    file_name: str | None
    media_type: str
    content: bytes


class _Collector:
    """Gathers parts while a body is parsed."""

    def __init__(self, most_files: int) -> None:
        self.parts: list[FormPart] = []
        self._most_files = most_files
        self._pieces: list[bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self._field, self._value = b"", b""

    def get_callbacks(self) -> dict[str, Any]:
        """Return the functions that the parser calls."""
        return {
            "on_part_begin": self._begin,
            "on_part_data": lambda data, start, end: self._pieces.append(data[start:end]),
            "on_part_end": self._end,
            "on_header_field": self._add_to_field,
            "on_header_value": self._add_to_value,
            "on_header_end": self._end_header,
        }

    def _begin(self) -> None:
        self._pieces, self._headers = [], {}
        if len(self.parts) >= self._most_files + _MOST_FIELDS:
            raise ApiError(413, f"The request has more than {self._most_files:,} files: send fewer at a time.")

    def _add_to_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if len(self._headers) >= _MOST_HEADERS or len(self._field) + len(self._value) > _LONGEST_HEADER:
            raise ApiError(400, "The form has a part with too many or too long headers.")
        self._headers[self._field.lower()] = self._value
        self._field, self._value = b"", b""

    def _end(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name, file_name = options.get(b"name"), options.get(b"filename")
        if kind != b"form-data" or name is None:
            raise ApiError(400, "The form has a part without a name.")
        media_type, _ = parse_options_header(self._headers.get(b"content-type", b""))
        self.parts.append(
            FormPart(
                name.decode("utf-8", "replace")[:_LONGEST_NAME],
                None if file_name is None else file_name.decode("utf-8", "replace")[:_LONGEST_NAME],
                media_type.decode("latin-1").lower(),
                b"".join(self._pieces),
            )
        )


def parse_form(content_type: str, body: bytes, most_files: int) -> list[FormPart]:
    """Return the parts of a form."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise ApiError(400, "The form has no boundary in its Content-Type.")
    collector = _Collector(most_files)
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True

    try:
        parser = MultipartParser(boundary, collector.get_callbacks() | {"on_end": end})  # type: ignore[arg-type]
        parser.write(body)
        parser.finalize()
    except FormParserError:
        raise ApiError(400, "The form cannot be read: it is damaged.") from None
    if not ended:
        raise ApiError(400, "The form ends before its last boundary.")
    files = sum(part.file_name is not None for part in collector.parts)
    if files > most_files:
        raise ApiError(413, f"The request has more than {most_files:,} files: send fewer at a time.")
    return collector.parts
