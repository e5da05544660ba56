"""``srosr fit``: from labeled samples to a model file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .._support.messages import choose_from, count_of, list_names
from ..operations.device_choice import check_device_option
from ..operations.input_errors import InputError, convert_errors, end_sentence, escape_unprintable, name_errors
from ..operations.model_input import check_options, format_notes, is_picture_data
from .console import (
    device_option,
    err,
    jobs_option,
    json_option,
    out,
    print_facts,
    print_json,
    progress,
    quiet_option,
    seed_option,
    show_warnings,
)
from .input_data import (
    FeatureOptions,
    choose_shape,
    compute_column_scale,
    data_options,
    describe_imputation,
    feature_options,
)
from .models import held_out_facts
from .output_paths import check_model_path

if TYPE_CHECKING:
    from .._support.array_types import AnyArray
    from ..classifiers.base import OpenSetClassifier
    from ..inspection.model_summary import ModelSummary
    from ..tables.data_overview import Overview
    from ..tables.feature_recipe import FeatureRecipe
    from ..tables.read_options import ReadOptions

#: Below this accuracy on held-out samples, and below this rejection rate of simulated unknowns, advice is given.
POOR_ACCURACY, POOR_REJECTION = 0.8, 0.5
#: From so many samples on, a class for each sample is an error.
MANY = 20
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
KERNELS = ("linear", "rbf", "poly", "chi2", "histogram_intersection")


@click.command()
@click.argument("data", metavar="DATA")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("model.srosr"), show_default=True,
    help="Where to write the model.",
)  # fmt: skip
@data_options()
@feature_options
@click.option(
    "--impute",
    type=click.Choice(["median", "knn"]),
    help="Fill in missing values, here and in later files: by the median of the column, or from the nearest rows.",
)
@click.option("--method", default="calibrated", show_default=True, metavar="NAME", help="The method; see above.")
@click.option("--alpha", type=float, metavar="A", help="Code samples by the Lasso with this penalty.  [0.02]")
@click.option("--epsilon", type=float, metavar="E", help="Code samples to within this error instead, as in the paper.")
@click.option("--kernel", type=click.Choice(KERNELS), help="Compare samples by a kernel.  [linear]")
@click.option("--gamma", type=float, metavar="G", help="Parameter of the kernel.  [1 / number of features]")
@click.option(
    "--atoms-per-class",
    "atoms",
    metavar="N | SHARE",
    help="Keep a small dictionary: so many atoms of each class (50), or a share of them (0.1, 10%).  [all samples]",
)
@click.option(
    "--max-codings",
    type=click.IntRange(1),
    metavar="N",
    help="Code at most so many held-out samples in each pass of the calibration.  [20000 in the first of three, 10000]",
)
@click.option(
    "--target-rejection", type=SHARE, metavar="SHARE", help="Share of known samples that may be rejected.  [0.05]"
)
@click.option(
    "--calibration",
    type=click.Choice(["cross", "split"]),
    help="Choose the threshold by held-out samples, or by a quarter of the samples kept aside for it, which guarantees "
    "the target.  [cross]",
)
@click.option(
    "--group",
    metavar="COLUMN",
    help="The column that says which samples belong together, of one person or device: they are held out together.",
)
@click.option("--unknown-label", metavar="TEXT", help='Label of rejected samples.  ["unknown"]')
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Code held-out samples on a Dask cluster: tcp://HOST:PORT of its scheduler, or local:N for N workers here.",
)
@seed_option("Seed of the splits.")
@jobs_option()
@device_option()
@json_option
@quiet_option
def fit(
    data: str, output: Path, options: ReadOptions, features: FeatureOptions, cluster: str | None, as_json: bool,
    quiet: bool, **settings: Any,
) -> None:  # fmt: skip
    """Learn known classes from labeled samples and write a model file.

    DATA is a table (.csv, .tsv, .parquet) with a column of classes, arrays (.npz with X and y; .npy with --labels;
    .mat), or a folder with a subfolder of pictures for each class. No sample of an unknown class is needed: the
    threshold comes from held-out samples and from known classes that are left out in turn.

    The command first prints what it found in DATA, then how held-out samples were classified. Methods: calibrated (the
    default), paper, matched, and the rivals naive, ratio, sci, w-svm, pi-svm, 1-vs-set, svm, svm-platt, svm-pairwise,
    osnn, knn, mahalanobis, rmds, evm, evm-released, openmax, max-logit, gen, vim, nnguide. "srosr compare DATA"
    recommends one of them.

    \b
    Examples:
      srosr fit iris.csv --label species
      srosr fit train.parquet -o model.srosr --ignore id --standardize
      srosr fit gaps.csv --impute median                     missing values are filled in, later ones too
      srosr fit embeddings.npy --labels names.txt --target-rejection 0.01
      srosr fit patients.csv --label finding --group patient --calibration split
      srosr fit arrays.npz --method w-svm
      srosr fit many.parquet --atoms-per-class 0.1           a tenth of the atoms: a smaller, faster model
      srosr fit many.parquet --device cuda                   on an NVIDIA GPU; the model file is the same on any machine
      srosr fit photos/ --features pyramid
      srosr fit faces/ --features pixels --size 48x42
    """
    from ..distributed.worker_task import ExecutorError
    from ..inspection.model_summary import summarize_model

    check_model_path(output, data)
    clf = _make_classifier(settings)
    _check_cluster(cluster, clf)
    speaks = not (quiet or as_json)
    check_options(data, options)
    features.check(data)
    _check_impute(settings["impute"], data, options)
    _check_group(settings["group"], data, clf)
    with convert_errors():
        if is_picture_data(data):
            training = _read_pictures(data, options, features, settings, speaks)
        else:
            options = replace(options, group=settings["group"])
            training = _read_table(data, options, features.standardize, settings["impute"], settings["seed"])
    if speaks:
        _print_data(training)
    _check_classes(data, training, settings["unknown_label"])
    status = err().status("Fitting (the first run also compiles the solver) …")
    with show_warnings(speaks), status, name_errors(data), name_errors("--cluster", ExecutorError), _name_atoms():
        given = {"cluster": cluster, "groups": training.groups}
        clf.fit(training.X, training.labels, **{name: value for name, value in given.items() if value is not None})
    recipe = training.recipe
    clf.feature_recipe_ = recipe if hasattr(clf, "training_rows_") else replace(recipe, rows=None)
    with convert_errors():
        clf.save(output)
    summary = summarize_model(clf)
    if as_json:
        print_json({"model": str(output), "data": training.found.to_dict(), **summary.to_dict()})
    elif not quiet:
        print_facts(held_out_facts(summary))
        for note in _advise(summary, data):
            out().print(f"Note: {note}", style="yellow")
        out().print(f"Model: {output}")


def _advise(summary: ModelSummary, data: str) -> list[str]:
    """Return advice for a model that does poorly on held-out samples."""
    held, out = summary.held_out, []
    compare = f"srosr compare {data} shows how other methods do"
    if len(summary.classes) == 2:
        out.append(
            "With two classes none can be left out as a simulated unknown, and the weights of the evidence cannot be "
            "learned: three or more classes are better."
        )
        compare = "try other features, --kernel rbf, --standardize or another --method"
    if held.accuracy is not None and held.accuracy < POOR_ACCURACY:
        out.append(f"The candidate is the wrong class for {1 - held.accuracy:.0%} of held-out samples: {compare}.")
    elif held.simulated_unknowns_rejected is not None and held.simulated_unknowns_rejected < POOR_REJECTION:
        out.append(f"Only {held.simulated_unknowns_rejected:.0%} of the simulated unknowns are rejected: {compare}.")
    return out


# -- the classifier ----------------------------------------------------------------------------------------


def _make_classifier(settings: dict[str, Any]) -> OpenSetClassifier:
    """Return the classifier that the options ask for, checked before any data are read."""
    from ..coding.problems import BPDN, Lasso
    from ..rivals.methods import open_set_methods

    methods, name = open_set_methods(), settings["method"]
    if name not in methods:
        raise InputError(f"--method {name}: there is no such method{choose_from(name, methods)}")
    clf = methods[name]
    there = clf.get_params(deep=False)
    if settings["alpha"] is not None and settings["epsilon"] is not None:
        raise InputError("--alpha and --epsilon are two ways to code a sample: give one of them.")
    chosen: dict[str, Any] = {"random_state": settings["seed"]} if "random_state" in there else {}
    with name_errors("--alpha, --epsilon"):
        if settings["alpha"] is not None:
            chosen["problem"] = Lasso(settings["alpha"])
        if settings["epsilon"] is not None:
            chosen["problem"] = BPDN(settings["epsilon"])
    for key in ("kernel", "gamma", "max_codings", "target_rejection", "unknown_label", "calibration"):
        if settings[key] is not None:
            chosen[key] = settings[key]
    if settings["atoms"] is not None:
        chosen["atoms"] = _parse_atoms(settings["atoms"])
    if "n_jobs" in there:
        chosen["n_jobs"] = settings["jobs"] or -1
    if check_device_option(settings["device"]) is not None and ("device" in there or settings["device"] != "auto"):
        chosen["device"] = settings["device"]
    for key in chosen:
        if key not in there:
            renamed = {"problem": "--alpha and --epsilon", "atoms": "--atoms-per-class"}
            option = renamed.get(key, f"--{key.replace('_', '-')}")
            raise InputError(f"{option}: --method {name} has no such parameter.")
    clf.set_params(**chosen)
    try:
        clf._check_parameters()
    except ValueError as error:
        raise InputError(end_sentence(error)) from None
    return clf


@contextmanager
def _name_atoms() -> Iterator[None]:
    """Call the parameter ``atoms`` in the message of a ValueError by the name of its option."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        if not text.startswith(("atoms ", "atoms: ")):
            raise
        raise ValueError(f"--atoms-per-class{text.removeprefix('atoms')}") from None


