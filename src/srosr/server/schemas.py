"""Parameters of requests, checked, and the shapes of answers, for the OpenAPI document."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .._support.messages import did_you_mean, join_names
from ..operations.input_errors import escape_unprintable
from .answers import ApiError

_LARGEST_SEED, _MOST_ROWS = 2**32 - 1, 2**53
#: Characters of a name that are shown, and up to which a guess is made at what was meant.
_LONGEST_NAME = 80


def _read_list(value: Any) -> Any:
    """Return a list that a query string or a field has as JSON, or as one text."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return [value]


def _check_list(value: Any, kinds: frozenset[type], most: int, what: str) -> Any:
    """Return a list of at most so many values of these kinds; looked at as a whole, with one error for all of it."""
    value = _read_list(value)
    if isinstance(value, list):
        if len(value) > most:
            raise ValueError(f"there are more than {most:,}")
        if not kinds.issuperset(map(type, value)):
            raise ValueError(f"it must be a list of {what}")
    return value


def _read_texts(value: Any) -> Any:
    return _check_list(value, frozenset({str}), 10_000, "texts")


def _read_rows(value: Any) -> Any:
    """Return numbers of rows, which a query string has as texts."""
    value = _check_list(value, frozenset({int, str}), 100_000, "whole numbers")
    if not isinstance(value, list):
        return value
    try:
        numbers = [number if type(number) is int else _read_whole(number) for number in value]
    except ValueError:
        raise ValueError("it must be a list of whole numbers") from None
    if numbers and not (min(numbers) >= 0 and max(numbers) < _MOST_ROWS):
        raise ValueError("rows are counted from 0")
    return numbers


def _read_whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise ValueError
    return int(text)


def _read_null(value: Any) -> Any:
    """Return None for what stands for it in a query string; no coverage is no prediction set."""
    if isinstance(value, str):
        if value in ("null", "none", ""):
            return None
        with suppress(ValueError):
            return None if float(value) == 0 else value
    return None if value == 0 and not isinstance(value, bool) else value


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    return value


def _read_threshold(value: Any) -> Any:
    """Return a number that a query string or a field has as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it must be a finite number")
    return _refuse_bool(value)


def _check_name(value: str) -> str:
    """Return the name of a class that one can see as it is."""
    if value != value.strip() or escape_unprintable(value) != value:
        raise ValueError("it must not begin or end with a space, nor have control characters")
    return value


#: A share that is not so close to 0 or 1 that a computation with it loses all digits.
Share = Annotated[float, BeforeValidator(_refuse_bool), Field(ge=1e-9, le=1 - 1e-9)]
Texts = Annotated[list[str], BeforeValidator(_read_texts), Field(max_length=10_000)]
Row = Annotated[int, BeforeValidator(_refuse_bool), Field(ge=0, lt=_MOST_ROWS)]
RowNumbers = Annotated[
    list[Annotated[int, Field(ge=0, lt=_MOST_ROWS)]], BeforeValidator(_read_rows), Field(max_length=100_000)
]
Seed = Annotated[int, BeforeValidator(_refuse_bool), Field(ge=0, le=_LARGEST_SEED)]
#: Parameters that are lists: a query string may repeat them.
LISTS = frozenset({"ignore", "unknown", "rows"})


class Parameters(BaseModel):
    """Parameters of a request; a name that is not among them is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    #: Whether a request has samples, and whether labels may or must come with them.
    labels: ClassVar[Literal["no", "optional", "required"]] = "no"
    groups: ClassVar[bool] = False
    takes_samples: ClassVar[bool] = False


class SampleParameters(Parameters):
    """How samples are read, as the options of the commands say it."""

    takes_samples: ClassVar[bool] = True

    label: str | None = Field(None, description="The column, or array, with the classes.")
    ignore: Texts = Field([], description="Columns to leave out.")
    header: bool = Field(True, description="Whether the first line of a CSV names the columns.")
    array: str | None = Field(None, description="The array with the samples in an NPZ file.")
    by_name: bool = Field(False, description="Find the features of the model by name; ignore other columns.")
    drop_missing: bool = Field(False, description="Leave out rows with missing values.")
    skip_broken: bool = Field(False, description="Leave out pictures that cannot be read.")
    rows: RowNumbers | None = Field(None, description="Use only these rows, counted from 0.")

    @property
    def own_labels(self) -> Literal["no", "optional", "required"]:
        """Whether a file may or must have a column of labels."""
        return self.labels

    @property
    def takes_groups(self) -> bool:
        """Whether a file may have a column of groups."""
        return self.groups and self.own_labels != "no"


