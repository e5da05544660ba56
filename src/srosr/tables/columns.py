"""The role of each column of a table: label, feature, carried along or left out. Only names are seen, never a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .._support.messages import count_of, did_you_mean, join_names, quote_names
from .read_options import ReadOptions
from .row_source import MissingColumn, ReadError

#: Names by which a column or array of labels is known, in any case.
LABEL_NAMES = ("label", "labels", "class", "target", "y")
TextColumns: TypeAlias = Callable[[], Collection[int]]


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
    options: ReadOptions,
    text_columns: TextColumns,
    *,
    numbering: int | None = None,
    named: bool = True,
) -> Roles:
    """Assign a role to each column of a file by its name; names are all different.

    ``text_columns`` returns the places of the columns of text and is called only if the label has to be guessed,
    ``numbering`` is the place of a row index. If the names are not the file's own (``named``), features are matched by
    their number.
    """
    place = {name: number for number, name in enumerate(names) if number != numbering}
    label_names = () if options.label is None else (options.label,)
    groups = () if options.group is None else (options.group,)
    named_by = {"--ignore": options.ignore, "--keep": options.keep, "--group": groups, "--label": label_names}
    for option, chosen in named_by.items():
        for name in chosen:
            if name not in place:
                raise MissingColumn(_absent(file, name, option, list(place)), name)
    if options.group is not None and options.group == options.label:
        raise ReadError(f"{file} cannot have its groups in the column of its labels, {options.label!r}.")
    if options.label is not None and options.label in options.ignore:
        raise ReadError(
            f"{file} cannot have its labels in a column that is left out: {options.label!r} is --ignore too."
        )
    expected = (options.feature_names if named else None) or ()
    kept = tuple(place[name] for name in options.kept)
    label = _find_label(file, place, options, set(expected), text_columns)
    left_out = {numbering, label, *kept, *(place[name] for name in options.ignore)}
    left_out |= {place[name] for name in options.ignore_if_present if name in place and name not in expected}
    if options.label is not None:
        left_out.add(place[options.label])
    rest = tuple(number for number in range(len(names)) if number not in left_out)
    features, notes = _find_features(file, names, rest, options, named)
    if not features:
        hint = ": put a comma, semicolon, tab or | between values" if len(names) == 1 else ""
        raise ReadError(f"{file} has no column of numbers left for the features{hint}.")
    return Roles(features, label if options.looks_for_labels else None, kept, notes)


def _absent(file: str, name: str, option: str, names: Sequence[str]) -> str:
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(part in names for part in parts):
        return f"{file} has no column {name!r}: give {option} once for each column, as in {option} {parts[0]}."
    guess = did_you_mean(name, names)
    return f"{file} has no column {name!r}, which {option} names{guess}; it has {quote_names(names)}."


def _find_label(
    file: str, place: dict[str, int], options: ReadOptions, expected: set[str], text_columns: TextColumns
) -> int | None:
    if options.label is not None:
        return place[options.label]
    if not options.looks_for_labels:
        return None
    possible = [name for name in place if name not in expected and name not in options.ignore]
    if options.usual_label in possible:
        return place[options.usual_label]
    called = [name for name in possible if name.lower() in LABEL_NAMES]
    if len(called) > 1:
        raise ReadError(
            f"{file} has several columns that may hold the labels ({quote_names(called)}): say which with --label "
            "COLUMN, and leave the others out with --ignore COLUMN."
        )
    if called:
        return place[called[0]]
    texts = text_columns()
    of_text = [name for name in possible if place[name] in texts and name not in options.kept]
    others = [name for name in of_text if name not in options.ignore_if_present]
    if options.labels != "required" or others:
        of_text = others
    if len(of_text) == 1:
        return place[of_text[0]]
    if options.labels == "required":
        why = f"several columns of text ({quote_names(of_text)})" if of_text else "no column of text"
        raise ReadError(
            f"{file} has no column called {join_names(LABEL_NAMES, last='or')} and {why}: say where the "
            f"labels are with --label COLUMN (columns: {quote_names(list(place))})."
        )
    return None


def check_number(file: str, found: int, expected: int, *, in_columns: bool = True) -> None:
    """Raise if a file has another number of features than the model."""
    if found != expected:
        hint = "; --ignore COLUMN leaves one out" if in_columns and found > expected else ": give it the same features"
        raise ReadError(f"{file} has {count_of(found, 'feature')}, but the model was fitted with {expected}{hint}.")


def _find_features(
    file: str, names: Sequence[str], rest: tuple[int, ...], options: ReadOptions, named: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the places of the features in the order of the model, and notes."""
    expected = options.feature_names
    if options.by_name and not (named and expected is not None):
        who = "the model" if named else file
        raise ReadError(f"{file} cannot be read with --by-name: {who} has no names of features; give them in order.")
    if expected is None or not named:
        if options.n_features is not None:
            check_number(file, len(rest), options.n_features)
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
    if options.by_name:
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