def _parse_atoms(text: str) -> int | float:
    """Return a number of atoms a class, or a share: a number with a point, or with a percent sign."""
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text) if "." in text else int(text)
    except ValueError:
        number = 0
    if not (0 < number <= 1 or (isinstance(number, int) and number >= 1)):
        raise InputError(
            f"--atoms-per-class {text}: give a number of atoms such as 50, or a share of at most 1 such as 0.25 or 25%."
        )
    return number


def _check_cluster(cluster: str | None, clf: OpenSetClassifier) -> None:
    """Raise for an address that is none, and for a method that codes nothing."""
    if cluster is None:
        return
    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..distributed.dask_cluster import DaskCluster

    if not isinstance(clf, SROSRClassifier):
        raise InputError(
            "--cluster: only the methods calibrated, paper and matched code held-out samples on a cluster."
        )
    with name_errors("--cluster"):
        DaskCluster(cluster)


# -- the data ----------------------------------------------------------------------------------------------


def _check_group(group: str | None, data: str, clf: OpenSetClassifier) -> None:
    """Raise if --group does not apply to DATA, or to the method."""
    from ..classifiers.srosr_classifier import SROSRClassifier
    from ..rivals.methods import method_name

    if group is not None and is_picture_data(data):
        raise InputError(f"--group is for tables, and {data} holds pictures: leave it out.")
    if group is not None and not isinstance(clf, SROSRClassifier):
        raise InputError(f"--group: --method {method_name(clf)} has no groups; use calibrated, paper or matched.")


