"""Wording of lists, counts and guesses in messages."""

from __future__ import annotations

from srosr._support.messages import (
    choose_from,
    count_of,
    did_you_mean,
    join_names,
    list_names,
    quote_names,
    quote_text,
)


def test_a_list_in_a_sentence_ends_with_a_word():
    assert join_names([]) == "" and join_names(["a"]) == "a"
    assert join_names(["a", "b"]) == "a and b" and join_names(["a", "b", "c"], last="or") == "a, b or c"
    assert join_names("abcdefgh", 6) == "a, b, c, d, e, f and 2 more"
    assert join_names("abc", 3) == "a, b and c" and join_names(range(5000), 1) == "0 and 4,999 more"


def test_a_list_after_a_colon_has_only_commas_until_names_are_counted():
    assert list_names([]) == "" and list_names(["a", "b", "c"]) == "a, b, c"
    assert list_names(iter("abc"), 3) == "a, b, c" and list_names(iter("abcd"), 2) == "a, b and 2 more"
    assert quote_names(["a b", "c"]) == "'a b', 'c'" and quote_names("abc", 2) == "'a', 'b' and 1 more"


def test_a_long_text_is_cut():
    assert quote_text("short") == "'short'" and quote_text("x" * 41) == repr("x" * 39 + "…")


def test_counts_have_the_right_form_of_the_noun():
    assert [count_of(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert count_of(1, "class", "classes") == "1 class" and count_of(2, "class", "classes") == "2 classes"


def test_a_guess_is_made_in_any_case_and_only_if_something_is_alike():
    assert did_you_mean("species", ["Species", "width"]) == " (did you mean 'Species'?)"
    assert did_you_mean("WSVM", ["svm-platt", "w-svm"]) == " (did you mean 'w-svm'?)"
    assert did_you_mean("zzz", ["a", "b"]) == "" and did_you_mean("a", []) == ""
    assert choose_from("mnits", ["mnist", "usps", "orl"]) == " (did you mean 'mnist'?); choose mnist, usps or orl."
