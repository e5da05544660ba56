"""Synthetic known and unknown classes, as many of each as a test needs."""

import numpy as np


class World:
    """Noisy low-dimensional subspaces around centers, one per class, and samples of any of them.

    Classes from ``n_known`` on are unknown: no test trains on them.
    """

    def __init__(self, seed, n_known=4, n_unknown=3, n_features=20, n_directions=3, noise=0.3):
        self.rng = np.random.default_rng(seed)
        self.n_known, self.n_unknown, self.noise = n_known, n_unknown, noise
        n = n_known + n_unknown
        self.centers = 1.5 * self.rng.standard_normal((n, n_features))
        self.directions = self.rng.standard_normal((n, n_directions, n_features))

    def of(self, classes):
        """Return one sample of each of the given classes."""
        classes = np.asarray(classes)
        mix = self.rng.standard_normal((len(classes), self.directions.shape[1]))
        X = self.centers[classes] + np.einsum("ij,ijk->ik", mix, self.directions[classes])
        return X + self.noise * self.rng.standard_normal(X.shape)

    def known(self, sizes):
        """Return samples of the known classes and their labels: the same number of each, or one size per class."""
        y = np.repeat(np.arange(self.n_known), sizes)
        return self.of(y), y

    def fresh(self, n):
        """Return ``n`` known samples and their labels, every class equally probable."""
        y = self.rng.integers(0, self.n_known, n)
        return self.of(y), y

    def unknowns(self, n):
        """Return ``n`` samples of the unknown classes."""
        return self.of(self.n_known + self.rng.integers(0, self.n_unknown, n))


def draw_task(seed, sizes=(12, 9, 15), n_features=4, n_new=25):
    """Return training samples, labels, and new samples of known and unknown classes."""
    world = World(seed, n_known=len(sizes), n_unknown=2, n_features=n_features, n_directions=2)
    X, y = world.known(list(sizes))
    order = world.rng.permutation(len(y))
    return X[order], y[order], np.concatenate([world.fresh(n_new)[0], world.unknowns(n_new)])
