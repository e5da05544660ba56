"""What the command line promises: light start, clear errors, complete files, numbers that come back."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from same import check_same
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from srosr import __version__
from srosr.cli.app import main
from srosr.experiments.digits_demo import choose_digits, run_demo
from srosr.reports import demo_figure

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def result():
    return run_demo(seed=0)


# --- start ---


def test_importing_the_command_line_loads_nothing_heavy():
    heavy = {"numpy", "scipy", "sklearn", "numba", "matplotlib", "pandas", "torch", "rich"}
    code = "import sys, srosr.cli.app; print(*{name.split('.')[0] for name in sys.modules})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(answer.stdout.split()) & heavy


def test_version_is_the_package_version():
    answer = subprocess.run([sys.executable, "-m", "srosr", "--version"], capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0
    assert answer.stdout.strip() == f"srosr {__version__}"


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="srosr")
    assert script.load() is main


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_commands_and_shows_an_example(flag):
    answer = invoke(flag)
    assert answer.exit_code == 0
    assert "srosr demo" in answer.output
    demo = invoke("demo", flag)
    assert demo.exit_code == 0
    for word in ("--known", "--seed", "--out", "--json", "Examples:", "srosr demo --known 0,1,2,3,4,5"):
        assert word in demo.output


# --- the demo: output ---


def test_demo_prints_a_table_and_writes_a_complete_figure(result, tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.experiments.digits_demo.run_demo", lambda *_: result)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "figure.png"
    answer = invoke("demo", "--out", out)
    assert answer.exit_code == 0, answer.stderr
    for word in (
        "all known",
        "all unknown",
        "recognized",
        "rejected",
        "AUROC",
        "F-measure",
        "calibrated",
        "paper's",
        "SCI",
        "closed-set accuracy",
        "worst duality gap",
        "figure.png",
    ):
        assert word in answer.stdout
    figure = out.read_bytes()
    assert figure.startswith(PNG_SIGNATURE) and figure.rstrip().endswith(b"IEND\xaeB`\x82")
    assert os.listdir(tmp_path) == ["figure.png"]


def test_demo_json_is_numbers_only_and_the_same_for_the_same_seed(tmp_path, result, monkeypatch):
    monkeypatch.setattr(demo_figure, "_draw", lambda figure, result: None)
    answer = invoke("demo", "--json", "--seed", 0, "--out", tmp_path / "a.svg")
    assert answer.exit_code == 0
    numbers = json.loads(answer.stdout)
    assert (tmp_path / "a.svg").read_text().rstrip().endswith("</svg>")
    expected = json.loads(json.dumps(result.summary()))
    for varies in ("seconds_fit", "seconds_recognize", "figure"):
        numbers.pop(varies, None), expected.pop(varies, None)
    check_same(numbers, expected)


@pytest.mark.slow
def test_known_digits_are_taken_from_the_option_in_any_order(tmp_path):
    answer = invoke("demo", "--json", "--known", "5, 1,0", "--out", tmp_path / "a.png")
    numbers = json.loads(answer.stdout)
    assert numbers["known"] == [0, 1, 5]
    assert numbers["unknown"] == [2, 3, 4, 6, 7, 8, 9]


def test_the_seed_chooses_six_known_digits():
    choices = {choose_digits(seed) for seed in range(20)}
    assert len(choices) > 10
    for known, unknown in choices:
        assert len(known) == 6
        assert sorted(known + unknown) == list(range(10))


# --- the demo: numbers ---


def test_tallies_account_for_every_sample(result):
    available = np.bincount(load_digits().target)
    for tally in result.known_tallies + result.unknown_tallies:
        assert tally.samples == tally.right + tally.rejected + tally.wrong
    for tally in result.unknown_tallies:
        assert (tally.samples, tally.right) == (available[tally.digit], 0)
    n_test = sum(tally.samples for tally in result.known_tallies)
    assert n_test + result.n_train == sum(available[list(result.known)])
    assert n_test / (n_test + result.n_train) == pytest.approx(0.4, abs=0.01)


def test_shares_follow_from_the_tallies_and_the_scores(result):
    known, unknown, rule = result.samples.known_score, result.samples.unknown_score, result.calibrated
    assert rule.name == "calibrated"
    assert rule.known_rejected == pytest.approx(np.mean(known > rule.threshold))
    assert rule.unknown_rejected == pytest.approx(np.mean(unknown > rule.threshold))
    right = sum(tally.right for tally in result.known_tallies)
    missed = sum(tally.wrong for tally in result.unknown_tallies)
    assert rule.known_accepted_right == pytest.approx(right / len(known))
    assert rule.known_accepted_right <= result.closed_set_accuracy
    is_unknown = np.r_[np.zeros(len(known)), np.ones(len(unknown))]
    assert rule.auroc == pytest.approx(roc_auc_score(is_unknown, np.r_[known, unknown]))
    assert rule.f_measure == pytest.approx(2 * right / (2 * right + missed + len(known) - right))
    assert len(known) + len(unknown) == result.n_test


def test_codes_are_certified_and_every_rule_keeps_its_promise(result):
    assert 0 <= result.worst_gap <= 1e-6
    assert result.closed_set_accuracy > 0.95
    assert [rule.name for rule in result.rules] == ["calibrated", "paper", "SCI"]
    for rule in result.rules:
        # 430 test samples: 5 % within four standard errors.
        assert rule.known_rejected < 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(result.samples.known_score))
        assert rule.unknown_rejected > 0.75
    assert result.calibrated.unknown_rejected > 0.9


@pytest.mark.slow
def test_what_is_learned_does_not_depend_on_the_unknown_samples(result, monkeypatch):
    digits = load_digits()
    unknown = np.isin(digits.target, result.unknown)
    digits.data = np.where(unknown[:, None], digits.data[::-1] + 1.0, digits.data)
    monkeypatch.setattr("srosr.experiments.digits_demo.load_digits", lambda: digits)
    changed = run_demo(seed=0)
    check_same([rule.threshold for rule in changed.rules], [rule.threshold for rule in result.rules])
    check_same(changed.samples.known_score, result.samples.known_score)
    assert not np.array_equal(changed.samples.unknown_score, result.samples.unknown_score)


def test_examples_are_accepted_knowns_and_rejected_unknowns(result):
    assert {example.is_known for example in result.samples.examples} == {True, False}
    for example in result.samples.examples:
        assert example.is_known == (example.unknown_score <= result.calibrated.threshold) == (not example.rejected)
        assert example.is_known == (example.digit in result.known)
        assert example.candidate == example.digit if example.is_known else example.candidate in result.known


def test_the_explained_sample_is_a_rejected_unknown_and_the_tail_its_candidates(result):
    samples = result.samples
    assert samples.explained_digit in result.unknown and samples.explanation.rejected
    assert samples.tail.label == samples.explanation.candidate
    assert len(samples.nonmatched.unknown) == len(samples.unknown_score)


# --- bad input: one sentence, status 2, nothing written ---


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ("3", "at least two"),
        ("", "not a digit"),
        ("3,x", "'x' is not a digit"),
        ("3,", "not a digit"),
        ("-1,2", "'-1' is not a digit"),
        ("3,10", "10 is not a digit"),
        ("3,²", "not a digit"),
        ("3,4,3", "more than once"),
        ("0,1,2,3,4,5,6,7,8,9", "nothing to reject"),
    ],
)
def test_invalid_known_digits_end_with_one_sentence(known, says, tmp_path):
    answer = invoke("demo", f"--known={known}", "--out", tmp_path / "a.png")
    assert answer.exit_code == 2
    assert says in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert not answer.stdout
    assert not list(tmp_path.iterdir())


def test_figure_paths_that_cannot_be_written_end_the_command_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.experiments.digits_demo.run_demo", lambda *_: pytest.fail("the demo ran"))
    folder, plain = tmp_path / "folder.png", tmp_path / "plain"
    folder.mkdir()
    plain.write_text("not a folder")
    long_name = tmp_path / ("x" * 300 + ".png")
    for path, says in (
        (tmp_path / "absent" / "a.png", "there is no folder"),
        (plain / "a.png", "there is no folder"),
        (folder, "it is a folder"),
        (tmp_path / "a.txt", ".png, .pdf or .svg"),
        (tmp_path / "a", ".png, .pdf or .svg"),
        (long_name, "File name too long"),
    ):
        answer = invoke("demo", "--out", path)
        assert answer.exit_code == 2
        assert says in answer.stderr and "--out" in answer.stderr
        assert len(answer.stderr.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == [folder, plain]


@pytest.mark.parametrize("arguments", [("--known", "3"), ("--out", "absent/a.png"), ("--seed", "-1"), ("--nonsense",)])
def test_bad_input_ends_with_status_2_and_no_traceback(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = invoke("demo", *arguments)
    assert answer.exit_code == 2 and isinstance(answer.exception, SystemExit)
    assert "Error: " in answer.stderr and "Traceback" not in answer.stderr
    assert not answer.stdout
    assert not list(tmp_path.iterdir())


def test_a_figure_that_fails_midway_leaves_the_old_file_and_no_other(result, tmp_path, monkeypatch):
    out = tmp_path / "figure.png"
    out.write_text("the old figure")

    def fail(self, file, **_):
        file.write(b"half a fig")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    monkeypatch.setattr("srosr.experiments.digits_demo.run_demo", lambda *_: result)
    answer = invoke("demo", "--out", out)
    assert answer.exit_code == 2
    assert "No space left on device" in answer.stderr and "Traceback" not in answer.stderr
    assert out.read_text() == "the old figure"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.parametrize("known", [(3, 8), (0, 1, 2, 3, 4, 5, 6, 7, 8)])
def test_the_figure_can_be_drawn_with_few_and_with_many_known_digits(known, tmp_path):
    demo_figure.plot_demo(run_demo(1, known), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG_SIGNATURE)
