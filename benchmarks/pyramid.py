"""Our spatial pyramids compared with precomputed visual-word counts: ``python -m benchmarks.pyramid``.

Pictures of Caltech-101, 40 of each of 24 objects, are split class by class into training and test pictures. On the
same splits, two closed-set classifiers run on the pyramids of :class:`srosr.SpatialPyramid`, whose vocabulary
is learned from the training pictures of each split, and on pyramids of the counts in
``caltech101_dsift_spm_counts.npz``, whose vocabulary was learned once, by others, from unnamed pictures, maybe test
pictures here.
"""

from __future__ import annotations

import time

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from benchmarks.problems import Unavailable, find
from benchmarks.report import console, new_table
from benchmarks.trials import CALTECH101_FILES
from srosr import SRCClassifier
from srosr.datasets.user_data import list_pictures
from srosr.features.spatial_pyramid import SpatialPyramid, pyramid_of_counts

SEED = 2006
FOLDER = "caltech101_images"


def read_sets() -> tuple[list[str], NDArray[np.int64], NDArray[np.float64]]:
    """Read the paths of the pictures, their classes, and the pyramids of their precomputed counts.

    Raises
    ------
    Unavailable
        If pictures or counts are missing.
    """
    file = find(*CALTECH101_FILES)
    folder = file.parents[1] / FOLDER
    if not folder.is_dir():
        raise Unavailable(f"{FOLDER} is not under SROSR_DATA_DIR")
    paths, y, _ = list_pictures(folder)
    with np.load(file) as data:
        place = {name: i for i, name in enumerate(data["files"].tolist())}
        rows = [place[f"{path.parent.name}/{path.name}"] for path in paths]
        return [str(path) for path in paths], y, pyramid_of_counts(data["counts"][rows])


def split(y: NDArray[np.int64], n_train: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training rows, ``n_train`` of each class, and the others."""
    rng = np.random.default_rng([SEED, seed])
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n_train] for c in np.unique(y)])
    return train, np.setdiff1d(np.arange(len(y)), train)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--splits", type=click.IntRange(2), default=10, show_default=True)
@click.option(
    "--train", "n_train", type=click.IntRange(1, 39), default=30, show_default=True, help="Training pictures per class."
)
@click.option(
    "--classes",
    "n_classes",
    type=click.IntRange(2),
    default=24,
    show_default=True,
    help="How many classes to use, from the first.",
)
@click.option("--words", type=click.IntRange(1), default=200, show_default=True, help="Size of our vocabulary.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Threads over pictures.")
def main(splits: int, n_train: int, n_classes: int, words: int, jobs: int) -> None:
    """Measure the accuracy of a linear SVM and of SRC on our pyramids and on precomputed counts, and our time."""
    try:
        files, y, ready = read_sets()
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    kept = y < n_classes
    files, y, ready = [file for file, keep in zip(files, kept, strict=True) if keep], y[kept], ready[kept]
    accuracy: dict[str, list[tuple[float, float]]] = {"linear SVM, C = 10": [], "SRC, Lasso 0.05": []}
    fitting: list[float] = []
    transforming: list[float] = []
    for seed in range(splits):
        train, test = split(y, n_train, seed)
        pyramid = SpatialPyramid(words, n_jobs=jobs, random_state=seed)
        started = time.process_time()
        pyramid.fit([files[i] for i in train])
        fitting.append(time.process_time() - started)
        started = time.process_time()
        ours = pyramid.transform(files)
        transforming.append((time.process_time() - started) / len(files))
        for (_, pairs), clf in zip(accuracy.items(), (LinearSVC(C=10.0), SRCClassifier(n_jobs=jobs)), strict=True):
            scores = [clf.fit(X[train], y[train]).score(X[test], y[test]) for X in (ours, ready)]
            pairs.append((scores[0], scores[1]))
    out = console()
    table = new_table(out, "accuracy, %", "our pyramid", "precomputed counts", "difference")
    for name, pairs in accuracy.items():
        values = 100 * np.array(pairs)
        values = np.column_stack([values, values[:, 0] - values[:, 1]])
        table.add_row(name, *(f"{m:.1f} ± {s:.1f}" for m, s in zip(values.mean(0), values.std(0, ddof=1), strict=True)))
    out.print(
        f"{n_classes} objects, {n_train} training pictures of each, {splits} splits; mean ± deviation over splits"
    )
    out.print(table)
    out.print(
        f"{words} words from {len(y[train])} pictures: {np.median(fitting):.1f} s of processor time; "
        f"pyramid of a picture: {1000 * np.median(transforming):.1f} ms, its file included"
    )


if __name__ == "__main__":
    main()
