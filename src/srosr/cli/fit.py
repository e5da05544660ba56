"""``srosr fit``: from a file of labelled samples to a model file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .bad_input import BadInput
from .console import LARGEST_SEED, json_option, quiet_option
from .input_data import DataOptions, data_options
from .picture_options import chosen_features, features_option, size_option, usual_shape

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers import OpenSetClassifier
    from ..inspection import ModelSummary
    from ..tables import FeatureRecipe, Overview

__all__ = ["fit"]

#: A model is worth a word where it names fewer held-out samples rightly, or refuses fewer strangers; and a table where
#: so many samples each have a class of their own.
POOR_ACCURACY, POOR_REFUSAL, MANY = 0.8, 0.5, 20
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
KERNELS = ("linear", "rbf", "poly", "chi2", "histogram_intersection")


@click.command()
@click.argument("data", metavar="DATA")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("model.srosr"), show_default=True,
    help="Where the model goes.",
)  # fmt: skip
@data_options()
@features_option
@size_option
@click.option("--standardise", is_flag=True, help="Shift and scale every column to mean 0 and standard deviation 1.")
@click.option("--method", default="calibrated", show_default=True, metavar="NAME", help="The method, see above.")
@click.option("--alpha", type=float, metavar="A", help="Code samples by the Lasso with this weight.  [0.02]")
@click.option("--epsilon", type=float, metavar="E", help="Code samples within this error instead, as the paper does.")
@click.option("--kernel", type=click.Choice(KERNELS), help="Compare samples by a kernel.  [linear]")
@click.option("--gamma", type=float, metavar="G", help="Of the kernel.  [1 / number of features]")
@click.option(
    "--target-rejection", type=SHARE, metavar="SHARE", help="Share of known samples that may be refused.  [0.05]"
)
@click.option("--unknown-label", metavar="TEXT", help='What refused samples are called.  ["unknown"]')
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=0, show_default=True, help="Of the splits.")
@click.option("--jobs", type=click.IntRange(1), help="Threads.  [one a core]")
@json_option
@quiet_option
def fit(
    data: str,
    output: Path,
    options: DataOptions,
    features: str | None,
    size: str | None,
    standardise: bool,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Learn known classes from labelled samples and write a model file.

    DATA is a table (.csv, .tsv, .parquet) with a column of classes, arrays (.npz with X and y; .npy with --labels;
    .mat), or a folder with a sub-folder of pictures for each class. No sample of an unknown class is needed: held-out
    samples, and known classes left out in turn, say what is strange.

    Before it works it shows what it understood of the data; afterwards how held-out samples fared. Methods: calibrated
    (the default), paper, matched, and the rivals naive, ratio, sci, w-svm, pi-svm, 1-vs-set, svm, svm-platt,
    svm-pairwise, osnn, knn, mahalanobis, evm, evm-released, openmax, max-logit. "srosr compare DATA" says which suits.

    \b
    Examples:
      srosr fit iris.csv --label species
      srosr fit train.parquet -o model.srosr --ignore id --standardise
      srosr fit embeddings.npy --labels names.txt --target-rejection 0.01
      srosr fit arrays.npz --method w-svm
      srosr fit photos/ --features pyramid
      srosr fit faces/ --features pixels --size 48x42
    """
    from ..inspection import summary_of
    from .bad_input import refusing, spelt_out
    from .console import err, print_json, warnings_shown
    from .input_data import check_kind_of_options, is_picture_data
    from .output_files import check_model_path

    check_model_path(output, data)
    clf = _classifier(settings)
    speaks = not (quiet or as_json)
    check_kind_of_options(data, options)
    with refusing():
        if is_picture_data(data):
            if standardise:
                raise BadInput("--standardise is for tables: the features of pictures have a common scale.")
            training = _from_pictures(data, options, features, size, settings, speaks)
        else:
            if features is not None or size is not None:
                raise BadInput(f"--features and --size are for pictures, and {data} is a table.")
            training = _from_table(data, options, standardise)
    intake, found = training.intake, training.found
    if speaks:
        _show_data(training)
    for name in found.classes:
        if spelt_out(name) != name:
            raise BadInput(f"{data}: the class {name!r} has signs that cannot be shown: give it another name.")
    if len(found.classes) == found.samples >= MANY:
        where = f" in {intake.label!r}" if intake.label is not None else ""
        raise BadInput(
            f"{data}: every sample has a class of its own{where}; name the column of the classes with --label."
        )
    if len(found.classes) < 2:
        only = next(iter(found.classes), "none")
        raise BadInput(
            f"{data} has one class, {only}: at least two are needed, for a stranger is like none of several."
        )
    console = err()
    with warnings_shown(speaks), console.status("Learning (the first run also compiles the solver) …"):
        try:
            clf.fit(training.X, training.labels)
        except ValueError as error:
            raise BadInput(f"{data}: {_sentence(error)}") from None
    clf.feature_recipe_ = intake if hasattr(clf, "training_rows_") else replace(intake, rows=None)
    with refusing():
        clf.save(output)
    summary = summary_of(clf)
    if as_json:
        print_json({"model": str(output), "data": found.to_dict(), **summary.to_dict()})
    elif not quiet:
        from .console import out, show_facts
        from .info import held_out_facts

        show_facts(held_out_facts(summary))
        for note in _advice(summary, data):
            out().print(f"Note: {note}", style="yellow")
        out().print(f"Model: {output}")


