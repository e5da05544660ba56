"""Protocols: what they draw, which entries are errors, and that the paper's are the paper's."""

from __future__ import annotations

import copy
import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from srosr.datasets.dataset import Dataset
from srosr.experiments.protocol import UNKNOWN, KnownClasses, Protocol, ProtocolError, Source, UnknownClasses
from srosr.experiments.protocol_file import list_protocols, load_protocol, parse_protocol
from srosr.rivals.methods import open_set_methods

TOY = """
[data]
file = "toy.npz"
[known]
classes = 3
train = 4
test = 2
[unknown]
classes = [1, 3]
test = 2
"""


def toy(n_classes=8, sizes=None, part=None, zeros=()):
    sizes = [10] * n_classes if sizes is None else sizes
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = np.arange(1.0, len(y) + 1)[:, None] * np.ones(3)
    X[list(zeros)] = 0.0
    return Dataset("toy", X, y, tuple(f"c{i}" for i in range(len(sizes))), "made up", part)


def protocol(text=TOY, **changes):
    return replace(parse_protocol(tomllib.loads(text), "toy"), **changes)


def plain(**changes):
    fields = {
        "name": "toy", "title": "toy", "about": "", "trials": 1, "data": Source(file="toy.npz"), "methods": (),
        "known": KnownClasses(3, 4, 2), "unknown": UnknownClasses((1, 3), 2),
    }  # fmt: skip
    return Protocol(**(fields | changes))


# -- drawing -----------------------------------------------------------------------------------------------


@given(
    n_known=st.integers(2, 4), n_train=st.integers(1, 5), n_test=st.integers(1, 4) | st.none(), most=st.integers(1, 4),
    trial=st.integers(0, 99), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
def test_a_trial_has_the_classes_and_samples_asked_for_and_shares_none(n_known, n_train, n_test, most, trial, seed):
    data = toy()
    p = plain(known=KnownClasses(n_known, n_train, n_test), unknown=UnknownClasses(tuple(range(1, most + 1)), n_test))
    t = p.draw(data, trial, seed)
    assert len(t.known) == n_known and len(t.unknown) == most
    assert not set(t.known) & set(t.unknown) and len(set(t.unknown)) == most
    assert not set(t.train) & set(t.test)
    assert len(set(t.train)) == len(t.train) and len(set(t.test)) == len(t.test)
    np.testing.assert_array_equal(data.y[t.train], t.y_train)
    is_unknown = t.y_test == UNKNOWN
    np.testing.assert_array_equal(data.y[t.test[~is_unknown]], t.y_test[~is_unknown])
    assert (np.unique(t.y_train, return_counts=True)[1] == n_train).all()
    expected = 10 - n_train if n_test is None else n_test
    assert (np.unique(t.y_test[~is_unknown], return_counts=True)[1] == expected).all()
    assert (t.arrival[~is_unknown] == 0).all()
    for i, c in enumerate(t.unknown, 1):
        assert set(data.y[t.test[t.arrival == i]]) == {c}


def test_a_trial_depends_on_its_number_and_the_seed_alone():
    data, p = toy(), protocol()
    first = p.draw(data, 3, 5)
    again, other, elsewhere = p.draw(data, 3, 5), p.draw(data, 4, 5), p.draw(data, 3, 6)
    np.testing.assert_array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test) and not np.array_equal(first.test, elsewhere.test)


def test_larger_levels_hold_smaller_ones():
    t = protocol().draw(toy(), 0)
    small, large = (set(t.test[t.arrival <= level]) for level in t.levels)
    assert small < large


def test_every_class_gets_its_turn_to_be_known():
    known = {int(c) for i in range(60) for c in plain().draw(toy(), i).known}
    assert known == set(range(8))


def test_a_share_trains_on_that_share_and_tests_on_the_rest():
    t = plain(known=KnownClasses(3, 0.8, None)).draw(toy(sizes=[10, 20, 15, 15, 15, 15]), 0)
    for c in t.known:
        n = [10, 20, 15, 15, 15, 15][c]
        assert (t.y_train == c).sum() == round(0.8 * n) and (t.y_test == c).sum() == n - round(0.8 * n)


