"""The numbers of an explanation, without words and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from .._support.array_types import Array


@dataclass(frozen=True)
class WeighedEvidence:
    """One kind of evidence and what it adds to the score.

    Attributes
    ----------
    name : str
        One of :data:`srosr.evidence.table.EVIDENCE`.
    value : float
        Value in its own units.
    standardized : float
        Value in standard deviations of known samples, large for unknown samples; for the rules "paper" and "matched"
        the tail probability.
    weight : float
    contribution : float
        Weight times standardized value; all contributions add up to ``Explanation.score``.
    typical : float
        Median of the value over the known samples of comparison; NaN without them.
    """

    name: str
    value: float
    standardized: float
    weight: float
    contribution: float
    typical: float


@dataclass(frozen=True)
class WeighedClassScore:
    """One kind of class score and what it adds to the lead of the candidate over the next class.

    Attributes
    ----------
    name : str
        One of :data:`srosr.evidence.class_scores.CLASS_SCORES`.
    candidate, next_candidate : float
        Score of the candidate and of the next class, in its own units; large suggests the class.
    weight : float
    lead : float
        Weight times scaled difference; the leads of all kinds add up to the difference of the fused class scores.
    """

    name: str
    candidate: float
    next_candidate: float
    weight: float
    lead: float


@dataclass(frozen=True)
class UsedAtom:
    """An atom that has a part in the code: a training sample, or one learned from samples.

    Attributes
    ----------
    row : int
        Row of the sample among the training samples; rows of samples added later follow. For a learned atom it is that
        of the nearest sample of its class.
    atom : int
        Its place in the dictionary, where samples are sorted by class.
    label : label
    coefficient : float
    share : float
        Share of the code, :math:`|x_i|/\\|x\\|_1`.
    learned : bool
        Whether the atom was learned, and is no sample itself.
    """

    row: int
    atom: int
    label: Any
    coefficient: float
    share: float
    learned: bool = False


@dataclass(frozen=True, eq=False)
class ExplanationFacts:
    """The numbers behind a prediction; :class:`Explanation` documents them."""

    label: Any
    candidate: Any
    rejected: bool
    unknown_score: float
    threshold: float
    threshold_detail: str
    p_value: float
    log_p_value: float
    rule: str
    score: float
    score_threshold: float
    evidence: tuple[WeighedEvidence, ...]
    reasons: tuple[str, ...]
    reasons_suffice: bool
    class_scores: Mapping[Any, float]
    class_evidence: tuple[WeighedClassScore, ...]
    residuals: Mapping[Any, float]
    residual: float
    length: float
    matched_probability: float
    nonmatched_probability: float
    concentration: float
    shares: Mapping[Any, float]
    atoms: tuple[UsedAtom, ...]
    class_sizes: Mapping[Any, int]
    compared_with: str
    n_compared: int
    matched_position: float
    nonmatched_position: float
    usual_residual: float
    usual_share: float
    next_candidate: Any
    residual_candidate: Any
    is_p_value: bool
    sample: Array | None = field(default=None, repr=False)
    pictures: Array | None = field(default=None, repr=False)


def to_plain(value: Any) -> Any:
    """Return a value in types that JSON can hold: None for numbers that are not finite, a list for a mapping."""
    if isinstance(value, Mapping):
        return [{"label": to_plain(label), "value": to_plain(number)} for label, number in value.items()]
    if is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if value is None or isinstance(value, bool | int | str) else str(value)