def _advice(summary: ModelSummary, data: str) -> list[str]:
    """What about the model should make one look for a better one."""
    held, out = summary.held_out, []
    compare = f"srosr compare {data} shows how other methods do"
    if len(summary.classes) == 2:
        out.append(
            "With two classes none can be left out to see how strangers fare, and all evidence counts the same: three "
            "or more are better."
        )
        compare = "try other features, --kernel rbf, --standardise or another --method"
    if held.accuracy is not None and held.accuracy < POOR_ACCURACY:
        out.append(f"The best class is the wrong one for {1 - held.accuracy:.0%} of held-out samples: {compare}.")
    elif held.strangers_refused is not None and held.strangers_refused < POOR_REFUSAL:
        out.append(f"Of the classes left out only {held.strangers_refused:.0%} of the samples are refused: {compare}.")
    return out


def _sentence(error: Exception) -> str:
    return str(error).rstrip(".") + "."


# -- the classifier ----------------------------------------------------------------------------------------


def _classifier(settings: dict[str, Any]) -> OpenSetClassifier:
    """The classifier that the options ask for, checked before any data are read."""
    from .._support.messages import choose_from
    from ..coding import BPDN, Lasso
    from ..rivals import open_set_methods

    methods, name = open_set_methods(), settings["method"]
    if name not in methods:
        raise BadInput(f"--method {name}: there is no such method{choose_from(name, methods)}")
    clf = methods[name]
    there = clf.get_params(deep=False)
    if settings["alpha"] is not None and settings["epsilon"] is not None:
        raise BadInput("--alpha and --epsilon are two ways to code a sample: give one of them.")
    chosen: dict[str, Any] = {"random_state": settings["seed"]}
    try:
        if settings["alpha"] is not None:
            chosen["problem"] = Lasso(settings["alpha"])
        if settings["epsilon"] is not None:
            chosen["problem"] = BPDN(settings["epsilon"])
    except ValueError as error:
        raise BadInput(f"--alpha, --epsilon: {_sentence(error)}") from None
    for key in ("kernel", "gamma", "target_rejection", "unknown_label"):
        if settings[key] is not None:
            chosen[key] = settings[key]
    if "n_jobs" in there:
        chosen["n_jobs"] = settings["jobs"] or -1
    for key in list(chosen):
        if key not in there:
            if key == "random_state":
                del chosen[key]
                continue
            option = "--alpha and --epsilon" if key == "problem" else f"--{key.replace('_', '-')}"
            raise BadInput(f"{option}: not for --method {name}, which has no such parameter.")
    clf.set_params(**chosen)
    try:
        clf._check_parameters()
    except ValueError as error:
        raise BadInput(_sentence(error)) from None
    return clf


# -- the data ----------------------------------------------------------------------------------------------


class _Training(NamedTuple):
    """What is learnt from, and what there is to say of it.

    ``X`` is as the classifier takes it, ``columns`` are the names of a table's features, ``notes`` the remarks of the
    reader, ``broken`` the pictures that were left out.
    """

    X: Any
    labels: AnyArray
    intake: FeatureRecipe
    found: Overview
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def _from_table(data: str, options: DataOptions, standardise: bool) -> _Training:
    import numpy as np

    from ..tables import FeatureRecipe, overview_of
    from .input_data import column_scale, named, notes_of, open_labelled

    source = open_labelled(data, options)
    rows = source.read()
    labels = np.asarray(rows.labels).astype(str)
    found = overview_of(rows.X, labels, source.feature_names, missing=source.missing, dropped=source.dropped)
    centre, scale = column_scale(rows.X, source) if standardise else (None, None)
    # The path of a file of labels is nobody else's business.
    label = None if options.labels_file is not None else source.label
    intake = FeatureRecipe("table", label, options.ignore, centre, scale, rows=rows.numbers if source.dropped else None)
    X = named(intake.scaled(rows.X), source.feature_names)
    return _Training(X, labels, intake, found, source.feature_names or (), tuple(notes_of(source)))


