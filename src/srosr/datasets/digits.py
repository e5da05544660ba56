"""The handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from .dataset import Dataset


def load_digits_bundled(*, download: bool = True) -> Dataset:
    """Load handwritten digits: 1797 pictures of 8×8 pixels with values 0..16; they come with scikit-learn.

    Parameters
    ----------
    download : bool
        As for all loaders; it makes no difference here, since nothing is downloaded.

    Returns
    -------
    Dataset
        ``X`` (1797, 64) uint8, ten classes of 174 to 183 samples.

    References
    ----------
    E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.

    Examples
    --------
    >>> from srosr import load_digits_bundled
    >>> load_digits_bundled()
    <Dataset digits: 1797 × 64 uint8, 10 classes>
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    source = "Optical Recognition of Handwritten Digits (UCI), the test part, as it comes with scikit-learn"
    return Dataset("digits", X.astype(np.uint8), y, tuple("0123456789"), source)
