"""The benchmark checks codes correctly, and runs with whatever opponents are installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # the benchmarks are run from the repository and are not installed
    sys.path.insert(0, str(ROOT))

from benchmarks import coding, report, scaling, timing  # noqa: E402
from benchmarks import opponents as opponent_files  # noqa: E402
from benchmarks.code_checks import GAP_TOL, Reference, check_codes  # noqa: E402
from benchmarks.problems import SETS, ProblemSet, Task, Unavailable, digits, unit_rows  # noqa: E402
from srosr import BPDN, Lasso  # noqa: E402


def soft_threshold(values, by):
    return np.sign(values) * np.maximum(np.abs(values) - by, 0.0)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def orthonormal(rng):
    """Return six orthonormal atoms in nine dimensions, as rows, and unit queries."""
    atoms = np.linalg.qr(rng.normal(size=(9, 6)))[0].T
    return np.ascontiguousarray(atoms), unit_rows(rng.normal(size=(5, 9)))


# Checks on problems whose solution is known


def test_soft_thresholding_is_certified_as_the_lasso_of_orthonormal_atoms(orthonormal):
    atoms, queries = orthonormal
    exact = soft_threshold(queries @ atoms.T, 0.1)
    verdict = check_codes(atoms, queries, Lasso(0.1), exact)
    assert np.all(np.abs(verdict.gap) < 1e-12)
    assert verdict.certified.all()
    expected = 0.5 * np.sum((queries - exact @ atoms) ** 2, axis=1) + 0.1 * np.abs(exact).sum(axis=1)
    np.testing.assert_allclose(verdict.objective, expected, rtol=1e-14)


def test_codes_of_another_penalty_are_not_certified(orthonormal):
    atoms, queries = orthonormal
    verdict = check_codes(atoms, queries, Lasso(0.1), soft_threshold(queries @ atoms.T, 0.101))
    assert np.all(verdict.gap > GAP_TOL)
    assert not verdict.certified.any()


def test_the_lasso_gap_never_understates_the_true_suboptimality(orthonormal, rng):
    atoms, queries = orthonormal
    exact = soft_threshold(queries @ atoms.T, 0.1)
    best = check_codes(atoms, queries, Lasso(0.1), exact).objective
    for size in (1e-4, 1e-2, 1.0):
        verdict = check_codes(atoms, queries, Lasso(0.1), exact + size * rng.normal(size=exact.shape))
        assert np.all(verdict.gap * verdict.objective >= verdict.objective - best - 1e-13)


def test_no_codes_at_all_solve_the_lasso_of_a_large_penalty_only(orthonormal):
    atoms, queries = orthonormal
    nothing = sp.csr_array((len(queries), len(atoms)))
    assert check_codes(atoms, queries, Lasso(1.5), nothing).certified.all()
    assert not check_codes(atoms, queries, Lasso(0.01), nothing).certified.any()


def bpdn_of_orthonormal_atoms(atoms, query, epsilon):
    """Solve BPDN by soft thresholding at the level where the residual is epsilon, found by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        code = soft_threshold(query @ atoms.T, middle)
        low, high = (low, middle) if np.linalg.norm(query - code @ atoms) > epsilon else (middle, high)
    return soft_threshold(query @ atoms.T, low)


def test_bpdn_of_orthonormal_atoms_is_certified_and_its_neighbors_are_not(orthonormal):
    atoms, queries = orthonormal
    epsilon = 1.1 * Reference(atoms).least_squares_residual(queries).max()
    exact = np.array([bpdn_of_orthonormal_atoms(atoms, q, epsilon) for q in queries])
    verdict = check_codes(atoms, queries, BPDN(epsilon), exact)
    assert not verdict.infeasible.any()
    assert verdict.certified.all()
    assert verdict.violation.max() < 1e-12
    moved = check_codes(atoms, queries, BPDN(epsilon), 1.001 * exact)
    assert not moved.certified.any()
    short = check_codes(atoms, queries, BPDN(epsilon), 0.999 * exact)
    assert np.all(short.violation > 1e-6)
    assert not short.valid.any()


def test_out_of_reach_epsilon_asks_for_least_squares_at_full_rank(rng):
    atoms = unit_rows(rng.normal(size=(6, 12)))
    queries = unit_rows(rng.normal(size=(4, 12)))
    exact = np.linalg.lstsq(atoms.T, queries.T, rcond=None)[0].T
    verdict = check_codes(atoms, queries, BPDN(0.001), exact)
    assert verdict.infeasible.all()
    assert verdict.certified.all()
    wrong = exact.copy()
    wrong[:, 0] += 1e-3
    assert not check_codes(atoms, queries, BPDN(0.001), wrong).certified.any()


