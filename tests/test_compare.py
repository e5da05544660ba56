"""``srosr compare``: classes left out in turn, the recommendation, and the command from a file to its report."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from command_runs import run as run_command
from same import check_same

from srosr import openness
from srosr.cli.app import main
from srosr.cli.comparison_data import read_comparison_data
from srosr.cli.input_data import FeatureOptions
from srosr.datasets.dataset import Dataset
from srosr.experiments.comparison_protocol import LEAST_SAMPLES, choose_folds, choose_rounds, plan_comparison
from srosr.experiments.protocol import UNKNOWN, ProtocolError
from srosr.experiments.protocol_file import load_protocol
from srosr.experiments.result_tables import read_results
from srosr.experiments.run_identity import decode, encode
from srosr.experiments.trial import RunSettings, run_trial
from srosr.reports.recommendation import CRITERIA, describe_rule, rank_standings, recommend
from srosr.rivals.methods import open_set_methods
from srosr.tables.data_overview import ClassSampler, number_classes
from srosr.tables.read_options import ReadOptions


def made_up(sizes, seed=0, n_features=4) -> Dataset:
    """Return classes of the given sizes, each around a center of its own."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = 4.0 * rng.standard_normal((len(sizes), n_features))[y] + rng.standard_normal((len(y), n_features))
    return Dataset("made-up", X, y, tuple("abcdefghijklmnop"[: len(sizes)]), "made up")


# -- classes take turns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "folds"),
    [((5, 6, 7), None), ((9,) * 7, 3), ((20,) * 10, None), ((4, 2, 9, 1, 8, 7), None), ((3,) * 11, 4)],
    ids=["three classes", "seven in three", "ten", "two of them small", "eleven in four"],
)
def test_every_class_is_unknown_exactly_once_a_round(sizes, folds):
    data = made_up(sizes)
    protocol = plan_comparison(data, file="", folds=folds, rounds=3)
    assert protocol.trials == 3 * protocol.folds
    for round in range(3):
        trials = [protocol.draw(data, round * protocol.folds + fold, seed=5) for fold in range(protocol.folds)]
        assert sorted(np.concatenate([trial.unknown for trial in trials])) == list(range(len(sizes)))
        assert max(len(t.unknown) for t in trials) - min(len(t.unknown) for t in trials) <= 1
        assert all(len(trial.known) >= 2 for trial in trials)


@pytest.mark.parametrize("sizes", [(5, 6, 7), (30, 3, 11, 2, 8)], ids=["three classes", "one small"])
def test_no_sample_is_in_training_and_testing_and_labels_are_those_of_the_data(sizes):
    data = made_up(sizes)
    protocol = plan_comparison(data, file="", rounds=2)
    for number in range(protocol.trials):
        trial = protocol.draw(data, number, seed=1)
        both = np.concatenate([trial.train, trial.test])
        assert len(set(both.tolist())) == len(both)
        assert np.array_equal(trial.y_train, data.y[trial.train])
        assert set(trial.y_train.tolist()) == set(trial.known.tolist())
        assert not set(data.y[trial.train].tolist()) & set(trial.unknown.tolist())
        is_unknown = trial.y_test == UNKNOWN
        assert np.array_equal(trial.y_test[~is_unknown], data.y[trial.test[~is_unknown]])
        assert set(trial.test[is_unknown].tolist()) == set(np.flatnonzero(np.isin(data.y, trial.unknown)).tolist())
        for c in trial.known:
            n, n_test = int((data.y == c).sum()), int((trial.y_test == c).sum())
            assert n_test == min(max(round(0.3 * n), 1), n - 2)
        assert np.array_equal(trial.arrival > 0, is_unknown) and trial.arrival.max() == trial.levels[0]
        n_known, n_unknown = len(trial.known), len(trial.unknown)
        assert trial.openness(trial.levels[0]) == openness(n_known, n_known, n_known + n_unknown)


