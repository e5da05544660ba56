"""Evidence on a device: samples are coded and measured there, and only numbers of the evidence table come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.torch_loader import torch
from ..coding.device import DeviceCoder, map_chunks, name_failures
from ..coding.problems import Problem
from ..dictionary.device_dictionary import DeviceDictionary, DeviceQueries, put_on_device
from ..dictionary.dictionary import Dictionary, Queries, split_range
from ..exceptions import CertificateWarning, warn
from .class_scores import ClassScorer, ClassScores
from .device_scores import DeviceScorer, DeviceScores, put_scorer_on_device
from .landmark_scores import LandmarkScorer
from .residuals import TIE, TINY
from .table import EVIDENCE, ROUNDING, ClassFusion, CodeMeasures, Evidence
from .tensor_formulas import ClassBlock, ClassBlocks, fetch, sum_squares

if TYPE_CHECKING:
    from torch import Tensor

# Similarities of samples to atoms whose evidence is computed at a time.
_BLOCK = 2**26
# Atoms of a class whose similarities are computed at a time where there is no Gram matrix.
_COLUMNS = 8192
# Coders of dictionaries that are in use, by device, problem and number of threads.
_CODERS: WeakKeyDictionary[Dictionary, dict[tuple[str, Problem, int | None], DeviceCoder]] = WeakKeyDictionary()
# Threads that predict at the same time wait for one of them to put a model on the device.
_LOCK = RLock()
_PLACE = {name: place for place, name in enumerate(EVIDENCE)}


@dataclass(frozen=True, eq=False)
class DeviceMeasures:
    """:class:`CodeMeasures` as tensors."""

    residuals: Tensor
    concentration: Tensor
    residual: Tensor
    squares: Tensor

    def fetch(self) -> CodeMeasures:
        """Return the measures as arrays."""
        parts = (self.residuals, self.concentration, self.residual, self.squares)
        return CodeMeasures(*(fetch(part) for part in parts))


# -- from codes to evidence --------------------------------------------------------------------------------


def measure_device_codes(
    queries: DeviceQueries, codes: Tensor, residual: Tensor, dictionary: DeviceDictionary
) -> DeviceMeasures:
    """Measure dense codes over a dictionary with labels, as :func:`.table.measure_codes` does.

    ``residual`` has the lengths of the residuals of the whole codes.
    """
    n, squares = len(codes), queries.squared_norms
    blocks = ClassBlocks(dictionary.starts, dictionary.n_atoms, dictionary.device)
    lengths, mass = torch.empty((2, n, blocks.n_classes), dtype=torch.float64, device=dictionary.device)
    for block in blocks.split(n, single=not dictionary.uses_gram and not dictionary.is_linear):
        own = block.take(codes)
        linear = (own * block.take(queries.cross)).sum(dim=2)
        quadratic = _square_parts(own, block, dictionary)
        lengths[:, block.classes] = (squares - 2.0 * linear + quadratic).T
        mass[:, block.classes] = own.abs().sum(dim=2).T
    residuals = lengths.clamp_(min=0.0).sqrt_()
    least = residuals.amin(dim=1, keepdim=True)
    residuals = torch.where(residuals <= least + TIE * squares.sqrt()[:, None], least, residuals)
    return DeviceMeasures(residuals, _concentrate(mass), residual, squares)


def _square_parts(own: Tensor, block: ClassBlock, dictionary: DeviceDictionary) -> Tensor:
    """Return x_k' G_kk x_k of the parts of codes on some classes, (n_classes, n_samples)."""
    rows = dictionary.rows
    if rows is not None and dictionary.is_linear and (own.shape[2] > rows.shape[1] or not dictionary.uses_gram):
        picked = rows[block.index] if block.part is None else rows[block.part][None]
        return sum_squares(own @ picked)
    if dictionary.uses_gram:
        return ((own @ block.take_squares(dictionary.gram)) * own).sum(dim=2)
    assert block.part is not None
    out = torch.zeros(own.shape[:2], dtype=torch.float64, device=own.device)
    for part in split_range(block.part.start, block.part.stop, _COLUMNS):
        here = slice(part.start - block.part.start, part.stop - block.part.start)
        out += ((own @ dictionary.block(block.part, part)) * own[:, :, here]).sum(dim=2)
    return out


