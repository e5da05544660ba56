"""The monitor of a stream: decisions in, report, figure and alarm out."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array, IntArray
from .._support.atomic_files import PathLike
from .._support.parameter_checks import check_choice, check_count, check_positive, check_rate
from .._support.unknown_label import format_label
from ..classifiers.base import Decisions, OpenSetClassifier
from ..scoring.held_out_scores import HeldOutScores
from . import monitor_state as saved
from .block_counts import BlockCounts, BlockHistory
from .conformal_martingale import ConformalMartingale, RankBag
from .monitor_report import Alarm, ClassShare, MonitorReport, estimate_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .monitor_display import MonitorDisplay

REFERENCES = ("stream", "calibration")
BLOCK, HORIZON, FALSE_ALARM_RATE = 500, 100_000, 0.01
_SETTINGS = ("false_alarm_rate", "reference", "near", "block", "horizon", "random_state")
_LARGEST_SEED, _LARGEST_SIZE = 2**32 - 1, 2**53


class Monitor:
    r"""Watch a stream of samples: how many are rejected, and whether the stream changes.

    The unknown score of each sample becomes a conformal p-value, its rank among the scores before it. While the stream
    does not change, that is, while its samples are exchangeable, these p-values are independent and uniform. The
    monitor bets against that; if it multiplies its capital by one over the false-alarm rate, it raises an alarm. By
    Ville's inequality that happens with probability at most ``false_alarm_rate`` in a watch of a stream without a
    change, however long one waits and however often one looks.

    Parameters
    ----------
    model : fitted open set classifier
    false_alarm_rate : float
        The most that the probability of an alarm may be in a watch of a stream that does not change.
    reference : {"stream", "calibration"}
        What samples are compared with: earlier samples of the stream, which finds changes within it and tolerates a
        constant share of unknown samples, or also the scores of known samples that the model was calibrated on, which
        finds a stream that differs from them from its beginning. The rate is exact for "stream", and for "calibration"
        if the model has a calibration split; with held-out scores it is approximate.
    near : float
        A sample is near the threshold if a threshold that rejects ``near`` times as many known samples, or as few,
        would have decided otherwise.
    block : int
        Samples of a block of the history.
    horizon : int
        Samples of a watch; after so many a new one begins, with a capital of 1 and no earlier samples.
    random_state : int
        Seed of the random numbers that break ties between equal scores.

    Attributes
    ----------
    model : OpenSetClassifier
    samples : int
        Number of samples so far.
    alarm : Alarm or None
        Of the current watch: the sample at which the alarm was raised and where the change probably began.
    summary : MonitorReport
        All facts; ``print(monitor.summary)`` shows them as text.

    See Also
    --------
    srosr.OpenSetClassifier.decide : The decisions that a monitor records.

    References
    ----------
    V. Vovk, "Testing randomness online", Statistical Science 36, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import KNNDistance, Monitor
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(60, 5)), rng.normal(size=(60, 5)) + 4])
    >>> clf = KNNDistance().fit(X, np.repeat(["a", "b"], 60))
    >>> monitor = Monitor(clf, block=100)
    >>> decisions = monitor.update(rng.normal(size=(400, 5)))
    >>> monitor.alarm is None
    True
    >>> decisions = monitor.update(rng.normal(size=(200, 5)) + 2)
    >>> 400 <= monitor.alarm.sample < 450
    True
    """

    def __init__(
        self,
        model: OpenSetClassifier,
        *,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        reference: str = "stream",
        near: float = 2.0,
        block: int = BLOCK,
        horizon: int = HORIZON,
        random_state: int = 0,
    ) -> None:
        _check_model(model)
        self.model = model
        self.false_alarm_rate = check_rate("false_alarm_rate", false_alarm_rate)
        self.reference = check_choice("reference", reference, REFERENCES)
        self.near = check_positive("near", near)
        if self.near < 1.0:
            raise ValueError(f"near must be a factor of at least 1, got {near!r}.")
        self.block, self.horizon = _check_size("block", block), _check_size("horizon", horizon)
        self.random_state = check_count("random_state", random_state, 0)
        if self.random_state > _LARGEST_SEED:
            raise ValueError(f"random_state must be an integer of at most {_LARGEST_SEED}, got {random_state!r}.")
        self._read_model()
        self._random = np.random.Generator(np.random.PCG64(self.random_state))
        self._history = BlockHistory(self.block, BlockCounts.begin(0, len(self._classes)))
        self._blocks = 0
        self._alarms: list[Alarm] = []
        self._watch, self.samples = 0, 0
        self.restart()

    def _read_model(self) -> None:
        """Take from the model what the monitor compares with, and what must stay as it is."""
        model = self.model
        held_out, split = model._held_out_scores(), model._calibration_split()
        scores = np.asarray(held_out.scores if split is None else split.scores, dtype=np.float64)
        scores = np.where(np.isnan(scores), model.score_range[1], scores)
        if self.reference == "calibration" and not len(scores):
            raise ValueError('reference="calibration" needs held-out scores, and the model has none; use "stream".')
        self._classes, self._thresholds = model.classes_, np.array(model.thresholds_, dtype=np.float64)
        self._known_scores = scores
        # Samples of one group are alike, so that scores of groups are not exchangeable one by one.
        self._is_exact = split is not None and split.exact and split.groups is None
        self._bands = find_near_bands(model, held_out, scores, self.near)
        # Held-out scores are stored with the model; those of a calibration split are computed anew.
        self._fingerprint = saved.compute_fingerprint(model, held_out.scores)

    # -- recording -----------------------------------------------------------------------------------------

    def update(self, X: Any) -> Decisions:
        """Decide on samples and record the decisions.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Samples in the order of the stream.

        Returns
        -------
        Decisions
            As the model's ``decide`` returns them.
        """
        decisions = self.model.decide(X)
        self.record(decisions)
        return decisions

    def record(self, decisions: Decisions) -> list[BlockCounts]:
        """Record decisions of the model that have been made already.

        Parameters
        ----------
        decisions : Decisions
            In the order of the stream.

        Returns
        -------
        list of BlockCounts
            The blocks that these samples complete.
        """
        score, rejected, candidate = self._check_decisions(decisions)
        near = self._find_near(score, candidate)
        completed, i = [], 0
        while i < len(score):
            if self._martingale.samples == self.horizon and self.alarm is None:
                self.restart()
            # A watch with an alarm lasts until somebody restarts it: beyond its horizon samples are only counted.
            left = self.horizon - self._martingale.samples
            n = min(self._history.room, left or len(score))
            part = slice(i, i + n)
            self._bet(score[part])
            capital = self._martingale.log_capital
            done = self._history.add(rejected[part], near[part], candidate[part], capital)
            if done is not None:
                completed.append(done)
            i += n
        self._blocks += len(completed)
        return completed

    def restart(self) -> None:
        """Begin a new watch: the capital is 1 again, and earlier samples of the stream are forgotten.

        Counts, history and earlier alarms stay.
        """
        self._watch += 1
        self._watch_start = self.samples
        self._martingale = ConformalMartingale(self.horizon)
        self._bag = RankBag(self._known_scores if self.reference == "calibration" else np.empty(0))

    def _bet(self, score: Array) -> None:
        """Turn scores into p-values and bet on them; remember the first alarm of the watch."""
        u = 1.0 - self._random.random(len(score))
        if self._martingale.samples == self.horizon:
            self.samples += len(score)
            return
        log_capital, change = self._martingale.bet(self._bag.rank(score, u))
        first, start = self.samples, self._watch_start
        self.samples += len(score)
        if self.alarm is None:
            above = np.flatnonzero(log_capital >= -math.log(self.false_alarm_rate))
            if len(above):
                at = int(above[0])
                self._alarms.append(Alarm(self._watch, first + at, start + int(change[at])))
                del self._alarms[: -saved.MOST_ALARMS]

    def _check_decisions(self, decisions: Any) -> tuple[Array, AnyArray, IntArray]:
        """Return scores without NaN, rejections and numbers of candidates of decisions."""
        if not isinstance(decisions, Decisions):
            raise ValueError(f"decisions must be what decide returns, got {type(decisions).__name__}.")
        model = self.model
        if len(model.classes_) != len(self._classes) or not np.array_equal(model.thresholds_, self._thresholds):
            raise ValueError("model was changed after its monitor was made: make a new Monitor.")
        score = np.asarray(decisions.unknown_score, dtype=np.float64)
        rejected, named = np.asarray(decisions.rejected, dtype=bool), np.asarray(decisions.candidate)
        if not score.shape == rejected.shape == named.shape or score.ndim != 1:
            raise ValueError("decisions must have as many scores and candidates as rejections.")
        candidate = self._find_candidates(named)
        # A sample without a score, because its numbers were too large, is rejected: its score is the end of the scale.
        lost = np.isnan(score)
        return np.where(lost, model.score_range[1], score), rejected | lost, candidate

    def _find_candidates(self, named: AnyArray) -> IntArray:
        """Return the numbers of classes."""
        try:
            places = np.minimum(np.searchsorted(self._classes, named), len(self._classes) - 1)
            right = bool(np.all(self._classes[places] == named))
        except (TypeError, ValueError):  # text and numbers cannot be compared
            right = False
        if not right:
            raise ValueError("decisions has candidates that are no classes of the model: record those of this model.")
        return places.astype(np.int64)

    def _find_near(self, score: Array, candidate: IntArray) -> AnyArray:
        if self._bands is None:
            return np.zeros(len(score), dtype=bool)
        band = self._bands[candidate]
        return (band[:, 0] <= score) & (score <= band[:, 1])

    # -- results -------------------------------------------------------------------------------------------

    @property
    def alarm(self) -> Alarm | None:
        """The alarm of the current watch, if there is one."""
        last = self._alarms[-1] if self._alarms else None
        return last if last is not None and last.watch == self._watch else None

    @property
    def blocks(self) -> tuple[BlockCounts, ...]:
        """The history: complete blocks, older ones merged where there are many."""
        return tuple(self._history.complete)

    @property
    def target(self) -> float | None:
        """Share of known samples that the threshold is meant to reject, None if it was chosen otherwise."""
        model = self.model
        if model.threshold_info_.kind not in ("target", "conformal"):
            return None
        given = model._threshold_arguments.get("target_rejection")
        return float(model.target_rejection if given is None else given)

    @property
    def summary(self) -> MonitorReport:
        """All facts about the stream so far."""
        whole, recent = self._history.sum_all(), self._history.sum_recent()
        watch, defined = self._martingale, self._bands is not None
        return MonitorReport(
            samples=self.samples,
            false_alarm_rate=self.false_alarm_rate,
            reference=self.reference,
            exact=self.reference == "stream" or self._is_exact,
            reference_samples=len(self._known_scores) if self.reference == "calibration" else 0,
            watch=self._watch,
            watch_start=self._watch_start,
            horizon=self.horizon,
            alarm=self.alarm,
            alarms=tuple(self._alarms),
            log10_capital=watch.log_capital / math.log(10.0),
            log10_peak=watch.log_peak / math.log(10.0),
            log10_alarm=-math.log10(self.false_alarm_rate),
            rejected=estimate_rate(whole.rejected, whole.samples),
            rejected_recent=estimate_rate(recent.rejected, recent.samples),
            target=self.target,
            near=estimate_rate(whole.near, whole.samples) if defined else None,
            near_recent=estimate_rate(recent.near, recent.samples) if defined else None,
            block=self.block,
            blocks=self._blocks,
            classes=self._measure_mix(whole, recent),
        )

    def _measure_mix(self, whole: BlockCounts, recent: BlockCounts) -> tuple[ClassShare, ...]:
        first = self._history.first
        none: list[float | None] = [None] * len(self._classes)
        columns = [none if block is None else _compute_shares(block) for block in (first, whole, recent)]
        labels = [format_label(label) for label in self._classes.tolist()]
        return tuple(ClassShare(label, *shares) for label, *shares in zip(labels, *columns, strict=True))

    def describe_block(self, block: BlockCounts) -> dict[str, Any]:
        """Return a JSON-serializable dict of what was counted in a block.

        Parameters
        ----------
        block : BlockCounts
            One of those that ``record`` returns, or of ``blocks``.
        """
        rejected, near = estimate_rate(block.rejected, block.samples), estimate_rate(block.near, block.samples)
        labels = [format_label(label) for label in self._classes.tolist()]
        alarms = [alarm.sample for alarm in self._alarms if block.start <= alarm.sample < block.end]
        return {
            "start": block.start,
            "samples": block.samples,
            "rejected": asdict(rejected),
            "near": asdict(near) if self._bands is not None else None,
            "accepted": dict(zip(labels, block.accepted.tolist(), strict=True)),
            "log10_capital": block.log_capital / math.log(10.0),
            "alarm": alarms[0] if alarms else None,
        }

    def plot(self, figure: Figure | None = None) -> MonitorDisplay:
        """Draw rejection rate, capital, share near the threshold and mix of classes over time.

        Parameters
        ----------
        figure : Figure, optional
            An empty figure to draw into; by default a new one, made with pyplot. Samples after the last complete block
            are drawn as a block, too.

        Returns
        -------
        MonitorDisplay
        """
        from .monitor_display import MonitorDisplay

        current = self._history.current
        return MonitorDisplay(self.summary, [*self.blocks, *([current] if current.samples else [])]).plot(figure)

    # -- files ---------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the state to a JSON file, from which ``load`` goes on as if there had been no interruption.

        Parameters
        ----------
        path : path
        """
        saved.write_state(path, {
            "model": self._fingerprint,
            "settings": {name: getattr(self, name) for name in _SETTINGS},
            "samples": self.samples,
            "blocks": self._blocks,
            "watch": {"number": self._watch, "start": self._watch_start},
            "bag": saved.encode_scores(self._bag.scores),
            "martingale": saved.martingale_state(self._martingale),
            "history": saved.history_state(self._history),
            "alarms": [asdict(alarm) for alarm in self._alarms],
        })  # fmt: skip

    @classmethod
    def load(cls, path: PathLike, model: OpenSetClassifier) -> Monitor:
        """Return the monitor whose state is in a file.

        Parameters
        ----------
        path : path
            A file that ``save`` wrote.
        model : fitted open set classifier
            The model that was monitored, as it was then.

        Raises
        ------
        ValueError
            If the file is not the state of a monitor, or of another model.
        """
        _check_model(model)
        state = saved.read_state(path)
        try:
            monitor = cls._restore(state, model)
        except saved.OtherModel:
            raise ValueError(
                f"{path} is the state of a monitor of another model, or of this one before its classes or threshold "
                "changed: use the model of the state, or begin with a new file."
            ) from None
        except saved.InvalidState as error:
            raise ValueError(f"{path} is a damaged state of a monitor: {error}.") from None
        return monitor

    @classmethod
    def _restore(cls, state: dict[str, Any], model: OpenSetClassifier) -> Monitor:
        """Rebuild a monitor from its saved dict."""
        if saved.get_text(state, "model") != saved.compute_fingerprint(model, model._held_out_scores().scores):
            raise saved.OtherModel
        settings = saved.get_part(state, "settings")
        if set(settings) != set(_SETTINGS):
            raise saved.InvalidState("settings has not the names that it should have")
        try:
            monitor = cls(model, **settings)
        except ValueError as error:
            raise saved.InvalidState(str(error).rstrip(".")) from None
        monitor.samples, monitor._blocks = saved.get_count(state, "samples"), saved.get_count(state, "blocks")
        watch = saved.get_part(state, "watch")
        monitor._watch, monitor._watch_start = saved.get_count(watch, "number"), saved.get_count(watch, "start")
        martingale = saved.restore_martingale(saved.get_part(state, "martingale"), monitor.horizon)
        history = saved.restore_history(saved.get_part(state, "history"), monitor.block, len(monitor._classes))
        seen, bet = monitor.samples - monitor._watch_start, martingale.samples
        if monitor._watch < 1 or seen < bet or (seen > bet and bet < monitor.horizon):
            raise saved.InvalidState("watch does not agree with samples")
        if history.current.end != monitor.samples or history.current.start != monitor._blocks * monitor.block:
            raise saved.InvalidState("history does not agree with samples")
        n_bag = martingale.samples + len(monitor._bag)
        monitor._bag = RankBag(saved.get_scores(state, "bag", n_bag))
        monitor._martingale, monitor._history = martingale, history
        monitor._alarms = saved.restore_alarms(state, monitor._watch, monitor.samples)
        if seen > bet and monitor.alarm is None:
            raise saved.InvalidState("watch goes on beyond its horizon without an alarm")
        # Each sample takes one random number.
        monitor._random.bit_generator.advance(monitor.samples)  # type: ignore[attr-defined]
        return monitor


