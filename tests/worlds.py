"""Synthetic classes to recognise and strangers to refuse, as many of each as a test needs."""

import numpy as np


class World:
    """Classes that are noisy low-dimensional subspaces around a centre; samples of any of them, on demand.

    Classes from ``n_known`` on are strangers: nobody learns them.
    """

    def __init__(self, seed, n_known=4, n_unknown=3, n_features=20, n_directions=3, noise=0.3):
        self.rng = np.random.default_rng(seed)
        self.n_known, self.n_unknown, self.noise = n_known, n_unknown, noise
        n = n_known + n_unknown
        self.centres = 1.5 * self.rng.standard_normal((n, n_features))
        self.directions = self.rng.standard_normal((n, n_directions, n_features))

    def of(self, classes):
        """One sample of each class that is named."""
        classes = np.asarray(classes)
        mix = self.rng.standard_normal((len(classes), self.directions.shape[1]))
        X = self.centres[classes] + np.einsum("ij,ijk->ik", mix, self.directions[classes])
        return X + self.noise * self.rng.standard_normal(X.shape)

    def known(self, sizes):
        """Samples of the known classes and their labels: as many of each, or a size for each."""
        y = np.repeat(np.arange(self.n_known), sizes)
        return self.of(y), y

    def fresh(self, n):
        """Known samples in the proportions in which nature sends them: every class alike."""
        y = self.rng.integers(0, self.n_known, n)
        return self.of(y), y

    def strangers(self, n):
        return self.of(self.n_known + self.rng.integers(0, self.n_unknown, n))
