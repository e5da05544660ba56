"""How to read a file of samples: one object from the options of the command line to the readers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ReadOptions:
    """What a file of samples holds, and which part of it is wanted.

    The first ten are for the user to say; the command line builds the object from the options of the same names. The
    others come from what is done with the samples.

    Attributes
    ----------
    label : str, optional
        The column (or array) of the labels; by default the one called label, labels, class, target or y, in any case,
        or else the only column of text.
    labels_file : path, optional
        A file with the labels: ``.npy``, or text with one label per line.
    array : str, optional
        The array of the samples in an npz or mat file; by default X.
    ignore, keep : sequences of str
        Columns to leave out, and columns to carry along as text.
    header : bool
        Whether the first line of text has the names of the columns; if not, they are called "0", "1", ….
    group : str, optional
        The column of the groups, which is carried along like those in ``keep``.
    drop_missing : bool
        Leave out rows with missing values instead of raising.
    by_name : bool
        Take the expected features by name, in any order, and leave other columns out.
    skip_broken : bool
        Leave out pictures that cannot be read instead of raising.
    labels : {"required", "optional", "no"}
        Whether there must be labels, may be, or none are read.
    usual_label : str, optional
        Without ``label``: the column (or array) to take if it exists, before any is guessed.
    features : sequence of str or int, optional
        What a model expects: the names of the features in order, or their number.
    ignore_if_present : sequence of str
        Columns to leave out if they are there, such as the labels in a file of samples to predict.
    impute : bool
        Yield rows with missing values, NaN where one is missing, for an imputer to fill in. A row without any value is
        an error; with ``drop_missing`` too, only such rows are left out.
    """

    label: str | None = None
    labels_file: str | os.PathLike[str] | None = None
    array: str | None = None
    ignore: Sequence[str] = ()
    keep: Sequence[str] = ()
    header: bool = True
    group: str | None = None
    drop_missing: bool = False
    by_name: bool = False
    skip_broken: bool = False
    labels: Literal["required", "optional", "no"] = "optional"
    usual_label: str | None = None
    features: Sequence[str] | int | None = None
    ignore_if_present: Sequence[str] = ()
    impute: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """All columns to carry along as text."""
        return tuple(self.keep) if self.group is None or self.group in self.keep else (*self.keep, self.group)

    @property
    def looks_for_labels(self) -> bool:
        """Whether labels are to be found in the file itself."""
        return self.labels != "no" and self.labels_file is None

    @property
    def n_features(self) -> int | None:
        """The expected number of features."""
        return self.features if self.features is None or isinstance(self.features, int) else len(self.features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The expected names of the features."""
        return None if self.features is None or isinstance(self.features, int) else tuple(map(str, self.features))