def _check_impute(impute: str | None, data: str, options: ReadOptions) -> None:
    """Raise if --impute does not apply to DATA, or contradicts another option."""
    if impute is not None and is_picture_data(data):
        raise InputError(f"--impute is for tables, and {data} holds pictures: leave it out.")
    if impute is not None and options.drop_missing:
        raise InputError("--impute and --drop-missing exclude each other: fill in missing values, or leave rows out.")


class _Training(NamedTuple):
    """Training samples, and what to print about them.

    ``X`` is as the classifier takes it, ``columns`` are the names of a table's features, ``notes`` the remarks of the
    reader, ``broken`` the pictures that were left out, ``groups`` what each sample belongs to.
    """

    X: Any
    labels: AnyArray
    recipe: FeatureRecipe
    found: Overview
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    groups: list[str] | None = None


def _check_classes(data: str, training: _Training, unknown_label: str | None) -> None:
    """Raise if the labels cannot be classes."""
    from .._support.unknown_label import describe_reserved, find_reserved

    classes, label = training.found.classes, training.recipe.label
    for name in classes:
        if escape_unprintable(name) != name:
            raise InputError(f"{data}: the class {name!r} has unprintable characters: give it another name.")
    if len(classes) == training.found.samples >= MANY:
        where = f" in {label!r}" if label is not None else ""
        raise InputError(
            f"{data}: every sample has a class of its own{where}; name the column of the classes with --label."
        )
    if len(classes) < 2:
        raise InputError(f"{data} has one class, {next(iter(classes), 'none')}; at least two are required.")
    reserved = find_reserved(unknown_label, classes)
    if reserved is not None:
        raise InputError(f"{data}: {describe_reserved(reserved, 'give another --unknown-label')}")