def test_all_samples_of_one_part_can_be_trained_on_where_another_is_tested():
    part = np.tile(np.repeat(["learn", "meet"], 5), 8)
    text = TOY.replace("train = 4", 'train = "all"\npart = "learn"\ntest_part = "meet"')
    t = protocol(text).draw(toy(part=part), 0)
    assert len(t.train) == 15 and set(part[t.train]) == {"learn"}
    for known in ('train = "all"', 'train = "all"\npart = "learn"', 'train = "all"\npart = "a"\ntest_part = "a"'):
        with pytest.raises(ProtocolError, match=r'\[known\] train = "all" needs a test_part'):
            protocol(TOY.replace("train = 4", known))


def test_too_few_classes_in_a_file_are_reported_with_the_source_of_the_labels():
    with pytest.raises(ProtocolError, match=r"only 2 of the 2 classes of toy \(made up\) have them"):
        protocol().check(toy(2))
    with pytest.raises(ProtocolError, match=r"can leave only 1 of toy \(made up\) that have"):
        protocol().check(toy(4))
    with pytest.raises(ProtocolError, match="only 2 of the 2 classes of toy have them"):
        protocol(data=Source(set="digits")).check(toy(2))


def test_parts_are_kept_apart():
    part = np.tile(np.repeat(["learn", "meet"], 5), 8)
    data = toy(part=part)
    p = plain(known=KnownClasses(3, 4, 3, "learn", "meet"), unknown=UnknownClasses((2,), None, "meet"))
    t = p.draw(data, 0)
    assert set(part[t.train]) == {"learn"} and set(part[t.test]) == {"meet"}
    assert ((t.y_test == UNKNOWN).sum(), (t.y_test != UNKNOWN).sum()) == (10, 9)


def test_excluded_classes_and_empty_samples_have_no_part():
    data = toy(zeros=range(0, 80, 2))
    p = plain(data=Source(file="x", exclude=("c0", "c1"), drop_empty=True), known=KnownClasses(3, 3, 1))
    for i in range(20):
        t = p.draw(data, i)
        rows = np.concatenate([t.train, t.test])
        assert not set(data.y[rows]) & {0, 1} and data.X[rows].any(axis=1).all()


# -- the paper's -------------------------------------------------------------------------------------------

FROM_THE_PAPER = {
    # known classes, unknown classes, training, test, tail size, threshold, first and last openness in percent
    "yaleb": (10, (10, 28), 0.8, None, 0.10, 0.007, 18.35, 35.45),
    "mnist": (6, (1, 4), 300, 100, 0.14, 0.006, 3.92, 13.40),
    "uiuc": (10, (1, 10), 50, 20, 0.39, 0.05, 2.41, 18.35),
    "caltech256": (20, (31, 40), 50, 20, 0.25, 0.1, 24.94, 29.29),
    "caltech101": (20, (31, 40), 50, 20, 0.25, 0.1, 24.94, 29.29),
    "caltech256-clip": (20, (31, 40), 0.6, 20, 0.25, 0.1, 24.94, 29.29),
}


@pytest.mark.parametrize("name", FROM_THE_PAPER)
def test_the_papers_protocols_have_the_papers_numbers(name):
    known, levels, train, test, tail_size, threshold, low, high = FROM_THE_PAPER[name]
    p = load_protocol(name)
    assert p.trials == 50
    assert (p.known.classes, p.known.train, p.known.test) == (known, train, test)
    assert p.unknown.classes == tuple(range(levels[0], levels[1] + 1))
    openness = [round(100 * o, 2) for o in p.levels.values()]
    assert (openness[0], openness[-1]) == (low, high) and openness == sorted(openness)
    rule = p.find_method("paper")
    assert rule.parameters["problem"] == {"name": "bpdn", "epsilon": 0.001}
    assert (rule.parameters["tail_size"], rule.parameters["threshold"]) == (tail_size, threshold)
    assert rule.follows_openness
    assert {m.name for m in p.methods} >= set(open_set_methods())
    assert p.find_method("calibrated").parameters == {}


