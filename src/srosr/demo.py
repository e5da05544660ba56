"""The demonstration behind ``srosr demo``: handwritten digits, some of them strangers.

The numbers (:func:`run_demo`) and the picture (:func:`plot_demo`) are separate, so that either can be
had without the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split

from srosr import Lasso, SRCClassifier, class_residuals, sparsity_concentration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_DIGITS = 10
N_KNOWN = 6  # six known and four unknown, as in the paper's MNIST experiment
TEST_SHARE = 0.4
ALPHA = 0.05
TARGET_REFUSAL = 0.05  # share of knowns we are ready to refuse
N_FOLDS = 5
N_EXAMPLES = 3  # of each kind, in the figure
KNOWN_COLOUR = "#1f6f8b"
UNKNOWN_COLOUR = "#d1603d"
INK = "#2b2d42"
PALE = "#b8bcc8"
SHADE = "#f1f2f5"


@dataclass(frozen=True)
class Tally:
    """What became of the samples of one digit.

    For a known digit `right` counts the accepted samples with the right class and `wrong` the accepted
    ones with another. An unknown digit has no right class: accepting it is `wrong`.
    """

    digit: int
    samples: int
    right: int
    refused: int
    wrong: int


@dataclass(frozen=True)
class Example:
    """One sample with its code, for the figure."""

    digit: int
    predicted: int
    is_known: bool
    image: NDArray[np.float64]
    code: NDArray[np.float64]
    residuals: NDArray[np.float64]
    concentration: float


@dataclass(frozen=True)
class DemoSamples:
    """What the figure shows: SCI of every test sample, and a few samples in full."""

    known_concentration: NDArray[np.float64]
    unknown_concentration: NDArray[np.float64]
    atom_labels: NDArray[np.int64]
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class DemoResult:
    """The numbers of one demonstration; shares are between 0 and 1."""

    seed: int
    known: tuple[int, ...]
    unknown: tuple[int, ...]
    n_train: int
    n_codes: int
    alpha: float
    target_refusal: float
    threshold: float
    closed_set_accuracy: float
    known_accepted_right: float
    known_refused: float
    unknown_refused: float
    auroc: float
    worst_gap: float
    seconds: float
    known_tallies: tuple[Tally, ...]
    unknown_tallies: tuple[Tally, ...]
    samples: DemoSamples

    def summary(self) -> dict[str, Any]:
        """The plain numbers, without the samples: what ``--json`` prints."""
        left_out = {"known_tallies", "unknown_tallies", "samples"}
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        numbers["per_digit"] = [
            {"known": is_known} | asdict(tally)
            for is_known, tallies in ((True, self.known_tallies), (False, self.unknown_tallies))
            for tally in tallies
        ]
        return numbers


def choose_digits(seed: int, known: Sequence[int] | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Divide the ten digits into known and unknown ones.

    Parameters
    ----------
    seed : int
        Draws six known digits where `known` is None.
    known : sequence of int, optional
        The known digits: two to nine of them. (With one class, SCI has nothing to compare.)

    Returns
    -------
    known, unknown : tuple of int
        Both sorted.

    Raises
    ------
    ValueError
        If a number is no digit or is repeated, or if there are too few or too many.

    Examples
    --------
    >>> choose_digits(0, [5, 1, 3, 0, 2, 4])
    ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9))
    """
    if known is None:
        known = np.random.default_rng(seed).choice(N_DIGITS, N_KNOWN, replace=False).tolist()
    chosen = tuple(sorted(int(digit) for digit in known))
    for digit in chosen:
        if not 0 <= digit < N_DIGITS:
            raise ValueError(f"{digit} is not a digit; the known digits are among 0 to {N_DIGITS - 1}.")
        if chosen.count(digit) > 1:
            raise ValueError(f"the digit {digit} is listed more than once.")
    if len(chosen) < 2:
        raise ValueError("at least two known digits are needed to tell classes apart.")
    if len(chosen) == N_DIGITS:
        raise ValueError("all ten digits are known, which leaves no unknown to refuse; leave one out.")
    return chosen, tuple(digit for digit in range(N_DIGITS) if digit not in chosen)


