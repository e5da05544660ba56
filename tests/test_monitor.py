"""The monitor of a stream: exact p-values and bets, alarms as promised, a state that resumes to the bit."""

from __future__ import annotations

import doctest
import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from sklearn.exceptions import NotFittedError

import srosr
from srosr import Decisions, KNNDistance, Monitor
from srosr.monitor.block_counts import MOST_BLOCKS
from srosr.monitor.conformal_martingale import N_ARMS, POWERS, SLOPES, ConformalMartingale, RankBag
from srosr.monitor.monitor_report import estimate_rate


def make_model(shift=4.0, classes=("a", "b", "c"), seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(60, 5)) + shift * k for k in range(len(classes))])
    return KNNDistance(random_state=0).fit(X, np.repeat(list(classes), 60))


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def digits():
    """Return a classifier whose scores are p-values, with a calibration split, and other samples of all digits."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    known = np.flatnonzero(y[:700] < 4)
    clf = srosr.SROSRClassifier(calibration="split", random_state=0).fit(X[known], y[known])
    return clf, X[700:], y[700:]


def decisions_of(model, scores, candidate=0):
    """Return decisions by the threshold of a model on samples with given scores."""
    scores = np.asarray(scores, dtype=np.float64)
    numbers = np.broadcast_to(candidate, scores.shape)
    named, rejected = model.classes_[numbers], ~(scores <= model.thresholds_[numbers])
    return Decisions(np.where(rejected, model.unknown_label_, named), named, scores, rejected)


def monitor_scores(model, scores, **settings):
    monitor = Monitor(model, **settings)
    monitor.record(decisions_of(model, scores))
    return monitor


def p_values_one_by_one(scores, u, bag=()):
    """Return smoothed conformal p-values straight from their definition."""
    bag, out = list(bag), []
    for score, smoothing in zip(scores, u, strict=True):
        above, equal = sum(other > score for other in bag), sum(other == score for other in bag)
        out.append((above + smoothing * (equal + 1)) / (len(bag) + 1))
        bag.append(score)
    return np.array(out)


def capital_one_by_one(p, horizon):
    """Return the capital after each p-value, in plain numbers, from the formulas of the module."""
    functions = [lambda x, e=e: 1 + e * (x - 0.5) for e in SLOPES] + [lambda x, k=k: k * x ** (k - 1) for k in POWERS]
    reserve = [1 - math.log(1 + t / 100) / math.log(1 + horizon / 100) for t in range(len(p) + 1)]
    money, capital = [0.0] * len(functions), []
    for t, one in enumerate(p, 1):
        share = (reserve[t - 1] - reserve[t]) / len(functions)
        money = [(had + share) * f(one) for had, f in zip(money, functions, strict=True)]
        capital.append(reserve[t] + sum(money))
    return np.array(capital)


# -- p-values ----------------------------------------------------------------------------------------------


@given(
    st.lists(st.one_of(st.integers(-2, 2), st.floats(allow_nan=False)), max_size=40),
    st.lists(st.integers(-2, 2), max_size=10),
    st.integers(1, 40),
)
def test_a_p_value_is_the_randomized_rank_among_all_scores_before(scores, first, batch):
    u = 1.0 - np.random.default_rng(0).random(len(scores))
    bag = RankBag(np.array(first, dtype=np.float64))
    scores = np.array(scores, dtype=np.float64)
    found = [bag.rank(scores[i : i + batch], u[i : i + batch]) for i in range(0, len(scores), batch)]
    assert np.array_equal(np.concatenate([[], *found]), p_values_one_by_one(scores, u, first))
    assert np.array_equal(bag.scores, np.sort([*first, *scores]))


def test_chunks_do_not_change_a_p_value():
    rng = np.random.default_rng(1)
    scores, u = rng.integers(0, 300, 1500) / 10, 1.0 - rng.random(1500)
    assert np.array_equal(RankBag(np.empty(0)).rank(scores, u), p_values_one_by_one(scores, u))


@pytest.mark.parametrize("levels", [1, 3, 10**9], ids=["all equal", "many ties", "no ties"])
def test_p_values_of_an_exchangeable_stream_are_uniform_and_independent(levels):
    rng = np.random.default_rng(2)
    p = RankBag(np.empty(0)).rank(rng.integers(0, levels, 5000).astype(np.float64), 1.0 - rng.random(5000))
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert abs(stats.spearmanr(p[1:], p[:-1]).statistic) < 4 / math.sqrt(5000)


# -- bets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", range(N_ARMS))
def test_every_bet_is_fair_its_mean_over_uniform_p_values_is_what_was_bet(arm):
    def money_after(p):
        martingale = ConformalMartingale(1000)
        martingale.bet(np.array([p]))
        return math.exp(martingale.log_money[arm])

    bet = math.log(1.01) / math.log(11) / N_ARMS  # the share of the first sample, between the arms
    mean, error = quad(money_after, 0.0, 1.0, limit=200)
    assert abs(mean - bet) < 1e-6 * bet + error


def test_the_capital_is_that_of_the_formulas():
    p = np.random.default_rng(3).random(400) ** 1.3
    martingale = ConformalMartingale(500)
    log_capital, _ = martingale.bet(p)
    assert np.allclose(np.exp(log_capital), capital_one_by_one(p, 500), rtol=1e-12)
    assert martingale.log_capital == log_capital[-1] and martingale.log_peak == log_capital.max()


def test_the_whole_reserve_is_bet_by_the_end_of_a_watch():
    p = np.random.default_rng(4).random(60)
    assert np.allclose(np.exp(ConformalMartingale(60).bet(p)[0]), capital_one_by_one(p, 60), rtol=1e-10)


def test_the_best_bet_begins_where_its_product_is_largest():
    rng = np.random.default_rng(5)
    p = np.concatenate([rng.random(150), rng.random(60) ** 3])
    horizon = 1000
    _, change = ConformalMartingale(horizon).bet(p)
    logs = np.array([np.log1p(e * (p - 0.5)) for e in SLOPES] + [np.log(k) + (k - 1) * np.log(p) for k in POWERS])
    share = np.log(np.log1p(1 / (100 + np.arange(len(p)))))
    for t in (10, 149, 170, 209):
        grown = share[: t + 1] + np.cumsum(logs[:, t::-1], axis=1)[:, ::-1]
        assert change[t] == np.unravel_index(grown.argmax(), grown.shape)[1]


def test_neither_extreme_values_nor_long_streams_leave_the_numbers(model):
    rising = np.concatenate([np.arange(50_000.0), np.full(25_000, np.inf), np.full(25_000, 1e308)])
    monitor = monitor_scores(model, rising, horizon=100_000)
    report = monitor.summary
    assert math.isfinite(report.log10_capital) and report.log10_peak > 1000
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["samples"] == 100_000
    p = np.full(100_000, 2.0**-53 / 1e5)
    assert np.isfinite(ConformalMartingale(100_000).bet(p)[0]).all()
    assert np.isfinite(ConformalMartingale(100_000).bet(np.ones(100_000))[0]).all()


# -- alarms ------------------------------------------------------------------------------------------------


def draw_independent(rng, n):
    return rng.exponential(size=n)


def draw_from_an_urn(rng, n):
    """Return scores that are exchangeable but not independent: the level is drawn once, then the scores around it."""
    return np.round(rng.normal(size=n) + 3 * rng.normal(), 1)


@pytest.mark.parametrize("draw", [draw_independent, draw_from_an_urn])
def test_streams_without_a_change_raise_an_alarm_in_no_more_than_the_promised_share_of_runs(draw):
    rate, runs, alarms = 0.2, 1000, 0
    for seed in range(runs):
        rng = np.random.default_rng([6, seed])
        p = RankBag(np.empty(0)).rank(draw(rng, 300), 1.0 - rng.random(300))
        alarms += bool((ConformalMartingale(300).bet(p)[0] >= -math.log(rate)).any())
    assert 0 < alarms <= stats.binom.ppf(0.999, runs, rate)


def test_a_monitor_keeps_the_promise_and_finds_the_change_after_it(model):
    change, rate, before, delays, places = 300, 0.05, 0, [], []
    for seed in range(100):
        rng = np.random.default_rng([7, seed])
        scores = np.concatenate([rng.normal(size=change), rng.normal(size=200) + 1.5])
        alarm = monitor_scores(model, scores, false_alarm_rate=rate, random_state=seed).alarm
        if alarm is not None and alarm.sample < change:
            before += 1
        elif alarm is not None:
            delays.append(alarm.sample - change)
            places.append(abs(alarm.change - change))
    assert before <= stats.binom.ppf(0.999, 100, rate)
    assert len(delays) + before >= 99
    assert np.median(delays) < 40 and np.median(places) < 15


def test_against_calibration_scores_the_promise_holds_where_these_are_drawn_like_the_stream():
    rate, runs, alarms = 0.2, 500, 0
    for seed in range(runs):
        rng = np.random.default_rng([8, seed])
        p = RankBag(rng.normal(size=50)).rank(rng.normal(size=300), 1.0 - rng.random(300))
        alarms += bool((ConformalMartingale(300).bet(p)[0] >= -math.log(rate)).any())
    assert 0 < alarms <= stats.binom.ppf(0.999, runs, rate)


def test_falling_scores_raise_an_alarm_too(model):
    rng = np.random.default_rng(8)
    monitor = monitor_scores(model, np.concatenate([rng.random(400) + 1, rng.random(300)]))
    assert monitor.alarm is not None and monitor.alarm.sample >= 400


def test_a_constant_share_of_unknown_samples_is_no_change_but_differs_from_the_calibration(digits):
    clf, X, y = digits
    mixed = X[:600]  # all digits, shuffled, of which four are known
    stream, calibration = Monitor(clf), Monitor(clf, reference="calibration")
    assert (y[:600] >= 4).mean() > 0.4
    calibration.record(stream.update(mixed))
    assert stream.alarm is None and calibration.alarm is not None
    assert calibration.summary.exact and calibration.summary.reference_samples == len(clf._calibration_split().scores)


def test_known_samples_are_like_the_calibration_split(digits):
    clf, X, y = digits
    monitor = Monitor(clf, reference="calibration")
    monitor.update(X[y < 4])
    assert monitor.alarm is None


def test_without_a_calibration_split_the_promise_is_called_approximate(model):
    monitor = Monitor(model, reference="calibration")
    assert not monitor.summary.exact and "approximate" in str(monitor.summary)
    assert "exact" in str(Monitor(model).summary)


def test_after_the_horizon_a_new_watch_begins_and_forgets_the_stream(model):
    rng = np.random.default_rng(9)
    monitor = monitor_scores(model, rng.random(600), horizon=400)
    assert monitor.summary.watch == 2 and monitor.summary.watch_start == 400 and monitor.alarm is None


def test_an_alarm_lasts_beyond_the_horizon_until_somebody_restarts(model, tmp_path):
    rng = np.random.default_rng(9)
    low, high = rng.random(200), rng.random(200) + 1
    monitor = monitor_scores(model, np.concatenate([low, high, high]), horizon=400)
    first = monitor.summary.alarms
    assert len(first) == 1 and 200 <= first[0].sample < 400
    assert monitor.summary.watch == 1 and monitor.alarm == first[0] and monitor.samples == 600
    monitor.save(tmp_path / "s.json")
    again = Monitor.load(tmp_path / "s.json", model)
    assert again.alarm == first[0] and again.samples == 600
    for one in (monitor, again):
        one.restart()
        one.record(decisions_of(model, high))
        assert one.alarm is None and one.summary.watch == 2 and one.summary.watch_start == 600
        assert "earlier alarm at sample" in str(one.summary)
    assert str(monitor.summary) == str(again.summary)


def test_a_change_in_a_later_watch_is_placed_in_the_whole_stream(model):
    rng = np.random.default_rng(20)
    monitor = Monitor(model)
    monitor.record(decisions_of(model, rng.random(333)))
    monitor.restart()
    monitor.record(decisions_of(model, np.concatenate([rng.random(200), rng.random(100) + 1])))
    assert monitor.alarm.watch == 2 and 533 <= monitor.alarm.sample < 560 and abs(monitor.alarm.change - 533) < 10


def test_restart_forgets_the_alarm_and_the_stream_but_no_counts(model):
    rng = np.random.default_rng(10)
    monitor = monitor_scores(model, np.concatenate([rng.random(200), rng.random(200) + 1]))
    assert monitor.alarm is not None
    monitor.restart()
    assert monitor.alarm is None and len(monitor.summary.alarms) == 1 and monitor.summary.samples == 400
    monitor.record(decisions_of(model, rng.random(300) + 1))
    assert monitor.alarm is None and monitor.summary.log10_peak < 2


# -- counts ------------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.data())
def test_intervals_are_those_of_clopper_and_pearson(n, data):
    count = data.draw(st.integers(0, n))
    found = estimate_rate(count, n)
    exact = stats.binomtest(count, n).proportion_ci(0.95, method="exact")
    assert found.share == count / n
    assert np.allclose([found.low, found.high], exact, atol=1e-9)


def test_rates_and_mix_are_those_that_one_counts_by_hand(digits):
    clf, X, _ = digits
    monitor = Monitor(clf, block=100)
    decisions = monitor.update(X[:350])
    report, expected = monitor.summary, clf.decide(X[:350])
    assert np.array_equal(decisions.label, expected.label)
    assert report.rejected.count == expected.rejected.sum() and report.rejected.samples == 350
    assert report.rejected_recent.count == expected.rejected[200:].sum() and report.rejected_recent.samples == 150
    for part, name in ((slice(0, 100), "first"), (slice(None), "all"), (slice(200, None), "recent")):
        accepted = expected.label[part][~expected.rejected[part]]
        shares = [getattr(one, name) for one in report.classes]
        assert np.allclose(shares, [(accepted == k).mean() for k in clf.classes_])
    # A p-value within a factor of two of that of the threshold.
    p, limit = 1 - expected.unknown_score, 1 - clf.thresholds_[0]
    assert report.near.count == ((limit / 2 <= p) & (p <= 2 * limit)).sum() > 0
    assert report.target == clf.target_rejection


def test_near_the_threshold_is_what_half_or_twice_the_rate_would_decide_otherwise(model):
    held_out = model._held_out_scores().scores
    tighter, looser = make_model(), make_model()
    tighter.set_threshold(target_rejection=0.1), looser.set_threshold(target_rejection=0.025)
    scores = np.random.default_rng(11).uniform(0, 2 * held_out.max(), 3000)
    near = (scores >= tighter.threshold_) & (scores <= looser.threshold_)
    report = monitor_scores(model, scores).summary
    assert report.near.count == near.sum() > 0
    wide = monitor_scores(model, scores, near=4.0).summary
    assert wide.near.count > report.near.count


def test_a_threshold_beyond_all_held_out_scores_has_a_band_around_it():
    clf = make_model()
    limit = 2 * float(clf._held_out_scores().scores.max())
    clf.set_threshold(limit)
    report = monitor_scores(clf, [limit, 1.2 * limit, 0.8 * limit, 0.0, 100 * limit]).summary
    assert report.near.count == 3 and report.target is None


def test_samples_without_a_score_are_rejected_and_rank_last(model):
    score = np.r_[np.linspace(0, 1, 50), np.full(50, np.nan)]
    same = monitor_scores(model, np.where(np.isnan(score), np.inf, score))
    found = monitor_scores(model, score)
    assert found.summary == same.summary and found.summary.rejected.count >= 50


def test_the_history_is_bounded_and_loses_no_sample(model):
    rng = np.random.default_rng(12)
    monitor = Monitor(model, block=3)
    scores = rng.exponential(size=4003)
    done = monitor.record(decisions_of(model, scores, rng.integers(0, 3, 4003)))
    blocks = monitor.blocks
    assert len(done) == 1334 == monitor.summary.blocks and all(block.samples == 3 for block in done)
    assert len(blocks) <= MOST_BLOCKS and blocks[-1].samples == 3
    assert [block.start for block in blocks] == [0, *(block.end for block in blocks[:-1])]
    for name in ("samples", "rejected", "near"):
        assert sum(getattr(block, name) for block in blocks) == sum(getattr(block, name) for block in done)
    assert np.array_equal(sum(b.accepted for b in blocks), sum(b.accepted for b in done))


def test_an_empty_stream_has_a_report_but_no_figure(model):
    monitor = Monitor(model)
    monitor.record(decisions_of(model, []))
    assert "no samples" in str(monitor.summary) and monitor.summary.rejected.share is None
    with pytest.raises(ValueError, match="no samples yet"):
        monitor.plot()


# -- batches and files -------------------------------------------------------------------------------------


def state_of(monitor, tmp_path, name="state.json"):
    monitor.save(tmp_path / name)
    return (tmp_path / name).read_bytes()


@given(st.lists(st.integers(0, 90), max_size=8), st.sampled_from(["stream", "calibration"]), st.integers(1, 60))
def test_batches_of_any_size_with_interruptions_give_the_same_numbers(tmp_path_factory, cuts, reference, block):
    folder, clf = tmp_path_factory.mktemp("states"), make_model()
    rng = np.random.default_rng(13)
    scores, candidate = np.round(rng.exponential(size=90), 1), rng.integers(0, 3, 90)
    settings = {"reference": reference, "block": block, "horizon": 50, "false_alarm_rate": 0.5, "random_state": 3}
    whole = Monitor(clf, **settings)
    whole.record(decisions_of(clf, scores, candidate))
    monitor, before = Monitor(clf, **settings), 0
    for cut in [*sorted(cuts), 90]:
        monitor.save(folder / "s.json")
        monitor = Monitor.load(folder / "s.json", clf)
        monitor.record(decisions_of(clf, scores[before:cut], candidate[before:cut]))
        before = cut
    # To the bit: samples are followed one by one, without products of matrices, so that batches do not enter.
    assert state_of(monitor, folder, "a.json") == state_of(whole, folder, "b.json")
    assert monitor.summary == whole.summary


def test_one_by_one_gives_the_same_numbers_as_all_at_once(model, tmp_path):
    scores = np.r_[np.random.default_rng(14).random(700), np.random.default_rng(15).random(300) + 0.5]
    single = Monitor(model, block=30)
    for score in scores:
        single.record(decisions_of(model, [score]))
    assert state_of(single, tmp_path) == state_of(monitor_scores(model, scores, block=30), tmp_path)
    assert single.alarm is not None


def test_a_saved_model_takes_up_the_state_of_the_one_that_was_saved(digits, tmp_path):
    clf, X, _ = digits
    monitor = Monitor(clf, reference="calibration")
    monitor.update(X[:50])
    monitor.save(tmp_path / "s.json")
    clf.save(tmp_path / "m.srosr")
    again = Monitor.load(tmp_path / "s.json", srosr.load(tmp_path / "m.srosr"))
    assert again.summary == monitor.summary


def test_the_state_of_another_model_is_told_in_one_sentence(model, tmp_path):
    Monitor(model).save(tmp_path / "s.json")
    changed = make_model()
    changed.set_threshold(target_rejection=0.2)
    for other in (make_model(seed=1), make_model(classes=("a", "b", "d")), changed):
        with pytest.raises(ValueError, match=r"another model.*begin with a new file") as caught:
            Monitor.load(tmp_path / "s.json", other)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"format": "srosr"}', b"\xff\xfe", b"[" * 100_000, b"1" * 10_000,
        b'{"format": "srosr-monitor", "version": 2}', b'{"format": "srosr-monitor", "version": true}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_state_is_told_in_one_sentence(model, tmp_path, content):
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"s\.json (is not|has version)") as caught:
        Monitor.load(tmp_path / "s.json", model)
    assert "\n" not in str(caught.value)


FORGERIES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 200), st.just(10**400), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5), st.lists(st.integers(-1, 3), max_size=9), st.just({}),
)  # fmt: skip


def places_of(value, path=()):
    """Yield the path of every value in a JSON document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_of(item, (*path, key))