def test_a_class_of_few_samples_is_tested_but_never_learned():
    data = made_up((12, LEAST_SAMPLES - 1, 12, 12))
    protocol = plan_comparison(data, file="", rounds=2)
    trials = [protocol.draw(data, number) for number in range(protocol.trials)]
    assert all(1 not in trial.known for trial in trials)
    assert sum(1 in trial.unknown for trial in trials) == 2


def test_the_seed_and_the_number_of_a_trial_decide_all():
    data = made_up((9,) * 8)
    protocol = plan_comparison(data, file="")
    parts = ("train", "y_train", "test", "y_test", "arrival", "known", "unknown")
    for number in range(protocol.trials):
        one, same = protocol.draw(data, number, 3), protocol.draw(data, number, 3)
        assert all(np.array_equal(getattr(one, part), getattr(same, part)) for part in parts)
    assert any(
        not np.array_equal(protocol.draw(data, number, 3).unknown, protocol.draw(data, number, 4).unknown)
        for number in range(protocol.folds)
    )
    deals = {tuple(map(tuple, protocol.deal_groups(data, round))) for round in range(4)}
    assert len(deals) == 4


def test_a_method_finds_the_same_whichever_others_are_compared(tmp_path):
    data = made_up((10, 11, 12, 13))
    file = tmp_path / "samples.npz"
    np.savez(file, X=data.X, y=data.y, class_names=np.array(data.class_names))
    work = RunSettings(plan_comparison(data, file=str(file)), 0, data.fingerprint())
    together = run_trial(work, 2, ("knn", "osnn", "mahalanobis"))
    alone = run_trial(work, 2, ("osnn",))
    assert alone[0][0]["error"] is None
    check_same(together[1][0], alone[0][0])


def test_columns_are_standardized_by_the_training_samples_alone():
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(5.0, 3.0, (30, 3)), rng.normal(50.0, 3.0, (10, 3))
    X[:, 2] = X_test[:, 2] = 7.0
    protocol = plan_comparison(made_up((5, 5, 5)), file="", standardize=True)
    scaled, scaled_test = protocol.prepare_features(X, X_test)
    assert np.allclose(scaled.mean(axis=0), 0.0) and np.allclose(scaled[:, :2].std(axis=0), 1.0)
    assert np.allclose(scaled_test[:, :2] * X[:, :2].std(axis=0) + X[:, :2].mean(axis=0), X_test[:, :2])
    assert not scaled_test[:, 2].any()
    as_they_are = plan_comparison(made_up((5, 5, 5)), file="").prepare_features(X, X_test)
    assert as_they_are[0] is X and as_they_are[1] is X_test


def test_groups_of_different_sizes_are_one_level_in_a_report():
    table = pd.DataFrame({"trial": [0, 0, 1], "n_unknown": [2, 2, 3], "openness": [0.1, 0.1, 0.2], "value": 0.5})
    protocol = plan_comparison(made_up((5,) * 7), file="", folds=3)
    shown, words = protocol.merge_levels(table)
    assert set(shown["n_unknown"]) == {3} and np.allclose(shown["openness"], 0.15)
    assert words == "openness 10.00 to 20.00\N{NO-BREAK SPACE}% (2 or 3 classes left out in turn)"
    assert "1 class left out" in protocol.merge_levels(table.assign(n_unknown=1))[1]
    assert protocol.merge_levels(table[:0])[1] is None


@pytest.mark.parametrize(
    ("sizes", "folds", "message"),
    [
        ((5, 5), None, "has 2 classes of at least 3 samples; at least three are needed"),
        ((5, 5, 2), None, r"has 2 classes of at least 3 samples \(c has fewer\)"),
        ((5, 5, 5), 2, "use 3"),
        ((5, 5, 5, 5), 5, "5 folds of 4 classes"),
    ],
    ids=["two", "two and a small one", "one known", "an empty group"],
)
def test_too_few_classes_to_leave_any_out_are_an_error(sizes, folds, message):
    with pytest.raises(ProtocolError, match=message):
        plan_comparison(made_up(sizes), file="", folds=folds)


