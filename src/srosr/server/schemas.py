"""Parameters of requests, checked; errors; and what the OpenAPI document says of requests and answers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
from pydantic_core import from_json

from .._support.messages import did_you_mean, join_names
from ..operations.input_errors import InputError, escape_unprintable

JSON, CSV = "application/json", "text/csv"
#: What a body with samples may be beside JSON, pictures and forms, and the format that it stands for.
FILE_TYPES = {
    CSV: "csv",
    "text/tab-separated-values": "csv",
    "application/x-npy": "npy",
    "application/x-npz": "npz",
    "application/octet-stream": "csv",
    "application/vnd.apache.parquet": "parquet",
}
_LARGEST_SEED, _MOST_ROWS = 2**32 - 1, 2**53
#: Characters of a name that are shown, and up to which a guess is made at what was meant.
_LONGEST_NAME = 80
_LONGEST_MESSAGE = 2000
#: Whether labels come with samples.
Labels = Literal["no", "optional", "required"]


class ApiError(Exception):
    """A request that is answered by a status and one sentence."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        sentence = escape_unprintable(message[:_LONGEST_MESSAGE])
        if status == 422:  # options of commands are parameters here
            sentence = re.sub(r"--[a-z][a-z-]+", lambda found: found[0][2:].replace("-", "_"), sentence)
        if sentence.startswith("the "):  # what has no file name of its own begins many sentences
            sentence = "The " + sentence[4:]
        self.status, self.message, self.headers = status, sentence, headers
        super().__init__(self.message)


# -- parameters ----------------------------------------------------------------------------------------------


def _read_list(value: Any) -> Any:
    """Return a list that a query string or a field has as JSON, or as one text."""
    if not isinstance(value, str):
        return value
    with suppress(ValueError):
        return from_json(value) if value.startswith("[") else [value]
    return value


def _read_null(value: Any) -> Any:
    """Return None for what stands for it in a query string; no coverage is no prediction set."""
    with suppress(TypeError, ValueError):
        return None if value in ("null", "none", "") or float(value) == 0 else value
    return value


#: A share that is not so close to 0 or 1 that a computation with it loses all digits.
Share = Annotated[float, Field(ge=1e-9, le=1 - 1e-9)]
Texts = Annotated[list[str], Field(max_length=10_000, fail_fast=True), BeforeValidator(_read_list)]
Row = Annotated[int, Field(ge=0, lt=_MOST_ROWS)]
RowNumbers = Annotated[list[Row], Field(max_length=100_000, fail_fast=True), BeforeValidator(_read_list)]
Seed = Annotated[int, Field(ge=0, le=_LARGEST_SEED)]
#: Parameters that are lists: a query string may repeat them.
LISTS = frozenset({"ignore", "unknown", "rows"})


