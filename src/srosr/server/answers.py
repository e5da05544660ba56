"""What goes back to a client: JSON, errors in one sentence, decisions row by row, and streams of lines."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from fastapi import Response
from starlette.types import Receive, Scope, Send

from .._support.array_types import Array, IntArray
from .._support.unknown_label import format_label
from ..classifiers.base import Decisions
from ..exceptions import DeviceError
from ..operations.input_errors import InputError, escape_unprintable
from ..operations.sample_decisions import list_sets
from .batching import TooManyWaiting
from .json_text import is_long, write_json
from .model_store import ServedModel
from .process_pool import JobError
from .process_pool import OnProgress as OnProgress

JSON, LINES, CSV, SVG = "application/json", "application/x-ndjson", "text/csv", "image/svg+xml"
RECOGNIZED, REJECTED = "recognized", "rejected"
_RETRY = {"Retry-After": "1"}
#: What is said to those whose requests are not finished when the server ends.
ENDING = "The server is ending: try again."
#: Rows that are written in the event loop: it takes about 10 µs each.
_FEW_ROWS = 500
T = TypeVar("T")
logger = logging.getLogger("srosr.server")


class ApiError(Exception):
    """A request that is answered by a status and one sentence."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        sentence = escape_unprintable(message)
        if sentence.startswith("the "):  # what has no file name of its own begins many sentences
            sentence = "The " + sentence[4:]
        self.status, self.message, self.headers = status, sentence, headers
        super().__init__(self.message)


def describe_error(error: Exception) -> ApiError:
    """Return the status and the sentence for an error; one that nobody foresaw goes to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InputError):
        return ApiError(422, error.message)
    if isinstance(error, JobError):
        return ApiError(error.status, error.message, _RETRY if error.status in (429, 503) else None)
    if isinstance(error, TooManyWaiting):
        return ApiError(429, "The server is busy with other requests: try again later.", _RETRY)
    if isinstance(error, DeviceError):
        return ApiError(503, "The device that codes samples failed: try again.")
    logger.error("a request failed", exc_info=error)
    return ApiError(500, "The server failed at this request; its log says why.")


def encode_json(value: Any) -> bytes:
    """Return a value as JSON; numbers that are not finite become null."""
    try:
        text = write_json(value)
    except ValueError:
        text = write_json(_replace_nonfinite(value))
    # A lone surrogate of a file name becomes an escape, which is what JSON has for it.
    return text.encode("utf-8", "backslashreplace")


def _replace_nonfinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _replace_nonfinite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_nonfinite(part) for part in value]
    return value


def answer_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as an answer."""
    return Response(encode_json(value), status, headers, JSON)


async def write_off_loop(n_rows: int, write: Callable[..., T], *arguments: Any) -> T:
    """Return what a function writes; about many rows it is called in a thread, so that others are answered."""
    return write(*arguments) if n_rows <= _FEW_ROWS else await asyncio.to_thread(write, *arguments)