def _from_pictures(
    data: str, options: DataOptions, features: str | None, size: str | None, settings: dict[str, Any], speaks: bool
) -> _Training:
    import numpy as np

    from ..tables import FeatureRecipe, ReadError, labelled_pictures, overview_of, read_all, thumbnail_of
    from .console import progress

    kind, shape = chosen_features(features, size)
    paths, classes, names = labelled_pictures(data)
    with progress("Reading pictures", unit="pictures", shown=speaks) as update:
        shapes, small, kept = read_all(paths, thumbnail_of, options.skip_broken, update)
    if not kept:
        raise ReadError(f"{data} has no picture that can be read.")
    broken = [names[i] for i in sorted(set(range(len(paths))) - set(kept))]
    paths, names = [paths[i] for i in kept], [names[i] for i in kept]
    labels: AnyArray = np.array(classes)[kept]
    thumbnails = np.stack(small)
    if kind == "pixels":
        intake = FeatureRecipe(
            "pixels", shape=shape or usual_shape(shapes), names=np.array(names), thumbnails=thumbnails
        )
    else:
        intake = FeatureRecipe(
            "pyramid", pyramid=_pyramid(data, paths, settings), names=np.array(names), thumbnails=thumbnails
        )
    blocks = []
    with progress("Computing features", unit="pictures", shown=speaks) as update:
        for start in range(0, len(paths), 32):
            blocks.append(intake.features_of(paths[start : start + 32]))
            update(min(start + 32, len(paths)), min(start + 32, len(paths)) / len(paths))
    X = np.concatenate(blocks)
    found = overview_of(X, labels, dropped=len(broken))
    return _Training(X, labels, intake, found, broken=tuple(broken))


def _pyramid(data: str, paths: list[Path], settings: dict[str, Any]) -> Any:
    from ..features import SpatialPyramid
    from .console import err

    pyramid = SpatialPyramid(n_jobs=settings["jobs"] or -1, random_state=settings["seed"])
    with err().status("Learning visual words …"):
        try:
            pyramid.fit(paths)
        except ValueError as error:
            if "descriptors" in str(error):
                raise BadInput(
                    f"{data} has too few pictures, or too small ones, for {pyramid.n_words} visual words: give more, "
                    "or use --features pixels."
                ) from None
            raise BadInput(f"{data}: {_sentence(error)}") from None
    pyramid.n_jobs = None
    return pyramid


# -- what is shown -----------------------------------------------------------------------------------------


def _show_data(training: _Training) -> None:
    """What was understood of the data, before work begins."""
    from .._support.messages import count_of, list_names
    from .console import out, show_facts

    intake, found = training.intake, training.found
    facts: list[tuple[str, str]] = []
    facts.append(("samples", f"{found.samples:,}"))
    if intake.kind == "pixels":
        assert intake.shape is not None
        facts.append(("features", f"{found.features:,}: grey values at {intake.shape[0]} × {intake.shape[1]} pixels"))
    elif intake.kind == "pyramid":
        facts.append(("features", f"{found.features:,}: spatial pyramids of {intake.pyramid.n_words} visual words"))  # type: ignore[union-attr]
    else:
        scaled = ", standardised" if intake.centre is not None else ""
        names = training.columns
        named = f": {list_names(names, 6)}" if names else ""
        facts.append(("features", f"{found.features:,}{named}{scaled}"))
    where = "" if intake.label is None else f" (from {intake.label!r})"
    named = list_names((f"{name} {n:,}" for name, n in found.classes.items()), 12)
    facts.append(("classes", f"{len(found.classes)}{where}: {named}"))
    if intake.of_pictures:
        some = list_names(training.broken, 3)
        facts.append(("broken", f"{count_of(found.dropped, 'picture')} left out: {some}" if found.dropped else "none"))
    else:
        left_out = f" in {count_of(found.dropped, 'row')}, which are left out" if found.dropped else ""
        facts.append(("missing values", f"{found.missing:,}{left_out}" if found.missing else "none"))
    facts.append(("duplicates", f"{found.duplicates:,}" if found.duplicates else "none"))
    if not intake.of_pictures:
        facts.append(("constant columns", f"{len(found.constant):,}" if found.constant else "none"))
    show_facts(facts)
    for remark in (*training.notes, *found.remarks(scaled=intake.centre is not None, pictures=intake.of_pictures)):
        out().print(f"Note: {remark}", style="yellow")
