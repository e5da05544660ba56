"""A pipeline that ends in an open set classifier answers as the classifier does on transformed samples."""

import inspect
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from fitted import MINUS_ONE, fit_once
from same import check_same, check_same_decisions
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import srosr
from srosr import LeaveClassesOut, OpenSetPipeline, SROSRClassifier, make_open_set_pipeline, oscr_scorer
from srosr.classifiers.base import OpenSetClassifier

pytestmark = pytest.mark.filterwarnings("ignore::srosr.SROSRWarning")


def few(**parameters):
    """Return a classifier that is fitted in a blink."""
    return SROSRClassifier(n_repeats=2, random_state=0, **parameters)


def fits_its_steps(estimator):
    """Return the checks that scikit-learn's own pipeline fails, as ours does: it fits the steps it was given."""
    reason = "a pipeline fits its steps, and does not clone them"
    checks = ("check_dont_overwrite_parameters", "check_estimators_overwrite_params")
    return dict.fromkeys(checks, reason) | MINUS_ONE


@parametrize_with_checks(
    [OpenSetPipeline([("scale", StandardScaler()), ("clf", few())])], expected_failed_checks=fits_its_steps
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """Return samples of digits 0 to 3 for training, others of them and of 4 and 5, and the labels of both."""
    X, y = load_digits(n_class=6, return_X_y=True)
    known = np.flatnonzero(y < 4)
    new = np.r_[known[120:160], np.flatnonzero(y >= 4)[:30]]
    return X[known[:120]], y[known[:120]], X[new], y[new]


@pytest.fixture
def fitted(digits):
    """Return a fitted pipeline, and the same steps fitted by hand."""
    X, y, _, _ = digits
    pipeline = OpenSetPipeline([("scale", StandardScaler()), ("pca", PCA(20, random_state=0)), ("clf", few())])
    scaler, pca = StandardScaler(), PCA(20, random_state=0)
    clf = fit_once(few(), pca.fit_transform(scaler.fit_transform(X)), y)
    return fit_once(pipeline, X, y), lambda X: pca.transform(scaler.transform(X)), clf


ON_SAMPLES = (
    "unknown_score", "candidate", "class_scores", "evidence", "log_p_value", "p_value", "class_p_values",
    "prediction_set",
)  # fmt: skip


@pytest.mark.parametrize("method", ON_SAMPLES)
def test_a_method_on_samples_transforms_them_first(method, fitted, digits):
    pipeline, transform, clf = fitted
    X = digits[2]
    found, expected = getattr(pipeline, method)(X), getattr(clf, method)(transform(X))
    if method == "evidence":
        assert list(found.columns) == list(expected.columns) and found.index.equals(expected.index)
        found, expected = found.to_dict("list"), expected.to_dict("list")
    check_same(found, expected)


def test_decisions_and_predictions_are_those_of_transformed_samples(fitted, digits):
    pipeline, transform, clf = fitted
    X = digits[2]
    found = pipeline.decide(X)
    check_same_decisions(found, clf.decide(transform(X)), clf.threshold_)
    assert np.array_equal(pipeline.predict(X), found.label)
    assert np.array_equal(found.rejected, found.label == pipeline.unknown_label_)


def test_codes_are_those_of_transformed_samples(fitted, digits):
    pipeline, transform, clf = fitted
    X = digits[2][:5]
    check_same(pipeline.encode(X).codes.toarray(), clf.encode(transform(X)).codes.toarray())


def test_keyword_arguments_go_to_the_classifier(fitted, digits):
    pipeline, transform, clf = fitted
    X = digits[2]
    check_same(pipeline.decide(X, fdr=0.3), clf.decide(transform(X), fdr=0.3))
    assert not np.array_equal(pipeline.decide(X, fdr=0.3).rejected, pipeline.decide(X).rejected)
    check_same(pipeline.prediction_set(X, 0.6), clf.prediction_set(transform(X), coverage=0.6))
    with pytest.raises(ValueError, match="fdr"):
        pipeline.decide(X, fdr=2.0)


@pytest.mark.parametrize("shape", [(64,), (1, 64)])
def test_one_sample_is_explained(shape, fitted, digits):
    pipeline, transform, clf = fitted
    x = digits[2][50]
    found, expected = pipeline.explain(x.reshape(shape)), clf.explain(transform(x[None]))
    check_same(found.to_dict(), expected.to_dict())


def test_a_row_of_a_data_frame_is_explained_with_its_names(digits):
    X, y, new, _ = digits
    names = [f"p{j}" for j in range(64)]
    pipeline = make_open_set_pipeline(StandardScaler(), few()).fit(pd.DataFrame(X, columns=names), y)
    table = pd.DataFrame(new, columns=names)
    text = pipeline.explain(table.iloc[[3]]).text
    assert pipeline.explain(table.iloc[3]).text == text
    with pytest.raises(ValueError, match="feature names"):
        pipeline.explain(table.rename(columns={"p0": "other"}).iloc[3])


def test_the_threshold_is_set_without_fitting_again(fitted, digits):
    pipeline, transform, clf = fitted
    mean = pipeline["scale"].mean_
    assert pipeline.set_threshold(target_rejection=0.2) is pipeline
    clf.set_threshold(target_rejection=0.2)
    assert pipeline["scale"].mean_ is mean
    check_same(pipeline.threshold_info_, clf.threshold_info_)
    assert pipeline.threshold_ == pipeline.threshold_info_.value
    assert np.array_equal(pipeline.thresholds_, pipeline.threshold_info_.per_class)
    check_same_decisions(pipeline.decide(digits[2]), clf.decide(transform(digits[2])), clf.threshold_)
    assert pipeline.set_threshold(0.25).threshold_ == 0.25
    with pytest.raises(ValueError, match="threshold"):
        pipeline.set_threshold("best")


def test_a_class_is_added_and_removed_behind_the_earlier_steps(fitted, digits):
    pipeline, transform, clf = fitted
    mean = pipeline["scale"].mean_.copy()
    X, y = digits[2], digits[3]
    assert pipeline.add_class(X[y == 4], 4) is pipeline
    clf.add_class(transform(X[y == 4]), 4)
    assert pipeline.classes_.tolist() == [0, 1, 2, 3, 4] and np.array_equal(pipeline["scale"].mean_, mean)
    check_same(pipeline.unknown_score(X), clf.unknown_score(transform(X)))
    assert pipeline.remove_class(0) is pipeline and pipeline.classes_.tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="not one of the classes"):
        pipeline.remove_class(0)


