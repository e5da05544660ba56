"""scikit-learn's estimator checks, for ours and for the detectors of PyOD."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

from benchmarks.peer_methods.contestants import CONTESTANTS, DETECTORS, pyod_detector


def estimator_checks() -> list[dict[str, Any]]:
    """Return how many checks each estimator passes, fails and skips, and the names of those it fails."""
    from sklearn.utils.estimator_checks import check_estimator

    from srosr import SROSRClassifier

    estimators = {"srosr SROSRClassifier": SROSRClassifier(n_repeats=2, random_state=0)}
    if CONTESTANTS[f"PyOD {next(iter(DETECTORS))} per class"].skip_reason() is None:
        estimators |= {f"PyOD {name}": pyod_detector(name)(0) for name in DETECTORS}
    lines = []
    for name, estimator in estimators.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(estimator, on_skip=None, on_fail=None)
        counts = Counter(result["status"] for result in results)
        failed = sorted({result["check_name"] for result in results if result["status"] == "failed"})
        lines.append(
            {"estimator": name, **{key: counts[key] for key in ("passed", "failed", "skipped")}, "names": failed}
        )
    return lines
