"""Spatial pyramids: counts of each visual word in a picture, in its quarters, and in their quarters."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_count, check_n_jobs
from .._support.threads import ThreadPool, one_blas_thread
from .gray_values import read_picture, to_gray
from .sift_descriptors import N_CELLS, Descriptors, dense_sift

# Descriptors compared with all words at once, and descriptors in a step of k-means.
_BLOCK = 4096


def pyramid_of_counts(counts: Any, *, square_root: bool = True) -> Array:
    r"""Compute spatial pyramids from the counts of visual words in the cells of the finest level.

    With 4×4 cells there are three levels: level 0 is the whole picture, level 1 its quarters, level 2 the cells.
    Counts of coarser levels are sums over their parts. Of the levels 0 to L, level l has the weight

    .. math:: w_0 = 2^{-L}, \qquad w_l = 2^{-(L - l + 1)} \text{ for } l \ge 1,

    here ¼, ¼ and ½: agreement in fine cells counts more than agreement in coarse ones. Rows are scaled to unit sum.

    Parameters
    ----------
    counts : array-like (n_pictures, n_cells, n_words)
        Cells row by row; 1, 4, 16, 64, … of them.
    square_root : bool, default True
        Take the square root, which gives rows of unit length. Their inner product is then the Hellinger (or
        Bhattacharyya) kernel of the pyramids, :math:`\sum_i \sqrt{p_i q_i}`. Without it, rows are histograms for the
        intersection kernel :math:`\sum_i \min(p_i, q_i)` of the paper.

    Returns
    -------
    pyramids : ndarray (n_pictures, n_words · (1 + 4 + … + n_cells))
        Levels from coarse to fine; in each level cells row by row; in each cell words. A picture without words is a row
        of zeros.

    References
    ----------
    S. Lazebnik, C. Schmid, J. Ponce, "Beyond bags of features: spatial pyramid matching for recognizing natural scene
    categories", CVPR 2006.

    Examples
    --------
    One word, seen once in each upper quarter and twice in the lower right one:

    >>> from srosr import pyramid_of_counts
    >>> pyramid_of_counts([[[1], [1], [0], [2]]], square_root=False).tolist()
    [[0.5, 0.125, 0.125, 0.0, 0.25]]
    """
    cells = np.asarray(counts)
    if cells.ndim != 3 or cells.dtype.kind not in "biuf":
        raise ValueError(
            "counts must be an array of numbers, (n_pictures, n_cells, n_words), "
            f"got one of {cells.dtype} and shape {cells.shape}."
        )
    n, n_cells, n_words = cells.shape
    finest = (max(n_cells, 1).bit_length() - 1) // 2
    if n_cells != 4**finest:
        raise ValueError(f"counts must have 1, 4, 16, 64, … cells in a picture, got {n_cells}.")
    if not (np.isfinite(cells).all() and (cells >= 0).all()):
        raise ValueError("counts must be finite and not negative.")
    side = 2**finest
    cells = cells.reshape(n, side, side, n_words).astype(np.float64)
    levels: list[Array] = []
    for level in range(finest, -1, -1):
        weight = 2.0 ** -(finest - level + 1) if level else 2.0**-finest
        levels.insert(0, weight * cells.reshape(n, 4**level * n_words))
        if level:
            side //= 2
            cells = cells.reshape(n, side, 2, side, 2, n_words).sum(axis=(2, 4))
    pyramids = np.concatenate(levels, axis=1)
    pyramids /= np.maximum(pyramids.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.sqrt(pyramids, out=pyramids) if square_root else pyramids


@dataclass(eq=False, repr=False, kw_only=True)
class SpatialPyramid(TransformerMixin, BaseEstimator):
    r"""Transform pictures into spatial pyramids of visual words.

    The patches of a picture are described by :func:`dense_sift`. ``fit`` draws descriptors from the training pictures
    and clusters them by k-means; the centers are the visual words. ``transform`` assigns each patch to its nearest
    word, counts words in the cells of the picture, and computes :func:`pyramid_of_counts`.

    Parameters
    ----------
    n_words : int, default 200
        Size of the vocabulary.
    levels : int, default 3
        Levels of the pyramid: 1×1, 2×2, 4×4 cells, and so on.
    step, patch : int, default 8 and 16
        Grid and size of patches in pixels, as for :func:`dense_sift`.
    max_side : int, optional, default 300
        Pictures with a longer side are scaled down when they are read. Arrays are not scaled.
    n_descriptors : int, default 100_000
        About how many descriptors the vocabulary is learned from, the same number from each picture.
    square_root : bool, default True
        Take the square root of the pyramid. A linear method, such as sparse coding with the linear kernel, then uses
        the Hellinger kernel of the pyramids; without it, the histograms are meant for the intersection kernel.
    n_jobs : int, optional
        Threads over pictures: None is one (or what a joblib backend says), -1 is all. The result does not depend on
        it.
    random_state : int, RandomState or None
        Determines which descriptors are drawn, and how k-means starts.

    Attributes
    ----------
    vocabulary_ : ndarray (n_words, 128)
        The visual words.

    See Also
    --------
    srosr.list_pictures : paths and classes of the pictures in a folder.

    Notes
    -----
    The vocabulary depends only on the pictures given to ``fit``, and the pyramid of a picture only on that picture and
    the vocabulary. For cross-validation, put the pyramid in a pipeline: it must be learned from training pictures only.

    References
    ----------
    S. Lazebnik, C. Schmid, J. Ponce, "Beyond bags of features: spatial pyramid matching for recognizing natural scene
    categories", CVPR 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_sample_images
    >>> from srosr import SpatialPyramid
    >>> pictures = [image.mean(axis=2)[:200, :300] / 255 for image in load_sample_images().images]
    >>> pyramid = SpatialPyramid(n_words=10, levels=2, random_state=0)
    >>> X = pyramid.fit_transform(pictures)
    >>> X.shape
    (2, 50)
    >>> pyramid.get_feature_names_out()[[0, 49]].tolist()
    ['level0_row0_column0_word0', 'level1_row1_column1_word9']
    """

    n_words: int = field(default=200, kw_only=False)
    levels: int = 3
    step: int = 8
    patch: int = 16
    max_side: int | None = 300
    n_descriptors: int = 100_000
    square_root: bool = True
    n_jobs: int | None = None
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> SpatialPyramid:
        """Learn the vocabulary.

        Parameters
        ----------
        X : sequence of paths, or of arrays (height, width)
            Training pictures, as files or as gray values (see :func:`dense_sift`); not both.
        y :
            Ignored.
        """
        self._check_parameters()
        pictures, n_words = _check_pictures(X), self.n_words
        rng = check_random_state(self.random_state)
        seeds = rng.randint(np.iinfo(np.int32).max, size=len(pictures))
        quota = -(-self.n_descriptors // len(pictures))

        def draw(i: int) -> Descriptors:
            descriptors = self._describe(pictures[i], i)[0]
            some = np.random.RandomState(seeds[i]).permutation(len(descriptors))[:quota]
            return descriptors[np.sort(some)]

        sample = np.concatenate(self._map_pictures(draw, len(pictures)))
        if len(sample) < n_words:
            raise ValueError(
                f"{len(sample)} descriptors of {len(pictures)} pictures cannot make {n_words} words: "
                "lower n_words or step, give more pictures, or raise n_descriptors."
            )
        means = MiniBatchKMeans(n_words, batch_size=_BLOCK, n_init=3, random_state=rng.randint(np.iinfo(np.int32).max))
        with threadpool_limits(1):  # sums over threads depend on how many there are
            self.vocabulary_ = means.fit(sample).cluster_centers_.astype(np.float64)
        return self

    def transform(self, X: Any) -> Array:
        """Compute the pyramids of pictures.

        Parameters
        ----------
        X : sequence of paths, or of arrays (height, width)
            Pictures, as for ``fit``.

        Returns
        -------
        pyramids : ndarray (n_pictures, n_features)
            As from :func:`pyramid_of_counts`; three levels of 200 words have 4200 features.
        """
        check_is_fitted(self, "vocabulary_")
        self._check_parameters()
        pictures = _check_pictures(X)
        n_features = len(self.vocabulary_) * sum(4**level for level in range(self.levels))
        pyramids = np.empty((len(pictures), n_features))

        def fill(i: int) -> None:
            counts = self._count_words(*self._describe(pictures[i], i))
            pyramids[i] = pyramid_of_counts(counts[None], square_root=self.square_root)[0]

        self._map_pictures(fill, len(pictures))
        return pyramids

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Return level, cell and word of each feature, such as ``level2_row3_column0_word17``."""
        check_is_fitted(self, "vocabulary_")
        cells = [(level, *cell) for level in range(self.levels) for cell in np.ndindex(2**level, 2**level)]
        names = [f"level{a}_row{b}_column{c}_word{w}" for a, b, c in cells for w in range(len(self.vocabulary_))]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        tags.no_validation = True
        return tags

    def _check_parameters(self) -> None:
        for name in ("n_words", "levels", "step", "n_descriptors"):
            check_count(name, getattr(self, name))
        check_count("patch", self.patch, N_CELLS)
        if self.max_side is not None:
            check_count("max_side", self.max_side)
        check_n_jobs(self.n_jobs)

    def _describe(self, picture: Any, i: int) -> tuple[Descriptors, Array]:
        """Return descriptors and positions of picture i."""
        is_file = isinstance(picture, (str, os.PathLike))
        gray = read_picture(picture, self.max_side) if is_file else to_gray(picture, f"X[{i}]")
        return dense_sift(gray, self.step, self.patch)

    def _count_words(self, descriptors: Descriptors, positions: Array) -> IntArray:
        """Return the counts of each word (columns) in each cell of the finest level (rows)."""
        side, n_words = 2 ** (self.levels - 1), len(self.vocabulary_)
        half_squares = 0.5 * np.einsum("ij,ij->i", self.vocabulary_, self.vocabulary_)
        blocks = (descriptors[i : i + _BLOCK].astype(np.float64) for i in range(0, len(descriptors), _BLOCK))
        words = [np.argmin(half_squares - block @ self.vocabulary_.T, axis=1) for block in blocks]
        rows, columns = np.minimum((positions * side).astype(np.int64), side - 1).T
        places = (rows * side + columns) * n_words + np.concatenate(words)
        return np.bincount(places, minlength=side * side * n_words).reshape(side * side, n_words)

    def _map_pictures(self, work: Callable[[int], Any], n: int) -> list[Any]:
        """Call ``work`` with the number of every picture, over threads."""
        jobs = min(int(effective_n_jobs(self.n_jobs)), n, max(64, os.cpu_count() or 1))
        with one_blas_thread(), ThreadPool(jobs) as workers:
            return workers.map(work, range(n))


def _check_pictures(X: Any) -> list[Any]:
    """Return the pictures of a batch, all paths or all arrays."""
    if isinstance(X, (str, bytes, os.PathLike)):
        raise ValueError(
            f"X must be a sequence of pictures, got the one path {os.fspath(X)!r}: put it in a list; for all "
            "pictures in a folder pass the paths that srosr.list_pictures returns."
        )
    try:
        pictures = list(X)
    except TypeError:
        raise ValueError(f"X must be a sequence of paths or of arrays, got {type(X).__name__}.") from None
    if not pictures:
        raise ValueError("X has no pictures.")
    are_paths = [isinstance(picture, (str, os.PathLike)) for picture in pictures]
    if any(are_paths) and not all(are_paths):
        first = are_paths.index(not are_paths[0])
        kinds = ("a path", "an array") if are_paths[0] else ("an array", "a path")
        raise ValueError(
            f"X mixes paths and arrays: X[0] is {kinds[0]}, X[{first}] {kinds[1]}. Pass one kind; read_picture turns a "
            "path into an array."
        )
    if not are_paths[0] and np.ndim(pictures[0]) == 1:
        raise ValueError("X must be a sequence of pictures, got one array of two dimensions: put it in a list.")
    return pictures
