"""Discovery groups rejected samples by what they have in common: affinity, groups, results and their files."""

from __future__ import annotations

import json
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from same import check_same
from scipy import sparse
from sklearn.cluster import HDBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso as SklearnLasso
from sklearn.metrics import adjusted_rand_score
from worlds import World

import srosr
from srosr import Dictionary, Queries, SROSRClassifier
from srosr.discovery.affinity_groups import (
    N_PARTS,
    PENALTY,
    _join_noise,
    _merge_groups,
    code_over_others,
    compute_affinities,
    embed,
    find_groups,
    find_neighbors,
    keep_largest,
    measure_centrality,
    measure_modularity,
    measure_tightness,
    symmetrize,
    weigh_neighbors,
)
from srosr.discovery.discover_classes import DiscoveryCollector, discover
from srosr.discovery.discovered_group import DiscoveryFileError, SampleHasher
from srosr.discovery.distinctive_features import find_distinctive_features
from srosr.reports.discovery_page import PageContent, make_data_uri, render_discovery

GROUP_SIZE = 40


@pytest.fixture(scope="module")
def world():
    return World(3, n_known=3, n_unknown=3, n_features=30, n_directions=3, noise=0.1)


@pytest.fixture(scope="module")
def clf(world):
    return SROSRClassifier(n_repeats=5, random_state=0).fit(*world.known(30))


@pytest.fixture(scope="module")
def unknown(world):
    """Return samples of three unknown classes with their classes, in random order."""
    y = np.repeat([3, 4, 5], GROUP_SIZE)
    order = np.random.default_rng(1).permutation(len(y))
    return world.of(y)[order], y[order]


@pytest.fixture(scope="module")
def found(clf, unknown):
    return discover(clf, unknown[0])


