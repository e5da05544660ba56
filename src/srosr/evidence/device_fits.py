"""Class scores fitted on a device, and those of atoms that are held out: the exact ones, and those with landmarks.

What is fitted is a :class:`ClassScorer` or a :class:`LandmarkScorer` like any other, of NumPy's arrays: models are
saved, and predict on the CPU, as if they had been fitted there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.array_types import AnyArray
from .._support.torch_loader import torch
from ..coding import name_failures
from ..dictionary import DeviceDictionary, Dictionary, count_memory, put_on_device, split_range, widen
from .class_scores import NEED_FEATURES, ClassScorer, HoldOut
from .class_subspaces import CLASS_LANDMARKS, MANY_IN_CLASS, ClassSubspaces
from .device_scores import DeviceLandmarkView, DeviceScores, find_nearest_single
from .gaussian import GAUSSIAN_PENALTY, GaussianClasses
from .landmark_scores import REGRESSIONS, LandmarkScorer, prepare_landmarks
from .landmark_view import LandmarkView
from .landmarks import RANK, Regression, RegressionSamples
from .neighbors import DOUBLE_ROUNDING
from .ridge import COLLABORATIVE_PENALTY, DecayingSimilarity
from .sampled_subspaces import SampledSubspaces
from .standardized import StandardizedColumns
from .subspaces import SUBSPACE_PENALTY, Subspaces
from .tensor_formulas import (
    ClassBlock,
    ClassBlocks,
    TensorColumns,
    TensorGaussian,
    fetch,
    find_nearest,
    find_similarities,
    find_squared_distances,
    find_width,
    invert_positive_tensor,
    send,
    sharpen,
    solve_positive_tensor,
    sum_squares,
    whiten_tensor,
)

if TYPE_CHECKING:
    from torch import Tensor

# Samples whose features are computed at a time, and the share of the memory that those of all may take.
_ROWS = 16384
_SHARE = 0.125


class _Held(NamedTuple):
    """A :class:`HoldOut` on a device; ``places`` are those of the tests among the removed atoms."""

    test: Tensor
    removed: Tensor
    present: Tensor
    places: Tensor
    source: HoldOut


def _send_hold_outs(hold_outs: Sequence[HoldOut], device: torch.device) -> list[_Held]:
    out = []
    for held in hold_outs:
        test, removed, present = (send(numbers, device) for numbers in held)
        out.append(_Held(test, removed, present, torch.searchsorted(removed, test), held))
    return out


def fit_class_scorer(
    dictionary: Dictionary, kinds: Sequence[str], hold_outs: Sequence[HoldOut], device: torch.device
) -> ClassScorer:
    """Return the :class:`ClassScorer` of a dictionary, with the scores of atoms that are held out."""
    with name_failures(device, f"the class scores of {dictionary.n_atoms} atoms"):
        return _ExactFit(put_on_device(dictionary, device), dictionary, kinds, hold_outs).make()


def fit_landmark_scorer(
    dictionary: Dictionary,
    kinds: Sequence[str],
    hold_outs: Sequence[HoldOut] = (),
    *,
    device: torch.device,
    samples: RegressionSamples | None = None,
    like: LandmarkView | None = None,
) -> LandmarkScorer:
    """Return what :meth:`LandmarkScorer.fit` does."""
    with name_failures(device, f"the class scores of {dictionary.n_atoms} atoms"):
        return _LandmarkFit(put_on_device(dictionary, device), dictionary, kinds, hold_outs, samples, like).make()


# -- exact class scores ------------------------------------------------------------------------------------


class _ExactFit:
    """The fit of a :class:`ClassScorer`, kind after kind."""

    def __init__(
        self, on_device: DeviceDictionary, dictionary: Dictionary, kinds: Sequence[str], hold_outs: Sequence[HoldOut]
    ) -> None:
        self.dictionary, self.host, self.kinds = on_device, dictionary, tuple(kinds)
        self.device = on_device.device
        self.held = _send_hold_outs(hold_outs, self.device)
        self.scores = [DeviceScores() for _ in hold_outs]
        self.blocks = ClassBlocks(on_device.starts, on_device.n_atoms, self.device)
        self.membership = _make_membership(on_device.class_of, len(on_device.starts))
        #: Attributes of the scorer.
        self.fitted: dict[str, Any] = {}

    def make(self) -> ClassScorer:
        """Return the scorer."""
        if set(self.kinds) & {"collaborative", "local", "gaussian", "nearest", "subspace"}:
            self._fit_by_kernel()
        if set(self.kinds) & set(NEED_FEATURES):
            self._fit_by_features()
        scores = [part.fetch() for part in self.scores]
        return ClassScorer.restore(self.host, self.kinds, scores, self.fitted)

    def _fit_by_kernel(self) -> None:
        gram, kinds = self.dictionary.gram, self.kinds
        squares = gram.diagonal().clone()
        width = find_width(gram, squares)
        self.fitted |= {"squares": fetch(squares), "similarity": DecayingSimilarity.restore(fetch(squares), width)}

        def compare() -> Tensor:
            return find_similarities(find_squared_distances(gram, squares, squares), width)

        if "nearest" in kinds:
            self._hold_out_nearest("nearest", gram, squares)
        if "collaborative" in kinds:
            self._regress("collaborative", compare())
        if "local" in kinds:
            self._regress("local", sharpen(compare()))
        if "gaussian" in kinds:
            self._fit_gaussian(gram, squares)
        if "subspace" in kinds:
            subspaces = _SubspaceFit(self.dictionary, self.blocks, [False] * self.blocks.n_classes)
            factors = [fetch(factor) for factor in subspaces.factors]
            self.fitted["subspaces"] = Subspaces.restore(self.host, factors)
            for out, held in zip(self.scores, self.held, strict=True):
                out.by_kind["subspace"] = -subspaces.measure_without(held)

    def _fit_gaussian(self, gram: Tensor, squares: Tensor) -> None:
        unit = float(squares.mean()) or 1.0
        sizes = self.blocks.sizes
        regression, ridge = self._fit_ridge(gram / unit, GAUSSIAN_PENALTY)
        self.fitted |= {
            "unit": unit,
            "linear": regression,
            "gaussian": GaussianClasses(regression.totals, GAUSSIAN_PENALTY, sizes),
        }
        for out, held in zip(self.scores, self.held, strict=True):
            scores, totals = ridge.score(held)
            present = held.present
            left = sizes - np.bincount(self.host.class_of[held.source.removed], minlength=len(sizes))
            classes = TensorGaussian.fit(totals[present][:, present], GAUSSIAN_PENALTY, left[held.source.present])
            out.add_gaussian(classes, scores[held.places][:, present])

    def _fit_by_features(self) -> None:
        rows = self.host.rows
        if rows is None:
            raise ValueError('standardized columns need features, which kernel="precomputed" does not have.')
        columns = StandardizedColumns(rows)
        assert self.dictionary.rows is not None
        scaled = TensorColumns(columns, self.device).transform(self.dictionary.rows)
        squares = sum_squares(scaled)
        self.fitted |= {"columns": columns, "rows": fetch(scaled), "row_squares": fetch(squares)}
        if not self.held and "standardized" not in self.kinds:
            return
        gram = scaled @ scaled.T
        if "standardized_nearest" in self.kinds:
            self._hold_out_nearest("standardized_nearest", gram, squares)
        if "standardized" in self.kinds:
            width = find_width(gram, squares)
            self.fitted["row_similarity"] = DecayingSimilarity.restore(fetch(squares), width)
            distances = find_squared_distances(gram, squares, squares)
            del gram
            self._regress("standardized", find_similarities(distances, width))

    def _regress(self, kind: str, similarities: Tensor) -> None:
        self.fitted[kind], ridge = self._fit_ridge(similarities, COLLABORATIVE_PENALTY)
        for out, held in zip(self.scores, self.held, strict=True):
            out.by_kind[kind] = ridge.score(held)[0][held.places][:, held.present]

    def _fit_ridge(self, similarities: Tensor, penalty: float) -> tuple[Regression, _HeldOutRidge]:
        """Fit a ridge regression; ``similarities``, a tensor of its own, is overwritten."""
        similarities.diagonal().add_(penalty)
        factor = torch.linalg.cholesky(similarities)
        coefficients = torch.cholesky_solve(self.membership, factor)
        totals = self.membership.T @ coefficients
        inverse = torch.cholesky_inverse(factor) if self.held else factor[:0]
        return Regression(fetch(coefficients), fetch(totals)), _HeldOutRidge(
            inverse, self.membership, coefficients, totals
        )

    def _hold_out_nearest(self, kind: str, gram: Tensor, squares: Tensor) -> None:
        for out, held in zip(self.scores, self.held, strict=True):
            own = squares[held.test]
            distances = find_squared_distances(gram[held.test], own, squares)
            distances[:, held.removed] = torch.inf
            nearest = find_nearest(distances, own, self.blocks, DOUBLE_ROUNDING)
            out.by_kind[kind] = -nearest[:, held.present]


class _HeldOutRidge(NamedTuple):
    """Class scores of atoms as if they, and others, were not in the dictionary, see :class:`.ridge.HeldOutRidge`."""

    inverse: Tensor
    membership: Tensor
    coefficients: Tensor
    totals: Tensor

    def score(self, held: _Held) -> tuple[Tensor, Tensor]:
        """Compute the scores of the atoms that are removed, and the totals without them."""
        removed = held.removed
        own = self.coefficients[removed]
        solved = solve_positive_tensor(self.inverse[removed][:, removed], own)
        return self.membership[removed] - solved, self.totals - own.T @ solved


def _make_membership(class_of: Tensor, n_classes: int) -> Tensor:
    """Return which class each atom belongs to, one column a class."""
    out = torch.zeros((len(class_of), n_classes), dtype=torch.float64, device=class_of.device)
    return out.scatter_(1, class_of[:, None], 1.0)


# -- subspaces ---------------------------------------------------------------------------------------------


class _SubspaceFit:
    """Subspaces of the classes with all atoms, and distances of atoms to those without some of them.

    ``maps`` says how each class is described: by the Gram matrix of its atoms (False), by features (True), or by
    landmarks and their transform. See :mod:`.class_subspaces`.
    """

    def __init__(self, dictionary: DeviceDictionary, blocks: ClassBlocks, maps: list[Any]) -> None:
        self.dictionary, self.blocks, self.maps = dictionary, blocks, maps
        self.penalty = SUBSPACE_PENALTY * (float(dictionary.squared_norms.mean()) or 1.0)
        self.by_atoms = np.array([how is False for how in maps])
        #: Sums over the atoms of each class that is not described by its Gram matrix.
        self.sums: dict[int, Tensor] = {}
        self.factors: list[Tensor] = [torch.empty(0)] * len(maps)
        for block in blocks.split(0, single=True):
            k, part = int(block.numbers[0]), block.part
            assert part is not None
            if self.by_atoms[k]:
                system = self._compare(part, part)
            else:
                system = self.sums[k] = self._sum_up(k, part)
            self.factors[k] = torch.linalg.cholesky(self._penalize(system))

    def _penalize(self, system: Tensor) -> Tensor:
        out = system.clone()
        out.diagonal(dim1=-2, dim2=-1).add_(self.penalty)
        return out

    def _compare(self, rows: Any, columns: Any) -> Tensor:
        dictionary = self.dictionary
        return dictionary.gram[rows][:, columns] if dictionary.uses_gram else dictionary.block(rows, columns)

    def _map_atoms(self, k: int, atoms: slice | Tensor) -> Tensor:
        how, rows = self.maps[k], self.dictionary.rows
        if isinstance(how, tuple):
            return self._compare(atoms, how[0]) @ how[1]
        assert rows is not None
        return rows[atoms]

    def _sum_up(self, k: int, part: slice) -> Tensor:
        total: Any = 0.0
        for rows in split_range(part.start, part.stop, _ROWS):
            features = self._map_atoms(k, rows)
            total = total + features.T @ features
        return total

    def measure_without(self, held: _Held) -> Tensor:
        """Return the distances of the tests to the classes that are present, without the removed atoms."""
        dictionary, n = self.dictionary, len(held.test)
        squares = dictionary.squared_norms[held.test]
        out = torch.zeros((n, len(self.maps)), dtype=torch.float64, device=dictionary.device)
        kept = torch.ones(dictionary.n_atoms, dtype=torch.bool, device=dictionary.device)
        kept[held.removed] = False
        is_present = np.isin(np.arange(len(self.maps)), held.source.present)
        cross = dictionary.gram[held.test] if dictionary.uses_gram else None
        for block in self.blocks.split(n, single=cross is None or not self.by_atoms.all()):
            if not is_present[block.numbers].any():
                continue
            if self.by_atoms[block.numbers].all():
                found = squares - self._explain(block, cross, kept, held.test)
            else:
                found = self._measure_by_map(int(block.numbers[0]), block, held, squares)[None]
            out[:, block.classes] = found.T
        return out[:, held.present].clamp_(min=0.0).sqrt_()

    def _explain(self, block: ClassBlock, cross: Tensor | None, kept: Tensor, test: Tensor) -> Tensor:
        """Return how much classes explain of atoms, (n_classes, n_tests); removed atoms become zeros."""
        stays = kept[block.index] if block.valid is None else kept[block.index] & block.valid
        if cross is None:
            assert block.part is not None
            squares = self.dictionary.block(block.part, block.part)[None]
            features = self.dictionary.block(test, block.part)[None]
        else:
            squares, features = block.take_squares(self.dictionary.gram), block.take(cross)
        system = torch.where(stays[:, :, None] & stays[:, None, :], squares, 0.0)
        features = torch.where(stays[:, None, :], features, 0.0)
        factor = torch.linalg.cholesky(self._penalize(system))
        image = torch.linalg.solve_triangular(factor, features.mT, upper=False)
        return image.square().sum(dim=1)

    def _measure_by_map(self, k: int, block: ClassBlock, held: _Held, squares: Tensor) -> Tensor:
        """Return the squared distances of the tests to a class that is described by sums."""
        assert block.part is not None
        first, last = np.searchsorted(held.source.removed, [block.part.start, block.part.stop])
        gone, system = self._map_atoms(k, held.removed[first:last]), self.sums[k]
        factor = torch.linalg.cholesky(self._penalize(system - gone.T @ gone))
        features = self._map_atoms(k, held.test)
        image = torch.linalg.solve_triangular(factor, features.T, upper=False)
        return squares - sum_squares(features) + self.penalty * image.square().sum(dim=0)


def _find_maps(dictionary: DeviceDictionary, blocks: ClassBlocks) -> list[Any]:
    """Return how the classes are described, as :class:`ClassSubspaces` chooses."""
    rows = dictionary.rows
    out: list[Any] = []
    for start, size in zip(blocks.starts.tolist(), blocks.sizes.tolist(), strict=True):
        if dictionary.is_linear:
            assert rows is not None
            out.append(bool(size > rows.shape[1]))
        elif size <= MANY_IN_CLASS:
            out.append(False)
        else:
            landmarks = send(start + np.arange(CLASS_LANDMARKS) * size // CLASS_LANDMARKS, dictionary.device)
            out.append((landmarks, whiten_tensor(dictionary.block(landmarks, landmarks), RANK)))
    return out


# -- class scores with landmarks ---------------------------------------------------------------------------


class _LandmarkFit:
    """The fit of a :class:`LandmarkScorer`, kind after kind."""

    def __init__(
        self,
        on_device: DeviceDictionary,
        dictionary: Dictionary,
        kinds: Sequence[str],
        hold_outs: Sequence[HoldOut],
        samples: RegressionSamples | None,
        like: LandmarkView | None,
    ) -> None:
        self.dictionary, self.host, self.kinds, self.samples = on_device, dictionary, tuple(kinds), samples
        self.device = on_device.device
        self.view, regressed, self.sizes = prepare_landmarks(dictionary, self.kinds, samples, like)
        self.rows, self.class_of, weights = regressed
        self.weights = None if weights is None else send(weights, self.device)
        self.held = _send_hold_outs(hold_outs, self.device)
        self.scores = [DeviceScores() for _ in hold_outs]
        self.blocks = ClassBlocks(on_device.starts, on_device.n_atoms, self.device)

    def make(self) -> LandmarkScorer:
        """Return the scorer."""
        view = DeviceLandmarkView(self.view, self.device)
        landmarks = DeviceDictionary(self.view.dictionary, self.device)
        fitted = {kind: self._regress(kind, view, landmarks) for kind in REGRESSIONS if kind in self.kinds}
        subspaces = self._fit_subspaces() if "subspace" in self.kinds else None
        scorer = LandmarkScorer(self.host, self.kinds, self.view, fitted, self.sizes, subspaces)
        self._hold_out_nearest(scorer)
        scorer.held_out = [part.fetch() for part in self.scores]
        return scorer

    def _regress(self, kind: str, view: DeviceLandmarkView, landmarks: DeviceDictionary) -> Regression:
        transform = None
        if kind != "gaussian" or not view.has_features:
            assert landmarks.rows is not None
            similar = view.compare(kind, landmarks.query(landmarks.rows))
            transform = whiten_tensor(0.5 * (similar + similar.T), RANK)

        def measure(which: slice | Tensor) -> Tensor:
            similar = view.compare(kind, landmarks.query(self._take_rows(which)))
            return similar if transform is None else similar @ transform

        penalty = GAUSSIAN_PENALTY if kind == "gaussian" else COLLABORATIVE_PENALTY
        sums = _RegressionSums(measure, send(self.class_of, self.device), len(self.sizes), penalty, self.weights)
        for out, held in zip(self.scores, self.held, strict=True):
            self._score_held_out(kind, sums, held, out)
        coefficients, totals = sums.solve(sums.squares, sums.by_class), np.empty((0, 0))
        if kind == "gaussian":
            sizes = np.bincount(self.class_of, None if self.weights is None else fetch(self.weights), len(self.sizes))
            totals = fetch(sums.compute_totals(coefficients, sums.by_class, sizes))
        return Regression(fetch(coefficients if transform is None else transform @ coefficients), totals)

    def _take_rows(self, which: slice | Tensor) -> Tensor:
        if self.samples is None:
            assert self.dictionary.rows is not None
            return self.dictionary.rows[which]
        picked = which if isinstance(which, slice) else fetch(which)
        return send(widen(self.rows[picked]), self.device)

    def _score_held_out(self, kind: str, sums: _RegressionSums, held: _Held, out: DeviceScores) -> None:
        scores, coefficients, by_class = sums.score_held_out(held)
        if kind != "gaussian":
            out.by_kind[kind] = scores
            return
        left = self.sizes - np.bincount(self.class_of[held.source.removed], minlength=len(self.sizes))
        left = left[held.source.present]
        totals = sums.compute_totals(coefficients, by_class, left)
        out.add_gaussian(TensorGaussian.fit(totals, GAUSSIAN_PENALTY, left), scores)

    def _fit_subspaces(self) -> ClassSubspaces | SampledSubspaces:
        if self.samples is not None:
            return SampledSubspaces(self.host, self._fit_forms())
        maps = _find_maps(self.dictionary, self.blocks)
        subspaces = _SubspaceFit(self.dictionary, self.blocks, maps)
        for out, held in zip(self.scores, self.held, strict=True):
            out.by_kind["subspace"] = -subspaces.measure_without(held)
        on_host = [(fetch(how[0]), fetch(how[1])) if isinstance(how, tuple) else how for how in maps]
        return ClassSubspaces.restore(self.host, on_host, [fetch(factor) for factor in subspaces.factors])

    def _fit_forms(self) -> list[AnyArray]:
        """Return the matrices of :class:`SampledSubspaces`."""
        penalty = SUBSPACE_PENALTY * (float(self.dictionary.squared_norms.mean()) or 1.0)
        forms = []
        for k, part in enumerate(self.host.class_slices):
            atoms = self.dictionary.subset(np.arange(part.start, part.stop))
            by_features = atoms.is_linear and part.stop - part.start > self.host.n_features
            transform = None if by_features else whiten_tensor(atoms.gram, RANK)
            first, last = np.searchsorted(self.class_of, [k, k + 1])
            system: Any = 0.0
            for block in split_range(int(first), int(last), _ROWS):
                queries = atoms.query(self._take_rows(block))
                inside = queries.rows if transform is None else queries.cross @ transform
                assert inside is not None
                weighed = inside if self.weights is None else inside * self.weights[block][:, None]
                system = system + inside.T @ weighed
            system.diagonal().add_(penalty)
            form = -penalty * invert_positive_tensor(system)
            form.diagonal().add_(1.0)
            forms.append(fetch(form if transform is None else transform @ form @ transform.T))
        return forms

    def _hold_out_nearest(self, scorer: LandmarkScorer) -> None:
        dictionary, squares = self.dictionary, self.dictionary.squared_norms
        for out, held in zip(self.scores, self.held, strict=True):
            if "nearest" in self.kinds:
                own = squares[held.test]
                products = (
                    dictionary.gram[held.test] if dictionary.uses_gram else dictionary.block(held.test, slice(None))
                )
                distances = find_squared_distances(products, own, squares)
                distances[:, held.removed] = torch.inf
                nearest = find_nearest(distances, own, self.blocks, DOUBLE_ROUNDING)
                out.by_kind["nearest"] = -nearest[:, held.present]
        if "standardized_nearest" not in self.kinds or not self.held:
            return
        rows, row_squares = send(scorer.rows, self.device), send(scorer.row_squares, self.device)
        for out, held in zip(self.scores, self.held, strict=True):
            tests = rows[held.test].to(torch.float64)
            nearest = find_nearest_single(tests, rows, row_squares, self.blocks, held.removed)
            out.by_kind["standardized_nearest"] = -nearest[:, held.present]


class _RegressionSums:
    """The sums of :class:`.landmarks.LandmarkRegression` over all samples; what is held out is taken off."""

    def __init__(
        self,
        measure: Callable[[slice | Tensor], Tensor],
        class_of: Tensor,
        n_classes: int,
        penalty: float,
        weights: Tensor | None,
    ) -> None:
        self.measure, self.class_of, self.penalty, self.weights = measure, class_of, penalty, weights
        self.n_classes = n_classes
        self.features: Tensor | None = None
        kept: list[Tensor] | None = []
        squares: Any = 0.0
        by_class: Any = 0.0
        for block in split_range(0, len(class_of), _ROWS):
            features = measure(block)
            more = self._sum_up(features, block)
            squares, by_class = squares + more[0], by_class + more[1]
            if kept is not None and 8 * len(class_of) * features.shape[1] <= _SHARE * count_memory(class_of.device):
                kept.append(features)
            else:
                kept = None
        self.squares, self.by_class = squares, by_class
        if kept is not None:
            self.features = torch.cat(kept)

    def _sum_up(self, features: Tensor, which: slice | Tensor) -> tuple[Tensor, Tensor]:
        weighed = features if self.weights is None else features * self.weights[which][:, None]
        return features.T @ weighed, _make_membership(self.class_of[which], self.n_classes).T @ weighed

    def _get(self, which: Tensor) -> Tensor:
        return self.measure(which) if self.features is None else self.features[which]

    def score_held_out(self, held: _Held) -> tuple[Tensor, Tensor, Tensor]:
        """Return class scores of the tests without what is removed, and the coefficients and sums they come from."""
        system, by_class = self.squares, self.by_class
        for block in split_range(0, len(held.removed), _ROWS):
            which = held.removed[block]
            squares, sums = self._sum_up(self._get(which), which)
            system, by_class = system - squares, by_class - sums
        by_class = by_class[held.present]
        coefficients = self.solve(system, by_class)
        return self._get(held.test) @ coefficients, coefficients, by_class

    def solve(self, system: Tensor, by_class: Tensor) -> Tensor:
        """Return the coefficients."""
        out = system.clone()
        out.diagonal().add_(self.penalty)
        return solve_positive_tensor(out, by_class.T)

    def compute_totals(self, coefficients: Tensor, by_class: Tensor, sizes: AnyArray) -> Tensor:
        """Return the totals of :mod:`.ridge` from the sums of the classes and their sizes."""
        counts = send(np.asarray(sizes, dtype=np.float64), by_class.device)
        return (torch.diag(counts) - by_class @ coefficients) / self.penalty
