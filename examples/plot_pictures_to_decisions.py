"""
From pictures to decisions
==========================

All you need is a folder with one subfolder of pictures per class. The pictures become
feature vectors (spatial pyramids of visual words), and these are classified as usual.
This example draws its own pictures, so nothing is downloaded; with yours, begin at
:func:`~srosr.list_pictures`.
"""

# %%
# Draw disks, squares, triangles and crosses at random positions, sizes and rotations,
# on a noisy background. Stars will be the unknown class.

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

rng = np.random.default_rng(0)


def polygon(corners, radii):
    """Return the corners of a polygon around (0, 0), using the radii in turn."""
    angles = 2 * np.pi * np.arange(corners) / corners
    return np.c_[np.cos(angles), np.sin(angles)] * np.resize(radii, corners)[:, None]


CROSS = [
    (1, 3),
    (1, 1),
    (3, 1),
    (3, -1),
    (1, -1),
    (1, -3),
]  # and the same rotated by 180°
OUTLINES = {
    "cross": np.r_[CROSS, np.negative(CROSS)] / 3,
    "disk": polygon(40, [1]),
    "square": polygon(4, [1]),
    "star": polygon(10, [1, 0.4]),
    "triangle": polygon(3, [1]),
}


def draw(name, path):
    turn, size = rng.uniform(0, 2 * np.pi), rng.uniform(24, 34)
    sine, cosine = np.sin(turn), np.cos(turn)
    turned = OUTLINES[name] @ [[cosine, -sine], [sine, cosine]]
    corners = size * turned + 48 + rng.uniform(-8, 8, 2)
    picture = Image.new("L", (96, 96), int(rng.integers(170, 240)))
    ImageDraw.Draw(picture).polygon(
        corners.ravel().tolist(), fill=int(rng.integers(10, 90))
    )
    noisy = np.asarray(picture) + rng.normal(0, 5, (96, 96))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path)


folder = Path(tempfile.mkdtemp())
for name in ("cross", "disk", "square", "triangle"):
    for i in range(40):
        draw(name, folder / "train" / name / f"{i:02}.png")
for name in OUTLINES:
    for i in range(15):
        draw(name, folder / "new" / name / f"{i:02}.png")

# %%
# From a folder to vectors. The visual words are learned from the training pictures
# alone.

from srosr import SpatialPyramid, SROSRClassifier, list_pictures

paths, numbers, names = list_pictures(folder / "train")
y = np.array(names)[numbers]
pyramid = SpatialPyramid(n_words=60, levels=2, step=6, patch=16, random_state=0)
X = pyramid.fit_transform(paths)
print(len(paths), "pictures of", names, "->", X.shape)

# %%
# From vectors to decisions. If labels are text, rejected samples are labeled
# ``"unknown"``.

clf = SROSRClassifier(random_state=0).fit(X, y)
new, new_numbers, new_names = list_pictures(folder / "new")
truth = np.array(new_names)[new_numbers]
X_new = pyramid.transform(new)
labels = clf.predict(X_new)
for name in new_names:
    answers, counts = np.unique(labels[truth == name], return_counts=True)
    print(
        f"{name:9}",
        ", ".join(f"{answer} {n}" for answer, n in zip(answers, counts, strict=True)),
    )

# %%
# Why is a star rejected? The explanation lists the training pictures it was
# reconstructed from by row. A row is an index into ``paths``, so we can show them.

stars = np.flatnonzero(truth == "star")
star = stars[np.argmax(clf.unknown_score(X_new[stars]))]
explanation = clf.explain(X_new[star])
print(explanation)

# %%
# Top: new pictures with the answers; a blue frame is a known class, an orange frame an
# unknown one. Bottom: the star, and the training pictures with the largest coefficients
# in its code.

from matplotlib import pyplot as plt

KNOWN, UNKNOWN, PALE = "#1f6f8b", "#d1603d", "#b8bcc8"


def show(ax, path, text, frame, color="black"):
    ax.imshow(Image.open(path), cmap="gray", vmin=0, vmax=255)
    ax.set_title(text, fontsize=9, color=color, pad=3)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(color=frame, linewidth=2.5)


figure, axes = plt.subplots(3, 8, figsize=(10, 4.6), layout="constrained")
two_of_each = [np.flatnonzero(truth == name)[:2] for name in names]
for ax, i in zip(axes[:2].flat, np.concatenate([*two_of_each, stars[:8]]), strict=True):
    frame = UNKNOWN if truth[i] == "star" else KNOWN
    show(ax, new[i], labels[i], frame, UNKNOWN if labels[i] == "unknown" else KNOWN)
show(axes[2, 0], new[star], "the star", UNKNOWN, UNKNOWN)
for ax, atom in zip(axes[2, 1:], explanation.atoms, strict=False):
    show(ax, paths[atom.row], f"{atom.label} {atom.coefficient:+.2f}", PALE)
plt.show()

# %%
# The same explanation as a figure. The features are visual words, not pixels, so we
# pass the pictures ourselves.

from srosr import read_picture

reconstructed_from = [read_picture(paths[atom.row]) for atom in explanation.atoms[:4]]
figure, axes = plt.subplots(2, 2, figsize=(9.5, 6), layout="constrained")
explanation.plot(axes.ravel(), pictures=(read_picture(new[star]), reconstructed_from))
plt.show()