def test_mnist_says_how_many_trials_its_hard_codes_have():
    p = load_protocol("mnist")
    hard = {m.name for m in p.methods if m.trials == 5}
    assert hard == {"paper", "matched", "naive", "ratio", "sci"}
    assert p.find_method("paper").parameters["n_repeats"] == 10


def test_every_protocol_of_the_package_can_be_read():
    for name in list_protocols():
        p = load_protocol(name)
        assert p.name == name and p.title and p.about


def test_words_and_trials_are_no_part_of_the_identity():
    p = load_protocol("uiuc")
    assert replace(p, title="x", about="y", trials=3).identity() == p.identity()
    assert replace(p, known=replace(p.known, train=49)).identity() != p.identity()


# -- bad input ---------------------------------------------------------------------------------------------

WRONG = {
    "classes = 3\ntrain": ("classes = 1\ntrain", r"\[known\] classes must be at least 2"),
    "train = 4": ("train = 1.5", r"\[known\] train .* whole number"),
    "test = 2\n[unknown]": ('test = "some"\n[unknown]', r'\[known\] test must be a number of samples, "all" or "rest"'),
    "classes = [1, 3]": ("classes = [3, 1]", "rising"),
    "[unknown]": ("[unknwon]", "unknown entry 'unknwon' .did you mean 'unknown'"),
    'file = "toy.npz"': ('set = "yalebb"', "did you mean 'yaleb'"),
    "[data]": ('methods = ["calibratd"]\n[data]', "did you mean 'calibrated'"),
    "file = ": ("set = ['digits']\n#", "set must be text"),
    "[1, 3]": ("{ from = 1, to = 1000000000000 }", "at most 1,000,000"),
    "\n[data]": ("\n[data]\nset = 'mnist'", "needs either set"),
}


@pytest.mark.parametrize("entry", WRONG)
def test_a_wrong_entry_is_named(entry):
    wrong, message = WRONG[entry]
    with pytest.raises(ProtocolError, match=message):
        protocol(TOY.replace(entry, wrong, 1))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[method.paper]\ntial_size = 0.2", r"\[method.paper\] paper has no parameter 'tial_size' .did you mean"),
        ("[method.mine]\nmethod = 'wsvm'", r"\[method.mine\] method = 'wsvm' does not exist .did you mean 'w-svm'"),
        ("[method.paper]\nproblem = { name = 'bpdm' }", "problem must be a table such as"),
        ("[method.paper]\nproblem = { name = 'bpdn', epsilon = -1.0 }", "epsilon"),
        ("[method.paper]\ntail_size = 7", "tail_size"),
        ("[method.paper]\nrandom_state = 7", "no parameter 'random_state'"),
        ("[method.osnn]\nopenness = 'level'", "openness is not a parameter of osnn"),
        ("[method.'My Method']\nmethod = 'osnn'", "lower-case letters"),
        ("[method.'..']\nmethod = 'osnn'", "begins with a letter"),
        (f"[method.{'a' * 101}]\nmethod = 'osnn'", "at most 100"),
        ("[method.mine]\nmethod = ['osnn']", "method must be text"),
        ("[method.paper]\nopenness = 'level'\nweight = 0.2", "give only one of the two"),
        ("[features]\nkind = 'spatial-pyramid'\nn_words = 'many'", "n_words"),
        ("[method.osnn]\ntrials = 0", "trials must be a whole number"),
        ("[features]\nkind = 'hog'", "spatial-pyramid"),
    ],
)
def test_a_wrong_method_is_named(table, message):
    with pytest.raises(ProtocolError, match=message):
        protocol(TOY + table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"known": KnownClasses(9, 4, 2)}, "asks for 9 classes .* only 8 of the 8 classes"),
        (
            {"known": KnownClasses(3, 9, 2)},
            r"9 training and 2 test samples, but only 0 of the 8 classes of toy \(made up\)",
        ),
        ({"unknown": UnknownClasses((6,), 2)}, r"goes up to 6, but 3 known classes can leave only 5 of toy"),
        (
            {"unknown": UnknownClasses((1,), 11)},
            r"can leave only 0 of toy \(made up\) that have the requested 11 samples",
        ),
        ({"known": KnownClasses(3, 4, 2, "train")}, "'train' is not a part of toy; it has no parts"),
        ({"data": Source(file="x", exclude=("c99",))}, "exclude names 'c99'"),
        ({"features": {}}, "is for pictures"),
    ],
)
def test_impossible_counts_raise_an_error_before_any_work(changes, message):
    with pytest.raises(ProtocolError, match=message):
        plain(**changes).check(toy())


