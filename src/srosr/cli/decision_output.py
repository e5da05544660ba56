"""From rows to decisions in a file, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

from ..operations.model_input import get_imputer, name_features, read_batches
from ..operations.sample_decisions import decide_rows, list_sets, measure_gaps

if TYPE_CHECKING:
    from ..classifiers.base import Decisions, OpenSetClassifier
    from ..tables.row_source import Rows, RowSource


def write_decisions(
    clf: OpenSetClassifier,
    source: RowSource,
    stream: BinaryIO,
    kind: str,
    on_rows: Callable[[int, float | None], None],
    origin: dict[str, Any] | None = None,
    *,
    fdr: float | None = None,
    coverage: float | None = None,
) -> tuple[int, int]:
    """Write the decisions on all rows; return the numbers of rows and of rejected rows.

    ``on_rows`` is called after each batch with the number of rows so far and the share of the file, if known. With a
    false discovery rate ``fdr`` all rows are read and decided together; with a ``coverage`` there are prediction sets.
    """
    from ..tables.decision_files import DecisionWriter

    imputes = get_imputer(clf) is not None
    writer = None
    n = rejected = 0
    together = None if fdr is None else _decide_together(clf, source, fdr, coverage)
    deciding = _start_deciding(clf, source, coverage) if together is None else nullcontext(together)
    with deciding as batches:
        for rows, decisions, share in batches:
            if writer is None:
                asked = {"prediction_set": coverage is not None, "p_value": fdr is not None, "imputed": imputes}
                writer = DecisionWriter(
                    stream, kind, list(rows.kept), origin, more=[name for name in asked if asked[name]]
                )
            more: dict[str, Any] = {"p_value": decisions.p_value, "imputed": measure_gaps(rows.X) if imputes else None}
            if decisions.prediction_set is not None:
                more["prediction_set"] = list_sets(decisions.prediction_set)
            writer.write(rows.numbers, decisions, rows.kept, more)
            n, rejected = n + len(decisions), rejected + int(decisions.rejected.sum())
            on_rows(n, share)
    if writer is not None:
        writer.close()
    return n, rejected


@contextmanager
def _start_deciding(
    clf: OpenSetClassifier, source: RowSource, coverage: float | None
) -> Iterator[Iterator[tuple[Rows, Decisions, float | None]]]:
    """Give batches of rows, the decisions on them, and the share of the file up to their end.

    Several batches are decided at a time, each on one thread, while others are read and written; on a device one after
    the other. Where one may not read ahead, or there is a single batch, its rows are divided among the threads.
    """
    from joblib import effective_n_jobs

    from .._support.devices import find_device
    from .._support.threads import ThreadPool, map_ahead

    batches = ((rows, X, source.fraction) for rows, X in read_batches(clf, source))
    n_threads = int(effective_n_jobs(getattr(clf, "n_jobs", 1))) if source.may_read_ahead else 1
    first = list(islice(batches, 2 if n_threads > 1 else 0))
    decider = copy(clf)
    if len(first) == 2 and find_device(getattr(clf, "device", "cpu")) is not None:
        n_threads = 1
    elif len(first) == 2:
        decider.n_jobs = 1  # type: ignore[attr-defined]
    else:
        n_threads = 0

    def decide(batch: tuple[Rows, Any, float | None]) -> tuple[Rows, Decisions, float | None]:
        rows, X, share = batch
        return rows, decide_rows(decider, source.name, rows.numbers, X, coverage=coverage), share

    with ThreadPool(n_threads) as pool:
        yield map_ahead(decide, chain(first, batches), pool)


def _decide_together(
    clf: OpenSetClassifier, source: RowSource, fdr: float, coverage: float | None
) -> Iterator[tuple[Rows, Decisions, float | None]]:
    """Yield the decisions on all rows, made together with a false discovery rate."""
    rows = source.read()
    X = name_features(clf, rows.X)
    yield rows, decide_rows(clf, source.name, rows.numbers, X, fdr=fdr, coverage=coverage), 1.0
