"""Checks of parameters return the value in its type, or name the parameter and what it may be."""

import numpy as np
import pytest

from srosr._support.parameter_checks import (
    check_choice,
    check_count,
    check_flag,
    check_n_jobs,
    check_positive,
    check_share,
    check_tail_size,
    to_number,
)


@pytest.mark.parametrize(
    "check, value, returned",
    [
        (lambda v: check_choice("rule", v, ("paper", "matched")), "paper", "paper"),
        (lambda v: check_count("cv", v, least=2), np.int32(2), 2),
        (lambda v: check_count("max_iter", v, none=True), None, None),
        (lambda v: check_flag("normalize", v), np.True_, True),
        (check_n_jobs, np.int64(-1), -1),
        (check_n_jobs, None, None),
        (check_tail_size, "auto", None),
        (check_tail_size, 1, 1.0),
        (lambda v: check_positive("weight", v, zero=True), 0, 0.0),
        (lambda v: check_share("openness", v), np.float32(0.5), 0.5),
    ],
)
def test_valid_values_are_returned_in_their_type(check, value, returned):
    found = check(value)
    assert found == returned and type(found) is type(returned)


@pytest.mark.parametrize(
    "check, value, message",
    [
        (lambda v: check_choice("rule", v, ("a", "b", "c")), "d", 'rule must be "a", "b" or "c", got \'d\'.'),
        (lambda v: check_choice("rule", v, ("a", "b")), 1, 'rule must be "a" or "b", got 1.'),
        (lambda v: check_count("cv", v, least=2), 1, "cv must be an integer of at least 2, got 1."),
        (lambda v: check_count("cv", v), True, "cv must be a positive integer, got True."),
        (lambda v: check_count("cv", v, none=True), 0, "cv must be a positive integer or None, got 0."),
        (lambda v: check_flag("normalize", v), 1, "normalize must be True or False, got 1."),
        (check_n_jobs, 0, "n_jobs must be a non-zero integer or None, got 0."),
        (check_n_jobs, 1.5, "n_jobs must be a non-zero integer or None, got 1.5."),
        (check_tail_size, "all", "tail_size must be a share in (0, 1] or \"auto\", got 'all'."),
        (check_tail_size, 0, 'tail_size must be a share in (0, 1] or "auto", got 0.'),
        (lambda v: check_positive("alpha", v), 10**400, "alpha must be a positive finite number"),
        (lambda v: check_share("openness", v), False, "openness must be a number in [0, 1), got False."),
    ],
)
def test_invalid_values_are_named_with_what_is_allowed(check, value, message):
    with pytest.raises(ValueError) as caught:
        check(value)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("value", [True, np.False_, "1", None, 1j, [1.0]])
def test_what_is_not_a_number_becomes_nan(value):
    assert np.isnan(to_number(value))