def test_a_protocol_is_possible_for_every_draw_of_known_classes_or_an_error():
    # Four of the six classes can be unknown; if two of them are drawn as known, only two are left.
    data = toy(sizes=[15, 15, 15, 15, 10, 10])
    possible = plain(known=KnownClasses(2, 4, 2), unknown=UnknownClasses((2,), 12))
    possible.check(data)
    for i in range(20):
        possible.draw(data, i)
    with pytest.raises(ProtocolError, match="can leave only 2"):
        plain(known=KnownClasses(2, 4, 2), unknown=UnknownClasses((3,), 12)).check(data)


def test_a_test_part_without_a_training_part_raises_an_error():
    with pytest.raises(ProtocolError, match="samples could be in both"):
        protocol(TOY.replace("train = 4", 'train = 4\ntest_part = "test"'))


def test_where_the_data_lie_is_no_part_of_the_identity_and_all_is_not_one():
    one, other = (parse_protocol(tomllib.loads(TOY), "toy", Path(folder)) for folder in ("/a", "/b"))
    assert one.data != other.data and one.identity() == other.identity()
    single, whole = (plain(known=KnownClasses(3, n, 2, "a", "b")).identity() for n in (1, 1.0))
    assert (single["known"]["train"], whole["known"]["train"]) == (1, "all")


def test_a_file_that_is_not_there_or_not_toml_is_named(tmp_path):
    with pytest.raises(ProtocolError, match=r"cannot read the protocol .*nothing.toml"):
        load_protocol(tmp_path / "nothing.toml")
    (tmp_path / "bad.toml").write_text("this is [not")
    with pytest.raises(ProtocolError, match=r"bad.toml is not a TOML file"):
        load_protocol(tmp_path / "bad.toml")
    with pytest.raises(ProtocolError, match=r"did you mean 'yaleb'\?"):
        load_protocol("yale")


def test_a_file_of_your_own_finds_its_data_beside_it(tmp_path):
    (tmp_path / "mine.toml").write_text(TOY)
    data = toy()
    np.savez(tmp_path / "toy.npz", X=data.X, y=data.y)
    p = load_protocol(tmp_path / "mine.toml")
    assert p.name == "mine"
    p.check(p.load_dataset())


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WHOLE = tomllib.loads(TOY + "[method.paper]\nproblem = { name = 'bpdn', epsilon = 0.1 }\nthreshold = 0.1\n")
PLACES = [(table, key) for table, entries in WHOLE.items() for key in entries]
PLACES += [(table,) for table in ("title", "trials", "methods", "features", *WHOLE)] + [("method", "paper", "problem")]


@given(st.sampled_from(PLACES), json_like)
@settings(max_examples=examples(300), deadline=None)
def test_any_value_of_an_entry_is_read_or_raises_a_protocol_error(place, value):
    content = copy.deepcopy(WHOLE)
    table = content
    for key in place[:-1]:
        table = table[key]
    table[place[-1]] = value
    with suppress(ProtocolError):
        parse_protocol(content, "fuzz")