async def answer_result(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value that may be long as an answer; a long one is written in a thread."""
    if is_long(value):
        return await asyncio.to_thread(answer_json, value, status, headers)
    return answer_json(value, status, headers)


def answer_error(error: ApiError) -> Response:
    """Return an error as an answer."""
    return answer_json({"error": error.message}, error.status, error.headers)


def choose_type(accept: str | None, offered: tuple[str, ...]) -> str:
    """Return the media type to answer with, the first one offered unless the client prefers another.

    Examples
    --------
    >>> choose_type("text/csv;q=0.5, */*;q=0.1", (JSON, CSV)), choose_type(None, (JSON, CSV))
    ('text/csv', 'application/json')
    """
    if accept is None or accept == "*/*":
        return offered[0]
    ranges = [_parse_range(part) for part in accept.split(",")]
    best, chosen = 0.0, None
    for media_type in offered:
        main = media_type.split("/")[0]
        # The most specific range that names a type decides on it.
        found = [(spread in (media_type, f"{main}/*"), spread == media_type, q) for spread, q in ranges
                 if spread in (media_type, f"{main}/*", "*/*")]  # fmt: skip
        quality = max(found)[2] if found else 0.0
        if quality > best:
            best, chosen = quality, media_type
    if chosen is None:
        raise ApiError(406, f"The answer can be {' or '.join(offered)}: ask for one of them with Accept.")
    return chosen


def _parse_range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, min(max(float(parameter[2:]), 0.0), 1.0)
            except ValueError:
                return name, 0.0
    return name, 1.0


# -- decisions -----------------------------------------------------------------------------------------------


class DecisionFormat:
    """Writes decisions of one model as JSON objects, quickly: classes are encoded once."""

    def __init__(self, model: ServedModel) -> None:
        labels = [*model.clf.classes_.tolist(), model.clf.unknown_label_]
        self._texts = {label: json.dumps(format_label(label), ensure_ascii=False) for label in labels}
        self._classes = [self._texts[label] for label in model.clf.classes_.tolist()]

    @classmethod
    def of(cls, model: ServedModel) -> DecisionFormat:
        """Return the format of a model, made once."""
        found = _formats.get(model)
        if found is None:
            found = _formats[model] = cls(model)
        return found

    def write(
        self, numbers: IntArray, decisions: Decisions, imputed: Array | None = None, files: list[str] | None = None
    ) -> list[str]:
        """Return the decisions on rows as JSON objects."""
        texts = self._texts
        labels, candidates = decisions.label.tolist(), decisions.candidate.tolist()
        scores, rejected = decisions.unknown_score.tolist(), decisions.rejected.tolist()
        rows = [
            f'{{"row":{row},"label":{texts[label]},"unknown_score":{score!r},"candidate":{texts[candidate]},'
            f'"verdict":"{REJECTED if reject else RECOGNIZED}"'
            if math.isfinite(score)
            else f'{{"row":{row},"label":{texts[label]},"unknown_score":null,"candidate":{texts[candidate]},'
            f'"verdict":"{REJECTED}"'
            for row, label, score, candidate, reject in zip(
                numbers.tolist(), labels, scores, candidates, rejected, strict=True
            )
        ]
        more: list[list[str]] = []
        if decisions.prediction_set is not None:
            more.append([f',"prediction_set":[{text}]' for text in self._write_sets(decisions.prediction_set)])
        if decisions.p_value is not None:
            more.append([f',"p_value":{value!r}' for value in decisions.p_value.tolist()])
        if imputed is not None:
            more.append([f',"imputed":{value!r}' for value in imputed.tolist()])
        if files is not None:
            more.append([f',"file":{json.dumps(file)}' for file in files])
        for parts in more:
            rows = [row + part for row, part in zip(rows, parts, strict=True)]
        return [row + "}" for row in rows]

    def _write_sets(self, sets: Any) -> list[str]:
        """Return the classes of each set; those with several are ordered one by one, the others at once."""
        classes = self._classes
        sizes, first = sets.sizes.tolist(), sets.contains.argmax(axis=1).tolist()

        def write(i: int, size: int, place: int) -> str:
            if size < 2:
                return classes[place] if size else ""
            return ",".join(self._texts[name] for name in sets[i].tolist())

        return [write(i, size, place) for i, (size, place) in enumerate(zip(sizes, first, strict=True))]


_formats: WeakKeyDictionary[ServedModel, DecisionFormat] = WeakKeyDictionary()


def write_csv(numbers: IntArray, decisions: Decisions, kept: dict[str, list[str]], imputed: Array | None) -> bytes:
    """Return decisions as ``srosr predict`` writes them."""
    from ..tables.decision_files import DecisionWriter

    content = BytesIO()
    more: dict[str, Any] = {"p_value": decisions.p_value, "imputed": imputed}
    if decisions.prediction_set is not None:
        more["prediction_set"] = list_sets(decisions.prediction_set)
    asked = [name for name, value in more.items() if value is not None]
    writer = DecisionWriter(content, "csv", list(kept), more=asked)
    writer.write(numbers, decisions, kept, more)
    writer.close()
    return content.getvalue()


# -- streams -------------------------------------------------------------------------------------------------


class LineStream(Response):
    """An answer of JSON lines, sent as they are made; an error is the last line."""

    media_type = LINES

    def __init__(self, lines: AsyncIterator[bytes], headers: dict[str, str] | None = None) -> None:
        super().__init__(None, 200, headers)
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for line in self._lines:
                await send({"type": "http.response.body", "body": line, "more_body": True})
        except asyncio.CancelledError:
            # The client has left, and hears nothing of it, or the server ends.
            await self._end(send, ApiError(503, ENDING))
            raise
        except Exception as error:
            await self._end(send, describe_error(error))
        else:
            await self._end(send)

    @staticmethod
    async def _end(send: Send, error: ApiError | None = None) -> None:
        line = b"" if error is None else write_line({"kind": "error", "status": error.status, "error": error.message})
        await send({"type": "http.response.body", "body": line, "more_body": False})


def write_line(value: dict[str, Any]) -> bytes:
    """Return a line of a stream."""
    return encode_json(value) + b"\n"


def write_progress(progress: dict[str, Any]) -> bytes:
    """Return a line that says how far a piece of work is."""
    return write_line({
        "kind": "progress", "stage": progress.get("stage"), "done": progress.get("done"), "of": progress.get("of")
    })  # fmt: skip


async def stream_result(work: Callable[[OnProgress], Awaitable[dict[str, Any]]]) -> AsyncIterator[bytes]:
    """Yield lines about the progress of a piece of work, then its result; the work ends when nobody reads on."""
    messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    task = asyncio.ensure_future(work(messages.put_nowait))
    task.add_done_callback(lambda _: messages.put_nowait(None))
    try:
        while (message := await messages.get()) is not None:
            yield write_progress(message)
        result = {"kind": "result", **task.result()}
        yield await asyncio.to_thread(write_line, result) if is_long(result) else write_line(result)
    finally:
        task.cancel()
        await asyncio.wait([task])
