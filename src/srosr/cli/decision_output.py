"""From rows to decisions in a file, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

from .errors import InputError, check_device_option, end_sentence
from .input_data import get_imputer, prepare_features, read_batches

if TYPE_CHECKING:
    from .._support.array_types import Array
    from ..classifiers import Decisions, OpenSetClassifier
    from ..tables import Rows, RowSource


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
    from ..tables import DecisionWriter

    imputes = get_imputer(clf) is not None
    writer = None
    n = rejected = 0
    deciding = _start_deciding(clf, source) if fdr is None else nullcontext(_decide_together(clf, source, fdr))
    with deciding as batches:
        for rows, decisions, share in batches:
            if writer is None:
                asked = {"prediction_set": coverage is not None, "p_value": fdr is not None, "imputed": imputes}
                writer = DecisionWriter(
                    stream, kind, list(rows.kept), origin, more=[name for name in asked if asked[name]]
                )
            more: dict[str, Any] = {"p_value": decisions.p_value, "imputed": measure_gaps(rows.X) if imputes else None}
            if coverage is not None:
                more["prediction_set"] = list_sets(clf, rows, coverage)
            writer.write(rows.numbers, decisions, rows.kept, more)
            n, rejected = n + len(decisions), rejected + int(decisions.rejected.sum())
            on_rows(n, share)
    if writer is not None:
        writer.close()
    return n, rejected


@contextmanager
def _start_deciding(
    clf: OpenSetClassifier, source: RowSource
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
        return rows, decide_rows(decider, source, rows, X), share

    with ThreadPool(n_threads) as pool:
        yield map_ahead(decide, chain(first, batches), pool)


def _decide_together(
    clf: OpenSetClassifier, source: RowSource, fdr: float
) -> Iterator[tuple[Rows, Decisions, float | None]]:
    """Yield the decisions on all rows, made together with a false discovery rate."""
    rows = source.read()
    X = prepare_features(clf, rows.X)
    try:
        decisions = clf.decide(X, fdr=fdr)
    except ValueError as error:
        raise make_sample_error(source, int(rows.numbers[_find_error(clf, X)]), error) from None
    yield rows, decisions, 1.0


def list_sets(clf: OpenSetClassifier, rows: Rows, coverage: float) -> list[str]:
    """Return the prediction set of each row as text, with a bar between classes."""
    from .._support.unknown_label import format_label

    sets = clf.prediction_set(prepare_features(clf, rows.X), coverage)  # type: ignore[attr-defined]
    return ["|".join(format_label(label) for label in classes.tolist()) for classes in sets]


def measure_gaps(X: Array) -> Array:
    """Return the share of the values of each row that is missing."""
    from numpy import isnan

    return isnan(X).mean(axis=1)


def decide_rows(clf: OpenSetClassifier, source: RowSource, rows: Rows, X: Any) -> Decisions:
    """Return the decisions on a batch; an error of a sample, such as an overflow, names the file and the row."""
    try:
        return clf.decide(X)
    except ValueError as error:
        row = int(rows.numbers[_find_error(clf, X)])
        raise make_sample_error(source, row, error) from None


def make_sample_error(source: RowSource, row: int, error: ValueError) -> InputError:
    """Return the error for a sample that a classifier does not take."""
    reason = end_sentence(str(error).removeprefix("X: "))
    return InputError(f"{source.name} has a sample in row {row} that cannot be predicted: {reason}")


def _find_error(clf: OpenSetClassifier, X: Any) -> int:
    """Return the place of the first sample that is an error, given that there is one."""
    first, end = 0, len(X)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            clf.decide(X[first:middle])
        except ValueError:
            end = middle
        else:
            first = middle
    return first


def set_device(clf: OpenSetClassifier, device: str) -> None:
    """Give a classifier its device; raise if it is not there, or if the method codes nothing."""
    found = check_device_option(device)
    if hasattr(clf, "device"):
        clf.device = device
    elif found is not None and device != "auto":
        from ..rivals import method_name

        raise InputError(f"--device {device}: {method_name(clf)} codes no samples and runs on the CPU; leave it out.")


def set_threads(clf: OpenSetClassifier, jobs: int | None) -> None:
    """Give a classifier its number of threads: as many as there are cores if None."""
    if hasattr(clf, "n_jobs"):
        clf.n_jobs = jobs or -1