def run_demo(seed: int = 0, known: Sequence[int] | None = None) -> DemoResult:
    """Learn the known digits, then code the unseen samples of all ten and refuse the spread-out codes.

    The threshold on SCI is the 5 % quantile over training samples, each coded over the atoms of the
    other four of five folds. No unknown sample has a part in it.

    Parameters
    ----------
    seed : int, default=0
        Chooses the known digits, the split and the folds; the same seed gives the same numbers.
    known : sequence of int, optional
        The known digits, in place of six drawn by the seed.

    Returns
    -------
    DemoResult
    """
    started = time.perf_counter()
    known_digits, unknown_digits = choose_digits(seed, known)
    digits = load_digits()
    X, y = np.asarray(digits.data, dtype=float), np.asarray(digits.target)
    is_known = np.isin(y, known_digits)
    X_train, X_test, y_train, y_test = train_test_split(
        X[is_known], y[is_known], test_size=TEST_SHARE, stratify=y[is_known], random_state=seed
    )

    # What SCI looks like on knowns that are not in the dictionary.
    held_out = np.empty(len(y_train))
    gaps = []
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    for fit, held in folds.split(X_train, y_train):
        classifier = SRCClassifier(Lasso(ALPHA)).fit(X_train[fit], y_train[fit])
        codes = classifier.encode(X_train[held])
        held_out[held] = sparsity_concentration(codes, classifier.dictionary_)
        gaps.append(codes.gap)
    threshold = float(np.quantile(held_out, TARGET_REFUSAL))

    # The knowns kept apart, then every sample of the unknown digits.
    queries = np.concatenate([X_test, X[~is_known]])
    truth = np.concatenate([y_test, y[~is_known]])
    stranger = np.arange(len(truth)) >= len(y_test)
    classifier = SRCClassifier(Lasso(ALPHA)).fit(X_train, y_train)
    codes = classifier.encode(queries)
    gaps.append(codes.gap)
    residuals = class_residuals(queries, codes, classifier.dictionary_)
    predicted = np.asarray(classifier.classes_)[np.argmin(residuals, axis=1)]
    concentration = sparsity_concentration(codes, classifier.dictionary_)
    refused = concentration < threshold

    def tally(digit: int) -> Tally:
        own = truth == digit
        accepted = own & ~refused
        right = int(np.sum(accepted & (predicted == digit)))  # 0 for an unknown: it is never predicted
        return Tally(digit, int(own.sum()), right, int(np.sum(own & refused)), int(accepted.sum()) - right)

    def example(row: int) -> Example:
        return Example(
            digit=int(truth[row]),
            predicted=int(predicted[row]),
            is_known=not stranger[row],
            image=queries[row].reshape(8, 8),
            code=np.asarray(codes.codes[[row]].todense()).ravel(),
            residuals=residuals[row],
            concentration=float(concentration[row]),
        )

    right = predicted == truth
    typical_known = _typical(known_digits, truth, ~stranger & ~refused & right, concentration)
    typical_unknown = _typical(unknown_digits, truth, stranger & refused, concentration)
    return DemoResult(
        seed=seed,
        known=known_digits,
        unknown=unknown_digits,
        n_train=len(y_train),
        n_codes=len(y_train) + len(truth),
        alpha=ALPHA,
        target_refusal=TARGET_REFUSAL,
        threshold=threshold,
        closed_set_accuracy=float(np.mean(right[~stranger])),
        known_accepted_right=float(np.mean((right & ~refused)[~stranger])),
        known_refused=float(np.mean(refused[~stranger])),
        unknown_refused=float(np.mean(refused[stranger])),
        auroc=float(roc_auc_score(~stranger, concentration)),
        worst_gap=float(np.max(np.concatenate(gaps))),
        seconds=time.perf_counter() - started,
        known_tallies=tuple(map(tally, known_digits)),
        unknown_tallies=tuple(map(tally, unknown_digits)),
        samples=DemoSamples(
            known_concentration=concentration[~stranger],
            unknown_concentration=concentration[stranger],
            atom_labels=np.asarray(classifier.dictionary_.labels),
            examples=tuple(map(example, [*typical_known, *typical_unknown])),
        ),
    )


