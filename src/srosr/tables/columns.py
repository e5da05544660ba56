"""Which column of a table is what: label, feature, carried along or left out. It sees names only, never a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from .._support.messages import count_of, did_you_mean, join_names, quote_names
from .row_source import ReadError

__all__ = ["LABEL_NAMES", "Roles", "Wanted", "assign_roles", "check_number"]

#: Names by which a column or array of labels is known, in any case.
LABEL_NAMES = ("label", "labels", "class", "target", "y")


@dataclass(frozen=True)
class Wanted:
    """What the caller wants from a file; :func:`srosr.tables.open_rows` explains each."""

    labels: Literal["required", "optional", "no"] = "optional"
    label: str | None = None
    usual_label: str | None = None
    has_label_file: bool = False
    features: tuple[str, ...] | int | None = None
    by_name: bool = False
    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    drop_missing: bool = False
    header: bool = True
    array: str | None = None

    @property
    def looks_for_labels(self) -> bool:
        """Whether labels are to be found in the file itself."""
        return self.labels != "no" and not self.has_label_file


@dataclass(frozen=True)
class Roles:
    """Places of the columns, by what they are."""

    features: tuple[int, ...]
    label: int | None
    kept: tuple[int, ...]
    notes: tuple[str, ...] = ()


def assign_roles(
    file: str,
    names: Sequence[str],
    wanted: Wanted,
    text_columns: Callable[[], Collection[int]],
    *,
    numbering: int | None = None,
    named: bool = True,
) -> Roles:
    """Say what each column is.

    Parameters
    ----------
    file : str
        The file, for messages.
    names : sequence of str
        Names of the columns, all different.
    wanted : Wanted
        What the caller wants.
    text_columns : callable
        Gives the places of the columns of text; called only where the label is to be guessed.
    numbering : int, optional
        Place of a column that only numbers the rows.
    named : bool
        Whether the names are the file's own; if not, features are matched by their number.
    """
    place = {name: number for number, name in enumerate(names) if number != numbering}
    for option, chosen in (("--ignore", wanted.ignore), ("--keep", wanted.keep), ("--label", _one(wanted.label))):
        for name in chosen:
            if name not in place:
                raise ReadError(_absent(file, name, option, list(place)))
    if wanted.label is not None and wanted.label in wanted.ignore:
        raise ReadError(
            f"{file} cannot have its labels in a column that is left out: {wanted.label!r} is --ignore too."
        )
    expected = wanted.features if named and isinstance(wanted.features, tuple) else ()
    kept = tuple(place[name] for name in wanted.keep)
    label = _label(file, names, place, wanted, set(expected), text_columns)
    aside = {numbering, label, *kept, *(place[name] for name in wanted.ignore)}
    aside |= {place[name] for name in wanted.passed_over if name in place and name not in expected}
    if wanted.label is not None:
        aside.add(place[wanted.label])
    rest = tuple(number for number in range(len(names)) if number not in aside)
    features, notes = _features(file, names, rest, wanted, named)
    if not features:
        hint = ": put a comma, semicolon, tab or | between values" if len(names) == 1 else ""
        raise ReadError(f"{file} has no column of numbers left for the features{hint}.")
    return Roles(features, label if wanted.looks_for_labels else None, kept, notes)


def _one(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _absent(file: str, name: str, option: str, names: Sequence[str]) -> str:
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(part in names for part in parts):
        return f"{file} has no column {name!r}: give {option} once for each column, as in {option} {parts[0]}."
    guess = did_you_mean(name, names)
    return f"{file} has no column {name!r}, which {option} names{guess}; it has {quote_names(names)}."


def _label(
    file: str,
    names: Sequence[str],
    place: dict[str, int],
    wanted: Wanted,
    expected: set[str],
    text_columns: Callable[[], Collection[int]],
) -> int | None:
    if wanted.label is not None:
        return place[wanted.label]
    if not wanted.looks_for_labels:
        return None
    possible = [name for name in place if name not in expected and name not in wanted.ignore]
    if wanted.usual_label in possible:
        return place[wanted.usual_label]
    called = [name for name in possible if name.lower() in LABEL_NAMES]
    if len(called) > 1:
        raise ReadError(
            f"{file} has several columns that may hold the labels ({quote_names(called)}): say which with --label "
            "COLUMN, and leave the others out with --ignore COLUMN."
        )
    if called:
        return place[called[0]]
    texts = text_columns()
    of_text = [name for name in possible if place[name] in texts and name not in wanted.keep]
    passed_over = [name for name in of_text if name in wanted.passed_over]
    if wanted.labels != "required" or len(passed_over) < len(of_text):
        of_text = [name for name in of_text if name not in passed_over]
    if len(of_text) == 1:
        return place[of_text[0]]
    if wanted.labels == "required":
        why = f"several columns of text ({quote_names(of_text)})" if of_text else "no column of text"
        raise ReadError(
            f"{file} has no column called {join_names(LABEL_NAMES, last='or')} and {why}: say where the "
            f"labels are with --label COLUMN (columns: {quote_names(list(place))})."
        )
    return None


def check_number(file: str, found: int, expected: int, *, in_columns: bool = True) -> None:
    """Refuse a file with another number of features than the model."""
    if found != expected:
        hint = "; --ignore COLUMN leaves one out" if in_columns and found > expected else ": give it the same features"
        raise ReadError(f"{file} has {count_of(found, 'feature')}, but the model was fitted with {expected}{hint}.")


def _features(
    file: str, names: Sequence[str], rest: tuple[int, ...], wanted: Wanted, named: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Places of the features in the order of the model, and notes."""
    expected = wanted.features
    if wanted.by_name and not (named and isinstance(expected, tuple)):
        who = "the model" if named else file
        raise ReadError(f"{file} cannot be read with --by-name: {who} has no names of features; give them in order.")
    if expected is None:
        return rest, ()
    if isinstance(expected, int) or not named:
        check_number(file, len(rest), expected if isinstance(expected, int) else len(expected))
        return rest, ()
    there = {names[number]: number for number in rest}
    lacking = [name for name in expected if name not in there]
    if lacking:
        taken = [name for name in lacking if name in names]
        why = f"; {quote_names(taken, 5)} cannot be left out, kept or the label" if taken else ""
        end = why or did_you_mean(lacking[0], [name for name in there if name not in expected])
        raise ReadError(
            f"{file} lacks {'a feature' if len(lacking) == 1 else f'{len(lacking)} features'} of the model: "
            f"{quote_names(lacking, 5)}{end}."
        )
    wished = set(expected)
    extra = [name for name in there if name not in wished]
    if wanted.by_name:
        notes = (f"left out by --by-name: {quote_names(extra, 5)}",) if extra else ()
        return tuple(there[name] for name in expected), notes
    if extra:
        raise ReadError(
            f"{file} has {'a column' if len(extra) == 1 else f'{len(extra)} columns'} that the model does not have: "
            f"{quote_names(extra, 5)}; --ignore COLUMN leaves one out, --by-name all of them."
        )
    for number, name in zip(rest, expected, strict=True):
        if names[number] != name:
            raise ReadError(
                f"{file} has the features in another order than the model (column {number + 1} is {names[number]!r}, "
                f"the model has {name!r} there); --by-name takes them by name."
            )
    return rest, ()
