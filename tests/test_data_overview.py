"""What is found in a table before a fit, against counting by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from srosr.tables.data_overview import make_overview

SMALL = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 3)), elements=st.sampled_from([0.0, -0.0, 1.0])
)


@given(SMALL, st.data())
def test_duplicates_contradictions_and_constant_columns_are_those_found_one_by_one(X, data):
    labels = np.array(data.draw(st.lists(st.sampled_from("ab"), min_size=len(X), max_size=len(X))))
    rows = X.tolist()
    first = [rows.index(row) for row in rows]
    found = make_overview(X, labels)
    assert found.duplicates == sum(f != i for i, f in enumerate(first))
    assert found.contradictions == sum(labels[f] != labels[i] for i, f in enumerate(first))
    assert found.constant == tuple(str(j) for j in range(X.shape[1]) if len(set(X[:, j].tolist())) == 1)
    assert found.empty == sum(not any(row) for row in rows)
    assert sum(found.classes.values()) == found.samples == len(X)


def test_a_column_that_is_much_wider_than_the_others_is_remarked_on_unless_columns_are_scaled():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * [1.0, 1.0, 1.0, 1000.0]
    found = make_overview(X, np.repeat(["a", "b", "c"], 20))
    assert any("--standardize" in remark for remark in found.get_remarks())
    assert not any("--standardize" in remark for remark in found.get_remarks(scaled=True))
    assert not any(
        "--standardize" in remark
        for remark in make_overview(X / [1, 1, 1, 1000], np.repeat(["a", "b", "c"], 20)).get_remarks()
    )


def test_remarks_name_small_classes_and_constant_columns():
    X = np.column_stack([np.arange(30.0), np.ones(30)])
    found = make_overview(X, np.array(["few"] * 3 + ["many"] * 27), ["size", "one"])
    text = " ".join(found.get_remarks())
    assert "(few)" in text and "--ignore: one" in text
