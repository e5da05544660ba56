"""Where the time of an experiment went, in the same words for the report and the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._support.number_format import duration, seconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["time_spent", "times_by_method"]


def time_spent(times: pd.DataFrame) -> tuple[float, float]:
    """Seconds that fitting, predicting and measuring took in all, and the share of coding in them.

    Rows without the seconds of a fit, where a fit failed or a process died, count nowhere; of no time at all the share
    is NaN.

    Parameters
    ----------
    times : DataFrame
        With the columns fit_seconds, predict_seconds, measure_seconds and coding_seconds.
    """
    whole = times[times["fit_seconds"].notna()]
    spent = sum(float(whole[f"{kind}_seconds"].sum()) for kind in ("fit", "predict", "measure"))
    # Clocks are read at different moments.
    return spent, min(float(whole["coding_seconds"].sum()) / spent, 1.0) if spent > 0 else math.nan


def times_by_method(times: pd.DataFrame, methods: Sequence[str]) -> dict[str, Any]:
    """Seconds of each method, a trial, and how much of them went into coding, as text.

    Parameters
    ----------
    times : DataFrame
    methods : sequence of str
        In the order of the rows; those without times have none.
    """
    rows = []
    for name in methods:
        own = times[(times["method"] == name) & times["fit_seconds"].notna()]
        if own.empty:
            continue
        spent, share = time_spent(own)
        kinds = ("fit", "predict", "measure")
        row = {kind: seconds(float(own[f"{kind}_seconds"].sum()) / len(own)) for kind in kinds}
        row |= {"method": name, "all": duration(spent), "coding": _percent(share), "rest": _percent(1.0 - share)}
        rows.append(row)
    return {"rows": rows, "total": duration(time_spent(times)[0])}


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.0f} %"