def test_the_usual_number_of_rounds_can_tell_the_methods_apart():
    for n_methods in range(2, 40):
        for folds in range(2, 6):
            trials = folds * choose_rounds(folds, n_methods)
            assert trials >= 10 and (n_methods - 1) * 2.0 ** (1 - trials) < 0.05
    assert [choose_folds(n) for n in (3, 4, 5, 6, 100)] == [3, 4, 5, 5, 5]
    assert choose_rounds(5, len(open_set_methods())) == 2


def test_methods_are_compared_with_the_defaults_that_a_fit_has():
    protocol = plan_comparison(made_up((5, 5, 5)), file="", target_rejection=0.1)
    for setting in protocol.methods:
        usual = open_set_methods()[setting.method].get_params()
        assert setting.parameters == {"target_rejection": 0.1, "normalize": usual["normalize"]}


def test_protocols_of_old_are_the_runs_they_were():
    identity = load_protocol("digits").identity()
    assert not {"folds", "standardize"} & set(identity)
    assert {"folds", "standardize"} <= set(plan_comparison(made_up((5, 5, 5)), file="").identity())
    one, other = (plan_comparison(made_up((5, 5, 5)), file=name, rounds=n) for name, n in (("x", 1), ("y", 9)))
    assert one.identity() == other.identity()


# -- a part of each class ----------------------------------------------------------------------------------


def test_what_is_drawn_depends_on_the_seed_and_not_on_the_batches():
    rng = np.random.default_rng(0)
    labels = rng.choice(["x", "y", "z"], 300, p=[0.7, 0.28, 0.02])
    X = np.arange(300.0)[:, None]

    def drawn(size, seed=0):
        sampled = ClassSampler(20, seed)
        for start in range(0, 300, size):
            sampled.add(X[start : start + size], labels[start : start + size])
        return sampled

    whole = drawn(300)
    for size in (1, 7, 299):
        assert all(np.array_equal(a, b) for a, b in zip(whole.take(), drawn(size).take(), strict=True))
    taken, of = whole.take()
    assert np.array_equal(labels[taken[:, 0].astype(int)], of) and np.all(np.diff(taken[:, 0]) > 0)
    counts = {name: int((labels == name).sum()) for name in "xyz"}
    assert whole.n_seen == counts
    assert {name: int((of == name).sum()) for name in "xyz"} == {name: min(n, 20) for name, n in counts.items()}
    assert not np.array_equal(taken, drawn(300, seed=1).take()[0])
    fewer, _ = whole.take(5)
    assert len(fewer) == 15 and set(fewer[:, 0]) <= set(taken[:, 0])


def test_every_sample_has_the_same_chance():
    hits = np.zeros(40)
    for seed in range(600):
        sampled = ClassSampler(10, seed)
        for start in (0, 25):
            sampled.add(
                np.arange(start, start + (25 if not start else 15))[:, None], np.full(25 if not start else 15, "a")
            )
        hits[sampled.take()[0][:, 0]] += 1
    # A binomial of 600 draws at one quarter has a standard deviation of 10.6.
    assert hits.sum() == 6000 and np.all(np.abs(hits - 150) < 5 * 10.6)


def test_classes_that_are_numbers_are_in_the_order_of_numbers():
    assert number_classes(["10", "9", "-1", "9"])[1] == ("-1", "9", "10")
    assert number_classes(["10", "9", "x"])[1] == ("10", "9", "x")
    assert number_classes(["--1", "9"])[1] == ("--1", "9")
    assert number_classes(["b", "a", "b"])[0].tolist() == [1, 0, 1]


# -- the rule ----------------------------------------------------------------------------------------------


