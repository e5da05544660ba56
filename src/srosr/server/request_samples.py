"""The samples of a request become rows: here if they are little JSON, else in a child process."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from .._support.array_types import AnyArray, Array, IntArray
from ..operations.input_errors import InputError, convert_errors
from .answers import ApiError, OnProgress
from .json_samples import NAME, SampleForm, check_count, convert_samples
from .model_store import ServedModel
from .multipart_form import FormPart
from .process_pool import ProcessPool
from .request_parameters import ParsedRequest, answer_refusals, get_taken, view_bytes
from .schemas import SampleParameters
from .settings import Limits
from .upload_header import PICTURES, describe_reading, get_recipe_arrays

#: JSON of so many bytes is converted in the event loop, which takes less time than to ask a thread.
_TINY_BODY = 32 * 1024
#: Folders that are being removed.
_removing: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, eq=False)
class RequestSamples:
    """Samples of a request as they were sent, not yet imputed and scaled."""

    X: Array
    #: Numbers of the rows, from 0; rows that were left out leave gaps.
    numbers: IntArray
    #: What they are called in messages.
    source: str
    labels: list[str] | None = None
    groups: list[str | None] | None = None
    #: Names and small copies of pictures.
    files: list[str] | None = None
    thumbnails: AnyArray | None = None
    notes: tuple[str, ...] = ()
    dropped: int = 0
    #: Rows that were read, those left out included.
    seen: int = 0
    #: The column that the labels come from, and the names of the others.
    label: str | None = None
    feature_names: list[str] | None = None

    def take_rows(self, rows: Iterable[int]) -> RequestSamples:
        """Return the samples with these numbers."""
        place = {number: i for i, number in enumerate(self.numbers.tolist())}
        wanted = list(dict.fromkeys(rows))
        if not wanted:
            raise ApiError(422, "rows is empty: give the numbers of the rows, counted from 0.")
        absent = [row for row in wanted if row not in place]
        if absent:
            raise ApiError(422, f"{self.source} has no row {absent[0]}: rows are counted from 0.")
        chosen = [place[row] for row in wanted]
        return replace(
            self,
            X=self.X[chosen],
            numbers=self.numbers[chosen],
            labels=None if self.labels is None else [self.labels[i] for i in chosen],
            groups=None if self.groups is None else [self.groups[i] for i in chosen],
            files=None if self.files is None else [self.files[i] for i in chosen],
            thumbnails=None if self.thumbnails is None else self.thumbnails[chosen],
        )

    @property
    def kept(self) -> dict[str, list[str]]:
        """Columns carried along to a table of decisions."""
        return {} if self.files is None else {"file": self.files}

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.X.nbytes + (0 if self.thumbnails is None else self.thumbnails.nbytes)


async def read_samples(
    parsed: ParsedRequest[Any],
    model: ServedModel,
    limits: Limits,
    readers: ProcessPool,
    folder: Path,
    *,
    on_progress: OnProgress | None = None,
    one_row: bool = False,
) -> RequestSamples:
    """Return the samples of a request, and forget in ``parsed`` what they came in.

    With ``one_row`` only one of them matters, so that missing values in others are no error.
    """
    parameters: SampleParameters = parsed.parameters
    # Of a request about one row only that row comes from the child.
    row: int | None = getattr(parameters, "row", None) if one_row and parameters.rows is None else None
    with answer_refusals():
        if parsed.files:
            samples = await _read_files(parsed, model, limits, readers, folder, on_progress, one_row, row)
        else:
            samples = await _read_json(parsed, model, limits, readers, on_progress, one_row, row)
    parsed.forget_samples(samples.nbytes)
    if samples.labels is None and parameters.labels == "required":
        raise ApiError(422, f"{samples.source} has no labels: give one for each sample.")
    return samples if parameters.rows is None else samples.take_rows(parameters.rows)


# -- JSON ----------------------------------------------------------------------------------------------------


async def _read_json(
    parsed: ParsedRequest[Any],
    model: ServedModel,
    limits: Limits,
    readers: ProcessPool,
    on_progress: OnProgress | None,
    one_row: bool,
    row: int | None,
) -> RequestSamples:
    if model.takes == "pictures":
        raise ApiError(422, "The model was fitted to pictures: send pictures, not numbers.")
    parameters: SampleParameters = parsed.parameters
    form = SampleForm.of(
        model.clf, ignore=parameters.ignore, by_name=parameters.by_name,
        drop_missing=not model.imputes if one_row else parameters.drop_missing, imputes=model.imputes,
        most_rows=limits.rows, most_columns=limits.columns,
    )  # fmt: skip
    if parsed.body is not None:
        header = {"form": asdict(form), "row": row, **get_taken(type(parameters))}
        body = {"body": view_bytes(parsed.body)}
        found, arrays = await readers.run("read_json", header, body, on_progress=on_progress, expect=parsed.expect)
        X, numbers = arrays["X"], arrays["numbers"]
        labels, groups, notes, dropped = (found[name] for name in ("labels", "groups", "notes", "dropped"))
        seen = found["seen"]
    else:
        assert parsed.parts is not None
        with convert_errors():
            if parsed.size <= _TINY_BODY:
                rows = convert_samples(parsed.parts, form)
            else:
                rows = await asyncio.to_thread(convert_samples, parsed.parts, form)
        X, numbers, labels, groups, notes, dropped = rows
        seen = len(X) + dropped
    return RequestSamples(X, numbers, NAME, labels, groups, notes=tuple(notes), dropped=dropped, seen=seen)


# -- files ---------------------------------------------------------------------------------------------------


async def _read_files(
    parsed: ParsedRequest[Any],
    model: ServedModel,
    limits: Limits,
    readers: ProcessPool,
    folder: Path,
    on_progress: OnProgress | None,
    one_row: bool,
    row: int | None,
) -> RequestSamples:
    parameters: SampleParameters = parsed.parameters
    assert parsed.format is not None
    pictures = parsed.format == PICTURES
    given = parameters.model_dump(include={"label", "ignore", "header", "array", "by_name", "drop_missing", "group"})
    options = {name: value for name, value in given.items() if value not in (None, [])}
    if pictures:
        _check_picture_options(parameters)
        options = {"skip_broken": parameters.skip_broken}
    elif parameters.skip_broken:
        raise InputError("skip_broken is for pictures, and the request holds a table; drop_missing is for tables.")
    labels = "no" if pictures else "optional" if parsed.labels is not None else parameters.own_labels
    groups: Literal["required", "optional", "no"] = "no"
    if parameters.takes_groups and not pictures and parsed.groups is None:
        groups = "required" if parameters.labels == "required" else "optional"
    names = [part.file_name or "the body" for part in parsed.files]
    header = describe_reading(
        model.clf, files=[], names=names, format=parsed.format, options=options, labels=labels, groups=groups,
        limits={"rows": limits.rows, "columns": limits.columns, "pixels": limits.pixels, "files": limits.files},
        one_row=one_row,
    )  # fmt: skip
    async with _write_files(parsed.files, folder) as paths:
        header |= {"files": paths, "row": row}
        words = get_recipe_arrays(model.clf)
        found, arrays = await readers.run("read", header, words, on_progress=on_progress, expect=parsed.expect)
    source = header["names"][0] if len(names) == 1 else f"{len(names):,} files"
    numbers = arrays["numbers"]
    own_labels, own_groups = found["labels"], found["groups"]
    if parsed.labels is not None:
        own_labels = _pick_labels(parsed.labels, numbers, found["seen"])
    if parsed.groups is not None:
        check_count(parsed.groups, "groups", found["seen"])
        own_groups = [parsed.groups[i] for i in numbers.tolist()]
    return RequestSamples(
        X=arrays["X"],
        numbers=numbers,
        source=source,
        labels=own_labels,
        groups=own_groups,
        files=found["kept"].get("file"),
        thumbnails=arrays.get("thumbnails"),
        notes=tuple(found["notes"]),
        dropped=found["dropped"],
        seen=found["seen"],
        label=found["label"],
        feature_names=found["feature_names"],
    )


def _pick_labels(texts: list[str | None], numbers: IntArray, n_rows: int) -> list[str]:
    """Return labels that came beside the files, of the rows that were read."""
    check_count(texts, "labels", n_rows)
    chosen = [texts[i] for i in numbers.tolist()]
    found = [text for text in chosen if text is not None]
    if len(found) < len(chosen):
        row = int(numbers[chosen.index(None)])
        raise ApiError(422, f"{NAME} has no label for row {row}; give it one or leave the sample out.")
    return found


def _check_picture_options(parameters: SampleParameters) -> None:
    """Raise if options for tables are given and the samples are pictures."""
    usual = type(parameters).model_fields
    for name in ("label", "ignore", "header", "array", "by_name", "drop_missing", "group"):
        if name in usual and getattr(parameters, name) != usual[name].default:
            raise InputError(f"{name} is for tables, and the request holds pictures: leave it out.")


@asynccontextmanager
async def _write_files(files: tuple[FormPart, ...], folder: Path) -> AsyncIterator[list[str]]:
    """Give the paths of files, written under private names into a folder that is removed afterwards."""
    place = folder / f"upload-{secrets.token_hex(8)}"
    writing = asyncio.ensure_future(asyncio.to_thread(_write_folder, files, place))
    try:
        try:
            await asyncio.shield(writing)
        except OSError as error:
            reason = error.strerror or "its disk refuses it"
            raise ApiError(503, f"The server cannot store the upload: {reason}.", {"Retry-After": "1"}) from None
        yield [str(place / str(i)) for i in range(len(files))]
    finally:
        # A client that leaves may do so while the files are written: they are removed after that.
        removing = asyncio.ensure_future(_remove_folder(place, writing))
        _removing.add(removing)
        removing.add_done_callback(_removing.discard)
        await asyncio.shield(removing)


def _write_folder(files: Iterable[FormPart], place: Path) -> None:
    place.mkdir(0o700)
    for number, part in enumerate(files):
        handle = os.open(place / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(part.content)


async def _remove_folder(place: Path, writing: asyncio.Future[None]) -> None:
    await asyncio.wait([writing])
    if not writing.cancelled():
        writing.exception()  # seen: the request has it
    await asyncio.to_thread(shutil.rmtree, place, True)