@given(st.data())
def test_a_forged_state_is_told_in_one_sentence_or_does_no_harm(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("forged") / "s.json"
    clf = make_model()
    rng = np.random.default_rng(16)
    monitor = monitor_scores(clf, np.r_[rng.random(60), rng.random(30) + 3], block=20, horizon=80, false_alarm_rate=0.2)
    monitor.save(path)
    state = json.loads(path.read_bytes())
    place = data.draw(st.sampled_from(sorted(places_of(state), key=str)))
    inside = state
    for key in place[:-1]:
        inside = inside[key]
    if isinstance(inside, dict) and data.draw(st.booleans()):
        del inside[place[-1]]
    else:
        inside[place[-1]] = data.draw(FORGERIES)
    path.write_text(json.dumps(state))
    try:
        found = Monitor.load(path, clf)
    except ValueError as error:
        assert "\n" not in str(error) and str(error).endswith(".") and str(path) in str(error)
    else:
        found.record(decisions_of(clf, rng.random(100)))
        assert json.dumps(found.summary.to_dict(), allow_nan=False) and str(found.summary)


@pytest.mark.parametrize("cut", [1, 100, 700])
def test_a_file_cut_short_is_told_in_one_sentence(model, tmp_path, cut):
    monitor_scores(model, np.arange(20.0)).save(tmp_path / "s.json")
    content = (tmp_path / "s.json").read_bytes()
    (tmp_path / "s.json").write_bytes(content[:-cut])
    if cut > 1:  # only the line break is missing
        with pytest.raises(ValueError, match="not the state of a monitor"):
            Monitor.load(tmp_path / "s.json", model)
    else:
        assert Monitor.load(tmp_path / "s.json", model).samples == 20


def test_scores_that_are_not_sorted_or_no_numbers_are_found(model, tmp_path):
    from srosr.monitor.monitor_state import encode_scores

    path = tmp_path / "s.json"
    monitor_scores(model, [1.0, 2.0]).save(path)
    state = json.loads(path.read_bytes())
    for bag in ([2.0, 1.0], [1.0, np.nan], [1.0]):
        path.write_text(json.dumps(state | {"bag": encode_scores(np.array(bag))}))
        with pytest.raises(ValueError, match="damaged state of a monitor: bag"):
            Monitor.load(path, model)


def test_a_state_that_cannot_be_written_leaves_the_old_one(model, tmp_path):
    monitor = monitor_scores(model, [1.0])
    with pytest.raises(OSError):
        monitor.save(tmp_path / "missing" / "s.json")
    assert not (tmp_path / "missing").exists()


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("false_alarm_rate", 0), ("false_alarm_rate", 1.0), ("false_alarm_rate", "0.1"), ("false_alarm_rate", math.nan),
        ("reference", "past"), ("near", 0.5), ("near", math.inf), ("block", 0), ("block", 2.5), ("block", 10**20),
        ("horizon", -1), ("horizon", True), ("random_state", None), ("random_state", -1), ("random_state", 2**40),
    ],
)  # fmt: skip
def test_an_invalid_setting_is_named(model, name, value):
    with pytest.raises(ValueError, match=name):
        Monitor(model, **{name: value})


