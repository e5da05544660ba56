"""Dense SIFT: a descriptor of the edges in each patch of a picture, on a regular grid.

It is implemented here because scikit-image describes only key points and OpenCV would be a large dependency.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import gaussian_filter

from .._support.array_types import Array
from .._support.parameter_checks import check_count
from .gray_values import to_gray

Descriptors: TypeAlias = npt.NDArray[np.float32]

#: Cells along a side of a patch, and orientations of a cell.
N_CELLS, N_ORIENTATIONS = 4, 8
#: Length of a descriptor.
LENGTH = N_CELLS * N_CELLS * N_ORIENTATIONS
#: Blur before differences are taken, in pixels; it suppresses the noise of single pixels.
BLUR = 0.8
#: Largest entry of a unit-length descriptor, so that one strong edge does not dominate the others.
LARGEST_ENTRY = 0.2
#: Length below which the histogram of a patch has low contrast, in gray values per pixel.
LEAST_CONTRAST = 0.01


def dense_sift(picture: Any, step: int = 8, patch: int = 16) -> tuple[Descriptors, Array]:
    r"""Compute SIFT descriptors of the patches of a gray picture, on a regular grid.

    The picture is blurred slightly (σ = 0.8 pixels) and its gradient taken by central differences. A patch has 4×4
    cells. Each pixel of it adds its gradient length m to the two of eight orientations that its gradient direction
    θ lies between, and to the (at most) four cells whose centers it lies between, with weights linear in the distance:

    .. math::
        h_{ijk} = \frac{1}{b^2} \sum_{y, x} m(y, x)\,
            \Lambda\Big(\frac{y - y_i}{b}\Big)\, \Lambda\Big(\frac{x - x_j}{b}\Big)\,
            \Lambda\Big(\frac{\theta(y, x) - 45° k}{45°}\Big), \qquad \Lambda(t) = \max(0, 1 - |t|)

    with b = patch/4 the side of a cell and differences of angles taken modulo 360°. Pixels outside the patch do not
    count, and those inside are not weighted further. The weights of cells factor, so that two small matrix products
    compute all patches at once.

    The histogram is scaled to unit length, clipped at 0.2, and scaled to unit length again, so that neither brightness
    nor contrast matters. Below a contrast of :math:`\|h\|_2 = 0.01` that would amplify noise; there the descriptor has
    the length :math:`\|h\|_2/0.01`, which goes to zero as the patch becomes flat.

    Parameters
    ----------
    picture : array-like (height, width)
        Gray values as :func:`read_picture` returns: from 0, black, to 1, white; or of type uint8 or uint16. A picture
        that is smaller than a patch is padded on all sides with its outermost pixels.
    step : int, default 8
        Pixels from one patch to the next. The grid is centered in the picture.
    patch : int, default 16
        Pixels along a side of a patch, at least four.

    Returns
    -------
    descriptors : ndarray of float32 (n_patches, 128)
        Patches row by row; in each, orientations of cells row by row. Orientation k is the direction of increasing
        brightness, k·45° from "right" toward "down".
    positions : ndarray (n_patches, 2)
        Row and column of each patch's center as shares of height and width, in (0, 1).

    References
    ----------
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", IJCV 60, 2004.

    S. Lazebnik, C. Schmid, J. Ponce, "Beyond bags of features: spatial pyramid matching for recognizing natural scene
    categories", CVPR 2006.

    Examples
    --------
    In a picture that becomes brighter to the right, all cells have the first orientation.

    >>> import numpy as np
    >>> from srosr import dense_sift
    >>> descriptors, positions = dense_sift(np.tile(np.linspace(0, 1, 48), (32, 1)))
    >>> descriptors.shape, positions[0].round(3).tolist()
    ((15, 128), [0.25, 0.167])
    >>> np.flatnonzero(descriptors[7]).tolist()
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120]
    """
    step, patch = check_count("step", step), check_count("patch", patch, N_CELLS)
    gray = _pad(to_gray(picture), patch)
    lengths, places = _compute_gradients(gray)
    first = [(side - patch) % step // 2 for side in gray.shape]
    rows, columns = (np.arange(f, side - patch + 1, step) for f, side in zip(first, gray.shape, strict=True))
    weights = _compute_cell_weights(patch)
    histograms = np.empty((len(rows), len(columns), N_CELLS, N_CELLS, N_ORIENTATIONS))
    lower = np.floor(places)
    share = places - lower
    of_lower, of_upper = lengths * (1.0 - share), lengths * share
    for k in range(N_ORIENTATIONS):
        plane = np.where(lower == k, of_lower, 0.0)
        plane += np.where(lower == (k - 1) % N_ORIENTATIONS, of_upper, 0.0)
        in_rows = sliding_window_view(plane, patch, axis=0)[rows] @ weights
        histograms[..., k] = sliding_window_view(in_rows, patch, axis=1)[:, columns] @ weights
    down, right = np.meshgrid(rows, columns, indexing="ij")
    positions = (np.column_stack([down.ravel(), right.ravel()]) + patch / 2) / gray.shape
    return _normalize(histograms.reshape(-1, LENGTH)).astype(np.float32), positions


def _pad(gray: Array, patch: int) -> Array:
    """Pad a picture that is smaller than a patch with its outermost pixels."""
    missing = [max(patch - side, 0) for side in gray.shape]
    return np.pad(gray, [(m // 2, m - m // 2) for m in missing], mode="edge")


def _compute_gradients(gray: Array) -> tuple[Array, Array]:
    """Return the length of the gradient at each pixel, and its direction in [0, 8), in units of 45°."""
    down, right = np.gradient(gaussian_filter(gray, BLUR, mode="nearest"))
    places = np.arctan2(down, right) * (N_ORIENTATIONS / (2.0 * np.pi))
    places[places < 0.0] += N_ORIENTATIONS
    places[places >= N_ORIENTATIONS] = 0.0  # a tiny negative angle, rounded
    return np.hypot(down, right), places


def _compute_cell_weights(patch: int) -> Array:
    """Return the weight of each pixel along a side of the patch (rows) in each cell (columns)."""
    side = patch / N_CELLS
    centers = (np.arange(N_CELLS) + 0.5) * side - 0.5
    return np.maximum(0.0, 1.0 - np.abs(np.arange(patch)[:, None] - centers) / side) / side


def _normalize(histograms: Array) -> Array:
    """Turn histograms (rows) into descriptors, see `dense_sift`."""
    contrast = np.linalg.norm(histograms, axis=1, keepdims=True)
    tiny = np.finfo(np.float64).tiny
    clipped = np.minimum(histograms / np.maximum(contrast, tiny), LARGEST_ENTRY)
    lengths = np.linalg.norm(clipped, axis=1, keepdims=True)
    return clipped / np.maximum(lengths, tiny) * np.minimum(contrast / LEAST_CONTRAST, 1.0)
