"""Protocols as TOML files: those of the paper's experiments, beside this module in ``paper/``, and your own.

The form of the file is explained in ``docs/experiments.md``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._support.messages import choose_from, did_you_mean, join_names, list_names
from .protocol import METHOD_NAME, KnownClasses, MethodSetting, Protocol, ProtocolError, Source, UnknownClasses
from .trial_methods import make

__all__ = ["load_protocol", "parse_protocol", "protocol_names"]

PAPER = Path(__file__).parent / "paper"
#: In place of a number of samples.
REST = ("all", "rest")
MOST_CLASSES = 1_000_000


def protocol_names() -> tuple[str, ...]:
    """The experiments that come with the package."""
    return tuple(sorted(path.stem for path in PAPER.glob("*.toml")))


def load_protocol(name: str | Path) -> Protocol:
    """Read a protocol: one that comes with the package, by its name, or a TOML file of your own, by its path.

    Parameters
    ----------
    name : str or path
        As in ``"yaleb"``; what ends in ``.toml`` or names a folder is a path.

    Raises
    ------
    ProtocolError
        With the file, the entry, and what is wrong.

    Examples
    --------
    >>> from srosr.experiments import load_protocol
    >>> protocol = load_protocol("uiuc")
    >>> protocol.known.classes, protocol.unknown.classes[-1], round(100 * protocol.levels[10], 2)
    (10, 10, 18.35)
    """
    text = str(name)
    if text in protocol_names():
        path = PAPER / f"{text}.toml"
    elif text.endswith(".toml") or Path(text).name != text:
        path = Path(text)
    else:
        known = protocol_names()
        raise ProtocolError(
            f"there is no experiment {text!r}{did_you_mean(text, known)}; there are {list_names(known)}, or give the "
            "path of a TOML file of your own."
        )
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProtocolError(f"cannot read the protocol {path}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{path} is not a TOML file: {error}.") from None
    return parse_protocol(content, path.stem, path.parent, str(path))


def parse_protocol(content: dict[str, Any], name: str, folder: Path | None = None, file: str = "protocol") -> Protocol:
    """A protocol from what its file holds.

    Parameters
    ----------
    content : dict
        As :mod:`tomllib` gives it.
    name : str
        Of the experiment.
    folder : Path, optional
        Where ``[data] file`` is looked for.
    file : str
        For messages.
    """
    return _Reader(file).protocol(content, name, folder)


class _Reader:
    """Reads the tables of one file; its messages name the file and the entry."""

    def __init__(self, file: str) -> None:
        self.file = file

    def wrong(self, entry: str, message: str) -> ProtocolError:
        return ProtocolError(f"{self.file}: {entry} {message}")

    def protocol(self, content: dict[str, Any], name: str, folder: Path | None) -> Protocol:
        top = ("title", "about", "trials", "data", "known", "unknown", "methods", "method", "features")
        self.keys(content, top, "the file")
        for needed in ("data", "known", "unknown"):
            if needed not in content:
                raise self.wrong(f"[{needed}]", "is missing.")
        features = content.get("features")
        if features is not None:
            features = self.features(features)
        return Protocol(
            name,
            self.text(content, "title", name),
            self.text(content, "about", "").strip(),
            self.count(content.get("trials", 50), "trials"),
            self.source(self.table(content["data"], "data"), folder),
            self.known(self.table(content["known"], "known")),
            self.unknown(self.table(content["unknown"], "unknown")),
            self.methods(content.get("methods", "all"), self.table(content.get("method", {}), "method")),
            features,
        )

    def source(self, table: dict[str, Any], folder: Path | None) -> Source:
        self.keys(table, ("set", "file", "exclude", "drop_empty"), "[data]")
        if ("set" in table) == ("file" in table):
            raise self.wrong("[data]", 'needs one of the two: set = "a name", or file = "a path".')
        exclude = table.get("exclude", [])
        if not (isinstance(exclude, list) and all(isinstance(c, str) for c in exclude)):
            raise self.wrong("[data] exclude", f"must be a list of class names, got {exclude!r}.")
        if not isinstance(drop := table.get("drop_empty", False), bool):
            raise self.wrong("[data] drop_empty", f"must be true or false, got {drop!r}.")
        if "set" in table:
            from ..datasets import DATASETS

            chosen = self.text(table, "set", "")
            if chosen not in DATASETS:
                raise self.wrong("[data] set", f"= {chosen!r} is not there{choose_from(chosen, DATASETS)}")
            return Source(set=chosen, exclude=tuple(exclude), drop_empty=drop)
        path = Path(self.text(table, "file", ""))
        path = path if path.is_absolute() or folder is None else folder / path
        return Source(file=str(path.resolve()), exclude=tuple(exclude), drop_empty=drop)

    def known(self, table: dict[str, Any]) -> KnownClasses:
        self.keys(table, ("classes", "train", "test", "part", "test_part"), "[known]")
        classes = self.count(self.needed(table, "classes", "[known]"), "[known] classes")
        if classes < 2:
            raise self.wrong("[known] classes", "must be at least 2.")
        train = self.needed(table, "train", "[known]")
        if train == "all":
            share: int | float = 1.0
        elif isinstance(train, float) and 0 < train < 1:
            share = train
        else:
            share = self.count(train, '[known] train (a number of samples, a share below 1, or "all")')
        part, test_part = self.word(table, "part", "[known]"), self.word(table, "test_part", "[known]")
        if test_part is not None and part is None:
            raise self.wrong("[known] test_part", "needs a part to train on as well: else samples would be in both.")
        if train == "all" and test_part in (None, part):
            raise self.wrong(
                '[known] train = "all"',
                "needs a test_part, another part of the data set than the one to train on: else nothing is left to "
                "test on.",
            )
        return KnownClasses(
            classes,
            share,
            self.samples(table.get("test", "rest"), "[known] test"),
            part,
            test_part or part,
        )

    def unknown(self, table: dict[str, Any]) -> UnknownClasses:
        self.keys(table, ("classes", "test", "part"), "[unknown]")
        given = self.needed(table, "classes", "[unknown]")
        if isinstance(given, dict):
            where = "[unknown] classes"
            self.keys(given, ("from", "to", "step"), where)
            low, high = (self.count(self.needed(given, key, where), f"{where} {key}") for key in ("from", "to"))
            if high > MOST_CLASSES:
                raise self.wrong(f"{where} to", f"must be at most {MOST_CLASSES:,}, got {high}.")
            given = list(range(low, high + 1, self.count(given.get("step", 1), f"{where} step")))
        levels = [self.count(n, "[unknown] classes") for n in (given if isinstance(given, list) else [given])]
        if not levels or sorted(set(levels)) != levels:
            raise self.wrong("[unknown] classes", f"must be rising numbers of classes, got {given!r}.")
        return UnknownClasses(
            tuple(levels),
            self.samples(table.get("test", "all"), "[unknown] test"),
            self.word(table, "part", "[unknown]"),
        )

    def methods(self, chosen: Any, tables: dict[str, Any]) -> tuple[MethodSetting, ...]:
        from ..rivals import open_set_methods

        available = open_set_methods()
        settings = {name: MethodSetting(name, name) for name in available}
        settings |= {name: self.method(name, self.table(t, f"method.{name}"), available) for name, t in tables.items()}
        if chosen == "all":
            return tuple(settings.values())
        if not (isinstance(chosen, list) and chosen and all(isinstance(c, str) for c in chosen)):
            raise self.wrong("methods", f'must be "all" or a list of names, got {chosen!r}.')
        for name in chosen:
            if name not in settings:
                raise self.wrong("methods", f"names {name!r}, which is not there{choose_from(name, settings)}")
        if unused := [name for name in tables if name not in chosen]:
            raise self.wrong(f"[method.{unused[0]}]", 'is not among methods; name it there, or write methods = "all".')
        return tuple(settings[name] for name in dict.fromkeys(chosen))

    def method(self, name: str, table: dict[str, Any], available: dict[str, Any]) -> MethodSetting:
        entry = f"[method.{name}]"
        if not METHOD_NAME.fullmatch(name):
            raise self.wrong(
                entry, "must have a name of at most 100 small letters, digits, dots, dashes and underscores, "
                "beginning with a letter or a digit."
            )  # fmt: skip
        parameters = dict(table)
        base = self.text(parameters, "method", name)
        parameters.pop("method", None)
        if base not in available:
            raise self.wrong(f"{entry} method", f"= {base!r} is not there{choose_from(base, available)}")
        trials = parameters.pop("trials", None)
        if trials is not None:
            trials = self.count(trials, f"{entry} trials")
        if not isinstance(coverage := parameters.pop("coverage", True), bool):
            raise self.wrong(f"{entry} coverage", f"must be true or false, got {coverage!r}.")
        follows = parameters.get("openness") == "level"
        if follows:
            del parameters["openness"]
            if "openness" not in available[base].get_params():
                raise self.wrong(f"{entry} openness", f"means nothing to {base}.")
            if "weight" in parameters:
                raise self.wrong(f"{entry} weight", 'is the one that openness = "level" leads to: give one of the two.')
        setting = MethodSetting(name, base, parameters, follows, trials, coverage)
        try:
            make(setting, 0)
        except (ValueError, TypeError) as error:
            raise self.wrong(entry, str(error)) from None
        return setting

    def features(self, given: Any) -> dict[str, Any]:
        from ..features import SpatialPyramid

        table = self.table(given, "features")
        allowed = [p for p in SpatialPyramid().get_params() if p not in ("n_jobs", "random_state")]
        self.keys(table, ("kind", *allowed), "[features]")
        if table.get("kind") != "spatial-pyramid":
            raise self.wrong("[features] kind", f'must be "spatial-pyramid", got {table.get("kind")!r}.')
        parameters = {key: value for key, value in table.items() if key != "kind"}
        try:
            SpatialPyramid(**parameters)._check_parameters()
        except (ValueError, TypeError) as error:
            raise self.wrong("[features]", str(error)) from None
        return parameters

    # -- entries ---------------------------------------------------------------------------------------

    def table(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(name, f"must be a table, [{name}], got {value!r}.")
        return value

    def keys(self, table: dict[str, Any], allowed: Iterable[str], where: str) -> None:
        for key in table:
            if key not in allowed:
                raise self.wrong(where, f"has an entry {key!r} that means nothing{did_you_mean(key, allowed)}; "
                                 f"it can have {join_names(allowed)}.")  # fmt: skip

    def needed(self, table: dict[str, Any], key: str, where: str) -> Any:
        if key not in table:
            raise self.wrong(where, f"lacks {key}.")
        return table[key]

    def text(self, table: dict[str, Any], key: str, default: str) -> str:
        value = table.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"must be text, got {value!r}.")
        return value

    def word(self, table: dict[str, Any], key: str, where: str) -> str | None:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(f"{where} {key}", f"must be the name of a part, got {value!r}.")
        return value

    def count(self, value: Any, entry: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(entry, f"must be a whole number of at least 1, got {value!r}.")
        return value

    def samples(self, value: Any, entry: str) -> int | None:
        if value in REST:
            return None
        if isinstance(value, str):
            raise self.wrong(entry, f'must be a number of samples, "all" or "rest", got {value!r}.')
        return self.count(value, entry)