def test_only_a_fitted_classifier_can_be_monitored(model, tmp_path):
    for wrong in (None, object(), "model.srosr", KNNDistance):
        with pytest.raises(ValueError, match="model must be a fitted open set classifier"):
            Monitor(wrong)
    with pytest.raises(NotFittedError):
        Monitor(KNNDistance())
    Monitor(model).save(tmp_path / "s.json")
    with pytest.raises(ValueError, match="model must be"):
        Monitor.load(tmp_path / "s.json", None)


def test_invalid_decisions_are_not_recorded(model):
    monitor = monitor_scores(model, [0.1, 0.2])
    good = decisions_of(model, [0.1, 0.2])
    numbered = Decisions(np.array([0, 1]), np.array([0, 1]), good.unknown_score, good.rejected)
    other = Decisions(good.label, np.array(["a", "z"]), good.unknown_score, good.rejected)
    short = Decisions(good.label, good.candidate, good.unknown_score[:1], good.rejected)
    for wrong in (numbered, other, short, good.label, None):
        with pytest.raises(ValueError, match="decisions"):
            monitor.record(wrong)
    assert monitor.samples == 2


def test_a_model_that_changed_is_not_monitored_any_more():
    clf = make_model()
    monitor = monitor_scores(clf, [0.1])
    clf.set_threshold(target_rejection=0.3)
    with pytest.raises(ValueError, match="model was changed"):
        monitor.record(decisions_of(clf, [0.1]))


