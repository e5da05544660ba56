"""When two computed results count as the same: the one rule that all tests follow.

The last bits of a product depend on the processor, on the number of threads and on the shape of the batch. So a test
compares to the bit (``==``, ``array_equal``, bytes of files) only

- what is copied and not computed: rows that are chosen, labels, counts, arrays of a file that is read again;
- the very same call, repeated on the same shapes in the same configuration of processes and threads, as is each trial
  of an experiment: on one thread of a process of its own, here or on a cluster.

Everything else is compared here: floats to a relative 1e-9 of the largest number beside them, all else exactly, and
labels exactly unless the score is as close as that to the threshold. What follows samples one by one, without products
(p-values and states of a monitor), does not depend on the shape of the batch.
"""

import re
from dataclasses import fields, is_dataclass
from numbers import Real

import numpy as np

#: Numbers that a text rounds.
_ROUNDED = r"\d+\.\d+|\d+(?=\s?%)"
#: Of computed numbers, relative to the largest of their array; a single number is measured against itself.
TOLERANCE = 1e-9


def check_same(found, expected, tolerance=TOLERANCE):
    """Raise an AssertionError that says in one line where two results differ and by how much.

    Results are numbers, strings, arrays, and dicts, lists, tuples and dataclasses of results. What a dict has under
    "text" is compared as ``check_same_text`` does.
    """
    difference = _find_difference(found, expected, tolerance, "")
    assert difference is None, difference


def check_same_text(found, expected):
    """Compare two texts, whose rounded numbers may differ by one unit of their last digit."""
    assert re.sub(_ROUNDED, "…", found) == re.sub(_ROUNDED, "…", expected)
    for shown, number in zip(re.findall(_ROUNDED, found), re.findall(_ROUNDED, expected), strict=True):
        last_digit = 10.0 ** -len(number.partition(".")[2])
        assert abs(float(shown) - float(number)) < 1.01 * last_digit, f"{shown} in the text, expected {number}"


def check_same_labels(found, expected, scores, thresholds, tolerance=TOLERANCE):
    """Compare labels, which may differ only where the score is at the threshold but for rounding."""
    found, expected, scores = np.asarray(found), np.asarray(expected), np.asarray(scores)
    assert found.shape == expected.shape == scores.shape
    size = np.where(np.isfinite(scores), np.maximum(np.abs(scores), np.abs(thresholds)), 0.0)
    with np.errstate(invalid="ignore"):
        apart = ~(np.abs(scores - thresholds) <= tolerance * size)
    wrong = np.flatnonzero((found != expected) & apart)
    assert not len(wrong), (
        f"{len(wrong)} labels differ, that of sample {wrong[0]} with score {scores[wrong[0]]}: "
        f"{found[wrong[0]]!r}, expected {expected[wrong[0]]!r}"
    )


def check_same_candidates(found, scores, tolerance=TOLERANCE):
    """Compare candidates, given as places of classes, with the best of the expected class scores."""
    found, scores = np.asarray(found), np.asarray(scores)
    assert found.shape == scores.shape[:1]
    behind = scores.max(axis=1) - scores[np.arange(len(found)), found]
    wrong = np.flatnonzero(~(behind <= tolerance * np.abs(scores).max(axis=1)))
    assert not len(wrong), (
        f"{len(wrong)} candidates differ, that of sample {wrong[0]} is {found[wrong[0]]}: "
        f"its score is less than the best by {behind[wrong[0]]:.2g}"
    )


def check_same_decisions(found, expected, threshold, tolerance=TOLERANCE):
    """Compare two ``Decisions`` that were made with a threshold, or with one for each sample."""
    check_same(found.unknown_score, expected.unknown_score, tolerance)
    check_same(found.candidate, expected.candidate)
    for name in ("label", "rejected"):
        one, other = getattr(found, name), getattr(expected, name)
        check_same_labels(one, other, expected.unknown_score, threshold, tolerance)


def check_same_model(found, expected, samples, tolerance=TOLERANCE):
    """Compare the answers of two classifiers to the same samples."""
    check_same(found.classes_, expected.classes_)
    check_same(found.thresholds_, expected.thresholds_, tolerance)
    decided, wanted = found.decide(samples), expected.decide(samples)
    places = np.searchsorted(expected.classes_, wanted.candidate)
    check_same_decisions(decided, wanted, expected.thresholds_[places], tolerance)


def _find_difference(found, expected, tolerance, place):
    """Return where and by how much two results differ, or None."""
    here = place or "result"
    if is_dataclass(expected) and not isinstance(expected, type):
        if type(found) is not type(expected):
            return f"{here} is of type {type(found).__name__}, expected {type(expected).__name__}"
        names = [field.name for field in fields(expected) if field.compare]
        pairs = [(f"{place}.{name}", getattr(found, name), getattr(expected, name)) for name in names]
    elif isinstance(expected, dict):
        if not isinstance(found, dict) or found.keys() != expected.keys():
            return f"{here} has the keys {list(found)}, expected {list(expected)}"
        names = list(expected)
        if isinstance(expected.get("text"), str):
            check_same_text(found["text"], expected["text"])
            names.remove("text")
        pairs = [(f"{place}[{name!r}]", found[name], expected[name]) for name in names]
    elif isinstance(expected, (list, tuple)) and not _is_vector(expected):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return f"{here} is {found!r:.100}, expected {len(expected)} entries"
        pairs = [(f"{place}[{i}]", one, other) for i, (one, other) in enumerate(zip(found, expected, strict=True))]
    else:
        return _compare_values(found, expected, tolerance, here)
    return next((text for name, a, b in pairs if (text := _find_difference(a, b, tolerance, name)) is not None), None)


def _is_vector(values):
    return len(values) > 0 and all(isinstance(value, Real) and not isinstance(value, bool) for value in values)


def _compare_values(found, expected, tolerance, here):
    if found is None or expected is None or isinstance(expected, str):
        return None if type(found) is type(expected) and found == expected else f"{here}: {found!r}, not {expected!r}"
    one, other = np.asarray(found), np.asarray(expected)
    if one.shape != other.shape:
        return f"{here} has shape {one.shape}, expected {other.shape}"
    if other.dtype.kind not in "fc" or one.dtype.kind not in "fciu":
        wrong = np.argwhere(one != other)
    else:
        finite = np.isfinite(other)
        scale = np.abs(other[finite]).max(initial=0.0)
        with np.errstate(invalid="ignore"):
            close = np.abs(one - other) <= tolerance * scale
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        wrong = np.argwhere(~np.where(finite, close, same))
    if not len(wrong):
        return None
    first = tuple(wrong[0])
    text = f"{here}{list(map(int, first)) or ''}: {one[first]!r}, expected {other[first]!r}"
    if one.dtype.kind in "fciu" and other.dtype.kind in "fc":
        with np.errstate(invalid="ignore"):
            apart = np.abs(one - other)
        text += f"; largest difference {apart[np.isfinite(apart)].max(initial=0):.2g}, largest number {scale:.3g}"
    return f"{text} ({len(wrong)} of {one.size} differ)"