def test_out_of_reach_epsilon_asks_for_the_smallest_norm_at_deficient_rank(rng):
    # A plane in three dimensions, each direction twice but shorter the second time: using a short atom costs more.
    basis = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    atoms = np.vstack([basis, 0.5 * basis])
    query = np.array([[0.7, -0.4]]) @ basis + 0.3 * np.cross(*basis)
    best = check_codes(atoms, query, BPDN(0.01), np.array([[0.7, -0.4, 0.0, 0.0]]))
    assert best.infeasible.all()
    assert best.certified.all()
    assert best.objective[0] == pytest.approx(1.1)
    costly = check_codes(atoms, query, BPDN(0.01), np.array([[0.0, -0.4, 1.4, 0.0]]))
    assert costly.valid.all()
    assert not costly.certified.any()
    assert costly.gap[0] >= (1.8 - 1.1) / 1.8
    outside = check_codes(atoms, query, BPDN(0.01), np.zeros((1, 4)))
    assert not outside.valid.any()


def test_the_deficient_bound_agrees_with_a_linear_program(rng):
    from scipy.optimize import linprog

    atoms = unit_rows(rng.normal(size=(14, 4)) @ rng.normal(size=(4, 9)))
    queries = unit_rows(rng.normal(size=(3, 9)))
    reference = Reference(atoms)
    assert reference.rank == 4
    codes = []
    for query in queries:
        projected = np.linalg.lstsq(atoms.T, query, rcond=None)[0] @ atoms
        # Rows of the equations that depend on others would trouble the solver: state them in a basis of the span.
        frame = np.linalg.svd(atoms)[2][:4]
        equations = frame @ np.hstack([atoms.T, -atoms.T])
        halves = linprog(np.ones(28), A_eq=equations, b_eq=frame @ projected, bounds=(0, None)).x
        codes.append(halves[:14] - halves[14:])
    verdict = check_codes(atoms, queries, BPDN(0.01), np.array(codes), reference)
    assert verdict.infeasible.all()
    assert verdict.certified.all()


def test_a_degenerate_support_is_certified_although_its_shortest_dual_vector_fails(rng):
    # All atoms are scaled so that v separates: product one on the first three, less on the others.
    span = np.linalg.qr(rng.normal(size=(9, 6)))[0].T
    v = rng.normal(size=6) @ span
    atoms = rng.normal(size=(30, 6)) @ span
    atoms *= (np.r_[np.ones(3), np.full(27, 0.9)] / (atoms @ v))[:, None]
    code = np.r_[0.5, 0.3, 0.2, np.zeros(27)][None]
    query = code @ atoms + 0.5 * np.linalg.svd(span)[2][-1]
    shortest = np.linalg.lstsq(atoms[:3], np.ones(3), rcond=None)[0]
    assert np.abs(atoms @ shortest).max() > 1.01
    verdict = check_codes(atoms, query, BPDN(0.1), code)
    assert verdict.infeasible.all()
    assert verdict.certified.all()


def test_codes_that_are_not_finite_fail_and_affect_no_others(orthonormal):
    atoms, queries = orthonormal
    codes = soft_threshold(queries @ atoms.T, 0.1)
    codes[2, 3] = np.nan
    verdict = check_codes(atoms, queries, Lasso(0.1), codes)
    assert verdict.certified.tolist() == [True, True, False, True, True]
    assert verdict.gap[2] == np.inf


def test_checking_leaves_codes_unchanged_and_accepts_sparse_ones(orthonormal):
    atoms, queries = orthonormal
    codes = soft_threshold(queries @ atoms.T, 0.1)
    kept = codes.copy()
    dense = check_codes(atoms, queries, Lasso(0.1), codes)
    sparse = check_codes(atoms, queries, Lasso(0.1), sp.csr_array(codes))
    np.testing.assert_array_equal(codes, kept)
    np.testing.assert_array_equal(dense.gap, sparse.gap)
    with pytest.raises(ValueError, match="shape"):
        check_codes(atoms, queries, Lasso(0.1), codes[:2])


# Problems