def _read_table(data: str, options: ReadOptions, standardize: bool, impute: str | None, seed: int) -> _Training:
    import numpy as np
    from pandas import DataFrame

    from ..tables.data_overview import make_overview
    from ..tables.feature_recipe import FeatureRecipe
    from ..tables.formats import open_rows
    from ..tables.imputation import Imputer

    source = open_rows(data, options, labels="required", impute=impute is not None)
    rows = source.read()
    labels = np.asarray(rows.labels).astype(str)
    X, imputer, missing = rows.X, None, source.missing
    if impute is not None:
        missing = int(np.isnan(X).sum())
        with name_errors(source.name):
            names = source.feature_names
            imputer = Imputer.fit(impute, X, labels, names=names, by_spread=standardize, seed=seed)
        X = imputer.impute(X)
    found = make_overview(X, labels, source.feature_names, missing=missing, dropped=source.dropped)
    center, scale = compute_column_scale(X, source) if standardize else (None, None)
    # A model file must not reveal the path of a file of labels.
    label = None if options.labels_file is not None else source.label
    kept_rows = rows.numbers if source.dropped else None
    recipe = FeatureRecipe(
        "table", label, tuple(options.ignore), center, scale, rows=kept_rows, imputer=imputer, group=options.group
    )
    X = recipe.prepare_rows(X)
    named = X if source.feature_names is None else DataFrame(X, columns=source.feature_names, copy=False)
    groups = None if options.group is None else rows.kept[options.group]
    notes = tuple(format_notes(source))
    return _Training(named, labels, recipe, found, source.feature_names or (), notes, groups=groups)