# -- report and figure -------------------------------------------------------------------------------------


def test_the_report_says_what_happened(model):
    rng = np.random.default_rng(17)
    monitor = monitor_scores(model, np.r_[rng.random(1000) * 0.1, rng.random(1000) + 50], block=250)
    text, alarm = str(monitor.summary), monitor.alarm
    assert f"at sample {alarm.sample:,}, for a change near sample {alarm.change:,}" in text
    assert "in at most 1 % of watches" in text and "2,000, 8 complete blocks of 250" in text
    assert "rejected        50.0 % (47.8 to 52.2); last 250: 100.0 %" in text
    assert "target for known samples 5 %" in text
    found = monitor.summary.to_dict()
    assert found["alarm"] == {"watch": 1, "sample": alarm.sample, "change": alarm.change}
    assert json.loads(json.dumps(found)) == found
    blocks = [monitor.describe_block(block) for block in monitor.blocks]
    assert [block["alarm"] for block in blocks if block["alarm"] is not None] == [alarm.sample]
    assert blocks[0]["accepted"] == {"a": 250, "b": 0, "c": 0}


def test_the_figure_shows_rates_capital_alarm_and_mix(model):
    from matplotlib.figure import Figure

    rng = np.random.default_rng(18)
    monitor = Monitor(model, block=50)
    monitor.record(decisions_of(model, np.r_[rng.random(200), rng.random(110) + 50], rng.integers(0, 3, 310)))
    shown = monitor.plot(Figure(layout="constrained"))
    rejection, capital, _, mix = shown.axes_
    assert shown.figure_ is rejection.figure and rejection.get_xlim() == (0, 310)
    (steps,) = [one for one in rejection.patches if hasattr(one, "get_data")]
    assert np.allclose(steps.get_data().values[-3:], 100)
    line = capital.lines[0].get_ydata()
    assert np.isclose(line[-1], monitor.summary.log10_capital) and line[0] == 0
    assert monitor.alarm.sample in np.concatenate([np.atleast_1d(one.get_xdata()) for one in capital.lines])
    assert [text.get_text() for text in mix.get_legend().get_texts()] == ["a", "b", "c"]