def make_blocks(sizes, inside=1.0, between=0.01, seed=0):
    """Return a dense symmetric affinity with blocks on the diagonal, and the block of each row."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    noise = np.random.default_rng(seed).uniform(0.5, 1.0, (len(truth), len(truth)))
    values = np.where(truth[:, None] == truth, inside, between) * (noise + noise.T)
    np.fill_diagonal(values, 0.0)
    return values, truth


# The affinity


def test_neighbors_are_mutual_and_their_affinity_is_the_formula_of_self_tuning():
    X, k = np.random.default_rng(0).normal(size=(40, 6)), 4
    got = weigh_neighbors(*find_neighbors(Dictionary(X), k)).toarray()
    distance = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distance, np.inf)
    near = distance <= np.sort(distance, axis=1)[:, k - 1 : k]
    scale = np.sort(distance, axis=1)[:, k - 1]
    expected = np.where(near & near.T, np.exp(-(distance**2) / np.outer(scale, scale)), 0.0)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert (got > 0).any()


def test_a_sample_is_coded_over_other_samples_and_the_code_is_that_of_another_solver():
    X = np.random.default_rng(1).normal(size=(60, 12))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    got = code_over_others(Dictionary(X), np.random.RandomState(5)).toarray()
    part = np.random.RandomState(5).permutation(60) % N_PARTS
    assert not got[part[:, None] == part].any()
    for i in range(0, 60, 7):
        others = np.flatnonzero(part != part[i])
        solver = SklearnLasso(alpha=PENALTY / 12, fit_intercept=False, tol=1e-12, max_iter=100_000)
        expected = np.abs(solver.fit(X[others].T, X[i]).coef_)
        np.testing.assert_allclose(got[i, others], expected, atol=1e-5)


def test_the_largest_entries_of_each_row_are_kept():
    dense = np.random.default_rng(2).uniform(size=(20, 15)) * (np.random.default_rng(3).uniform(size=(20, 15)) < 0.5)
    got = keep_largest(sparse.csr_array(dense), 3).toarray()
    for row, kept in zip(dense, got, strict=True):
        expected = np.zeros(15)
        top = np.argsort(-row)[:3]
        expected[top] = row[top]
        np.testing.assert_array_equal(kept, expected)


def test_rows_are_scaled_before_the_mean_with_the_transpose():
    dense = np.array([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    scaled = np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(symmetrize(sparse.csr_array(dense)).toarray(), (scaled + scaled.T) / 2)


def test_samples_of_one_subspace_have_most_of_the_affinity():
    rng = np.random.default_rng(4)
    truth = np.repeat([0, 1, 2], 30)
    bases = rng.normal(size=(3, 4, 25))
    X = np.einsum("ij,ijk->ik", rng.normal(size=(90, 4)), bases[truth])
    affinities = compute_affinities(Dictionary(X, normalize=True), np.random.RandomState(0))
    for affinity in (one.toarray() for one in affinities):
        np.testing.assert_allclose(affinity, affinity.T)
        assert not np.diagonal(affinity).any() and (affinity >= 0).all()
    by_codes = affinities[0].toarray()
    assert by_codes[truth[:, None] == truth].sum() > 0.95 * by_codes.sum()


def test_a_part_is_coded_over_few_of_many_samples(monkeypatch):
    monkeypatch.setattr("srosr.discovery.affinity_groups.MOST_ATOMS", 20)
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 3)) @ rng.normal(size=(3, 20)) for _ in range(2)])
    codes = code_over_others(Dictionary(X, normalize=True), np.random.RandomState(0))
    part = np.random.RandomState(0).permutation(120) % N_PARTS
    for k in range(N_PARTS):
        assert len(np.unique(codes[np.flatnonzero(part == k)].indices)) <= 20
    affinities = compute_affinities(Dictionary(X, normalize=True), np.random.RandomState(0))
    assert adjusted_rand_score(np.repeat([0, 1], 60), find_groups(affinities, 8, np.random.RandomState(0))) > 0.9


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_most_central_sample_is_the_one_nearest_to_the_mean(kernel):
    X = np.random.default_rng(6).normal(size=(50, 5))
    members = np.arange(10, 50)
    got = measure_centrality(Dictionary(X, kernel=kernel, gamma=0.3), members, np.random.RandomState(0))
    if kernel == "linear":
        expected = -(np.linalg.norm(X[members] - X[members].mean(axis=0), axis=1) ** 2)
    else:
        expected = 2 * np.exp(-0.3 * np.sum((X[members, None] - X[members]) ** 2, axis=2)).mean(axis=1)
    np.testing.assert_allclose(got - got[0], expected - expected[0], atol=1e-10)


# The groups


def test_blocks_of_an_affinity_are_the_groups():
    dense, truth = make_blocks([30, 20, 40], between=0.0005)
    labels = find_groups([sparse.csr_array(dense)], 8, np.random.RandomState(0))
    assert adjusted_rand_score(truth, labels) == 1.0


def test_modularity_and_tightness_are_their_formulas():
    dense, truth = make_blocks([12, 9, 7], between=0.2)
    labels = np.where(np.arange(28) % 9 == 4, -1, truth)
    total = sum(dense[i, j] for i in range(28) for j in range(28))
    modularity, largest, tightness = 0.0, 1.0, []
    for g in range(3):
        own = np.flatnonzero(labels == g)
        inside = sum(dense[i, j] for i in own for j in own)
        degree = sum(dense[i, j] for i in own for j in range(28))
        modularity += inside / total - (degree / total) ** 2
        largest -= (degree / total) ** 2
        tightness.append((inside / degree - degree / total) / (1 - degree / total))
    affinity = sparse.csr_array(dense)
    assert measure_modularity(affinity, labels) == pytest.approx(modularity / largest**0.5)
    np.testing.assert_allclose(measure_tightness(affinity, labels), tightness)
    assert measure_modularity(affinity, np.full(28, -1)) == 0.0


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_groups_are_merged_as_long_as_a_union_increases_the_modularity(seed, n_groups):
    """Against a search over all pairs that computes the modularity of every union anew."""
    rng = np.random.default_rng(seed)
    dense, _ = make_blocks([9, 8, 7], between=float(rng.uniform(0.01, 0.5)), seed=seed)
    affinity, labels = sparse.csr_array(dense), rng.integers(-1, n_groups, 24)
    labels = np.where(labels < 0, -1, np.unique(np.maximum(labels, 0), return_inverse=True)[1])
    expected = labels.copy()
    while True:
        there = np.unique(expected[expected >= 0])
        unions = [np.where(expected == b, a, expected) for a in there for b in there if a < b]
        best = max(unions, key=lambda union: measure_modularity(affinity, union), default=expected)
        if measure_modularity(affinity, best) <= measure_modularity(affinity, expected) + 1e-12:
            break
        expected = best
    got = _merge_groups(affinity, labels)
    assert adjusted_rand_score(got, expected) == 1.0
    np.testing.assert_array_equal(got < 0, labels < 0)


def test_a_noise_sample_joins_the_group_with_most_of_its_affinity_and_others_follow():
    """A chain: 4 has most affinity to group 0, 5 only to 4; 6 is torn between two groups."""
    dense = np.zeros((7, 7))
    for i, j, value in [(0, 1, 1), (2, 3, 1), (4, 0, 0.7), (4, 2, 0.1), (5, 4, 0.5), (6, 0, 0.3), (6, 2, 0.3)]:
        dense[i, j] = dense[j, i] = value
    labels = _join_noise(sparse.csr_array(dense), np.array([0, 0, 1, 1, -1, -1, -1]))
    assert labels.tolist() == [0, 0, 1, 1, 0, 0, -1]


def test_the_embedding_of_many_samples_spans_what_that_of_few_does(monkeypatch):
    dense, _ = make_blocks([60, 50, 40], between=0.05)
    affinity = sparse.csr_array(dense)
    small = embed(affinity, 3, np.random.RandomState(0))
    monkeypatch.setattr("srosr.discovery.affinity_groups._DENSE", 10)
    large = embed(affinity, 3, np.random.RandomState(0))
    np.testing.assert_allclose(np.linalg.svd(small.T @ large)[1], np.ones(3), atol=1e-6)


def test_groups_of_unstructured_samples_are_loose():
    X = np.random.default_rng(0).normal(size=(300, 40))
    affinities = compute_affinities(Dictionary(X, normalize=True), np.random.RandomState(0))
    labels = find_groups(affinities, 6, np.random.RandomState(0))
    assert (labels < 0).all() or measure_tightness(affinities[0], labels).max() < 0.8


# Discovery


def test_unknown_classes_are_found_and_tight(found, unknown):
    assert adjusted_rand_score(unknown[1], found.labels) > 0.95
    assert len(found) == 3 and all(group.is_tight for group in found.groups)
    assert [group.number for group in found.groups] == [0, 1, 2]
    sizes = [group.size for group in found.groups]
    assert sizes == sorted(sizes, reverse=True)


def test_classes_in_subspaces_are_found_where_hdbscan_on_features_fails(clf):
    rng = np.random.default_rng(5)
    bases = rng.normal(size=(4, 8, 30))
    truth = np.repeat(np.arange(4), 80)
    X = np.einsum("ij,ijk->ik", rng.normal(size=(320, 8)), bases[truth]) + 0.1 * rng.normal(size=(320, 30))
    ours = discover(clf, X, rejected_only=False).labels
    plain = HDBSCAN(copy=True).fit(X / np.linalg.norm(X, axis=1, keepdims=True)).labels_
    assert adjusted_rand_score(truth, ours) > 0.95 > 0.7 > adjusted_rand_score(truth, plain)


def test_noise_among_groups_is_not_mixed_into_tight_ones(clf, unknown):
    noise = 5.0 * np.random.default_rng(0).normal(size=(30, 30))
    result = discover(clf, np.vstack([unknown[0], noise]), rejected_only=False)
    grouped = result.labels[: len(unknown[0])]
    assert adjusted_rand_score(unknown[1], grouped) > 0.9
    for group in result.groups:
        if group.is_tight and (group.rows < len(unknown[0])).any():
            assert np.mean(group.rows >= len(unknown[0])) < 0.1


def test_accepted_samples_are_left_out_unless_asked_for(clf, world, unknown):
    known, _ = world.known(30)
    X = np.vstack([known, unknown[0]])
    rejected = clf.decide(X).rejected
    result = discover(clf, X)
    np.testing.assert_array_equal(result.labels == -2, ~rejected)
    assert result.n_grouped + len(result.noise) == rejected.sum()
    assert not (discover(clf, X, rejected_only=False).labels == -2).any()


def test_the_order_of_the_rows_does_not_matter(clf, unknown, found):
    order = np.random.default_rng(9).permutation(len(unknown[0]))
    other = discover(clf, unknown[0][order])
    np.testing.assert_array_equal(other.labels, found.labels[order])
    for a, b in zip(found.groups, other.groups, strict=True):
        check_same([b.tightness, b.nearest], [a.tightness, a.nearest])
        np.testing.assert_array_equal(order[list(b.typical)], a.typical)


def test_a_seed_determines_the_result(clf, unknown, found):
    again = discover(clf, unknown[0], random_state=0)
    assert again.to_dict() == found.to_dict()
    other = discover(clf, unknown[0], random_state=1)
    assert adjusted_rand_score(other.labels, found.labels) > 0.9


def test_copies_have_the_label_of_their_sample_and_change_no_group(clf, unknown, found):
    X = np.vstack([unknown[0], unknown[0][:50], unknown[0][:10]])
    result = discover(clf, X)
    np.testing.assert_array_equal(result.labels[120:170], result.labels[:50])
    np.testing.assert_array_equal(result.labels[170:], result.labels[:10])
    # Groups are numbered by their size, copies included.
    assert adjusted_rand_score(result.labels[:120], found.labels) == 1.0
    check_same(sorted(g.tightness for g in result.groups), sorted(g.tightness for g in found.groups))


def test_samples_of_length_zero_are_noise(clf, unknown):
    result = discover(clf, np.vstack([np.zeros((3, 30)), unknown[0]]))
    assert (result.labels[:3] == -1).all()
    assert adjusted_rand_score(unknown[1], result.labels[3:]) > 0.95


def test_the_nearest_classes_are_the_candidates_of_the_members(clf, unknown, found):
    candidates = clf.candidate(unknown[0])
    for group in found.groups:
        labels, counts = np.unique(candidates[group.rows], return_counts=True)
        assert dict(group.nearest) == pytest.approx(dict(zip(labels.tolist(), counts / group.size, strict=True)))
        shares = [share for _, share in group.nearest]
        assert shares == sorted(shares, reverse=True)


def test_typical_samples_are_members_nearest_to_the_mean_first(clf, unknown, found):
    X = unknown[0] / np.linalg.norm(unknown[0], axis=1, keepdims=True)
    for group in found.groups:
        distance = np.linalg.norm(X[group.rows] - X[group.rows].mean(axis=0), axis=1)
        np.testing.assert_array_equal(group.typical, group.rows[np.argsort(distance)[:8]])
    assert all(len(group.typical) == 2 for group in discover(clf, unknown[0], n_typical=2).groups)


def test_a_kernel_classifier_and_a_method_without_a_dictionary_discover_too(world, unknown):
    for other in (
        SROSRClassifier(kernel="rbf", gamma=0.02, n_repeats=2, random_state=0),
        SROSRClassifier(normalize=False, n_repeats=2, random_state=0),
        srosr.KNNDistance(),
    ):
        other.fit(*world.known(30))
        result = discover(other, unknown[0], rejected_only=False)
        assert result.n_grouped > 0.9 * len(unknown[0]), other
        for group in result.groups:
            assert np.bincount(unknown[1][group.rows]).max() > 0.9 * group.size, other


def test_a_class_made_of_a_group_recognizes_samples_of_it_that_were_held_back(world, unknown):
    clf = SROSRClassifier(n_repeats=5, random_state=0).fit(*world.known(30))
    found = discover(clf, unknown[0])
    group = found.groups[0]
    true = np.bincount(unknown[1][group.rows]).argmax()
    later = world.of(np.full(60, true))
    assert np.mean(clf.predict(later) == clf.unknown_label_) > 0.8
    clf.add_class(unknown[0][group.rows], 9)
    assert np.mean(clf.predict(later) == 9) > 0.8


def test_batches_give_what_all_samples_at_once_do(clf, unknown, found):
    collector = DiscoveryCollector(clf)
    for start in range(0, len(unknown[0]), 50):
        X = unknown[0][start : start + 50]
        collector.add(X, clf.decide(X))
    check_same(collector.discover().to_dict(), found.to_dict())


# Bad input


def test_too_few_samples_are_one_sentence(clf, unknown, world):
    with pytest.raises(ValueError, match=r"^X has 3 rejected samples; groups of at least 5 need 10 different ones"):
        discover(clf, unknown[0][:3])
    with pytest.raises(ValueError, match=r"groups of at least 70 need 140"):
        discover(clf, unknown[0], min_size=70)
    known = world.known(30)[0]
    with pytest.raises(ValueError, match=r"^X has no rejected sample among"):
        discover(clf, known[~clf.decide(known).rejected])


def test_copies_of_one_sample_are_too_few(clf, unknown):
    with pytest.raises(ValueError, match=r"^X has 40 rejected samples, 1 of them different; groups of at least 5"):
        discover(clf, np.repeat(unknown[0][:1], 40, axis=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_size": 1}, "min_size must be"),
        ({"min_size": 2.5}, "min_size must be"),
        ({"n_typical": 0}, "n_typical must be"),
        ({"rejected_only": "yes"}, "rejected_only must be"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_bad_parameters_are_named(clf, unknown, arguments, message):
    with pytest.raises(ValueError, match=message):
        discover(clf, unknown[0], **arguments)


def test_bad_samples_are_errors_as_in_predict(clf, unknown):
    with pytest.raises(ValueError, match="NaN"):
        discover(clf, np.where(np.arange(30) == 3, np.nan, unknown[0]))
    with pytest.raises(ValueError, match="features"):
        discover(clf, unknown[0][:, :7])


def test_similarities_are_not_samples(clf, world, unknown):
    X, y = world.known(10)
    other = SROSRClassifier(kernel="precomputed", n_repeats=2, random_state=0).fit(X @ X.T, y)
    queries = Queries(unknown[0] @ X.T, np.sum(unknown[0] ** 2, axis=1))
    with pytest.raises(ValueError, match="precomputed"):
        discover(other, queries)
    with pytest.raises(ValueError, match="must be samples"):
        discover(clf, clf.dictionary_.query(unknown[0]))


def test_only_fitted_open_set_classifiers_discover(clf, unknown):
    with pytest.raises(ValueError, match=r"clf must be an open set classifier, got OpenSetPipeline"):
        discover(srosr.make_open_set_pipeline(clf), unknown[0])
    with pytest.raises(NotFittedError):
        discover(SROSRClassifier(), unknown[0])


# Text and files


def test_it_prints_as_a_table_with_a_line_for_each_group(found):
    first, heading, *lines = str(found).split("\n")
    assert first.startswith("120 of 120 samples in 3 groups (3 tight), 0 in none") or "in 3 groups" in first
    assert heading.split()[0] == "group" and len(lines) == 3
    for group, line in zip(found.groups, lines, strict=True):
        assert line.split()[:2] == [str(group.number), str(group.size)] and "tight" in line
        assert str(group).startswith(f"Group {group.number}: {group.size} samples, tight")


def test_a_file_holds_the_whole_discovery(found, tmp_path):
    found.save(tmp_path / "d.json")
    again = srosr.Discovery.load(tmp_path / "d.json")
    assert again.to_dict() == found.to_dict() and str(again) == str(found)
    np.testing.assert_array_equal(again.labels, found.labels)
    assert again.fingerprint == found.fingerprint
    assert json.loads((tmp_path / "d.json").read_text())["format"] == "srosr discovery"


def test_the_fingerprint_is_that_of_the_samples_in_their_order(found, unknown):
    import hashlib

    assert found.fingerprint.sha256 == hashlib.sha256(unknown[0].astype("<f8").tobytes()).hexdigest()
    hasher = SampleHasher(30)
    for part in np.split(unknown[0], 4):
        hasher.add(part)
    assert hasher.fingerprint == found.fingerprint


@pytest.fixture(scope="module")
def content(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "d.json"
    found.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("sha256"), "sha256 is missing"),
        (lambda d: d.update(sha256="x" * 64), "invalid sha256"),
        (lambda d: d.update(n_rows=-1), "invalid n_rows"),
        (lambda d: d.update(n_rows=10**30), "invalid n_rows"),
        (lambda d: d.update(n_samples=True), "invalid n_samples"),
        (lambda d: d.update(version=2), "another version"),
        (lambda d: d.update(format="pickle"), "is not a discovery file"),
        (lambda d: d.update(noise=[0, 0]), "invalid order"),
        (lambda d: d.update(noise=[d["groups"][0]["rows"][0]]), "listed twice"),
        (lambda d: d.update(groups={"0": 1}), "invalid groups"),
        (lambda d: d.update(groups=[3]), "invalid group 0"),
        (lambda d: d.update(classes=[1]), "invalid classes"),
        (lambda d: d["groups"][0].update(rows=[]), "has no rows"),
        (lambda d: d["groups"][0].update(rows=[500]), "invalid rows of group 0"),
        (lambda d: d["groups"][0].update(number=1), "invalid number"),
        (lambda d: d["groups"][0].update(tightness=2), "invalid tightness"),
        (lambda d: d["groups"][0].update(nearest=[{"label": [], "share": 1}]), "invalid class of group 0"),
        (lambda d: d["groups"][0].update(nearest=[{"label": 1}]), "share is missing"),
        (lambda d: d["groups"][0].update(typical=d["groups"][1]["rows"][:1]), "is not in it"),
    ],
)
def test_a_forged_file_is_one_sentence(content, tmp_path, change, message):
    forged = json.loads(content)
    change(forged)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(forged))
    with pytest.raises(DiscoveryFileError, match=message) as caught:
        srosr.Discovery.load(path)
    assert "forged.json" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "null", '{"format": NaN}', "\ufeff{}", "1" * 10_000])
def test_what_is_not_a_discovery_is_one_sentence(tmp_path, text):
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(DiscoveryFileError, match="is not a discovery file"):
        srosr.Discovery.load(tmp_path / "d.json")


@given(st.data())
def test_a_damaged_file_is_an_error_or_a_sound_discovery(content, tmp_path_factory, data):
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("damaged") / "d.json"
    path.write_bytes(bytes(damaged))
    try:
        found = srosr.Discovery.load(path)
    except DiscoveryFileError as error:
        assert "\n" not in str(error).removeprefix(str(path))
        return
    assert len(found.labels) >= found.fingerprint.n_samples >= found.n_grouped + len(found.noise)
    for group in found.groups:
        assert (found.labels[group.rows] == group.number).all() and set(group.typical) <= set(group.rows.tolist())
    found.save(path)
    assert srosr.Discovery.load(path).to_dict() == found.to_dict()


# Features and the page


def test_distinctive_features_are_those_with_the_largest_standardized_difference():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 10)) * np.arange(1, 11)
    X[:, 4] = 7.0
    inside = np.arange(80) < 20
    X[inside, 6] += 30
    X[inside, 2] -= 9
    found = find_distinctive_features(X, inside, 20)
    assert [f.place for f in found][:2] in ([6, 2], [2, 6]) and len(found) == 9 and 4 not in {f.place for f in found}
    for f in found:
        expected = (X[inside, f.place].mean() - X[~inside, f.place].mean()) / X[:, f.place].std()
        assert f.difference == pytest.approx(expected)
    assert find_distinctive_features(X, np.ones(80, bool)) == []


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_an_encoded_picture_has_the_same_gray_values(height, width, seed):
    gray = np.random.default_rng(seed).integers(0, 256, (height, width)).astype(np.uint8)
    encoded = make_data_uri(gray).removeprefix("data:image/png;base64,")
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(b64decode(encoded)))), gray)


def test_the_page_escapes_names_and_shows_every_group(found):
    from html.parser import HTMLParser

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.pictures = [], 0

        def handle_starttag(self, tag, attributes):
            self.tags.append(tag)
            self.pictures += tag == "img" and dict(attributes)["src"].startswith("data:image/png;base64,")

    typical = [row for group in found.groups for row in group.typical]
    content = PageContent(
        facts=[("data", "<script>alert(1)</script>")],
        pictures={row: np.zeros((4, 4), np.uint8) for row in typical},
        names={row: f"<b>{row}</b>.png" for row in typical},
    )
    page = render_discovery(found, title="A & B", content=content).decode()
    reader = Reader()
    reader.feed(page)
    assert "script" not in reader.tags and "A &amp; B" in page and "&lt;script&gt;" in page
    assert reader.pictures == len(typical)
    assert all(f'id="group-{group.number}"' in page for group in found.groups)


@pytest.mark.slow
def test_the_session_of_the_guide_runs_as_printed():
    import doctest
    from pathlib import Path

    page = Path(__file__).resolve().parents[1] / "docs" / "guide" / "discovery.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert tried and not failed


def merge_plainly(affinity, labels):
    """Merge the pair of groups with the largest scaled modularity until none is larger, trying every pair."""
    total = affinity.sum()

    def measure(labels):
        inside = [labels == k for k in np.unique(labels[labels >= 0])]
        within = sum(affinity[np.ix_(own, own)].sum() for own in inside)
        expected = sum(affinity[own].sum() ** 2 for own in inside) / total**2
        return (within / total - expected) / np.sqrt(1 - expected)

    labels = labels.copy()
    while True:
        names = np.unique(labels[labels >= 0])
        unions = [np.where(labels == b, a, labels) for i, a in enumerate(names) for b in names[i + 1 :]]
        if not unions or max(map(measure, unions)) <= measure(labels):
            return labels
        labels = max(unions, key=measure)


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_merged_as_by_trying_every_pair(seed):
    from scipy import sparse

    from srosr.discovery.affinity_groups import _merge_groups

    rng = np.random.default_rng(seed)
    links = np.where(rng.random((60, 60)) < 0.06, rng.random((60, 60)), 0.0)
    affinity = links + links.T
    labels = np.concatenate([np.arange(8), rng.integers(-1, 8, 52)])
    expected = merge_plainly(affinity, labels)
    found = _merge_groups(sparse.csr_array(affinity), labels)
    assert adjusted_rand_score(expected, found) == 1.0
    np.testing.assert_array_equal(found < 0, labels < 0)
