"""The route that decides: pieces of the samples are written as they are decided, so that the event loop stays free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response

from .._support.array_types import Array
from ..classifiers.base import Decisions
from ..operations.sample_decisions import measure_gaps
from .answers import (
    CSV,
    JSON,
    LINES,
    ApiError,
    DecisionFormat,
    LineStream,
    choose_type,
    encode_json,
    write_csv,
    write_line,
    write_off_loop,
    write_progress,
)
from .api_document import describe_answer, describe_body
from .batching import MOST_ROWS, concatenate_decisions, slice_decisions
from .model_store import ServedModel
from .request_parameters import ParsedRequest
from .request_samples import RequestSamples
from .schemas import DecideAnswer, DecideParameters
from .service import Service, get_service

decide_router = APIRouter()


@decide_router.post(
    "/v1/models/{model}/decide", summary="Decide on samples: a class of the model, or unknown",
    responses=describe_answer(DecideAnswer, more=(CSV, LINES), of_work=True),
    openapi_extra=describe_body(DecideParameters),
)  # fmt: skip
async def decide(request: Request, model: str) -> Response:
    service = get_service(request)
    found = service.find_model(model)
    media_type = choose_type(request.headers.get("accept"), (JSON, CSV, LINES))
    with service.get_batcher(model).announce() as arrived:
        parsed = await service.parse(request, DecideParameters)
        parameters = _check_coverage(parsed, found, media_type)
        if parsed.files:
            arrived()  # nobody waits for a file to be read
        if media_type == LINES:
            arrived()
            return LineStream(_stream_decisions(service, found, parsed, parameters))
        samples = await service.read(parsed, found)
        arrived()
        answer = _answer_csv if media_type == CSV else _answer_json
        return await answer(service, found, samples, parameters)


def _check_coverage(parsed: ParsedRequest[Any], model: ServedModel, media_type: str) -> DecideParameters:
    """Return the parameters without a coverage that nobody asked for where the model has no prediction sets."""
    parameters: DecideParameters = parsed.parameters
    if parameters.coverage is None:
        return parameters
    asked = "coverage" in parameters.model_fields_set
    barred = media_type == CSV and any("|" in name for name in model.classes)
    if model.coverage_guarantee is not None and not barred:
        return parameters
    if asked and barred:
        raise ApiError(
            422, "coverage: a class has a bar in its name, which stands between the classes of a set in CSV."
        )
    if asked:
        raise ApiError(409, f"coverage: {model.name} has no prediction sets; leave it out.")
    return parameters.model_copy(update={"coverage": None})


# -- deciding ------------------------------------------------------------------------------------------------


async def _decide_pieces(
    service: Service, model: ServedModel, samples: RequestSamples, parameters: DecideParameters
) -> AsyncIterator[tuple[slice, Decisions]]:
    """Yield decisions piece by piece, in order; others get their turn in between."""
    pieces = service.get_batcher(model.name).decide(
        model, samples.X, samples.numbers, coverage=parameters.coverage,
        record=parameters.record and parameters.fdr is None, source=samples.source,
    )  # fmt: skip
    if parameters.fdr is not None:
        pieces = _decide_together(service, model, pieces, parameters.fdr, record=parameters.record)
    async for part, decisions in pieces:
        if part.start:
            await asyncio.sleep(0)
        service.metrics.count_samples(model.name, decisions)
        yield part, decisions


async def _decide_together(
    service: Service,
    model: ServedModel,
    pieces: AsyncIterator[tuple[slice, Decisions]],
    fdr: float,
    *,
    record: bool,
) -> AsyncIterator[tuple[slice, Decisions]]:
    """Decide with a false discovery rate, once the scores of all samples are there."""
    scored = concatenate_decisions([decisions async for _, decisions in pieces])
    decisions = await asyncio.to_thread(model.clf._reject_together, scored, fdr)
    if record:
        service.record(model, decisions)
    for first in range(0, len(decisions), MOST_ROWS):
        part = slice(first, min(first + MOST_ROWS, len(decisions)))
        yield part, slice_decisions(decisions, part)


# -- writing -------------------------------------------------------------------------------------------------


class _RowWriter:
    """Writes decisions on pieces of the samples as JSON objects."""

    def __init__(self, model: ServedModel, samples: RequestSamples) -> None:
        self._form, self._samples = DecisionFormat.of(model), samples
        self._imputed = _measure_imputed(model, samples)

    def write(self, part: slice, decisions: Decisions) -> str:
        """Return the objects with commas between them."""
        samples, imputed = self._samples, self._imputed
        rows = self._form.write(
            samples.numbers[part], decisions, None if imputed is None else imputed[part],
            None if samples.files is None else samples.files[part],
        )  # fmt: skip
        return ",".join(rows)


def _measure_imputed(model: ServedModel, samples: RequestSamples) -> Array | None:
    """Return the share of values of each sample that were missing, if the model fills them in."""
    return measure_gaps(samples.X) if model.imputes else None


async def _answer_json(
    service: Service, model: ServedModel, samples: RequestSamples, parameters: DecideParameters
) -> Response:
    notes, guarantee = _describe_fdr(model, parameters.fdr), None
    writer, rows = _RowWriter(model, samples), []
    async for part, decisions in _decide_pieces(service, model, samples, parameters):
        guarantee = _get_guarantee(decisions)
        rows.append(writer.write(part, decisions).encode("utf-8", "backslashreplace"))
    start = encode_json(_describe_decide(model, samples, parameters, notes, guarantee))
    return Response(b"".join((start[:-1], b',"decisions":[', b",".join(rows), b"]}")), media_type=JSON)


async def _answer_csv(
    service: Service, model: ServedModel, samples: RequestSamples, parameters: DecideParameters
) -> Response:
    _describe_fdr(model, parameters.fdr)
    pieces = [decisions async for _, decisions in _decide_pieces(service, model, samples, parameters)]
    arguments = samples.numbers, concatenate_decisions(pieces), samples.kept, _measure_imputed(model, samples)
    return Response(await write_off_loop(len(samples.X), write_csv, *arguments), media_type=CSV)


async def _stream_decisions(
    service: Service, model: ServedModel, parsed: ParsedRequest[Any], parameters: DecideParameters
) -> AsyncIterator[bytes]:
    """Yield lines: progress while samples are read, then decisions batch by batch."""
    yield write_progress({"stage": "Reading"})
    samples = await service.read(parsed, model)
    notes = _describe_fdr(model, parameters.fdr)
    n, rejected, writer = len(samples.X), 0, _RowWriter(model, samples)
    async for part, decisions in _decide_pieces(service, model, samples, parameters):
        if not part.start:
            started = _describe_decide(model, samples, parameters, notes, _get_guarantee(decisions))
            yield write_line({"kind": "start", **started})
        rejected += int(decisions.rejected.sum())
        text = '{"kind":"decisions","decisions":[' + writer.write(part, decisions) + "]}\n"
        progress = write_progress({"stage": "Deciding", "done": part.stop, "of": n})
        yield text.encode("utf-8", "backslashreplace") + progress
    yield write_line({"kind": "end", "rows": n, "rejected": rejected})


def _describe_decide(
    model: ServedModel,
    samples: RequestSamples,
    parameters: DecideParameters,
    notes: list[str],
    guarantee: str | None,
) -> dict[str, Any]:
    """Return everything of an answer but the decisions."""
    return {
        "model": model.name,
        "version": model.version,
        "threshold": model.summary["threshold"],
        "coverage": parameters.coverage,
        "guarantee": guarantee,
        "rows": len(samples.X),
        "dropped": samples.dropped,
        "notes": [*samples.notes, *notes],
    }


def _get_guarantee(decisions: Decisions) -> str | None:
    """Return for which samples the coverage of prediction sets holds."""
    sets = decisions.prediction_set
    return None if sets is None else sets.guarantee


def _describe_fdr(model: ServedModel, fdr: float | None) -> list[str]:
    """Return what a false discovery rate rests on, as ``srosr predict --fdr`` says it."""
    if fdr is None:
        return []
    try:
        split, lack = model.clf._get_calibration(), model.clf._find_lack(fdr)
    except ValueError as error:
        raise ApiError(409, f"fdr: {error}") from None
    exact = split.exact and split.groups is None
    note = (
        f"False discovery rate {fdr:g}: {'guaranteed' if exact else 'approximate'}, "
        f"from {len(split):,} {split.source}; the smallest p-value is {1 / (1 + split.compute_weights().sum()):.2g}."
    )
    return [note] if lack is None else [note, lack]