def _read_pictures(
    data: str, options: ReadOptions, features: FeatureOptions, settings: dict[str, Any], speaks: bool
) -> _Training:
    import numpy as np

    from ..tables.data_overview import make_overview
    from ..tables.feature_recipe import FeatureRecipe, make_thumbnail
    from ..tables.picture_rows import list_labeled_pictures, read_pictures
    from ..tables.row_source import ReadError

    paths, classes, names = list_labeled_pictures(data)
    with progress("Reading pictures", unit="pictures", shown=speaks) as update:
        shapes, small, kept = read_pictures(paths, make_thumbnail, options.skip_broken, update)
    if not kept:
        raise ReadError(f"{data} has no picture that can be read.")
    broken = [names[i] for i in sorted(set(range(len(paths))) - set(kept))]
    paths, names = [paths[i] for i in kept], [names[i] for i in kept]
    labels: AnyArray = np.array(classes)[kept]
    thumbnails = np.stack(small)
    if features.kind == "pixels":
        shape = features.shape or choose_shape(shapes)
        recipe = FeatureRecipe("pixels", shape=shape, names=np.array(names), thumbnails=thumbnails)
    else:
        pyramid = _fit_pyramid(data, paths, settings)
        recipe = FeatureRecipe("pyramid", pyramid=pyramid, names=np.array(names), thumbnails=thumbnails)
    blocks = []
    with progress("Computing features", unit="pictures", shown=speaks) as update:
        for start in range(0, len(paths), 32):
            blocks.append(recipe.compute_features(paths[start : start + 32]))
            update(min(start + 32, len(paths)), min(start + 32, len(paths)) / len(paths))
    X = np.concatenate(blocks)
    found = make_overview(X, labels, dropped=len(broken))
    return _Training(X, labels, recipe, found, broken=tuple(broken))


def _fit_pyramid(data: str, paths: list[Path], settings: dict[str, Any]) -> Any:
    from ..features.spatial_pyramid import SpatialPyramid

    pyramid = SpatialPyramid(n_jobs=settings["jobs"] or -1, random_state=settings["seed"])
    with err().status("Learning visual words …"):
        try:
            pyramid.fit(paths)
        except ValueError as error:
            if "descriptors" in str(error):
                raise InputError(
                    f"{data} has too few pictures, or too small ones, for {pyramid.n_words} visual words: give more, "
                    "or use --features pixels."
                ) from None
            raise InputError(f"{data}: {end_sentence(error)}") from None
    pyramid.n_jobs = None
    return pyramid


# -- what is shown -----------------------------------------------------------------------------------------


def _print_data(training: _Training) -> None:
    """Print what was found in the data, before the classifier is fitted."""
    recipe, found = training.recipe, training.found
    facts = [("samples", f"{found.samples:,}")]
    if recipe.kind == "pixels":
        assert recipe.shape is not None
        facts.append(("features", f"{found.features:,}: gray values at {recipe.shape[0]} × {recipe.shape[1]} pixels"))
    elif recipe.kind == "pyramid":
        facts.append(("features", f"{found.features:,}: spatial pyramids of {recipe.pyramid.n_words} visual words"))  # type: ignore[union-attr]
    else:
        scaled = ", standardized" if recipe.center is not None else ""
        named = f": {list_names(training.columns, 6)}" if training.columns else ""
        facts.append(("features", f"{found.features:,}{named}{scaled}"))
    where = "" if recipe.label is None else f" (from {recipe.label!r})"
    named = list_names((f"{name} {n:,}" for name, n in found.classes.items()), 12)
    facts.append(("classes", f"{len(found.classes)}{where}: {named}"))
    if training.groups is not None:
        facts.append(("groups", f"{len(set(training.groups)):,} (from {recipe.group!r})"))
    if recipe.of_pictures:
        some = list_names(training.broken, 3)
        facts.append(("broken", f"{count_of(found.dropped, 'picture')} left out: {some}" if found.dropped else "none"))
    else:
        done = f" in {count_of(found.dropped, 'row')}, which are left out" if found.dropped else ""
        if recipe.imputer is not None:
            done = f", imputed: {describe_imputation(recipe.imputer.summarize(training.columns))}"
        facts.append(("missing values", f"{found.missing:,}{done}" if found.missing else "none"))
    facts.append(("duplicates", f"{found.duplicates:,}" if found.duplicates else "none"))
    if not recipe.of_pictures:
        facts.append(("constant columns", f"{len(found.constant):,}" if found.constant else "none"))
    print_facts(facts)
    for remark in (*training.notes, *found.get_remarks(scaled=recipe.center is not None, pictures=recipe.of_pictures)):
        out().print(f"Note: {remark}", style="yellow")
