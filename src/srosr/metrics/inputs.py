"""Checks of the arguments that all metrics share: labels, scores, weights and shares."""

from __future__ import annotations

from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray, Array
from .._support.messages import join_names


class Predictions(NamedTuple):
    """Labels and predictions that can be compared, without the samples of weight 0."""

    true: AnyArray
    predicted: AnyArray
    #: Whether a sample's class is unknown.
    unknown: AnyArray
    #: Whether a sample was predicted to be unknown.
    rejected: AnyArray
    #: Integers, or floats where `sample_weight` has them.
    weight: AnyArray

    @property
    def correct(self) -> AnyArray:
        """Whether a sample's class is known and was predicted."""
        return ~self.unknown & ~self.rejected & compare_labels(self.true, self.predicted)

    def total(self, selected: AnyArray) -> Any:
        """Return the weight of the selected samples."""
        return self.weight[selected].sum()


class RankedSamples(NamedTuple):
    """Known and unknown samples, some of each, grouped by score; those of weight 0 are left out."""

    samples: Predictions
    #: The distinct scores, ascending.
    scores: Array
    #: Index into `scores` of each sample.
    rank: AnyArray

    def accumulate(self, selected: AnyArray) -> Array:
        """Return the weight of the selected samples up to each distinct score."""
        weight = np.where(selected, self.samples.weight, 0)
        return np.cumsum(np.bincount(self.rank, weight, minlength=len(self.scores)))


def check_predictions(y_true: Any, y_pred: Any, unknown_label: Any, sample_weight: Any = None) -> Predictions:
    """Return labels and predictions that can be compared with each other and with the unknown label."""
    true, predicted = check_labels(y_true, "y_true"), check_labels(y_pred, "y_pred")
    _check_lengths(y_true=true, y_pred=predicted)
    weight = _check_weights(sample_weight, len(true))
    weight, true, predicted = _drop_weightless(weight, true, predicted)
    return _compare_with_unknown(weight, true, predicted, unknown_label, "y_pred")


def check_ranking(
    y_true: Any, unknown_score: Any, unknown_label: Any, sample_weight: Any, metric: str, candidate: Any = None
) -> RankedSamples:
    """Return samples grouped by score; without candidates the true labels stand in for them."""
    true, scores = check_labels(y_true, "y_true"), _check_scores(unknown_score)
    named = true if candidate is None else check_labels(candidate, "candidate")
    _check_lengths(y_true=true, **({} if candidate is None else {"candidate": named}), unknown_score=scores)
    weight = _check_weights(sample_weight, len(true))
    weight, true, named, scores = _drop_weightless(weight, true, named, scores)
    samples = _compare_with_unknown(weight, true, named, unknown_label, "candidate")
    require_unknown(samples, unknown_label, metric)
    require_known(samples, metric)
    if (scores[1:] >= scores[:-1]).all():  # Callers that measure many resamples sort once.
        first = np.append(True, scores[1:] > scores[:-1])
        return RankedSamples(samples, scores[first], np.cumsum(first) - 1)
    return RankedSamples(samples, *np.unique(scores, return_inverse=True))


def check_labels(values: Any, name: str) -> AnyArray:
    """Return a one-dimensional array of labels: numbers, strings, or objects that are one or the other."""
    if hasattr(values, "__array__"):
        out = np.asarray(values)
    elif isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list or array of labels, got {values!r}.")
    else:
        # Not np.asarray, which would turn the number in ["a", -1] into a string.
        out = np.array(list(values), dtype=object)
    if out.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, with one label per sample, got shape {out.shape}.")
    if not len(out):
        raise ValueError(f"{name} is empty.")
    if out.dtype.kind == "O":
        kinds = find_kinds(out)
        if invalid := kinds - {"strings", "bytes", "numbers"}:
            raise ValueError(
                f"{name} holds {join_names(sorted(invalid))}: labels must be strings or numbers, none missing."
            )
        if len(kinds) == 1:
            out = np.array(out.tolist())
    if out.dtype.kind not in "biufSUTO":
        raise ValueError(f"{name} holds {out.dtype}: labels must be strings or numbers.")
    if out.dtype.kind in "fO" and any(v != v for v in out.tolist()):
        raise ValueError(f"{name} contains NaN; label the samples of unknown classes with unknown_label.")
    return out