def tables(values: dict[str, list[float]], predict: dict[str, float] | None = None):
    """Return results with one metric, and times."""
    rows = [(t, m, "oscr", v) for m, column in values.items() for t, v in enumerate(column) if v == v]
    results = pd.DataFrame(rows, columns=["trial", "method", "metric", "value"])
    times = [(t, m, 1.0, (predict or {}).get(m, 0.1)) for t, m, *_ in rows]
    return results, pd.DataFrame(times, columns=["trial", "method", "fit_seconds", "predict_seconds"])


def advised(values, predict=None, **options):
    results, times = tables(values, predict)
    return recommend(results, rank_standings(results, times, []), **options)


def noisy(mean: float, n: int = 12, spread: float = 0.01, seed: int = 0) -> list[float]:
    return (mean + spread * np.random.default_rng(seed).standard_normal(n)).tolist()


def nearly(values: list[float]) -> list[float]:
    """Return values that are a little higher in every second trial and a little lower in the others."""
    return [v + (0.002 if t % 2 else -0.003) + t / 1e5 for t, v in enumerate(values)]


def test_a_clear_winner_is_recommended_and_reported_as_ahead():
    found = advised({"slow": noisy(0.9, seed=1), "quick": noisy(0.8, seed=2), "b": noisy(0.5)}, {"quick": 0.001})
    assert found.method == "slow" and found.n_trials == 12
    assert [r.method for r in found.rivals] == ["quick", "b"] and not any(r.even for r in found.rivals)
    assert found.sentences[0].startswith("Recommended: slow. OSCR 0.9") and "of 3 methods" in found.sentences[0]
    assert "ahead of quick by 0.1" in found.sentences[1] and "and of 1 more." in found.sentences[1]
    assert "not distinguishable" not in " ".join(found.sentences)


def test_methods_indistinguishable_from_the_best_are_named_and_the_fastest_if_much_faster():
    base = noisy(0.9)
    like = nearly(base)
    found = advised({"best": base, "quick": like}, {"best": 0.3, "quick": 0.1})
    assert found.method == "best" and found.rivals[0].even
    assert found.sentences[-1].endswith(
        "Not distinguishable from best by the corrected test: quick; it predicts 3 times as fast."
    )
    found = advised({"best": base, "quick": like}, {"best": 0.19, "quick": 0.1})
    assert found.sentences[-1].endswith("Not distinguishable from best by the corrected test: quick.")
    third = [v - 0.2 for v in noisy(0.9, spread=0.4, seed=3)]
    named = advised({"best": base, "quick": like, "third": third}, {"best": 9.0, "quick": 0.1})
    assert "of these, quick predicts fastest, 90 times as fast" in named.sentences[-1]
    # A little below, but surely.
    sure = [v - 0.001 - t / 1e5 for t, v in enumerate(base)]
    found = advised({"best": base, "quick": sure}, {"best": 9.0, "quick": 0.1})
    assert not found.rivals[0].even and "quick by 0.001" in found.sentences[-1]


def test_equal_methods_are_even_and_the_first_by_name_is_recommended():
    found = advised({"b": noisy(0.9), "a": noisy(0.9)})
    assert found.method == "a" and found.rivals[0].even and found.rivals[0].p_holm == 1.0


def test_a_single_trial_recommends_the_highest_and_warns():
    found = advised({"a": [0.8], "b": [0.801]}, {"a": 0.001, "b": 5.0}, folds=5)
    assert found.method == "b" and len(found.sentences) == 1
    assert found.sentences[0] == "Recommended: b. OSCR 0.801 over one trial, the highest mean of 2 methods."
    assert found.cautions[0] == "One trial cannot separate 2 methods, whatever the results; --rounds 2 can."


def test_cautions_come_where_the_evidence_is_weak():
    many, enough = ({f"m{i:02d}": noisy(0.5 + i / 100, n, seed=i) for i in range(19)} for n in (9, 10))
    assert "9 trials cannot separate 19 methods" in " ".join(advised(many).cautions)
    assert "cannot separate" not in " ".join(advised(enough).cautions)
    assert "With 4 classes" in " ".join(advised(enough, n_classes=4).cautions)
    assert "classes" not in " ".join(advised(enough, n_classes=10).cautions)
    assert "approximate" in " ".join(advised(enough).cautions)