class DecideParameters(SampleParameters):
    """Parameters of ``decide``."""

    coverage: Annotated[Share | None, BeforeValidator(_read_null)] = Field(
        0.95, description="Share of known samples whose class is in the prediction set; null for no sets."
    )
    fdr: Share | None = Field(None, description="Decide on all rows together with this false discovery rate.")
    record: bool = Field(True, description="Whether the monitor of the model counts these samples.")


class ExplainParameters(SampleParameters):
    """Parameters of ``explain``."""

    row: Row = Field(0, description="The row to explain, counted from 0.")
    figure: bool = Field(True, description="Whether to draw the figure.")


class EvaluateParameters(SampleParameters):
    """Parameters of ``evaluate``."""

    labels: ClassVar[Literal["no", "optional", "required"]] = "required"

    unknown: Texts = Field([], description="Labels of unknown samples; then any other that is no class is an error.")
    seed: Seed = Field(0, description="Seed of the bootstrap intervals.")


class DiscoverParameters(SampleParameters):
    """Parameters of ``discover``."""

    min_size: int | None = Field(None, ge=2, lt=2**31, description="Smallest number of samples in a group.")
    seed: Seed = Field(0, description="Seed of the random choices.")
    all: bool = Field(False, description="Group all rows, not only those that are rejected.")


class ThresholdParameters(Parameters):
    """Parameters of ``set-threshold``."""

    target_rejection: Share | None = Field(None, description="Reject about this share of known samples.")
    threshold: Annotated[float | str | None, BeforeValidator(_read_threshold)] = Field(
        None, description="A value of the unknown score, or risk, f, youden or original."
    )
    per_class: bool = Field(False, description="A threshold for each class; with target_rejection.")
    risk_weight: float | None = Field(None, gt=0, description='The weight of errors on known samples; with "risk".')


class AddClassParameters(SampleParameters):
    """Parameters of ``add-class``."""

    labels: ClassVar[Literal["no", "optional", "required"]] = "optional"
    groups: ClassVar[bool] = True

    name: Annotated[str, AfterValidator(_check_name)] = Field(
        min_length=1, max_length=200, description="The new class."
    )
    recalibrate: bool = Field(False, description="Cross-test all samples again, which takes longer.")
    group: str | None = Field(None, description="The column of the groups.")

    @property
    def own_labels(self) -> Literal["no", "optional", "required"]:
        """Rows that were chosen belong to the class, whatever they are labeled."""
        return "optional" if self.rows is None else "no"

    @property
    def takes_groups(self) -> bool:
        """Groups count also where labels do not."""
        return True


class RemoveClassParameters(Parameters):
    """Parameters of ``remove-class``."""

    label: str = Field(min_length=1, max_length=200, description="The class to remove.")
    recalibrate: bool = Field(False, description="Cross-test all samples again, which takes longer.")


class UpdateParameters(SampleParameters):
    """Parameters of ``update``."""

    labels: ClassVar[Literal["no", "optional", "required"]] = "required"
    groups: ClassVar[bool] = True

    keep: int | None = Field(None, ge=1, lt=2**31, description="Keep only the newest samples of each class sent.")
    group: str | None = Field(None, description="The column of the groups.")


class RecalibrateParameters(SampleParameters):
    """Parameters of ``recalibrate``."""

    labels: ClassVar[Literal["no", "optional", "required"]] = "optional"
    groups: ClassVar[bool] = True

    group: str | None = Field(None, description="The column of the groups.")