def find_kinds(labels: AnyArray) -> set[str]:
    """Return what the labels are: "strings", "numbers", both, or names of other types."""
    if not len(labels):
        return set()
    if labels.dtype.kind in "SUT":
        return {"bytes" if labels.dtype.kind == "S" else "strings"}
    if labels.dtype.kind != "O":
        return {"numbers"}
    known = ((str, "strings"), (bytes, "bytes"), (Number, "numbers"))
    return {next((name for kind, name in known if issubclass(t, kind)), t.__name__) for t in map(type, labels)}


def compare_labels(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return whether labels are equal, without ever turning a number into a string."""
    if find_kinds(a) != find_kinds(b):
        a, b = a.astype(object), b.astype(object)
    return np.asarray(a == b, dtype=bool)


def require_known(samples: Predictions, metric: str) -> None:
    """Check that there are samples of known classes."""
    if samples.unknown.all():
        raise ValueError(f"y_true holds unknown samples only: {metric} needs samples of known classes.")


def require_unknown(samples: Predictions, unknown_label: Any, metric: str) -> None:
    """Check that there are samples of unknown classes."""
    if not samples.unknown.any():
        raise ValueError(
            f"y_true has no unknown samples: none is labeled {unknown_label!r}. {metric} needs some; "
            "mark_unknown(y, classes, unknown_label=...) relabels classes that were not trained."
        )


def _compare_with_unknown(
    weight: AnyArray, true: AnyArray, predicted: AnyArray, unknown_label: Any, name: str
) -> Predictions:
    mark = check_labels([unknown_label], "unknown_label")
    unknown, rejected = compare_labels(true, mark), compare_labels(predicted, mark)
    kinds, others = _find_kinds_among(true, ~unknown), _find_kinds_among(predicted, ~rejected)
    if kinds and others and not kinds & others:
        raise ValueError(
            f"y_true holds {join_names(sorted(kinds))} and {name} {join_names(sorted(others))}: use one kind of label."
        )
    if not unknown.any() and not rejected.any() and not find_kinds(mark) & (kinds | others):
        raise ValueError(
            f"unknown_label is {unknown_label!r}, of {join_names(sorted(find_kinds(mark)))}, and all labels are "
            f"{join_names(sorted(kinds | others))}: use one kind of label."
        )
    return Predictions(true, predicted, unknown, rejected, weight)


def _find_kinds_among(labels: AnyArray, selected: AnyArray) -> set[str]:
    """Return what the selected labels are; only objects need to be looked at one by one."""
    return find_kinds(labels[selected] if labels.dtype.kind == "O" or not selected.any() else labels)


def _drop_weightless(weight: AnyArray, *arrays: AnyArray) -> tuple[AnyArray, ...]:
    """Return the weights and the arrays without the samples of weight 0."""
    if weight.all():
        return weight, *arrays
    counted = np.flatnonzero(weight)
    return weight[counted], *(values[counted] for values in arrays)


def _check_scores(values: Any) -> Array:
    """Return one score per sample; infinite ones can be ranked."""
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("unknown_score must be an array of numbers, one per sample.") from None
    if scores.ndim != 1:
        raise ValueError(
            f"unknown_score must be one-dimensional, with one number per sample, got shape {scores.shape}."
        )
    if np.isnan(scores).any():
        raise ValueError(f"unknown_score is NaN for {np.isnan(scores).sum()} samples, which cannot be ranked.")
    return scores


def _check_weights(values: Any, n_samples: int) -> AnyArray:
    """Return one weight per sample, integers if possible."""
    if values is None:
        return np.ones(n_samples, dtype=np.int64)
    weight = np.asarray(values)
    if weight.dtype.kind not in "biuf":
        raise ValueError("sample_weight must be an array of numbers, one per sample.")
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have one number per sample, shape ({n_samples},), got {weight.shape}.")
    if not (weight.min() >= 0 and weight.max() < np.inf):
        raise ValueError("sample_weight must be finite and not negative.")
    if not weight.any():
        raise ValueError("sample_weight is 0 for every sample.")
    return weight.astype(np.float64 if weight.dtype.kind == "f" else np.int64, copy=False)


def _check_lengths(**arrays: AnyArray) -> None:
    """Check that all arrays have one entry per sample."""
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"every argument must have one entry per sample, but {found}.")