def test_a_method_that_failed_in_a_trial_is_not_recommended():
    found = advised({"a": [*noisy(0.99, 9), np.nan], "b": noisy(0.8, 10)})
    assert found.method == "b" and found.unfinished == ("a",) and found.rivals == ()
    assert "no other method finished" in found.sentences[0]
    assert advised({"a": [np.nan]}) is None


def test_methods_that_share_codes_have_the_seconds_of_the_one_that_computed_them():
    protocol = plan_comparison(made_up((5, 5, 5)), file="")
    results, _ = tables({"calibrated": [0.9], "paper": [0.8], "naive": [0.7], "knn": [0.6]})
    times = pd.DataFrame(
        [(0, "calibrated", 2.0, 0.5), (0, "paper", 0.1, 0.01), (0, "naive", 0.4, 0.02), (0, "knn", 0.3, 0.2)],
        columns=["trial", "method", "fit_seconds", "predict_seconds"],
    )
    found = {s.method: (s.fit_seconds, s.predict_seconds) for s in rank_standings(results, times, protocol.methods)}
    assert found == {"calibrated": (2.0, 0.5), "paper": (2.0, 0.5), "naive": (0.4, 0.5), "knn": (0.3, 0.2)}


def test_the_rule_is_stated():
    said = CliRunner().invoke(main, ["compare", "--help"]).output
    assert "highest mean of --by" in " ".join(said.split())
    for by in CRITERIA:
        assert "highest mean" in describe_rule(by) and "5 %" in describe_rule(by)


# -- the command -------------------------------------------------------------------------------------------

METHODS = ("--methods", "knn,osnn,mahalanobis")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = made_up((14, 15, 16, 17))
    frame = pd.DataFrame(data.X, columns=list("pqrs")).assign(kind=[data.class_names[c] for c in data.y])
    path = tmp_path_factory.mktemp("own") / "things.csv"
    frame.to_csv(path, index=False)
    return path


def command(table: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "srosr", "compare", str(table), *METHODS, "--out", str(out), *options]


def run_here(table: Path, out: Path, *options: str) -> Result:
    return run_command(*command(table, out, *options)[3:])


def written(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in ("results.parquet", "results.csv", "coverage.csv", "failures.csv")]


@pytest.fixture(scope="module")
def undisturbed(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    options = ("--label", "kind", "--rounds", "2", "--jobs", "1", "--json")
    done = run_command("compare", table, *METHODS, "--out", out, *options)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), done, out


def test_a_comparison_ends_in_a_recommendation_with_its_evidence(undisturbed, table):
    found, done, out = undisturbed
    assert found["trials"] == 8 and found["folds"] == 4 and found["data"]["classes"] == list("abcd")
    means = {one["method"]: one["metrics"]["oscr"]["mean"] for one in found["methods"]}
    assert set(means) == {"knn", "osnn", "mahalanobis"}
    results = read_results(out / "results.parquet")
    of_oscr = results[results["metric"] == "oscr"].groupby("method")["value"].mean()
    assert all(means[name] == pytest.approx(of_oscr[name]) for name in means)
    recommendation = found["recommendation"]
    assert recommendation["method"] == max(means, key=lambda name: means[name])
    assert recommendation["fit"] == f"srosr fit {table} --label kind --method {recommendation['method']}"
    assert set(results["n_unknown"]) == {1} and len(results) == 8 * 3 * 10
    assert "8 of 8 trials" in done.stderr and "NaN" not in done.stdout
    assert {path.name for path in out.iterdir()} >= {"report.html", "results.csv", "figures", "run.json"}
    assert not list(out.glob("samples-*"))


