"""What a monitor has seen, as numbers and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .._support.messages import count_of

#: The confidence of intervals of rates.
CONFIDENCE = 0.95
#: Classes named in the text; ``to_dict`` has all.
_MOST_CLASSES = 12


@dataclass(frozen=True)
class RateEstimate:
    """A share of samples with its exact (Clopper–Pearson) 95 % interval.

    Attributes
    ----------
    count, samples : int
        How many of how many samples.
    share, low, high : float or None
        The share and the ends of its interval, None if there are no samples.
    """

    count: int
    samples: int
    share: float | None
    low: float | None
    high: float | None


def estimate_rate(count: int, samples: int) -> RateEstimate:
    """Return a share of samples with its Clopper–Pearson interval.

    Examples
    --------
    >>> rate = estimate_rate(0, 10)
    >>> rate.share, rate.low, round(rate.high, 4)
    (0.0, 0.0, 0.3085)
    """
    if samples == 0:
        return RateEstimate(count, samples, None, None, None)
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - CONFIDENCE)
    low = float(betaincinv(count, samples - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, samples - count, 1.0 - tail)) if count < samples else 1.0
    return RateEstimate(count, samples, count / samples, low, high)


@dataclass(frozen=True)
class ClassShare:
    """The share of a class among accepted samples.

    Attributes
    ----------
    label : str
    first, all, recent : float or None
        Among those of the first block, of the whole stream, and of the last complete block with the samples after it;
        None if none was accepted.
    """

    label: str
    first: float | None
    all: float | None
    recent: float | None


@dataclass(frozen=True)
class Alarm:
    """An alarm.

    Attributes
    ----------
    watch : int
        Number of the watch, counted from 1.
    sample : int
        The sample at which it was raised, counted from 0 over everything that the monitor has seen.
    change : int
        The sample at which the change probably began.
    """

    watch: int
    sample: int
    change: int


@dataclass(frozen=True)
class MonitorReport:
    """The facts about a stream; ``str`` of it is a text.

    Attributes
    ----------
    samples : int
        Number of samples so far. Samples are counted from 0.
    false_alarm_rate : float
        The most that the probability of an alarm is, in a watch of a stream that does not change.
    reference : {"stream", "calibration"}
    exact : bool
        Whether the rate is guaranteed: always for "stream", for "calibration" if the model has a calibration split.
    reference_samples : int
        Calibration scores that the samples of the stream are compared with, 0 for "stream".
    watch, watch_start, horizon : int
        Number of the current watch, its first sample, and the most samples of a watch.
    alarm : Alarm or None
        The alarm of the current watch.
    alarms : tuple of Alarm
        The latest alarms of all watches.
    log10_capital, log10_peak : float
        Of the current watch: the capital, and its highest value.
    log10_alarm : float
        The capital at which the alarm is raised.
    rejected, rejected_recent : RateEstimate
        Of all samples, and of the last complete block with the samples after it.
    target : float or None
        Share of known samples that the threshold of the model is meant to reject.
    near, near_recent : RateEstimate or None
        Samples near the threshold; None if the model has no held-out scores to define what is near.
    block, blocks : int
        Samples of a block, and the number of complete blocks.
    classes : tuple of ClassShare
    """

    samples: int
    false_alarm_rate: float
    reference: str
    exact: bool
    reference_samples: int
    watch: int
    watch_start: int
    horizon: int
    alarm: Alarm | None
    alarms: tuple[Alarm, ...]
    log10_capital: float
    log10_peak: float
    log10_alarm: float
    rejected: RateEstimate
    rejected_recent: RateEstimate
    target: float | None
    near: RateEstimate | None
    near_recent: RateEstimate | None
    block: int
    blocks: int
    classes: tuple[ClassShare, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        found = asdict(self)
        return found | {"alarms": list(found["alarms"]), "classes": list(found["classes"])}

    def list_facts(self) -> list[tuple[str, str]]:
        """Return the facts, each a name and a text."""
        facts = [
            ("samples", self._describe_samples()),
            ("alarm", self._describe_alarm()),
            ("capital", self._describe_capital()),
            ("compared with", self._describe_reference()),
            ("rejected", self._describe_rates(self.rejected, self.rejected_recent) + self._describe_target()),
        ]
        if self.near is not None and self.near_recent is not None:
            facts.append(("near threshold", self._describe_rates(self.near, self.near_recent)))
        return [*facts, ("accepted", self._describe_classes())]

    def __str__(self) -> str:
        facts = self.list_facts()
        width = max(len(name) for name, _ in facts) + 2
        return "\n".join(f"{name:{width}s}{text}" for name, text in facts)

    def _describe_samples(self) -> str:
        text = f"{self.samples:,}, {count_of(self.blocks, 'complete block')} of {self.block:,}"
        if self.watch > 1:
            text += f"; watch {self.watch}, since sample {self.watch_start:,}"
        return text

    def _describe_alarm(self) -> str:
        promise = f"a stream without a change has one in at most {100 * self.false_alarm_rate:g} % of watches"
        if not self.exact:
            promise = promise.replace("in at most", "in about") + " or fewer"
        if self.alarm is not None:
            text = f"at sample {self.alarm.sample:,}, for a change near sample {self.alarm.change:,}; {promise}"
        else:
            text = f"none{' in this watch' if self.watch > 1 else ''}; {promise}"
        earlier = [alarm for alarm in self.alarms if alarm.watch != self.watch]
        if earlier:
            text += f"; the latest of {count_of(len(earlier), 'earlier alarm')} at sample {earlier[-1].sample:,}"
        return text

    def _describe_capital(self) -> str:
        now, peak, alarm = (f"10^{value:.1f}" for value in (self.log10_capital, self.log10_peak, self.log10_alarm))
        return f"{now.replace('10^-0.0', '10^0.0')}, at its highest {peak}; the alarm is at {alarm}"

    def _describe_reference(self) -> str:
        if self.reference == "stream":
            return "earlier samples of the stream: the promise is exact"
        scores = count_of(self.reference_samples, "calibration score")
        return f"{scores} and earlier samples: the promise is {'exact' if self.exact else 'approximate'}"

    def _describe_rates(self, whole: RateEstimate, recent: RateEstimate) -> str:
        text = _format_rate(whole)
        if recent.samples < whole.samples:
            text += f"; last {recent.samples:,}: {_format_rate(recent)}"
        return text

    def _describe_target(self) -> str:
        return "" if self.target is None else f"; target for known samples {100 * self.target:.3g} %"

    def _describe_classes(self) -> str:
        """Return the shares of classes, first the largest if there are many."""
        shown = self.classes
        if len(shown) > _MOST_CLASSES:
            shown = tuple(sorted(shown, key=lambda one: -(one.all or 0.0))[:_MOST_CLASSES])
        text = ", ".join(_format_class(one) for one in shown)
        more = len(self.classes) - len(shown)
        heading = "class and share of recent samples (of the first block): "
        return heading + text + (f" and {more:,} more" if more else "")


def _format_rate(rate: RateEstimate) -> str:
    if rate.share is None or rate.low is None or rate.high is None:
        return "no samples"
    return f"{100 * rate.share:.1f} % ({100 * rate.low:.1f} to {100 * rate.high:.1f})"


def _format_class(one: ClassShare) -> str:
    text = f"{one.label} {_format_share(one.recent)}"
    return text if one.first is None else f"{text} ({_format_share(one.first)})"


def _format_share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
