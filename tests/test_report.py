"""What a report promises: all of it in one file, what the numbers say and no more, and nothing that is not escaped."""

import math
import os
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pandas as pd
import pytest
from experiment_tables import METHODS, failing, made_up, portrait, without
from same import check_same_text
from scale import slow_except

from srosr._support.atomic_files import write_atomically
from srosr._support.messages import format_duration, format_mean, format_number
from srosr.experiments.run_identity import ResultsFolderError
from srosr.reports import experiment_page as report_module
from srosr.reports.experiment_figures import FIGURE_NAME
from srosr.reports.experiment_page import write_report
from srosr.reports.experiment_text import (
    build_column,
    describe_few_trials,
    format_comparison,
    order_by_f_measure,
    rank_by_metric,
    sum_times,
    write_headline,
)

NAMES = ("calibrated", "paper", "sci", "svm", "knn")
TABLES = made_up(NAMES, n_levels=3, n_trials=6)
SLOW = pytest.mark.slow
FEW = made_up(NAMES[:2], n_levels=2, n_trials=2)
NASTY = "<script>alert('&')</script>"


def given(tables=TABLES, **changes):
    """Return the arguments of a report."""
    return (
        {
            "title": "Made-up objects",
            "about": "The first paragraph.\n\nThe second.",
            "source": "numbers from a seed",
            "settings": [("known classes", 10), ("features", {"size": 128, "levels": [1, 2]})],
            "portraits": {"calibrated": portrait(4), "paper": portrait(4, seed=1)},
            "versions": [{"python": "3.11.2", "numpy": "2.0"}, {"python": "3.11.2", "numpy": "2.0"}],
            "asked": dict.fromkeys({*tables["results"]["method"], *tables["failures"]["method"]} or NAMES, 6),
            "started": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            "finished": "2026-01-02 04:00:00",
            "elapsed": 3355.0,
            "notes": ["A note to the reader."],
            "method_settings": {"calibrated": {"epsilon": 0.05}, "paper": {}},
        }
        | tables
        | changes
    )


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "new" / "report.html"
    write_report(path, **given())
    return path


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text("utf-8"))


def page_of(tmp_path, **arguments):
    path = tmp_path / "report.html"
    write_report(path, **arguments)
    return Page(path.read_text("utf-8"))


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(report_module, "draw_sections", lambda *_, **__: [])


@pytest.fixture
def text_of(tmp_path, no_figures):
    """Return the page of a report of two metrics without its figures, for tests that do not need them."""

    def make(*, results, **arguments):
        return page_of(tmp_path, results=results[results["metric"].isin(["f", "auroc"])], **arguments)

    return make


# --- one file ---


def test_the_page_asks_for_nothing_outside_itself(page):
    outside = [
        value
        for _, attributes in page.tags
        for key, value in attributes.items()
        if key in ("src", "href", "xlink:href", "srcset", "action", "data") and not value.startswith(("#", "data:"))
    ]
    assert outside == []
    assert not page.all("script") and not page.all("iframe") and not page.all("object")
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def test_the_style_names_no_address(written):
    text = written.read_text("utf-8")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    assert "url(" not in style and "@import" not in style and "@font-face" not in style
    assert "http://" not in text and "https://" not in text


def test_ids_are_there_once_and_references_have_their_targets(page, written):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 100
    references = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', written.read_text("utf-8"))
    assert {a or b for a, b in references} <= set(ids)
    named = [a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a]
    assert named and set(named) <= set(ids)


def test_every_figure_is_drawn_and_has_a_description_and_a_caption(page, written):
    figures, drawings = page.all("figure"), [a for a in page.all("svg") if a.get("role") == "img"]
    assert len(figures) == len(drawings) == len(page.all("figcaption")) == 15
    assert all(len(a["aria-label"]) > 30 for a in drawings)
    for part in re.findall(r"<figure.*?</figure>", written.read_text("utf-8"), re.DOTALL):
        assert part.count("<path") > 10