def test_samples_are_learned_and_the_threshold_is_calibrated_behind_the_earlier_steps(fitted, digits):
    pipeline, transform, clf = fitted
    X, y = digits[2], digits[3]
    assert pipeline.update(X[y < 4][:20], y[y < 4][:20]) is pipeline
    clf.update(transform(X[y < 4][:20]), y[y < 4][:20])
    check_same(pipeline.unknown_score(X), clf.unknown_score(transform(X)))
    assert pipeline.recalibrate(X[y < 4][20:]) is pipeline
    clf.recalibrate(transform(X[y < 4][20:]))
    check_same(pipeline.threshold_, clf.threshold_)


def test_methods_that_learn_get_transformed_samples_and_labels(digits):
    class Recorder(OpenSetClassifier):
        """Knows what it was called with; no method but update and recalibrate matters."""

        _fit = _predict_raw = _held_out_scores = None

        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def update(self, X, y, *, recalibrate="none"):
            self.called_ = ("update", X, y, recalibrate)
            return self

        def recalibrate(self, X, y, *, groups=None):
            self.called_ = ("recalibrate", X, y, groups)
            return self

        def discover(self, X, *, n_groups=None):
            return "groups", X, n_groups

    X, y, new, labels = digits
    pipeline = make_open_set_pipeline(StandardScaler(), Recorder()).fit(X, y)
    expected = (new - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    assert pipeline.update(new, labels, recalibrate="all") is pipeline
    name, got, got_labels, recalibrate = pipeline[-1].called_
    assert (name, recalibrate) == ("update", "all") and got_labels is labels and np.allclose(got, expected)
    groups = np.arange(len(new))
    assert pipeline.recalibrate(new, labels, groups=groups) is pipeline
    assert pipeline[-1].called_[0] == "recalibrate" and pipeline[-1].called_[3] is groups
    found, got, n_groups = pipeline.discover(new, n_groups=3)
    assert found == "groups" and n_groups == 3 and np.allclose(got, expected)


def test_a_pipeline_has_the_methods_of_its_classifier_and_no_others(digits):
    X, y, _, _ = digits
    pipeline = make_open_set_pipeline(StandardScaler(), srosr.KNNDistance(random_state=0)).fit(X, y)
    for name in ("decide", "unknown_score", "candidate", "class_scores", "set_threshold"):
        assert hasattr(pipeline, name)
    for name in ("explain", "evidence", "add_class", "remove_class", "set_weight", "encode", "log_p_value"):
        assert not hasattr(pipeline, name)
    with pytest.raises(AttributeError, match="explain"):
        pipeline.explain(X[0])


def test_every_public_method_of_the_classifier_is_within_reach():
    own = {name for name, _ in inspect.getmembers(SROSRClassifier, inspect.isfunction) if name[0] != "_"}
    foreign = {name for name in own if getattr(SROSRClassifier, name).__module__.startswith("sklearn")}
    requests = {name for name in own if re.fullmatch(r"set_\w+_request", name)}
    assert own - foreign - requests <= set(dir(make_open_set_pipeline(StandardScaler(), few())))


def test_a_method_has_the_arguments_and_the_documentation_of_the_classifiers(fitted):
    pipeline, _, clf = fitted
    for name in ("decide", "explain", "guarantees", "add_class", "set_threshold"):
        ours, theirs = getattr(pipeline, name), getattr(clf, name)
        assert inspect.signature(ours) == inspect.signature(theirs) and ours.__doc__ == theirs.__doc__
        assert name in OpenSetPipeline.__doc__


def test_samples_may_be_named_as_the_classifier_names_them(fitted, digits):
    pipeline, X = fitted[0], digits[2]
    check_same(pipeline.unknown_score(X=X), pipeline.unknown_score(X))
    assert pipeline.explain(x=X[0]).text == pipeline.explain(X[0]).text
    with pytest.raises(TypeError, match="'X'"):
        pipeline.decide()


def test_a_fitted_pipeline_is_pickled(fitted, digits):
    pipeline, X = fitted[0], digits[2]
    check_same(pickle.loads(pickle.dumps(pipeline)).unknown_score(X), pipeline.unknown_score(X))


def test_attributes_of_the_classifier_are_within_reach(fitted):
    pipeline, _, clf = fitted
    assert pipeline.classes_.tolist() == [0, 1, 2, 3] and pipeline.unknown_label_ == clf.unknown_label_ == -1
    assert pipeline.threshold_ is pipeline["clf"].threshold_ and pipeline.score_range == clf.score_range
    check_same(pipeline.threshold_, clf.threshold_)
    unfitted = make_open_set_pipeline(StandardScaler(), few())
    assert not hasattr(unfitted, "threshold_") and not hasattr(unfitted, "classes_")


def test_an_unfitted_pipeline_says_so(digits):
    pipeline = make_open_set_pipeline(StandardScaler(), few())
    for call in (pipeline.decide, pipeline.unknown_score, pipeline.explain):
        with pytest.raises(NotFittedError):
            call(digits[2][:1])
    with pytest.raises(NotFittedError):
        pipeline.set_threshold(0.5)


@pytest.mark.parametrize("last", [StandardScaler(), "passthrough", None, srosr.SRCClassifier()])
def test_a_last_step_that_is_no_open_set_classifier_is_an_error(last, digits):
    pipeline = OpenSetPipeline([("scale", StandardScaler()), ("last", last)])
    with pytest.raises(ValueError, match=r"^steps: the last step must be an open set classifier"):
        pipeline.fit(digits[0], digits[1])


def test_a_classifier_alone_is_a_pipeline_too(digits):
    X, y, new, _ = digits
    pipeline, clf = make_open_set_pipeline(few()).fit(X, y), fit_once(few(), X, y)
    check_same_decisions(pipeline.decide(new), clf.decide(new), clf.threshold_)


def test_steps_can_be_passed_over(digits):
    X, y, new, _ = digits
    pipeline = OpenSetPipeline([("scale", "passthrough"), ("clf", few())]).fit(X, y)
    check_same(pipeline.unknown_score(new), fit_once(few(), X, y).unknown_score(new))


def test_a_part_without_the_classifier_is_a_plain_pipeline(fitted, digits):
    pipeline, transform, _ = fitted
    assert type(pipeline[:-1]) is Pipeline and type(pipeline[1:]) is OpenSetPipeline
    check_same(pipeline[:-1].transform(digits[2]), transform(digits[2]))
    assert pipeline["clf"] is pipeline[-1] is pipeline[1:][-1]


def test_a_pipeline_is_cloned_and_its_parameters_are_set(fitted):
    pipeline, _, _ = fitted
    again = clone(pipeline).set_params(clf__target_rejection=0.1, pca__n_components=5)
    assert type(again) is OpenSetPipeline and not hasattr(again, "classes_")
    assert again.get_params()["clf__target_rejection"] == 0.1 and pipeline["clf"].target_rejection == 0.05


def test_a_search_tunes_steps_and_classifier_together(digits):
    X, y, new, _ = digits
    pipeline = make_open_set_pipeline(StandardScaler(), PCA(random_state=0), few())
    grid = {"pca__n_components": [2, 20], "srosrclassifier__rule": ["calibrated", "matched"]}
    cv = LeaveClassesOut(n_splits=2, random_state=0)
    search = GridSearchCV(pipeline, grid, cv=cv, scoring=oscr_scorer).fit(X, y)
    assert search.best_params_["pca__n_components"] == 20 and type(search.best_estimator_) is OpenSetPipeline
    assert len(search.best_estimator_.decide(new)) == len(new)
    by_hand = cross_val_score(
        Pipeline(pipeline.set_params(**search.best_params_).steps), X, y, cv=cv, scoring=oscr_scorer
    )
    assert search.best_score_ == pytest.approx(by_hand.mean())


def test_missing_values_are_imputed_by_a_step(digits):
    X, y, new, _ = digits
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
    gaps_later = np.where(np.random.default_rng(1).random(new.shape) < 0.05, np.nan, new)
    pipeline = make_open_set_pipeline(SimpleImputer(strategy="median"), few()).fit(gaps, y)
    medians = np.nanmedian(gaps, axis=0)
    clf = few().fit(np.where(np.isnan(gaps), medians, gaps), y)
    check_same(
        pipeline.unknown_score(gaps_later), clf.unknown_score(np.where(np.isnan(gaps_later), medians, gaps_later))
    )


# -- metadata ----------------------------------------------------------------------------------------------


class Grouped(SROSRClassifier):
    """Keeps the groups it was fitted with."""

    def fit(self, X, y, *, groups=None):
        super().fit(X, y)
        self.seen_ = groups
        return self


def test_groups_reach_the_classifier_by_the_name_of_its_step(digits):
    X, y, _, _ = digits
    groups = np.arange(len(y)) // 3
    pipeline = make_open_set_pipeline(StandardScaler(), Grouped(n_repeats=2, random_state=0))
    assert pipeline.fit(X, y, grouped__groups=groups)[-1].seen_ is groups


def test_groups_are_routed_to_the_classifier_that_requests_them(digits):
    X, y, _, _ = digits
    groups = np.arange(len(y)) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        clf = Grouped(n_repeats=2, random_state=0).set_fit_request(groups=True)
        assert make_open_set_pipeline(StandardScaler(), clf).fit(X, y, groups=groups)[-1].seen_ is groups
        silent = make_open_set_pipeline(StandardScaler(), Grouped(n_repeats=2, random_state=0))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="groups"):
            silent.fit(X, y, groups=groups)


