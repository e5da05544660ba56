"""Data shared by two figures: three classes of points in the plane, and an unknown point."""

import numpy as np

COLORS = ["#1f6f8b", "#c9a227", "#8a6fb0"]
rng = np.random.default_rng(1)
centers = np.array([[-2.0, -0.6], [1.8, -1.2], [0.4, 2.0]])
X = np.concatenate([center + rng.normal(0, 0.55, (60, 2)) for center in centers])
y = np.repeat([0, 1, 2], 60)
unknown = np.array([[3.9, 3.4]])
side = np.linspace(-6, 6, 300)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