def test_sections_come_in_their_order(page):
    headings = [attributes["id"] for tag, attributes in page.tags if tag == "h2"]
    assert headings == [
        "run", "results", "standings", "openness", "trade", "ranking", "portraits", "targets", "paired", "settings",
        "times", "versions",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_same_tables_give_the_same_bytes_under_any_settings_and_the_same_page_in_any_order(tmp_path, written):
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "yellow", "svg.fonttype": "none"}):
        write_report(tmp_path / "again.html", **given(TABLES))
    assert (tmp_path / "again.html").read_bytes() == written.read_bytes()
    shuffled = {name: table.sample(frac=1.0, random_state=3) for name, table in TABLES.items()}
    write_report(tmp_path / "shuffled.html", **given(shuffled))
    check_same_text((tmp_path / "shuffled.html").read_text("utf-8"), written.read_text("utf-8"))


def test_settings_of_matplotlib_are_as_before(tmp_path):
    before = dict(matplotlib.rcParams)
    write_report(tmp_path / "report.html", **given(made_up(NAMES[:2], 1, 1), portraits={}))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_twenty_methods_at_nineteen_levels_stay_below_three_megabytes(tmp_path):
    portraits = {name: portrait(20) for name in ("calibrated", "paper")}
    write_report(tmp_path / "report.html", **given(made_up(METHODS[:20], 19, 2), portraits=portraits))
    assert 500_000 < (tmp_path / "report.html").stat().st_size < 3_000_000


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch, no_figures):
    path = tmp_path / "report.html"
    path.write_text("old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(path, **given(made_up(NAMES[:2], 1, 1), portraits={}))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("n_levels", slow_except([1], [1, 2]))
def test_names_and_texts_are_escaped(tmp_path, n_levels):
    tables = failing(made_up(["calibrated", NASTY], n_levels, 2), NASTY, [1], reason=NASTY)
    page = page_of(
        tmp_path,
        **given(
            tables,
            title=NASTY,
            about=NASTY,
            source=NASTY,
            settings=[(NASTY, NASTY)],
            notes=[NASTY],
            versions=[{NASTY: NASTY}],
            method_settings={NASTY: NASTY},
            portraits={"calibrated": portrait(2, names=[NASTY, "b & <c>"])},
            started=NASTY,
        ),
    )
    assert not page.all("script") and page.text.count(NASTY) >= 12


# --- what was run ---


def test_the_report_says_what_was_run(page):
    for text in (
        "The first paragraph.", "The second.", "numbers from a seed", "6 of 6", "5: calibrated, paper, sci, knn, svm",
        "3 levels, from openness 0.00 % (no unknown class) to openness 8.71 % (4 unknown classes)",
        "2026-01-02 03:04:05+00:00", "56 min", "A note to the reader.", "size = 128, levels = 1, 2", "epsilon = 0.05",
    ):  # fmt: skip
        assert text in page.text.replace("\xa0", " "), text
    assert "Incomplete" not in page.text and "failed" not in page.text


def test_a_run_that_is_not_done_says_so(text_of):
    page = text_of(**given(without(TABLES, "knn", [4, 5]), asked=dict.fromkeys(NAMES, 50)))
    assert "Incomplete: 4 of 50 trials, and parts of 2 more." in page.text
    assert "4 of 6 trials" in page.text  # beside the name in the table


def test_methods_that_were_to_run_fewer_trials_leave_a_run_complete(text_of):
    tables = without(TABLES, "knn", range(2, 6))
    page = text_of(**given(tables, asked=dict.fromkeys(NAMES, 6) | {"knn": 2}))
    assert "Incomplete" not in page.text and "trials 6 of 6" in page.text and "2 of 6 trials" in page.text
    page = text_of(**given(tables, asked=dict.fromkeys(NAMES, 6) | {"knn": 3}))
    assert "Incomplete: 5 of 6 trials, and parts of 1 more." in page.text


def test_trials_beyond_those_asked_for_do_not_count_as_more_than_all(text_of):
    page = text_of(**given(asked=dict.fromkeys(NAMES, 3)))
    assert "trials 3 of 3" in page.text and "6 of 3" not in page.text and "Incomplete" not in page.text


def test_a_trial_without_its_first_method_is_begun_and_not_complete(text_of):
    page = text_of(**given(without(FEW, "paper", [0]), asked={"calibrated": 2, "paper": 2}, portraits={}))
    assert "Incomplete: 1 of 2 trials, and parts of 1 more." in page.text


def test_a_method_that_was_asked_for_and_has_nothing_yet_makes_the_run_incomplete(text_of):
    page = text_of(**given(asked=dict.fromkeys([*NAMES, "osnn"], 6)))
    assert "Incomplete: 0 of 6 trials, and parts of 6 more." in page.text and "none of 6 trials" in page.text


def test_failures_are_listed_with_their_reasons(text_of):
    tables = failing(failing(TABLES, "knn", range(6), "MemoryError: too large"), "svm", [2], "ValueError: C < 0")
    page = text_of(**given(tables))
    assert "Incomplete" not in page.text  # what failed is done
    assert "knn failed in every trial" in page.text
    assert "6 trials: 0, 1, 2, 3, 4 and 5 MemoryError: too large" in page.text
    assert "trial 2 ValueError: C < 0" in page.text and "5 of 6 trials" in page.text


def test_versions_that_differ_stand_side_by_side(text_of, page):
    assert "different versions" not in page.text and page.text.count("3.11.2") == 1
    other = text_of(**given(versions=[{"python": "3.11"}, {"python": "3.12", "machine": "arm"}]))
    assert "different versions" in other.text and "python 3.11 3.12 machine – arm" in other.text


def test_times_are_means_a_trial_with_the_share_of_coding(text_of):
    times = pd.DataFrame(
        [
            ("x", 0, "calibrated", 2.0, 0.5, 0.5, 1.5),
            ("x", 1, "calibrated", 4.0, 0.5, 0.5, 2.5),
            ("x", 2, "calibrated", math.nan, math.nan, math.nan, math.nan),  # the process died
            ("x", 0, "knn", 0.5, 0.0, 0.0, 0.0),
        ],
        columns=["experiment", "trial", "method"] + [f"{k}_seconds" for k in ("fit", "predict", "measure", "coding")],
    )
    page = text_of(**given(made_up(NAMES[:1], 1, 2) | {"times": times}, portraits={}))
    assert "calibrated (ours) 3 0.5 0.5 8 s 50 % 50 %" in page.text and "knn 0.5 0 0 0.5 s 0 % 100 %" in page.text
    assert "all methods 8.5 s" in page.text
    # 6 s fitting, 1 predicting, 1 measuring and the half second of knn; 4 s of it coding.
    assert sum_times(times) == (8.5, pytest.approx(4 / 8.5))


def test_coding_of_a_fit_that_failed_counts_nowhere_and_is_never_more_than_all():
    columns = [f"{kind}_seconds" for kind in ("fit", "predict", "measure", "coding")]
    failed = pd.DataFrame([(1.0, 0.5, 0.5, 1.0), (math.nan, math.nan, math.nan, 50.0)], columns=columns)
    assert sum_times(failed) == (2.0, 0.5)
    assert sum_times(pd.DataFrame([(1.0, 0.0, 0.0, 1.001)], columns=columns)) == (1.0, 1.0)
    none, share = sum_times(failed[1:])
    assert none == 0.0 and math.isnan(share)


# --- what the numbers say ---


def results_of(**columns):
    """Return F-measures at one openness by method, one value per trial."""
    rows = [
        ("x", trial, 2, 0.1, method, "f", value)
        for method, values in columns.items()
        for trial, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["experiment", "trial", "n_unknown", "openness", "method", "metric", "value"])


def said(**columns):
    ((label, sentence),) = write_headline(results_of(**columns))
    assert label == "F-measure"
    return sentence


def test_the_leading_method_is_reported_with_the_interval():
    # Differences 0.1, 0.2, 0.3: mean 0.2 and 4.3027 · 0.1 / √3 to either side.
    sentence = said(calibrated=[0.8, 0.9, 1.0], paper=[0.7, 0.7, 0.7], sci=[0.1, 0.2, 0.1])
    assert sentence == (
        "calibrated has the highest mean, 0.900 ± 0.248, but is not distinguishable from paper "
        "(0.200 [−0.048, 0.448] over 3 trials)."
    )
    sentence = said(calibrated=[0.8, 0.9, 0.85, 0.8], paper=[0.7, 0.8, 0.74, 0.7], sci=[0.1, 0.2, 0.1, 0.1])
    assert sentence == (
        "calibrated has the highest mean, 0.838 ± 0.076: "
        "ahead of paper, the next, by 0.103 [0.095, 0.110] over 4 trials."
    )


def test_ours_is_reported_as_behind_if_it_is():
    sentence = said(calibrated=[0.7, 0.8, 0.74, 0.7], svm=[0.8, 0.9, 0.85, 0.8], sci=[0.1, 0.2, 0.1, 0.1])
    assert sentence.startswith("svm has the highest mean, 0.838 ± 0.076: ahead of calibrated, the next, by 0.103")
    assert sentence.endswith(
        " calibrated is 2nd of 3 with 0.735 ± 0.075, behind by 0.103 [0.095, 0.110] over 4 trials."
    )


def test_ours_is_reported_as_even_if_second_but_indistinguishable():
    sentence = said(calibrated=[0.7, 0.9, 0.8], svm=[0.8, 0.8, 0.81], sci=[0.1, 0.2, 0.1])
    assert "svm has the highest mean" in sentence and "not distinguishable from calibrated (" in sentence
    assert sentence.endswith("calibrated is 2nd of 3 with 0.800 ± 0.248, not distinguishable from svm.")


def test_the_same_values_are_the_same():
    sentence = said(paper=[0.8, 0.9, 1.0], calibrated=[0.8, 0.9, 1.0], sci=[0.1, 0.2, 0.1])
    assert sentence.startswith("calibrated has the highest mean, 0.900 ± 0.248, the same as paper")


def test_one_trial_tells_nothing_apart():
    assert said(calibrated=[0.8], paper=[0.5]) == (
        "calibrated is highest with 0.800, but one trial cannot separate methods."
    )


@pytest.mark.slow
def test_two_trials_have_no_intervals_and_tell_nothing_apart(tmp_path):
    assert said(calibrated=[0.8, 0.9], paper=[0.5, 0.5]) == (
        "calibrated is highest with 0.850, but two trials cannot separate methods."
    )
    page = page_of(tmp_path, **given(FEW, asked=dict.fromkeys(NAMES[:2], 2)))
    assert "95 % interval" not in page.text.replace("\N{NO-BREAK SPACE}", " ") and "±" not in page.text
    assert "With only two trials, methods are hardly distinguishable" in page.text


@pytest.mark.slow
def test_the_report_says_that_the_papers_rules_level_off_if_they_are_shown(page, tmp_path):
    assert "paper can level off: the tail probability of every sample" in page.text
    other = page_of(tmp_path, **given(without(FEW, "paper", range(2)), portraits={}))
    assert "Thresholds for target rates" in other.text and "level off" not in other.text


@pytest.mark.parametrize(("most", "start"), [(0, ""), (1, "With only one trial"), (4, "With only 4 trials"), (5, "")])
def test_the_report_says_that_few_trials_show_little(most, start):
    assert describe_few_trials(most).startswith(start) and bool(describe_few_trials(most)) == bool(start)


def test_a_single_method_is_compared_with_no_other():
    assert said(svm=[0.8, 0.9, 1.0]) == "svm, the only method with results, has 0.900 ± 0.248."


def test_ours_without_a_result_is_missed():
    assert said(svm=[0.8, 0.9], knn=[0.2, 0.3]).endswith(" calibrated has no result.")


NAN = math.nan


def test_few_lucky_trials_do_not_make_a_method_best():
    """A method with one easy trial of four has the highest mean, and is not said to be best."""
    values = dict(calibrated=[0.9, 0.5, 0.55, 0.5], paper=[0.8, 0.4, 0.44, 0.4], lucky=[0.91, NAN, NAN, NAN])
    sentence = said(**values)
    assert sentence == (
        "calibrated has the highest mean of those with 4 trials, 0.613 ± 0.307, but is not distinguishable from lucky "
        "(−0.010 in their one trial in common)."
    )
    outcome = rank_by_metric(pd.DataFrame(values), 1)
    assert outcome.best == ["calibrated"] and outcome.even == ["lucky"] and outcome.ahead == []


#: Eight trials of two methods, the first three of them of a third.
OURS8 = [0.80, 0.70, 0.75, 0.60, 0.60, 0.61, 0.62, 0.60]
SCI8 = [0.50, 0.41, 0.45, 0.30, 0.29, 0.31, 0.30, 0.30]


def with_few(*first):
    return {"calibrated": OURS8, "sci": SCI8, "paper": [*first, *[NAN] * (8 - len(first))]}


def test_a_method_with_few_trials_that_is_ahead_in_them_is_reported_as_ahead():
    # Differences 0.02, 0.03, 0.04: mean 0.03 and 4.3027 · 0.01 / √3 = 0.0248 to either side.
    sentence = said(**with_few(0.82, 0.73, 0.79))
    assert sentence.startswith("calibrated has the highest mean of those with 8 trials, 0.660 ± 0.066: ahead of sci, ")
    assert sentence.endswith(
        "; paper (3 trials only) is ahead of it by 0.030 [0.005, 0.055] over their 3 common trials."
    )
    assert "not distinguishable" not in sentence
    cells = build_column(pd.DataFrame(with_few(0.82, 0.73, 0.79)), "f", "F", {}).cells
    assert {name: cell.mark for name, cell in cells.items()} == {"calibrated": "best", "sci": "", "paper": "ahead"}


def test_a_method_with_few_trials_that_is_behind_in_them_is_neither_even_nor_ahead():
    """Its trials are easy: its mean is above that of the best, and yet it is worse in every one of them."""
    values = with_few(0.78, 0.67, 0.71)
    outcome = rank_by_metric(pd.DataFrame(values), 1)
    assert outcome.summary.at["paper", "mean"] > outcome.summary.at["calibrated", "mean"]
    assert outcome.best == ["calibrated"] and outcome.even == [] and outcome.ahead == []
    sentence = said(**values)
    assert sentence.startswith("calibrated has the highest mean of those with 8 trials, 0.660 ± 0.066: ahead of sci, ")
    assert "paper" not in sentence
    cells = build_column(pd.DataFrame(values), "f", "F", {}).cells
    assert cells["paper"].mark == cells["sci"].mark == ""


def test_a_method_with_few_trials_that_differs_by_chance_is_even():
    outcome = rank_by_metric(pd.DataFrame(with_few(0.83, 0.69, 0.76)), 1)
    assert outcome.even == ["paper"] and outcome.ahead == []
    sentence = said(**with_few(0.83, 0.69, 0.76))
    assert "the highest mean of those with 8 trials" in sentence and "not distinguishable from paper (" in sentence


def test_the_highest_mean_is_the_highest_where_few_trials_have_a_lower_one():
    assert said(**with_few(0.3, 0.2, 0.25)).startswith("calibrated has the highest mean, 0.660 ± 0.066: ahead of sci")


def test_several_that_are_ahead_are_all_named_with_the_gap_of_the_furthest():
    values = with_few(0.82, 0.73, 0.79) | {"matched": [0.90, 0.81, 0.86, *[NAN] * 5]}
    assert said(**values).endswith(
        "; matched (3 trials only) and paper (3 trials only) are ahead of it, matched by 0.107 [0.092, 0.121] over "
        "their 3 common trials."
    )


def test_ours_with_few_trials_is_placed_by_the_trials_it_shares():
    def ours(*first):
        return said(svm=OURS8, sci=SCI8, calibrated=[*first, *[NAN] * 5])

    assert ours(0.82, 0.73, 0.79).endswith(
        "calibrated (3 trials only) is ahead of it by 0.030 [0.005, 0.055] over their 3 common trials. "
        "calibrated has 0.780 ± 0.114 (in 3 of 8 trials), and is ahead of svm in their common trials."
    )
    assert ours(0.78, 0.67, 0.71).endswith("(in 3 of 8 trials), behind by 0.030 [0.005, 0.055] over 3 trials.")
    assert ours(0.83, 0.69, 0.76).endswith("(in 3 of 8 trials), not distinguishable from svm.")


def test_places_count_methods_with_enough_trials():
    values = dict(svm=OURS8, calibrated=SCI8, paper=[0.82, 0.73, 0.79, *[NAN] * 5])
    assert " calibrated is 2nd of the 2 with 8 trials, with 0.357 ± " in said(**values)


def test_methods_without_a_trial_in_common_are_not_compared():
    sentence = said(svm=[0.9, 0.8, 0.85, NAN, NAN, NAN], calibrated=[NAN, NAN, NAN, 0.5, 0.4, 0.45])
    assert sentence == (
        "svm has the highest mean, 0.850 ± 0.124. calibrated is 2nd of 2 with 0.450 ± 0.124, without a trial in common "
        "with svm."
    )


@pytest.mark.parametrize("better", [1, -1])
@pytest.mark.parametrize("seed", range(6))
def test_marks_of_methods_with_few_trials_follow_the_paired_interval_of_scipy(seed, better):
    from scipy import stats

    rng = np.random.default_rng(seed)
    ease = rng.normal(0, 0.1, 20)
    values = pd.DataFrame({f"m{i}": 0.6 - 0.01 * i + ease + rng.normal(0, 0.01, 20) for i in range(3)})
    for i, shift in enumerate((-0.05, -0.02, 0.0, 0.02, 0.05)):
        few = values["m0"] + shift + rng.normal(0, 0.01, 20)
        values[f"few{i}"] = few.where(few.index < 5)
    values *= better
    outcome = rank_by_metric(values, better)
    (best,) = outcome.best
    assert best in ("m0", "m1", "m2") and set(outcome.able) == {"m0", "m1", "m2"}
    state = {}
    for name in values.columns.drop(best):
        both = values[[best, name]].dropna()
        interval = stats.ttest_rel(better * both[best], better * both[name]).confidence_interval()
        state[name] = "behind" if interval.low > 0 else "ahead" if interval.high < 0 else "even"
    assert {name for name, one in state.items() if one == "even"} == set(outcome.even)
    assert {name for name, one in state.items() if one == "ahead"} == set(outcome.ahead)
    assert {"ahead", "behind"} <= set(state.values())


def test_the_mark_of_those_ahead_is_explained_where_there_is_one(text_of, page):
    assert "↑" not in page.text
    tables = without(made_up(NAMES, n_levels=3, n_trials=8), "paper", range(3, 8))
    results = tables["results"]
    ours = results[(results["method"] == "calibrated") & results["trial"].isin([0, 1, 2])]
    better = ours.assign(method="paper", value=ours["value"] + 0.05)
    results = pd.concat([results[results["method"] != "paper"], better])
    other = text_of(**given(tables | {"results": results}, portraits={}))
    assert "↑ better than ★ in their common trials" in other.text
    last = better.query("metric == 'f' and n_unknown == 4")["value"].mean()
    assert f"↑ {last:.3f}" in other.text
    assert "paper (3 trials only) is ahead of it by 0.050 [0.050, 0.050] over their 3 common trials." in other.text


def test_where_small_is_good_the_smallest_is_best():
    values = pd.DataFrame({"a": [0.1, 0.12, 0.11], "b": [0.5, 0.52, 0.52], "c": [0.1, 0.13, 0.12]})
    outcome = rank_by_metric(values, -1)
    assert outcome.best == ["a"] and outcome.even == ["c"] and outcome.summary.at["a", "mean"] == pytest.approx(0.11)
    cells = build_column(values, "fpr95", "FPR", {}).cells
    assert {name: cell.mark for name, cell in cells.items()} == {"a": "best", "b": "", "c": "even"}


def test_halves_of_a_trade_have_no_best():
    values = pd.DataFrame({"a": [0.1, 0.12], "b": [0.5, 0.52]})
    assert {cell.mark for cell in build_column(values, "rejection_accuracy", "r", {}).cells.values()} == {""}


def test_marks_follow_the_paired_interval_of_scipy():
    from scipy import stats

    rng = np.random.default_rng(5)
    values = pd.DataFrame({f"m{i}": 0.8 - 0.006 * i + rng.normal(0, 0.02, 10) for i in range(8)})
    outcome = rank_by_metric(values, 1)
    (best,) = outcome.best
    low = {m: stats.ttest_rel(values[best], values[m]).confidence_interval().low for m in values if m != best}
    assert set(outcome.even) == {m for m, end in low.items() if end <= 0} and 0 < len(outcome.even) < 7


def test_the_best_is_bold_with_a_star_and_the_even_are_marked(page, written):
    text = written.read_text("utf-8")
    assert text.count('<td class="best"><b>★') == 8 + 3  # of four metrics, twice, and of three more
    rows = order_by_f_measure(TABLES["results"], NAMES)
    first_column = [re.sub(r"<.*?>", "", row) for row in re.findall(r'<th scope="row".*?</th>', text)]
    shown = [name.replace(" (ours)", "") for name in first_column[: len(rows)]]
    assert shown == rows
    last = TABLES["results"].query("metric == 'f' and n_unknown == 4").groupby("method")["value"].mean()
    assert rows == last.sort_values(ascending=False).index.tolist()
    assert f"★ {last.max():.3f}" in page.text.replace("\xa0", " ")


def test_paired_cells_have_the_numbers_of_the_comparison():
    values = pd.DataFrame(
        {"ours": np.arange(10) / 10 + 0.05, "low": np.arange(10) / 10, "same": np.arange(10) / 10 + 0.05}
    )
    cells = format_comparison(values, "ours")
    assert cells["low"] == {
        "difference": "+0.050 [0.050, 0.050]", "p": "0.002", "p_holm": "0.004", "outcomes": "10/0/0", "n": 10,
        "verdict": "▲",
    }  # fmt: skip
    assert cells["same"]["difference"] == "0.000 [0.000, 0.000]" and cells["same"]["verdict"] == ""
    assert format_comparison(values, "low")["ours"]["verdict"] == "▼" and format_comparison(values, "absent") == {}


def test_too_few_trials_for_any_p_value_are_pointed_out(page):
    # Four comparisons, six trials: 4 · 2 / 2⁶.
    assert "With 6 trials and 4 comparisons the corrected p-value cannot fall below 0.12" in page.text


def test_numbers_are_written_with_a_true_minus_and_zero_without_a_sign():
    assert [format_number(v) for v in (-0.0001, 0.5, -0.25, math.nan)] == ["0.000", "0.500", "−0.250", "–"]
    assert format_number(0.1, signed=True) == "+0.100" and format_number(0.0, signed=True) == "0.000"
    assert format_mean(0.5, math.nan) == "0.500" and format_mean(0.5, 0.25) == "0.500 ± 0.250"


def test_lists_and_durations_read_well():
    assert [format_duration(s) for s in (0.5, 59.0, 90.0, 3600.0, 7260.0)] == [
        "0.5 s",
        "59 s",
        "2 min",
        "1 h 00 min",
        "2 h 01 min",
    ]


# --- degenerate runs ---


def test_before_the_first_trial_there_is_a_page_that_says_so(text_of):
    empty = {name: table[:0] for name, table in TABLES.items()}
    page = text_of(**given(empty, portraits={}))
    assert "No trial has a result yet." in page.text and not page.all("figure")
    assert "Incomplete: 0 of 6 trials." in page.text


@pytest.mark.parametrize(
    ("tables", "portraits"),
    [
        pytest.param(made_up(NAMES[:2], 1, 1), {}, id="one trial of one level"),
        pytest.param(made_up(NAMES[:1], 2, 3), {"calibrated": portrait(3)}, id="one method", marks=SLOW),
        pytest.param(made_up(["svm", "knn"], 2, 3), {"calibrated": None}, id="without ours", marks=SLOW),
        pytest.param(failing(made_up(NAMES[:3], 2, 3), "calibrated", range(3)), {}, id="ours failed", marks=SLOW),
        pytest.param(FEW | {"coverage": FEW["coverage"][:0]}, {}, id="no coverage", marks=SLOW),
        pytest.param(FEW | {"times": FEW["times"][:0]}, {}, id="no times", marks=SLOW),
    ],
)
@pytest.mark.filterwarnings("error")
def test_degenerate_runs_have_a_report(tmp_path, tables, portraits):
    page = page_of(tmp_path, **given(tables, portraits=portraits, elapsed=None, started=None, finished=None, notes=[]))
    assert page.all("figure") and "nan" not in page.text.lower().split()


@pytest.mark.slow
def test_what_was_not_measured_is_named(tmp_path):
    results = TABLES["results"]
    few = results[results["metric"].isin(["f", "speed"])]
    page = page_of(tmp_path, **given(TABLES | {"results": few, "coverage": TABLES["coverage"][:0]}, portraits={}))
    for text in ("No accuracy", "No AUROC", "No OSCR", "No recognition accuracy"):
        assert f"{text} was measured." in page.text
    for text in ("The first trial has no details to show.", "No thresholds for target rates were measured."):
        assert text in page.text
    extra = pd.concat([few, few[few["metric"] == "f"].assign(metric="speed", value=0.125)])
    page = page_of(tmp_path, **given(TABLES | {"results": extra}, portraits={}))
    assert "speed" in page.text and "0.125" in page.text


def test_values_that_are_missing_in_some_trials_are_counted(text_of):
    results = TABLES["results"].copy()
    hit = (results["method"] == "knn") & (results["metric"] == "auroc") & results["trial"].isin([0, 1])
    results.loc[hit, "value"] = math.nan
    assert "(4 trials)" in text_of(**given(TABLES | {"results": results}, portraits={})).text


def test_several_experiments_in_one_table_raise_an_error(tmp_path):
    both = pd.concat([TABLES["results"], TABLES["results"].assign(experiment="other")])
    with pytest.raises(
        ValueError, match=r"results holds 2 experiments \(made-up, other\); write a separate report for each"
    ):
        write_report(tmp_path / "report.html", **given(TABLES | {"results": both}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n", [0, -1, 2.5, None])
def test_an_invalid_number_of_trials_raises_an_error(tmp_path, n):
    with pytest.raises(ValueError, match=r"asked\['knn'\] must be a positive integer"):
        write_report(tmp_path / "report.html", **given(asked={"calibrated": 3, "knn": n}))
    with pytest.raises(ValueError, match="asked is empty"):
        write_report(tmp_path / "report.html", **given(asked={}))
    assert not list(tmp_path.iterdir())


# --- without ours ---


@pytest.mark.slow
def test_a_run_without_ours_compares_with_the_best_and_misses_nothing(tmp_path):
    tables = made_up(["naive", "ratio", "sci", "max-logit"], 2, 3)
    page = page_of(tmp_path, **given(tables, portraits={}, method_settings={}, about="", title="Some"))
    last = tables["results"].query("metric == 'f' and n_unknown == 2").groupby("method")["value"].mean()
    best = last.idxmax()
    assert f"{best} against every other method" in page.text
    assert f"{best} is compared because it has the best F-measure" in page.text
    assert f"Metrics of {best} at the largest openness" in page.text
    assert "calibrated" not in page.text and "(ours)" not in page.text


def test_a_run_of_one_trial_without_ours_reads_well(text_of):
    page = text_of(
        **given(made_up(["naive", "sci"], 2, 1), asked={"naive": 1, "sci": 1}, portraits={}, method_settings={})
    )
    assert "calibrated" not in page.text and "against every other method" in page.text and "trials 1 of 1" in page.text


def test_ours_that_was_to_run_and_has_nothing_is_missed(text_of):
    tables = made_up(["naive", "sci"], 2, 3)
    page = text_of(**given(tables, asked=dict.fromkeys(["calibrated", "naive", "sci"], 3), portraits={}))
    assert "calibrated has no result." in page.text
    assert "There is nothing to compare: calibrated has no trial in common with another method." in page.text


# --- files ---


@pytest.mark.slow
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    def full(path, data):
        if path.name == bad:
            raise OSError(28, "No space left on device")
        write_atomically(path, data)

    monkeypatch.setattr(report_module, "write_atomically", full)
    given_here = given(made_up(NAMES[:2], 1, 1), portraits={}) | {"figures": tmp_path / "figures"}
    for bad in ("report.html", "ranking-f.png"):
        with pytest.raises(ResultsFolderError, match=rf"could not write .*{bad}: No space left on device\. Finished"):
            write_report(tmp_path / "report.html", **given_here)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(ResultsFolderError, match=r"could not make the folder .*file"):
        write_report(tmp_path / "file" / "report.html", **given(made_up(NAMES[:1], 1, 1), portraits={}))
    with pytest.raises(ResultsFolderError, match=r"could not make the folder .*file"):
        write_report(
            tmp_path / "report.html", **given(made_up(NAMES[:1], 1, 1), portraits={}, figures=tmp_path / "file")
        )


@pytest.mark.slow
def test_figures_that_are_not_drawn_any_more_go_and_other_files_stay(tmp_path):
    figures = tmp_path / "figures"
    write_report(tmp_path / "report.html", **given(FEW, figures=figures))
    before = {path.name for path in figures.iterdir()}
    assert "confusion-1.png" in before and all(FIGURE_NAME.fullmatch(name[:-4]) for name in before)
    (figures / "mine.png").write_bytes(b"mine")
    (figures / f".trade.png.{'0123456789abcdef'}.tmp").write_bytes(b"left by a process that was killed")
    write_report(tmp_path / "report.html", **given(FEW, portraits={"calibrated": portrait(4)}, figures=figures))
    after = {path.name for path in figures.iterdir()}
    assert before - after == {"confusion-1.png", "errors-1.png"} and after - before == {"mine.png"}


def test_the_template_lies_beside_the_module():
    from importlib import resources

    assert resources.files(report_module.__package__).joinpath("experiment_page.html.j2").is_file()
