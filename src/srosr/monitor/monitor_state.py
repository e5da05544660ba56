"""The file of a monitor's state: JSON with every field checked when it is read.

Scores are the bytes of little-endian float64 numbers in base64, so that they come back to the last bit; all else is
readable. The file names its model by a fingerprint.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.atomic_files import PathLike, write_atomically
from .._support.unknown_label import format_label
from ..classifiers.base import OpenSetClassifier
from .block_counts import MOST_BLOCKS, BlockCounts, BlockHistory
from .conformal_martingale import N_ARMS, ConformalMartingale
from .monitor_report import Alarm

FORMAT, VERSION = "srosr-monitor", 1
#: Alarms that are kept.
MOST_ALARMS = 100
#: The largest integer that every reader of JSON takes.
_LARGEST = 2**53
#: Larger logarithms of the capital than a watch can reach.
_LARGEST_LOG = 1e12


class InvalidState(Exception):
    """A field of a state that is missing or not valid; the text names it."""


class OtherModel(Exception):
    """The state is that of a monitor of another model."""


def compute_fingerprint(model: OpenSetClassifier, scores: Array) -> str:
    """Return a text that differs for models with other classes, features, thresholds or calibration scores.

    Numbers count with six digits: the last ones of a score may depend on the machine.
    """
    parts = [
        type(model).__name__, str(int(model.n_features_in_)),
        *(format_label(label) for label in model.classes_.tolist()),
        *(f"{value:.6g}" for value in np.asarray(model.thresholds_).tolist()),
        *(f"{value:.6g}" for value in np.asarray(scores, dtype=np.float64).tolist()),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def write_state(path: PathLike, state: dict[str, Any]) -> None:
    """Write a state to a file, completely or not at all."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **state}, allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def read_state(path: PathLike) -> dict[str, Any]:
    """Return what is in a file; raise a ValueError unless it is a state of a version that is known."""
    try:
        found = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):  # bad JSON, not UTF-8, nested too deeply, integers of thousands of digits
        raise ValueError(f"{path} is not the state of a monitor: it is not JSON, or damaged.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is not the state of a monitor: its format is not {FORMAT!r}.")
    if found.get("version") != VERSION or isinstance(found["version"], bool):
        version = str(found.get("version"))[:20]
        raise ValueError(f"{path} has version {version} of the state of a monitor; this release reads {VERSION}.")
    return found


# -- checks of fields --------------------------------------------------------------------------------------


def get_part(state: Any, name: str) -> dict[str, Any]:
    """Return a field that is an object."""
    return _check(name, _get(state, name), dict)


