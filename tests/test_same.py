"""The comparison that other tests rely on finds what differs, and passes what differs by rounding only."""

import numpy as np
import pytest
from same import check_same, check_same_candidates, check_same_labels, check_same_text

ROUNDED = 1 + 4 * np.finfo(float).eps


@pytest.mark.parametrize(
    "result",
    [
        0.1,
        3,
        "text",
        None,
        True,
        np.array([1.0, -np.inf, np.nan, 1e-30]),
        {"rows": [{"label": "a", "score": 0.25}, {"label": None, "score": 1e-12}], "n": (1.5, 2.5)},
    ],
)
def test_rounding_is_no_difference(result):
    def rounded(value):
        if isinstance(value, dict):
            return {name: rounded(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(rounded, value))
        return value * ROUNDED if isinstance(value, (float, np.ndarray)) else value

    check_same(rounded(result), result)


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        (0.1 + 1e-9, 0.1, "result: .*0.100000001.*, expected .*0.1"),
        ([1.0, 2.0, 3.0], [1.0, 2.1, 3.0], r"result\[1\].* expected .*2.1.*largest difference 0.1.*1 of 3 differ"),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, r"\['a'\]\[0\]\['b'\]: 'x', not 'y'"),
        ({"a": 1}, {"b": 1}, "has the keys"),
        ([1, 2], [1, 3], "expected"),
        ([1, 2], [1, 2, 3], "shape"),
        (["a"], ["a", "b"], "2 entries"),
        (None, 0.0, "None, not 0.0"),
        (np.array([np.nan]), np.array([1.0]), "nan"),
        (np.array([1.0]), np.array([np.inf]), "inf"),
        (np.array(["a", "b"]), np.array(["a", "c"]), "'b'"),
        (1e-7, 0.0, "expected"),
        (True, False, "expected"),
        (1.0, "1.0", "not '1.0'"),
    ],
)
def test_a_difference_is_found_and_said_in_one_line(found, expected, said):
    with pytest.raises(AssertionError, match=said) as caught:
        check_same(found, expected)
    assert "\n" not in str(caught.value).partition("\nassert")[0]


def test_labels_may_differ_only_where_the_score_is_at_the_threshold():
    scores = np.array([0.2, 0.5 * ROUNDED, 0.8])
    check_same_labels([1, -1, -1], [1, 1, -1], scores, 0.5)
    with pytest.raises(AssertionError, match=r"1 labels differ, that of sample 2 with score 0\.8"):
        check_same_labels([1, -1, 1], [1, 1, -1], scores, 0.5)
    with pytest.raises(AssertionError, match=r"that of sample 1 with score inf"):
        check_same_labels([1, 1], [1, -1], [0.2, np.inf], 0.5)


def test_candidates_may_differ_only_where_two_classes_score_the_same():
    scores = np.array([[1.0, ROUNDED, 0.5], [0.2, 0.1, 0.0]])
    for first in (0, 1):
        check_same_candidates([first, 0], scores)
    with pytest.raises(AssertionError, match=r"1 candidates differ, that of sample 1 is 1: .* best by 0\.1"):
        check_same_candidates([1, 1], scores)
    with pytest.raises(AssertionError, match="that of sample 0"):
        check_same_candidates([0], [[np.nan, 1.0]])


def test_rounded_numbers_of_a_text_may_differ_by_their_last_digit():
    check_same_text("0.95 of row 3, 12 %", "0.96 of row 3, 13 %")
    check_same({"text": "0.10", "x": 1.0}, {"text": "0.11", "x": ROUNDED})
    for found in ("0.95 of row 4, 12 %", "0.97 of row 3, 12 %", "0.95 of row 3, 14 %", "0.95 of row 3"):
        with pytest.raises(AssertionError):
            check_same_text(found, "0.95 of row 3, 12 %")
    with pytest.raises(AssertionError):
        check_same({"text": "a"}, {"text": "b"})
    for name, one, other in (("score", "0.10", "0.11"), ("text", ["a"], ["b"]), ("text", 1.0, 2.0)):
        with pytest.raises(AssertionError):
            check_same({name: one}, {name: other})