def test_missing_data_sets_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("SROSR_DATA_DIR", raising=False)
    for name in ("yaleb", "mnist", "uiuc"):
        with pytest.raises(Unavailable, match="SROSR_DATA_DIR"):
            SETS[name]()
    monkeypatch.setenv("SROSR_DATA_DIR", str(tmp_path))
    with pytest.raises(Unavailable, match="is not under"):
        SETS["mnist"]()


def test_the_bundled_set_has_unit_rows_and_disjoint_queries():
    data = digits(n_queries=50)
    np.testing.assert_allclose(np.linalg.norm(data.atoms, axis=1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(data.queries, axis=1), 1.0)
    assert np.max(data.queries @ data.atoms.T) < 1.0
    np.testing.assert_array_equal(digits(n_queries=20).queries, data.queries[:20])


# The run


class Slow:
    """An opponent made for the test: right answers for orthonormal atoms, or an exception."""

    REFERENCE, LICENSE, DISTRIBUTION = "none", "none", "numpy"
    BUDGET, TWO_THREADS = 10.0, False

    def __init__(self, name, broken=False):
        self.NAME, self.broken, self.sizes = name, broken, []

    def skip_reason(self):
        return None

    def supports(self, problem):
        return None if isinstance(problem, Lasso) else "Lasso only"

    def solve(self, atoms, queries, problem, threads):
        if self.broken:
            raise RuntimeError("out of order")
        self.sizes.append(len(queries))
        return soft_threshold(queries @ atoms.T, problem.alpha)


@pytest.fixture
def small_case(orthonormal):
    atoms, queries = orthonormal
    data = ProblemSet("toy", "toy", atoms, queries, (Task(Lasso(0.1)),))
    (case,) = timing.cases(data, Reference(atoms))
    return case


def test_an_opponent_that_breaks_is_a_reason_and_not_the_end(small_case):
    records, skipped = timing.measure(
        small_case, [Slow("ours"), Slow("other", broken=True)], repeat=2, two_threads=False
    )
    assert [r["solver"] for r in records] == ["ours"]
    assert records[0]["certified"] == 1.0
    assert len(records[0]["all_seconds"]) == timing.MOST_TURNS  # it is short
    assert "out of order" in skipped[0]["reason"]


def test_ratios_compare_the_same_queries(small_case, monkeypatch):
    ours, other = Slow("ours"), Slow("other")
    monkeypatch.setattr(timing, "afford", lambda who, *rest: timing.Run(who, 5 if who is ours else 3))
    records, _ = timing.measure(small_case, [ours, other], repeat=1, two_threads=False)
    theirs = records[1]
    assert (theirs["n"], theirs["n_case"]) == (3, 5)
    assert ours.sizes == [3, 5, 3]  # the warm-up, all queries, and those of the ratio
    assert theirs["ratio"] == pytest.approx(theirs["seconds"] / theirs["ours_seconds_same_queries"])


def test_feasible_and_infeasible_samples_are_separate_cases(rng):
    atoms = unit_rows(rng.normal(size=(3, 8)))
    inside = unit_rows(rng.normal(size=(4, 3)) @ atoms)
    outside = unit_rows(rng.normal(size=(2, 8)))
    data = ProblemSet("toy", "toy", atoms, np.vstack([outside, inside]), (Task(BPDN(0.1)),))
    split = {case.part: len(case.queries) for case in timing.cases(data, Reference(atoms))}
    assert split == {"feasible": 4, "infeasible": 2}


def run_quick(tmp_path, *arguments):
    path = tmp_path / "out.json"
    result = CliRunner().invoke(
        coding.main, ["--quick", "--only", "digits", "--queries", "12", "--json", str(path), *arguments]
    )
    assert result.exit_code == 0, result.output
    return result.output, json.loads(path.read_text())


def test_a_quick_run_without_the_optional_opponents_says_so_and_certifies_ours(tmp_path, monkeypatch):
    for module in ("spams", "spgl1"):
        monkeypatch.setitem(sys.modules, module, None)
    find = opponent_files.importlib.util.find_spec
    monkeypatch.setattr(
        opponent_files.importlib.util,
        "find_spec",
        lambda name, *rest: None if name in ("spams", "spgl1") else find(name, *rest),
    )
    output, content = run_quick(tmp_path)
    assert "skipped SPAMS: spams-bin is not installed" in output
    assert "skipped SPGL1: spgl1 is not installed" in output
    assert {s["solver"] for s in content["skipped"] if "bench" in s["reason"]} >= {"SPAMS", "SPGL1"}
    solvers = {r["solver"] for r in content["records"]}
    assert solvers == {"srosr", "sklearn CD", "sklearn LARS"}
    ours = [r for r in content["records"] if r["solver"] == "srosr" and r["threads"] == 1]
    assert {r["problem"] for r in ours} == {"Lasso 0.05", "BPDN 0.1"}
    assert all(r["certified"] == 1.0 and r["worst_gap"] <= GAP_TOL for r in ours)


def test_the_records_are_tidy_and_name_the_environment_but_no_place(tmp_path):
    output, content = run_quick(tmp_path, "--threads", "1", "--opponents", "sklearn-cd")
    assert {"cpu", "python", "versions", "blas"} <= set(content["environment"])
    assert len({tuple(sorted(r)) for r in content["records"]}) == 1
    assert str(ROOT) not in json.dumps(content)
    assert "| Lasso 0.05" in output  # a plain table when piped
    assert {r["threads"] for r in content["records"]} == {1}


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    result = CliRunner().invoke(coding.main, ["--only", "faces"])
    assert result.exit_code != 0
    assert "yaleb" in result.output
    result = CliRunner().invoke(coding.main, ["--opponents", "nobody"])
    assert result.exit_code != 0
    assert "spams" in result.output


def test_every_opponent_file_keeps_the_contract():
    modules = opponent_files.load()
    assert modules[0].NAME == "srosr"
    for module in modules:
        for name in ("NAME", "REFERENCE", "LICENSE", "DISTRIBUTION"):
            assert isinstance(getattr(module, name), str)
        assert module.BUDGET is None or module.BUDGET > 0
        assert isinstance(module.TWO_THREADS, bool)
        assert module.supports(Lasso(0.1)) is None or module.supports(BPDN(0.1)) is None


@pytest.mark.parametrize("module", opponent_files.load(), ids=lambda m: m.NAME)
def test_every_installed_opponent_solves_what_it_claims(module, orthonormal):
    """A wrong scaling of a penalty would show here: all must come near the known solution."""
    if module.skip_reason() is not None:
        pytest.skip(module.skip_reason())
    atoms, queries = orthonormal
    epsilon = 1.1 * Reference(atoms).least_squares_residual(queries).max()
    exact = {
        Lasso(0.1): soft_threshold(queries @ atoms.T, 0.1),
        BPDN(epsilon): np.array([bpdn_of_orthonormal_atoms(atoms, q, epsilon) for q in queries]),
    }
    for problem, expected in exact.items():
        if module.supports(problem) is None:
            codes = module.solve(atoms, queries, problem, 1)
            codes = codes.toarray() if sp.issparse(codes) else codes
            np.testing.assert_allclose(codes, expected, atol=2e-3)


def test_targets_are_held_against_the_right_rows():
    base = {"part": "all", "n_case": 100, "threads": 1, "two_thread_speedup": None}
    base |= {"certified": 1.0, "worst_excess": 0.0, "problem": "Lasso 0.05", "case": "Lasso 0.05"}
    rows = [
        base | {"set": "yaleb", "solver": "SPAMS", "ratio": 2.0},
        base | {"set": "mnist", "solver": "SPAMS", "ratio": 8.0},
        base | {"set": "mnist", "solver": "SPAMS", "ratio": 1.0, "n_case": 3},
        base | {"set": "mnist", "solver": "SPAMS", "ratio": 1.0, "problem": "BPDN 0.001", "part": "feasible"},
        base | {"set": "digits", "solver": "SPAMS", "ratio": 0.5},
    ]
    lines = {line["what"]: line for line in report.summarize(rows, "srosr")}
    assert lines["mean SPAMS ratio, feasible"]["reached"] == pytest.approx(4.0)
    assert lines["least SPAMS ratio, feasible"]["met"] is True
    assert lines["least SPGL1 ratio"]["reached"] is None


def test_growth_exponents_are_slopes():
    assert scaling.fit_exponent([10, 20, 40], [1.0, 2.0, 4.0]) == pytest.approx(1.0)


@pytest.mark.slow
def test_what_jobs_are_worth_is_timed_on_equal_tables():
    from benchmarks.processes import main

    outcome = CliRunner().invoke(main, ["digits", "--trials", "2", "--methods", "knn"])
    assert outcome.exit_code == 0, outcome.output
    assert "ratio" in outcome.output and "the same, byte for byte" in outcome.output
    assert CliRunner().invoke(main, ["digit"]).exit_code == 1