def _concentrate(mass: Tensor) -> Tensor:
    """Return the sparsity concentration index of codes from their absolute sums on each class."""
    n_classes, total = mass.shape[1], mass.sum(dim=1)
    if n_classes == 1:
        return (total > 0).to(torch.float64)
    share = torch.where(total > 0, mass.amax(dim=1) / torch.where(total > 0, total, 1.0), 0.0)
    return ((n_classes * share - 1.0) / (n_classes - 1.0)).clamp_(0.0, 1.0)


def build_device_evidence(
    measures: DeviceMeasures, scores: DeviceScores | None = None, fusion: ClassFusion | None = None
) -> Evidence:
    """Build the evidence table as :func:`.table.build_evidence` does, and bring it back."""
    residuals, by_kind = measures.residuals, {} if scores is None else dict(scores.by_kind)
    n, n_classes = residuals.shape
    values = torch.zeros((n, len(EVIDENCE)), dtype=torch.float64, device=residuals.device)

    def fill(name: str, column: Tensor) -> None:
        values[:, _PLACE[name]] = column

    def fill_top(kind: str, margin: str, numbers: Tensor) -> None:
        top = numbers.topk(2, dim=1).values
        fill(kind, top[:, 0])
        fill(margin, top[:, 0] - top[:, 1])

    matched = residuals.amin(dim=1)
    fill("matched", matched)
    fill("nonmatched", (residuals.sum(dim=1) - matched) / (n_classes - 1))
    fill("concentration", measures.concentration)
    fill("ratio", _divide_smallest_two(residuals))
    gain = matched.square() - measures.residual.square()
    fill("surplus", torch.where(gain > ROUNDING * measures.squares, gain, 0.0).sqrt())
    for kind, margin in (
        ("collaborative", "margin"),
        ("local", "local_margin"),
        ("standardized", "standardized_margin"),
    ):
        if kind in by_kind:
            fill_top(kind, margin, by_kind[kind])
    for kind in ("nearest", "standardized_nearest"):
        if kind in by_kind:
            fill(kind, -by_kind[kind].amax(dim=1))
    if "subspace" in by_kind:
        fill("subspace", _divide_smallest_two(-by_kind["subspace"]))
    if scores is not None and "gaussian" in by_kind:
        fill_top("gaussian", "gaussian_margin", by_kind["gaussian"])
        fill("gaussian", -values[:, _PLACE["gaussian"]] - scores.background[0])
    class_scores = -residuals
    if fusion is not None:
        class_scores = _combine(fusion, by_kind | {"residual": class_scores})
        fill_top("fused", "fused_margin", class_scores)
    return Evidence(fetch(values), fetch(residuals), fetch(class_scores), fetch(measures.squares == 0))


def _combine(fusion: ClassFusion, scores: dict[str, Tensor]) -> Tensor:
    out = torch.zeros_like(scores[fusion.kinds[0]])
    for kind, factor in zip(fusion.kinds, (fusion.weights / fusion.scale).tolist(), strict=True):
        if factor > 0:
            out += factor * scores[kind]
    return out


def _divide_smallest_two(lengths: Tensor) -> Tensor:
    best = lengths.topk(2, dim=1, largest=False).values
    return torch.where(best[:, 1] > TINY, best[:, 0] / best[:, 1], 1.0)


# -- from samples to evidence ------------------------------------------------------------------------------