def _typical(
    digits: Sequence[int],
    truth: NDArray[np.int64],
    eligible: NDArray[np.bool_],
    concentration: NDArray[np.float64],
) -> list[int]:
    """Rows of eligible samples with the middle SCI of their digit: typical ones, not the prettiest."""
    rows: list[int] = []
    for digit in digits:
        own = np.flatnonzero(eligible & (truth == digit))
        if len(own):
            rows.append(int(own[np.argsort(concentration[own], kind="stable")[len(own) // 2]]))
    return rows[:N_EXAMPLES]


def plot_demo(result: DemoResult, path: str | os.PathLike[str]) -> None:
    """Draw the demonstration and write it to `path`, complete or not at all.

    The upper panel shows SCI of known and unknown samples with the threshold. Below it, a column a
    sample: the picture, its code over the atoms of the known classes, and the residual of each class.

    Parameters
    ----------
    result : DemoResult
    path : path-like
        The ending chooses the format: png, pdf or svg.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    partial = path.with_name(f".{path.stem}-{os.getpid()}.partial{path.suffix}")
    style: dict[Any, Any] = {
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
    }
    with rc_context(style):
        figure = Figure(figsize=(11, 8.2), dpi=150, facecolor="white")
        FigureCanvasAgg(figure)
        _draw(figure, result)
        try:
            figure.savefig(partial)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def _draw(figure: Figure, result: DemoResult) -> None:
    """Lay out the two parts of the figure: histograms above, examples below."""
    samples = result.samples
    left, right = 0.065, 0.985
    top = figure.add_gridspec(1, 1, left=left, right=right, top=0.905, bottom=0.675)
    _draw_histograms(figure.add_subplot(top[0]), result)
    _heading(figure, 0.957, "a", "Known digits concentrate their code on one class, unknown digits spread it")

    groups = [[e for e in samples.examples if e.is_known == is_known] for is_known in (True, False)]
    groups = [group for group in groups if group]
    if not groups:
        return
    _heading(
        figure,
        0.565,
        "b",
        "Accepted known and refused unknown digits of middle SCI; coloured: most of the code, least residual",
    )
    # A narrow empty column keeps the known and the unknown samples apart.
    widths = [width for group in groups for width in (*(1.0 for _ in group), 0.2)][:-1]
    grid = figure.add_gridspec(
        3, len(widths), left=left, right=right, top=0.5, bottom=0.065,
        width_ratios=widths, height_ratios=[1.45, 1.0, 1.0], hspace=0.3, wspace=0.16,
    )  # fmt: skip
    coefficients = np.concatenate([e.code for e in samples.examples])
    code_limits = (1.1 * min(0.0, float(coefficients.min())), 1.1 * float(coefficients.max()))
    residual_limit = 1.1 * max(float(e.residuals.max()) for e in samples.examples)
    column = 0
    for group in groups:
        for position, example in enumerate(group):
            picture, code, residuals = (figure.add_subplot(grid[row, column]) for row in range(3))
            _draw_picture(picture, example)
            _draw_code(code, example, samples.atom_labels, code_limits)
            _draw_residuals(residuals, example, result.known, residual_limit)
            if column == 0:
                code.set_ylabel("coefficient")
                residuals.set_ylabel("class residual")
            for ax in (code, residuals):
                ax.tick_params(axis="x", length=0)
                ax.tick_params(axis="y", labelleft=position == 0)
            column += 1
        column += 1


def _heading(figure: Figure, height: float, letter: str, text: str) -> None:
    figure.text(0.02, height, letter, fontsize=13, fontweight="bold", va="baseline")
    figure.text(0.045, height, text, fontsize=12, va="baseline")


def _draw_histograms(ax: Axes, result: DemoResult) -> None:
    samples = result.samples
    bins = np.linspace(0, 1, 41).tolist()
    for values, colour, name, refused in (
        (samples.known_concentration, KNOWN_COLOUR, "known", result.known_refused),
        (samples.unknown_concentration, UNKNOWN_COLOUR, "unknown", result.unknown_refused),
    ):
        weights = np.full(len(values), 100 / len(values))
        label = f"{name}, {len(values)} samples, {refused:.1%} refused"
        ax.hist(values, bins, weights=weights, color=colour, alpha=0.5, histtype="stepfilled", label=label)
        ax.hist(values, bins, weights=weights, color=colour, histtype="step", linewidth=1.2)
    ax.axvline(result.threshold, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    ax.set_ylim(0, 1.1 * ax.get_ylim()[1])
    for text, side, offset in (("← refused", "right", -6), ("accepted →", "left", 6)):
        ax.annotate(
            text, (result.threshold, 0.97), xycoords=("data", "axes fraction"), xytext=(offset, 0),
            textcoords="offset points", ha=side, va="top",
        )  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_xlabel("sparsity concentration index (SCI) of the code")
    ax.set_ylabel("% of samples")
    ax.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, borderpad=0)
    ax.set_title(f"AUROC of SCI {result.auroc:.3f}", loc="right", fontsize=9, pad=4)


def _colour(example: Example) -> str:
    return KNOWN_COLOUR if example.is_known else UNKNOWN_COLOUR


def _draw_picture(ax: Axes, example: Example) -> None:
    ax.imshow(example.image, cmap="Greys", interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(_colour(example))
    ax.spines[:].set_linewidth(1.6)
    kind, verdict = ("known", f"accepted as {example.predicted}") if example.is_known else ("unknown", "refused")
    title = f"{kind} {example.digit}: {verdict}\nSCI {example.concentration:.2f}"
    ax.set_title(title, fontsize=8.5, color=_colour(example))


def _draw_code(ax: Axes, example: Example, labels: NDArray[np.int64], limits: tuple[float, float]) -> None:
    """The coefficients over the atoms, a band a class; the class with most of the code in colour."""
    classes = np.unique(labels)
    heaviest = classes[np.argmax([np.abs(example.code[labels == k]).sum() for k in classes])]
    centres = []
    for position, k in enumerate(classes):
        atoms = np.flatnonzero(labels == k)
        centres.append(float(atoms.mean()))
        if position % 2 == 0:
            ax.axvspan(atoms[0] - 0.5, atoms[-1] + 0.5, color=SHADE, linewidth=0)
        active = atoms[example.code[atoms] != 0]
        ax.vlines(active, 0, example.code[active], color=_colour(example) if k == heaviest else INK, linewidth=1.4)
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.set_xlim(-0.02 * len(labels), 1.02 * len(labels))
    ax.set_ylim(limits)
    ax.set_xticks(centres, [str(k) for k in classes])


def _draw_residuals(ax: Axes, example: Example, known: Sequence[int], limit: float) -> None:
    """The residual of each class; the smallest, which names the class, in colour."""
    colours = [PALE] * len(known)
    colours[int(np.argmin(example.residuals))] = _colour(example)
    ax.bar(range(len(known)), example.residuals, color=colours, width=0.72)
    ax.set_ylim(0, limit)
    ax.set_xticks(range(len(known)), [str(k) for k in known])
    ax.set_xlabel("class of the atoms")