class RestoreParameters(Parameters):
    """Parameters of ``restore``."""

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
            raise ApiError(422, f"There is no parameter {shown}; there are {join_names(list(known))}.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(found["loc"][0]) if found["loc"] else "the request"
    if found["type"] == "missing":
        raise ApiError(422, f"The parameter {name} is missing.")
    reason = str(found["msg"]).removeprefix("Value error, ")
    raise ApiError(422, f"{name}: {reason[:1].lower()}{reason[1:200].rstrip('.')}.")


# -- answers, for the document -------------------------------------------------------------------------------


class ErrorAnswer(BaseModel):
    """What was wrong."""

    error: str = Field(examples=["samples.csv has no value in line 7, column 'width'; correct it."])


class HealthAnswer(BaseModel):
    """The process is alive."""

    status: Literal["alive"]


class ModelVersion(BaseModel):
    """Which version of a model is served."""

    version: str = Field(examples=["9f86d081884c7d65"])
    problem: str | None = Field(description="Why the model file, as it is now, cannot be loaded.")


class ReadyAnswer(BaseModel):
    """Whether requests are served."""

    status: Literal["ready", "starting", "draining"]
    models: dict[str, ModelVersion] | None = None


class ModelLine(BaseModel):
    """A model in the list."""

    name: str = Field(examples=["digits"])
    version: str = Field(examples=["9f86d081884c7d65"])
    method: str = Field(examples=["calibrated"])
    classes: list[str] = Field(examples=[["0", "1", "2"]])
    features: int = Field(examples=[64])
    takes: Literal["table", "pictures"]
    picture_shape: list[int] | None = Field(examples=[[8, 8]])
    can_change: bool
    changes: list[str]
    problem: str | None


class ModelList(BaseModel):
    """The models of the server."""

    models: list[ModelLine]
    read_only: bool
    demo: bool


class ModelAnswer(BaseModel):
    """What ``srosr info --json`` shows of a model, and what the server knows about it."""

    model_config = ConfigDict(extra="allow")

    name: str
    version: str
    method: str
    classes: list[Any]
    features: int
    threshold: float | None
    bytes: int
    loaded_at: str
    takes: Literal["table", "pictures"]
    picture_shape: list[int] | None
    can_change: bool
    changes: list[str]
    score_range: list[float | None]
    coverage_guarantee: str | None
    limits: dict[str, float]
    previous_version: str | None = Field(None, description="The version before a change.")
    notes: list[str] | None = Field(None, description="Remarks on a change.")


class ScoresAnswer(BaseModel):
    """Held-out scores, by which a threshold can be judged."""

    known: list[float | None]
    known_right: list[bool]
    simulated: list[float | None]
    thresholds: dict[str, float | None]
    threshold: float | None
    score_range: list[float | None]


class DecisionAnswer(BaseModel):
    """The decision on one sample."""

    row: int
    label: str
    unknown_score: float | None
    candidate: str
    verdict: Literal["recognized", "rejected"]
    prediction_set: list[str] | None = None
    p_value: float | None = None
    imputed: float | None = None
    file: str | None = None


class DecideAnswer(BaseModel):
    """Decisions on all samples of a request."""

    model: str
    version: str
    threshold: float | None
    coverage: float | None
    guarantee: str | None
    rows: int
    dropped: int
    notes: list[str]
    decisions: list[DecisionAnswer]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "digits", "version": "9f86d081884c7d65", "threshold": 0.9962, "coverage": 0.95,
                    "guarantee": "is approximate", "rows": 1, "dropped": 0, "notes": [],
                    "decisions": [
                        {"row": 0, "label": "3", "unknown_score": 0.42, "candidate": "3", "verdict": "recognized",
                         "prediction_set": ["3"]}
                    ],
                }
            ]
        }
    )  # fmt: skip


class TrainingSample(BaseModel):
    """A training sample behind a decision."""

    model_config = ConfigDict(extra="allow")

    row: int
    label: str
    weight: float
    name: str | None = None
    picture: str | None = None


class ExplainAnswer(BaseModel):
    """Why a sample was recognized or rejected."""

    model: str
    version: str
    row: int
    decision: DecisionAnswer
    text: str
    explanation: dict[str, Any]
    training_samples: list[TrainingSample]
    sample_picture: str | None
    figure: str | None


class ResultAnswer(BaseModel):
    """The result of a piece of work on samples."""

    model_config = ConfigDict(extra="allow")

    model: str
    version: str


class VersionLine(BaseModel):
    """A version of a model."""

    model_config = ConfigDict(extra="allow")

    version: str
    time: str | None
    change: str | None
    kept: bool


class HistoryAnswer(BaseModel):
    """The versions of a model, the newest first."""

    versions: list[VersionLine]


class MonitorAnswer(BaseModel):
    """What the monitor of a model has seen."""

    model_config = ConfigDict(extra="allow")

    summary: dict[str, Any] | None
    facts: list[list[str]]
    blocks: list[dict[str, Any]]
    alarm: dict[str, Any] | None
    block: int
    since: str
    problem: str | None


class DemoSample(BaseModel):
    """A digit of the demonstration."""

    row: int
    digit: int
    known: bool
    values: list[float]


class DemoAnswer(BaseModel):
    """Samples of the demonstration."""

    samples: list[DemoSample]
    known: list[int]
    unknown: list[int]
    shape: list[int]