def _check_model(model: Any) -> None:
    if not isinstance(model, OpenSetClassifier):
        hint = ""
        if hasattr(model, "steps"):
            hint = "; give its last step, pipeline[-1], and record what pipeline.decide returns"
        raise ValueError(f"model must be a fitted open set classifier of srosr, got {type(model).__name__}{hint}.")
    check_is_fitted(model, "classes_")


def _check_size(name: str, value: Any) -> int:
    size: int = check_count(name, value)
    if size > _LARGEST_SIZE:
        raise ValueError(f"{name} must be an integer of at most {_LARGEST_SIZE}, got {value!r}.")
    return size


def _compute_shares(block: BlockCounts) -> list[float | None]:
    """Return the shares of classes among the accepted samples of a block, None if there are none."""
    total = int(block.accepted.sum())
    return (block.accepted / total).tolist() if total else [None] * len(block.accepted)


def find_near_bands(model: OpenSetClassifier, held_out: HeldOutScores, scores: Array, factor: float) -> Array | None:
    r"""Return the lowest and the highest score near the threshold of each class, (n_classes, 2).

    A threshold rejects some share :math:`\tau` of known samples. A sample is near it if a threshold for the share
    :math:`f \tau`, or for :math:`\tau / f`, would have decided otherwise. Where one minus the unknown score is a
    p-value, these thresholds are p-values f times as large and as small. Otherwise they are quantiles of ``scores``,
    those of known samples that the model was not fitted to; where :math:`\tau` is zero the band begins at the quantile
    for 1/n and ends as far beyond the threshold. None if there are no such scores.
    """
    thresholds = np.asarray(model.thresholds_, dtype=np.float64)
    lowest, highest = model.score_range
    if not len(scores):
        return None
    if held_out.is_p_value:
        p = 1.0 - thresholds
        return np.column_stack([np.maximum(1.0 - factor * p, lowest), 1.0 - p / factor])
    ordered = np.sort(scores)
    return np.array([_find_band(ordered, float(value), factor, lowest, highest) for value in thresholds])


def _find_band(ordered: Array, threshold: float, factor: float, lowest: float, highest: float) -> tuple[float, float]:
    n = len(ordered)
    above = n - int(np.searchsorted(ordered, threshold, side="right"))
    low = _find_quantile(ordered, factor * max(above, 1), lowest)
    if above:
        high = _find_quantile(ordered, above / factor, lowest)
    else:
        high = 2.0 * threshold - low if math.isfinite(low) and math.isfinite(threshold) else threshold
    return min(low, threshold), min(max(high, threshold), highest)


def _find_quantile(ordered: Array, above: float, lowest: float) -> float:
    """Return the smallest score with at most so many scores above it, the end of the scale if all may be."""
    place = len(ordered) - 1 - math.floor(above + 1e-9)
    return float(ordered[place]) if place >= 0 else lowest