def test_a_figure_of_many_classes_with_long_names_names_the_most_frequent():
    from matplotlib.figure import Figure

    classes = [f"a rather long name of class {k:02d}" for k in range(12)]
    clf = make_model(classes=classes)
    monitor = Monitor(clf, block=20)
    monitor.record(decisions_of(clf, np.zeros(100), np.random.default_rng(19).integers(0, 12, 100)))
    figure = Figure(layout="constrained")
    monitor.plot(figure)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 9 and legend.get_texts()[-1].get_text() == "4 others"
    figure.draw_without_rendering()


# -- page and benchmark ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_session_of_the_page_on_monitoring_runs_as_printed():
    page = Path(__file__).resolve().parents[1] / "docs" / "guide" / "monitoring.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert tried and not failed


def test_the_benchmark_measures_alarms_and_speed(monkeypatch):
    from benchmarks import monitoring

    monkeypatch.setattr(monitoring, "measure_speed", lambda batch, samples: 1000.0 * batch)
    done = CliRunner().invoke(monitoring.main, ["--runs", "5", "--change", "200", "--after", "200", "--no-mnist"])
    assert done.exit_code == 0, done.output
    assert "4,096,000" in done.output and "mean + 2" in done.output
    found = monitoring.measure_alarms(
        monitoring.draw_normal(2.0), "calibration", {"runs": 20, "change": 100, "after": 100, "rate": 0.05, "seed": 1}
    )
    assert found.early <= 4 and len(found.delays) + found.early == 20 and np.median(found.delays) < 30


def test_the_speed_is_that_of_recording_all_decisions():
    from benchmarks.monitoring import measure_speed

    assert measure_speed(7, 50) > 0