class Parameters(BaseModel):
    """Parameters of a request; a name that is not among them is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SampleParameters(Parameters):
    """How samples are read, as the options of the commands say it."""

    #: Whether labels, and groups, come with the samples.
    labels: ClassVar[Labels] = "no"
    groups: ClassVar[bool] = False
    #: Whether only one of the samples matters, so that missing values in others are no error.
    one_row: ClassVar[bool] = False

    label: str | None = Field(None, description="The column, or array, with the classes.")
    ignore: Texts = Field([], description="Columns to leave out.")
    header: bool = Field(True, description="Whether the first line of a CSV names the columns.")
    array: str | None = Field(None, description="The array with the samples in an NPZ file.")
    by_name: bool = Field(False, description="Find the features of the model by name; ignore other columns.")
    drop_missing: bool = Field(False, description="Leave out rows with missing values.")
    skip_broken: bool = Field(False, description="Leave out pictures that cannot be read.")
    rows: RowNumbers | None = Field(None, description="Use only these rows, counted from 0.")

    @property
    def own_labels(self) -> Labels:
        """Whether a file may or must have a column of labels."""
        return self.labels

    @classmethod
    def list_beside(cls) -> list[str]:
        """Return the names of lists that can come beside samples, with a value for each."""
        return [name for name, is_taken in (("labels", cls.labels != "no"), ("groups", cls.groups)) if is_taken]


class DecideParameters(SampleParameters):
    coverage: Annotated[Share | None, BeforeValidator(_read_null)] = Field(
        0.95, description="Share of known samples whose class is in the prediction set; null for no sets."
    )
    fdr: Share | None = Field(None, description="Decide on all rows together with this false discovery rate.")
    record: bool = Field(True, description="Whether the monitor of the model counts these samples.")


class ExplainParameters(SampleParameters):
    one_row: ClassVar[bool] = True

    row: Row = Field(0, description="The row to explain, counted from 0.")
    figure: bool = Field(True, description="Whether to draw the figure.")


class EvaluateParameters(SampleParameters):
    labels: ClassVar[Labels] = "required"

    unknown: Texts = Field([], description="Labels of unknown samples; then any other that is no class is an error.")
    seed: Seed = Field(0, description="Seed of the bootstrap intervals.")


class DiscoverParameters(SampleParameters):
    min_size: int | None = Field(None, ge=2, lt=2**31, description="Smallest number of samples in a group.")
    seed: Seed = Field(0, description="Seed of the random choices.")
    all: bool = Field(False, description="Group all rows, not only those that are rejected.")


class ThresholdParameters(Parameters):
    target_rejection: Share | None = Field(None, description="Reject about this share of known samples.")
    threshold: Annotated[float, Strict()] | str | None = Field(
        None, description="A value of the unknown score, or risk, f, youden or original."
    )
    per_class: bool = Field(False, description="A threshold for each class; with target_rejection.")
    risk_weight: float | None = Field(None, gt=0, description='The weight of errors on known samples; with "risk".')


class AddClassParameters(SampleParameters):
    labels: ClassVar[Labels] = "optional"
    groups: ClassVar[bool] = True

    name: str = Field(min_length=1, max_length=200, description="The new class.")
    recalibrate: bool = Field(False, description="Cross-test all samples again, which takes longer.")
    group: str | None = Field(None, description="The column of the groups.")

    @property
    def own_labels(self) -> Labels:
        """Rows that were chosen belong to the class, whatever they are labeled."""
        return "optional" if self.rows is None else "no"


class RemoveClassParameters(Parameters):
    label: str = Field(min_length=1, max_length=200, description="The class to remove.")
    recalibrate: bool = Field(False, description="Cross-test all samples again, which takes longer.")


class UpdateParameters(SampleParameters):
    labels: ClassVar[Labels] = "required"
    groups: ClassVar[bool] = True

    keep: int | None = Field(None, ge=1, lt=2**31, description="Keep only the newest samples of each class sent.")
    group: str | None = Field(None, description="The column of the groups.")


class RecalibrateParameters(SampleParameters):
    labels: ClassVar[Labels] = "optional"
    groups: ClassVar[bool] = True

    group: str | None = Field(None, description="The column of the groups.")


class RestoreParameters(Parameters):
    version: str = Field(pattern="^[0-9a-f]{16}$", description="A kept version, from the history.")


class DemoParameters(Parameters):
    """Parameters of the samples of the demonstration."""

    digit: int | None = Field(None, ge=0, le=9)
    n: int = Field(60, ge=1, le=2000)
    seed: Seed = 0


P = TypeVar("P", bound=Parameters)


def check_parameters(kind: type[P], given: dict[str, Any]) -> P:
    """Return parameters that are valid, or raise with a sentence about the first that is not."""
    known = kind.model_fields
    for name in given:  # before they are looked at: there may be very many, and very long ones
        if name not in known:
            guess = did_you_mean(name, known) if len(name) <= _LONGEST_NAME else ""
            shown = f"{name[:_LONGEST_NAME]!r}{guess}"
            raise InputError(f"There is no parameter {shown}; there are {join_names(list(known))}.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(found["loc"][0]) if found["loc"] else "the request"
    if found["type"] == "missing":
        raise InputError(f"The parameter {name} is missing.")
    reason = str(found["msg"])
    raise InputError(f"{name}: {reason[:1].lower()}{reason[1:200].rstrip('.')}.")


# -- the OpenAPI document ------------------------------------------------------------------------------------


class ErrorAnswer(BaseModel):
    """What was wrong."""

    error: str = Field(examples=["samples.csv has no value in line 7, column 'width'; correct it."])


class Answer(BaseModel):
    """A JSON object, described in the guide."""

    model_config = ConfigDict(extra="allow")


class ResultAnswer(Answer):
    """The result of work with a version of a model."""

    model: str = Field(examples=["digits"])
    version: str = Field(examples=["9f86d081884c7d65"])


class DecisionAnswer(BaseModel):
    """The decision on one sample."""

    row: int = Field(examples=[0])
    label: str = Field(examples=["3"])
    unknown_score: float | None = Field(examples=[0.42])
    candidate: str = Field(examples=["3"])
    verdict: Literal["recognized", "rejected"]
    prediction_set: list[str] | None = None
    p_value: float | None = None
    imputed: float | None = None
    file: str | None = None


class DecideAnswer(ResultAnswer):
    """Decisions on all samples of a request."""

    threshold: float | None = Field(examples=[0.9962])
    coverage: float | None
    guarantee: str | None
    rows: int = Field(examples=[1])
    dropped: int
    notes: list[str]
    decisions: list[DecisionAnswer]


_NUMBER = {"type": ["number", "null"]}
_ROW = {"anyOf": [{"type": "array", "items": _NUMBER}, {"type": "object", "additionalProperties": _NUMBER}]}
_SAMPLES = {
    "anyOf": [{"type": "array", "items": _ROW, "minItems": 1}, {"type": "array", "items": _NUMBER, "minItems": 1}]
}
_TEXTS = {"type": "array", "items": {"type": ["string", "number"]}}
_EXAMPLES: dict[str, dict[str, Any]] = {
    "lists of numbers": {"samples": [[5.1, 3.5, 1.4], [6.2, 2.9, 4.3]]},
    "named columns": {"samples": [{"width": 5.1, "height": 3.5}, {"width": 6.2, "height": None}]},
    "one sample": {"samples": [5.1, 3.5, 1.4]},
}
_CSV_EXAMPLE = "width,height\n5.1,3.5\n6.2,2.9\n"


def describe_answers(shape: type[BaseModel] | str, more: tuple[str, ...]) -> dict[int | str, Any]:
    """Return the answers of a route: its own, of a shape or media type and in further media types, and errors."""
    texts = (shape,) if isinstance(shape, str) else more
    own: dict[str, Any] = {"description": "Done", "content": {name: {"schema": {"type": "string"}} for name in texts}}
    if not isinstance(shape, str):
        own["model"] = shape
    wrong = {"model": ErrorAnswer, "description": "What was wrong, in one sentence"}
    return {200: own, "4XX": wrong, "5XX": wrong}


def describe_request(method: str, path: str, kind: type[Parameters] | None, example: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters and the body of a route: samples in all media types, or a JSON object of parameters."""
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)", path)
    ]
    if kind is None:
        return {"parameters": in_path}
    schema = kind.model_json_schema()
    properties, required = schema["properties"], schema.get("required", [])
    parameters = [
        {
            "name": name, "in": "query", "required": method == "GET" and name in required, "schema": part,
            "description": part.get("description", ""),
        }
        for name, part in properties.items()
    ]  # fmt: skip
    if method == "GET":
        return {"parameters": [*in_path, *parameters]}
    content: dict[str, Any] = {JSON: {"schema": schema, "example": example}}
    if issubclass(kind, SampleParameters):
        content = _describe_samples(kind, properties, required, example)
    else:
        parameters = []
    return {"parameters": [*in_path, *parameters], "requestBody": {"required": True, "content": content}}


def _describe_samples(
    kind: type[SampleParameters], properties: dict[str, Any], required: list[str], example: dict[str, Any]
) -> dict[str, Any]:
    """Return a body with samples in all media types."""
    beside = kind.list_beside()
    needed = ["labels"] if kind.labels == "required" else []
    more = {**example, **{name: ["a", "b"] for name in needed}}
    in_json = {"samples": _SAMPLES, **dict.fromkeys(beside, _TEXTS), **properties}
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    in_form = {"files": files, **{name: {"type": "string"} for name in beside}, **properties}
    content: dict[str, Any] = {
        JSON: {
            "schema": {
                "type": "object", "properties": in_json, "required": ["samples", *needed, *required],
                "additionalProperties": False,
            },
            "examples": {name: {"value": {**value, **more}} for name, value in _EXAMPLES.items()},
        },
        "multipart/form-data": {
            "schema": {"type": "object", "properties": in_form, "required": ["files", *required]}
        },
    }  # fmt: skip
    for media_type in (*FILE_TYPES, "image/*"):
        binary = {} if media_type.startswith("text/") else {"format": "binary"}
        content[media_type] = {"schema": {"type": "string", **binary}}
    content[CSV]["example"] = _CSV_EXAMPLE
    return content