class DeviceGatherer:
    """Codes samples on a device and gathers their evidence there.

    Parameters
    ----------
    dictionary : Dictionary
    problem : Problem
    device : torch.device
    scorer : ClassScorer, LandmarkScorer or None
        Where class scores give evidence too.
    fusion : ClassFusion, optional
    n_jobs : int, optional
        Threads that code what the device does not certify.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: Problem,
        device: torch.device,
        scorer: ClassScorer | LandmarkScorer | None = None,
        fusion: ClassFusion | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.device, self.fusion = device, fusion
        with _LOCK, name_failures(device, f"a dictionary of {dictionary.n_atoms} atoms"):
            self.dictionary = put_on_device(dictionary, device)
            coders, how = _CODERS.setdefault(dictionary, {}), (str(device), problem, n_jobs)
            if how not in coders:
                coders[how] = DeviceCoder(self.dictionary, problem, n_jobs=n_jobs)
            self.coder = coders[how]
            self.scorer: DeviceScorer | None = None if scorer is None else put_scorer_on_device(scorer, device)

    def gather(self, X: Any) -> Evidence:
        """Return the evidence of samples that have been checked: an array, a tensor or a :class:`Queries`."""
        parts = self._map(X, lambda measures, scores: build_device_evidence(measures, scores, self.fusion))
        return Evidence.concatenate(parts)

    def measure(self, X: Any, done: Callable[[int], None] | None = None) -> tuple[CodeMeasures, ClassScores]:
        """Return the measures and class scores of samples; ``done`` is called with how many have just been coded."""
        parts = self._map(
            X, lambda measures, scores: (measures.fetch(), ClassScores() if scores is None else scores.fetch()), done
        )
        measures = CodeMeasures.concatenate([one for one, _ in parts])
        return measures, ClassScores.concatenate([one for _, one in parts])

    def measure_residuals(self, X: Any) -> AnyArray:
        """Return the class residuals of samples."""
        return np.concatenate(self._map(X, lambda measures, _: fetch(measures.residuals)))

    def _map(
        self,
        X: Any,
        finish: Callable[[DeviceMeasures, DeviceScores | None], Any],
        done: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """Return what ``finish`` makes of the measures and scores of each block of samples, in order."""
        if isinstance(X, Queries):
            X = self.dictionary.host.query(X)

        def query(rows: slice) -> DeviceQueries:
            return self.dictionary.query(X[rows].to(self.device) if isinstance(X, torch.Tensor) else X[rows])

        return _measure_chunks(self.coder, self.dictionary, len(X), query, self.scorer, finish, done)


def _measure_chunks(
    coder: DeviceCoder,
    dictionary: DeviceDictionary,
    n_rows: int,
    query: Callable[[slice], DeviceQueries],
    scorer: DeviceScorer | None,
    finish: Callable[[DeviceMeasures, DeviceScores | None], Any],
    done: Callable[[int], None] | None,
) -> list[Any]:
    """Code samples chunk by chunk; return what ``finish`` makes of each block of them."""
    size = max(64, _BLOCK // dictionary.n_atoms)

    def work(rows: slice) -> list[Any]:
        queries = query(rows)
        codes = coder.encode(queries)
        out = []
        for block in split_range(0, len(queries), size):
            part = queries[block]
            measures = measure_device_codes(part, codes.codes[block], codes.residual_norm[block], dictionary)
            out.append(finish(measures, None if scorer is None else scorer.score(part)))
        certified.append(codes.certified)
        return out

    certified: list[Tensor] = []
    advance = None if done is None else lambda rows: done(rows.stop - rows.start)
    parts = map_chunks(work, n_rows, coder.count_rows(), dictionary.device, advance)
    n_bad = sum(int((~part).sum()) for part in certified)
    if n_bad:
        warn(f"{n_bad} of {n_rows} codes are not certified to tol={coder.tol:g}.", CertificateWarning)
    return [one for part in parts for one in part]


def measure_hold_out(
    dictionary: DeviceDictionary,
    test: IntArray,
    removed: IntArray,
    problem: Problem,
    done: Callable[[int], None] | None = None,
    *,
    n_jobs: int | None = None,
) -> CodeMeasures:
    """Code atoms over a dictionary without those that are removed (sorted), and measure their codes."""
    train = np.delete(np.arange(dictionary.n_atoms), removed)
    part, columns = dictionary.subset(train), dictionary.send(train)

    def query(rows: slice) -> DeviceQueries:
        atoms = dictionary.send(test[rows])
        if dictionary.uses_gram:
            return DeviceQueries(dictionary.gram[atoms][:, columns], dictionary.squared_norms[atoms])
        assert dictionary.rows is not None
        return part.query(dictionary.rows[atoms])

    coder = DeviceCoder(part, problem, n_jobs=n_jobs)
    measured = _measure_chunks(coder, part, len(test), query, None, lambda one, _: one.fetch(), done)
    return CodeMeasures.concatenate(measured)
