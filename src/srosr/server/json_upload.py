"""Large JSON is parsed in a child process: a parser takes much memory, and lets no other thread run meanwhile."""

from __future__ import annotations

import json
from typing import Any

from .jobs import TOO_LARGE, Answer, ChildJob, Refusal, keep_row
from .json_samples import JsonParts, SampleForm, convert_samples, convert_texts, parse_json, parse_object, split_object

#: Bytes of the parameters of a request at most, as JSON.
MOST_PARAMETERS = 2**20


def parse_parameters(job: ChildJob) -> dict[str, Any]:
    """Return the parameters in the array ``body``; the header says whether labels and groups belong to the samples."""
    parameters = _split(job).parameters
    try:
        size = len(json.dumps(parameters, allow_nan=False))
    except ValueError:
        raise Refusal("A parameter has a number that is not finite.") from None
    if size > MOST_PARAMETERS:
        raise Refusal(f"The parameters have more than {MOST_PARAMETERS:,} bytes.", TOO_LARGE)
    return {"parameters": parameters}


def read_json(job: ChildJob) -> Answer:
    """Return the samples in the array ``body``, which must have the ``form`` of the header, or of them one ``row``."""
    job.report("Reading")
    rows = convert_samples(_split(job), SampleForm(**job.header["form"]))
    found = {
        "labels": rows.labels, "groups": rows.groups, "notes": rows.notes, "dropped": rows.dropped,
        "seen": len(rows.X) + rows.dropped,
    }  # fmt: skip
    return keep_row(Answer(found, {"X": rows.X, "numbers": rows.numbers}), job.header.get("row"))


def parse_texts(job: ChildJob) -> dict[str, Any]:
    """Return the list of labels or groups in the array ``body`` as texts; ``what`` is what they are called."""
    what = job.header["what"]
    return {"texts": convert_texts(parse_json(_take_body(job), what), what)}


def _split(job: ChildJob) -> JsonParts:
    value = parse_object(_take_body(job))
    return split_object(value, labels=job.header["labels"], groups=job.header["groups"])


def _take_body(job: ChildJob) -> bytes:
    return job.arrays["body"].tobytes()


#: What a reader can do with JSON.
JOBS = {"parse_parameters": parse_parameters, "read_json": read_json, "parse_texts": parse_texts}