def test_the_report_begins_with_the_recommendation_and_has_no_curves_over_one_openness(undisturbed):
    found, _, out = undisturbed
    page = (out / "report.html").read_text()
    assert "<h1>Comparison on things</h1>" in page
    assert page.index(found["recommendation"]["reason"][:40]) < page.index("The run")
    assert "every class in turn: 4 groups" in page and "1 class left out in turn" in page
    pictures = {path.stem for path in (out / "figures").iterdir()}
    assert {"ranking-oscr", "ranking-auroc", "ranking-f", "ranking-accuracy"} <= pictures
    assert not any(name.startswith(("openness", "methods", "trade")) for name in pictures)


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_tables(table, tmp_path, undisturbed):
    out = tmp_path / "out"
    options = ("--label", "kind", "--rounds", "2", "--jobs", "1")
    killed = stopped(command(table, out, *options), out, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL and not (out / "report.html").exists()
    done = run_here(table, out, *options)
    assert done.exit_code == 0, done.stderr
    assert written(out) == written(undisturbed[2])
    assert "Recommended: " in done.stdout and "Fit it: srosr fit " in done.stdout and "OSCR" in done.stdout
    assert not list(out.glob("samples-*"))
    # Other samples, or another split, are another comparison.
    other = run_here(table, out, *options, "--seed", "1")
    assert other.exit_code == 2 and "has results of another run: seed was 0 and is 1 now" in other.stderr
    assert written(out) == written(undisturbed[2])


# A shell that starts the tests in the background has them, and what they start, ignore SIGINT.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def stopped(words: list[str], out: Path, by: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Run a command that gets a signal as soon as it has stored something."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and not list(out.glob("trials/*/*.json")):
        time.sleep(0.02)
    process.send_signal(by)
    said = process.communicate(timeout=120)
    assert list(out.glob("trials/*/*.json"))
    return subprocess.CompletedProcess(words, process.returncode, *said)


@pytest.mark.slow
def test_ctrl_c_stops_it_and_says_what_is_kept(table, tmp_path):
    out = tmp_path / "out"
    python, _, _, *arguments = command(table, out, "--rounds", "500", "--jobs", "1")
    listening = [python, "-c", f"{LISTEN}; from srosr.cli.app import main; main(prog_name='srosr')", *arguments]
    done = stopped(listening, out, signal.SIGINT)
    assert done.returncode == 130 and "Stopped. Finished trials are kept in" in done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert not list(out.glob("samples-*")) and not (out / "report.html").exists()


@pytest.mark.slow
def test_a_failure_is_reported_and_its_method_not_recommended(table, tmp_path, undisturbed):
    import shutil

    found, _, finished = undisturbed
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    best = found["recommendation"]["method"]
    path = out / "trials" / "0000" / f"{best}.json"
    record = decode(path.read_bytes()) | {"error": "something broke", "values": [], "coverage": []}
    path.write_bytes(encode(record))
    options = ("--label", "kind", "--rounds", "2", "--jobs", "1")
    done = run_here(table, out, *options)
    assert done.exit_code == 1, done.stderr
    assert f"FAILED {best} in 1 of 8 trials: something broke" in done.stdout
    assert "Recommended: " in done.stdout and f"Recommended: {best}." not in done.stdout
    assert f"{best} (7)" in done.stdout
    mended = run_here(table, out, *options, "--retry-failed")
    assert mended.exit_code == 0 and written(out) == written(finished)


# -- what cannot be ----------------------------------------------------------------------------------------


def error_of(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    assert done.exit_code == 2, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done.stderr if done.stderr else done.output


def test_bad_input_is_one_sentence_and_leaves_nothing(table, tmp_path):
    two = tmp_path / "two.csv"
    two.write_text("p,kind\n" + "".join(f"{i}.5,{'xy'[i % 2]}\n" for i in range(20)))
    out = tmp_path / "out"
    assert "at least three are needed" in error_of(two, "--out", out)
    assert "knd" in error_of(table, "--label", "knd", "--out", out)
    assert "did you mean 'w-svm'?" in error_of(table, "--methods", "knn,wsvm", "--out", out)
    assert "at least two methods" in error_of(table, "--methods", "knn", "--out", out)
    assert "5 folds of 4 classes" in error_of(table, "--folds", 5, "--out", out)
    assert "is a table" in error_of(table, "--features", "pixels", "--out", out)
    assert "does not exist" in error_of(tmp_path / "none.csv", "--out", out)
    assert "--test-share" in error_of(table, "--test-share", "1.5", "--out", out)
    assert not out.exists()


def test_a_place_that_cannot_be_written_to_is_an_error_before_any_work(table, tmp_path):
    taken = tmp_path / "file"
    taken.write_text("mine")
    assert "file" in error_of(table, "--out", taken / "below")
    assert "file" in error_of(table, "--out", taken)
    assert taken.read_text() == "mine"


# -- other data --------------------------------------------------------------------------------------------


def read(data: Path, *, most=None, seed=0, skip_broken=False, **features):
    options = ReadOptions(skip_broken=skip_broken)
    return read_comparison_data(str(data), options, FeatureOptions(**features), most=most, seed=seed, shown=False)


def test_large_classes_are_sampled_and_the_output_says_so(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["x", "y", "z"], [300, 30, 10])
    np.savez(tmp_path / "large.npz", X=rng.standard_normal((340, 2)), y=y)
    found = read(tmp_path / "large.npz")
    assert np.bincount(found.dataset.y).tolist() == [200, 30, 10] and found.n_seen == 340
    assert "240 of 340 samples are used" in found.notes[0] and "1 of 3 classes have more than 200" in found.notes[0]
    few = read(tmp_path / "large.npz", most=20)
    assert np.bincount(few.dataset.y).tolist() == [20, 20, 10]
    assert not any("are used" in note for note in read(tmp_path / "large.npz", most=300).notes)


def test_many_classes_have_fewer_samples_each(tmp_path):
    y = np.repeat(np.arange(50), 100)
    np.savez(tmp_path / "many.npz", X=np.random.default_rng(0).standard_normal((5000, 2)), y=y)
    assert set(np.bincount(read(tmp_path / "many.npz").dataset.y)) == {80}


@pytest.fixture
def pictures(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="the extra images is not installed")
    rng = np.random.default_rng(0)
    for name, level in (("dark", 40), ("gray", 120), ("light", 210)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(5):
            gray = np.clip(level + 20 * rng.standard_normal((96, 128)), 0, 255).astype(np.uint8)
            image.fromarray(gray).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def test_pictures_are_compared_by_pixels_or_by_pyramids_learned_in_each_trial(pictures, tmp_path):
    pixels = read(pictures, features="pixels", size="8x6").dataset
    assert pixels.X.shape == (15, 48) and pixels.class_names == ("dark", "gray", "light")
    paths = read(pictures).dataset
    assert paths.pictures and "visual words" in paths.source
    file = tmp_path / "samples.npz"
    for data, options in ((pixels, {}), (paths, {"standardize": False})):
        np.savez(file, X=data.X, y=data.y, class_names=np.array(data.class_names))
        protocol = plan_comparison(data, file=str(file), **options)
        assert (protocol.features is None) == (not data.pictures)
    # The last, pyramids, through a whole trial.
    (record, _) = run_trial(RunSettings(protocol, 0, paths.fingerprint()), 1, ("knn",))[0]
    assert record["error"] is None and record["values"]


def test_a_broken_picture_is_an_error_or_left_out(pictures):
    from srosr.tables.row_source import ReadError

    (pictures / "dark" / "0.png").write_bytes(b"no picture")
    with pytest.raises(ReadError, match=r"0\.png"):
        read(pictures)
    left = read(pictures, skip_broken=True, features="pixels")
    assert len(left.dataset.y) == 14 and "1 unreadable picture left out" in left.notes[0]