def get_count(state: Any, name: str, most: int = _LARGEST) -> int:
    """Return a field that is an integer from 0 to ``most``."""
    value = _get(state, name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidState(f"{name} is not an integer from 0 to {most}")
    return value


def get_text(state: Any, name: str) -> str:
    """Return a field that is text."""
    return _check(name, _get(state, name), str)


def _get_log(state: Any, name: str) -> float:
    return _check_log(name, _get(state, name))


def _check_log(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= _LARGEST_LOG:
        raise InvalidState(f"{name} is not the logarithm of a capital")
    return float(value)


def _get(state: Any, name: str) -> Any:
    if not isinstance(state, dict) or name not in state:
        raise InvalidState(f"{name} is missing")
    return state[name]


def _check(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise InvalidState(f"{name} has the wrong type")
    return value


def _get_list(state: Any, name: str, length: int | None = None) -> list[Any]:
    values: list[Any] = _check(name, _get(state, name), list)
    if length is not None and len(values) != length:
        raise InvalidState(f"{name} has {len(values)} entries instead of {length}")
    return values


# -- scores ------------------------------------------------------------------------------------------------


def encode_scores(scores: Array) -> str:
    """Return scores as text."""
    return base64.b64encode(np.ascontiguousarray(scores, dtype="<f8").tobytes()).decode()


def get_scores(state: Any, name: str, length: int) -> Array:
    """Return a field that holds sorted scores."""
    text = get_text(state, name)
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise InvalidState(f"{name} is not base64") from None
    if len(content) != 8 * length:
        raise InvalidState(f"{name} has not the {length} scores that it should have")
    scores = np.frombuffer(content, dtype="<f8").astype(np.float64)
    if np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
        raise InvalidState(f"{name} is not sorted, or has a score that is no number")
    return scores


# -- the martingale ----------------------------------------------------------------------------------------


def martingale_state(martingale: ConformalMartingale) -> dict[str, Any]:
    """Return a martingale as a JSON-serializable dict; before the first sample the arms have nothing to say."""
    begun = slice(None) if martingale.samples else slice(0)
    return {
        "samples": martingale.samples,
        "log_capital": martingale.log_capital,
        "log_peak": martingale.log_peak,
        "log_money": martingale.log_money[begun].tolist(),
        "log_best": martingale.log_best[begun].tolist(),
        "best_start": martingale.best_start[begun].tolist(),
    }


def restore_martingale(state: Any, horizon: int) -> ConformalMartingale:
    """Rebuild a martingale from its saved dict."""
    martingale = ConformalMartingale(horizon, get_count(state, "samples", horizon))
    n = N_ARMS if martingale.samples else 0
    capital, peak = _get_log(state, "log_capital"), _get_log(state, "log_peak")
    if peak < max(capital, 0.0) or (not n and (capital, peak) != (0.0, 0.0)):
        raise InvalidState("log_peak is below log_capital or 0, or above it before the first sample")
    martingale.log_capital, martingale.log_peak = capital, peak
    money, best = (_get_list(state, name, n) for name in ("log_money", "log_best"))
    start = _get_list(state, "best_start", n)
    if n:
        martingale.log_money = np.array([_check_log("log_money", value) for value in money])
        martingale.log_best = np.array([_check_log("log_best", value) for value in best])
        last = martingale.samples - 1
        martingale.best_start = _to_integers(start, "best_start", last)
    return martingale


def _to_integers(values: list[Any], name: str, most: int = _LARGEST) -> IntArray:
    return np.array([get_count({name: value}, name, most) for value in values], dtype=np.int64)


# -- blocks ------------------------------------------------------------------------------------------------


def history_state(history: BlockHistory) -> dict[str, Any]:
    """Return a history as a JSON-serializable dict."""
    return {
        "first": None if history.first is None else history.first.to_dict(),
        "complete": [block.to_dict() for block in history.complete],
        "current": history.current.to_dict(),
    }


def restore_history(state: Any, size: int, n_classes: int) -> BlockHistory:
    """Rebuild a history of blocks from its saved dict."""
    blocks = [_restore_block(one, n_classes) for one in _get_list(state, "complete")]
    if len(blocks) > MOST_BLOCKS:
        raise InvalidState(f"complete has more than {MOST_BLOCKS} blocks")
    current = _restore_block(get_part(state, "current"), n_classes)
    end = 0
    for block in blocks:
        if block.start != end or block.samples == 0 or block.samples % size:
            raise InvalidState("complete has blocks that do not follow each other, or of a wrong size")
        end = block.end
    if current.start != end or current.samples >= size or (blocks and blocks[-1].samples != size):
        raise InvalidState("current or the last block has a wrong start or size")
    first = None if _get(state, "first") is None else _restore_block(get_part(state, "first"), n_classes)
    if (first is None) != (not blocks) or (first is not None and (first.start, first.samples) != (0, size)):
        raise InvalidState("first is not the first block")
    return BlockHistory(size, current, first, blocks)


def _restore_block(state: Any, n_classes: int) -> BlockCounts:
    start, samples = get_count(state, "start"), get_count(state, "samples")
    rejected, near = get_count(state, "rejected", samples), get_count(state, "near", samples)
    accepted = _to_integers(_get_list(state, "accepted", n_classes), "accepted", samples)
    if rejected + int(accepted.sum()) != samples:
        raise InvalidState("a block does not count every sample once, as rejected or as accepted")
    return BlockCounts(start, samples, rejected, near, accepted, _get_log(state, "log_capital"))


# -- alarms ------------------------------------------------------------------------------------------------


def restore_alarms(state: Any, watch: int, samples: int) -> list[Alarm]:
    """Rebuild the list of alarms, at most one of each watch."""
    alarms: list[Alarm] = []
    for one in _get_list(state, "alarms"):
        alarm = Alarm(*(get_count(one, name) for name in ("watch", "sample", "change")))
        before = alarms[-1] if alarms else Alarm(0, -1, -1)
        if not (before.watch < alarm.watch <= watch and before.sample < alarm.sample < samples):
            raise InvalidState("alarms is not in order")
        if alarm.change > alarm.sample:
            raise InvalidState("alarms has a change after its alarm")
        alarms.append(alarm)
    if len(alarms) > MOST_ALARMS:
        raise InvalidState(f"alarms has more than {MOST_ALARMS} entries")
    return alarms
