"""What goes back to a client: JSON, an error in one sentence, and decisions row by row."""

from __future__ import annotations

import logging
from io import BytesIO
from typing import Any

from fastapi import Response
from pydantic_core import to_json

from .._support.unknown_label import format_label
from ..classifiers.base import Decisions
from ..exceptions import DeviceError
from ..operations.input_errors import InputError
from ..operations.sample_decisions import list_sets, measure_gaps
from .samples import Samples
from .schemas import JSON, ApiError
from .store import ServedModel

#: Decisions that are written at a time: to write holds the interpreter, and others wait meanwhile.
_PIECE = 500
logger = logging.getLogger("srosr.server")


def describe_error(error: Exception) -> ApiError:
    """Return the status and the sentence for an error; one that was not foreseen goes to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InputError):
        return ApiError(422, error.message)
    if isinstance(error, DeviceError):
        return ApiError(503, "The device that codes samples failed: try again.")
    logger.error("a request failed", exc_info=error)
    return ApiError(500, "The server failed at this request; its log says why.")


def answer_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as an answer; numbers that are not finite become null."""
    return Response(to_json(value, inf_nan_mode="null"), status, headers, JSON)


def answer_error(error: Exception) -> Response:
    """Return an error as an answer."""
    said = describe_error(error)
    return answer_json({"error": said.message}, said.status, said.headers)


# -- decisions -----------------------------------------------------------------------------------------------


def write_decisions(head: dict[str, Any], model: ServedModel, samples: Samples, decisions: Decisions) -> bytes:
    """Return a JSON object with the parts of ``head`` and a list of decisions."""
    rows = describe_rows(model, samples, decisions)
    pieces = [to_json(rows[i : i + _PIECE], inf_nan_mode="null")[1:-1] for i in range(0, len(rows), _PIECE)]
    return b'%s,"decisions":[%s]}' % (to_json(head, inf_nan_mode="null")[:-1], b",".join(pieces))


def describe_rows(model: ServedModel, samples: Samples, decisions: Decisions) -> list[dict[str, Any]]:
    """Return the decision on each sample."""
    texts = {label: format_label(label) for label in (*model.clf.classes_.tolist(), model.clf.unknown_label_)}
    columns: dict[str, list[Any]] = {
        "row": samples.numbers.tolist(),
        "label": [texts[label] for label in decisions.label.tolist()],
        "unknown_score": decisions.unknown_score.tolist(),
        "candidate": [texts[label] for label in decisions.candidate.tolist()],
        "verdict": ["rejected" if rejected else "recognized" for rejected in decisions.rejected.tolist()],
    }
    if decisions.prediction_set is not None:
        columns["prediction_set"] = _describe_sets(model, decisions.prediction_set, texts)
    if decisions.p_value is not None:
        columns["p_value"] = decisions.p_value.tolist()
    if model.imputes:
        columns["imputed"] = measure_gaps(samples.X).tolist()
    if samples.files is not None:
        columns["file"] = samples.files
    names = tuple(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _describe_sets(model: ServedModel, sets: Any, texts: dict[Any, str]) -> list[list[str]]:
    """Return the classes of each set; only sets of several classes have to be put in order one by one."""
    single = [[texts[label]] for label in model.clf.classes_.tolist()]
    sizes, first = sets.sizes.tolist(), sets.contains.argmax(axis=1).tolist()
    return [
        [texts[label] for label in sets[i].tolist()] if size > 1 else single[place] if size else []
        for i, (size, place) in enumerate(zip(sizes, first, strict=True))
    ]


def write_csv(model: ServedModel, samples: Samples, decisions: Decisions) -> bytes:
    """Return decisions as ``srosr predict`` writes them."""
    from ..tables.decision_files import DecisionWriter

    content = BytesIO()
    kept = {} if samples.files is None else {"file": samples.files}
    more: dict[str, Any] = {
        "p_value": decisions.p_value,
        "imputed": measure_gaps(samples.X) if model.imputes else None,
        "prediction_set": None if decisions.prediction_set is None else list_sets(decisions.prediction_set),
    }
    asked = [name for name, value in more.items() if value is not None]
    writer = DecisionWriter(content, "csv", list(kept), more=asked)
    writer.write(samples.numbers, decisions, kept, more)
    writer.close()
    return content.getvalue()