def test_groups_of_the_recognizer_itself_are_routed(digits):
    X, y, new, _ = digits
    groups = np.arange(len(y)) // 3
    scaled = StandardScaler().fit(X)
    clf = few().fit(scaled.transform(X), y, groups=groups)
    by_step = make_open_set_pipeline(StandardScaler(), few()).fit(X, y, srosrclassifier__groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_open_set_pipeline(StandardScaler(), few().set_fit_request(groups=True)).fit(X, y, groups=groups)
    expected = clf.unknown_score(scaled.transform(new))
    check_same([by_step.unknown_score(new), routed.unknown_score(new)], [expected, expected])


# -- representation, files, imports ------------------------------------------------------------------------


def test_a_pipeline_is_drawn_and_ours_have_no_link_to_the_documentation_of_scikit_learn(fitted):
    pipeline, _, _ = fitted
    html = pipeline._repr_html_()
    assert "SROSRClassifier" in html and re.search(r'href="https://scikit-learn\.org/[^"]*StandardScaler', html)
    assert not re.search(r'href="[^"]*SROSRClassifier', html)


def test_saving_a_pipeline_says_what_to_do_instead(fitted, tmp_path):
    pipeline, _, _ = fitted
    with pytest.raises(NotImplementedError, match=r"pipeline\[-1\]\.save"):
        pipeline.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())
    pipeline[-1].save(tmp_path / "m")
    again, X = srosr.load(tmp_path / "m"), np.ones((1, 64))
    check_same(again.unknown_score(pipeline[:-1].transform(X)), pipeline.unknown_score(X))


def test_the_package_is_imported_without_pipelines():
    code = "import srosr, sys; sys.exit('sklearn.pipeline' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


# -- the guide ---------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "pipelines.md"


@pytest.mark.slow
def test_the_code_of_the_guide_runs_and_the_unknown_digits_are_rejected(capsys):
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        exec(compile(code, PAGE.name, "exec"), names)
    assert capsys.readouterr().out.startswith("Rejected: the unknown score")
    assert names["search"].best_params_ == {"pca__n_components": 30}
    unknown = names["y"][500:] >= 6
    assert names["decisions"].rejected[unknown].mean() > 0.8 > 0.2 > names["decisions"].rejected[~unknown].mean()
