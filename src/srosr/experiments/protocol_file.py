"""Protocols in TOML files: those of the paper's experiments, in ``paper/`` beside this module, and users' own.

``docs/experiments.md`` explains the format.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._support.messages import choose_from, did_you_mean, join_names
from .protocol import METHOD_NAME, KnownClasses, MethodSetting, Protocol, ProtocolError, Source, UnknownClasses
from .trial_methods import make_classifier

PAPER = Path(__file__).parent / "paper"
#: Words that replace a number of samples.
REST = ("all", "rest")
MOST_CLASSES = 1_000_000


def list_protocols() -> tuple[str, ...]:
    """Return the names of the experiments that come with the package."""
    return tuple(sorted(path.stem for path in PAPER.glob("*.toml")))


def load_protocol(name: str | Path) -> Protocol:
    """Read a protocol by the name of an experiment of the package or by the path of a TOML file.

    Parameters
    ----------
    name : str or path
        A name such as ``"yaleb"``, or a path, which ends in ``.toml`` or contains a folder.

    Raises
    ------
    ProtocolError
        The message names the file, the entry and the error.

    Examples
    --------
    >>> from srosr import load_protocol
    >>> protocol = load_protocol("uiuc")
    >>> protocol.known.classes, protocol.unknown.classes[-1], round(100 * protocol.levels[10], 2)
    (10, 10, 18.35)
    """
    text = str(name)
    if text in list_protocols():
        path = PAPER / f"{text}.toml"
    elif text.endswith(".toml") or Path(text).name != text:
        path = Path(text)
    else:
        known = list_protocols()
        raise ProtocolError(
            f"there is no experiment {text!r}{did_you_mean(text, known)}; choose {join_names(known, last='or')}, or "
            "give the path of a TOML file."
        )
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProtocolError(f"cannot read the protocol {path}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{path} is not a TOML file: {error}.") from None
    return parse_protocol(content, path.stem, path.parent, str(path))


def parse_protocol(content: dict[str, Any], name: str, folder: Path | None = None, file: str = "protocol") -> Protocol:
    """Return the protocol that a parsed TOML file describes.

    ``[data] file`` is relative to ``folder``; messages call the file ``file``.
    """
    return _Reader(file).read_protocol(content, name, folder)


class _Reader:
    """A reader of the tables of one file; its messages name the file and the entry."""

    def __init__(self, file: str) -> None:
        self.file = file

    def make_error(self, entry: str, message: str) -> ProtocolError:
        return ProtocolError(f"{self.file}: {entry} {message}")

    def read_protocol(self, content: dict[str, Any], name: str, folder: Path | None) -> Protocol:
        top = ("title", "about", "trials", "data", "known", "unknown", "methods", "method", "features")
        self.check_keys(content, top, "the file")
        for needed in ("data", "known", "unknown"):
            if needed not in content:
                raise self.make_error(f"[{needed}]", "is missing.")
        return Protocol(
            name,
            self.read_text(content, "title", name),
            self.read_text(content, "about", "").strip(),
            self.read_count(content.get("trials", 50), "trials"),
            self.read_source(self.check_table(content["data"], "data"), folder),
            self.read_known(self.check_table(content["known"], "known")),
            self.read_unknown(self.check_table(content["unknown"], "unknown")),
            self.read_methods(content.get("methods", "all"), self.check_table(content.get("method", {}), "method")),
            self.read_features(content["features"]) if "features" in content else None,
        )

    def read_source(self, table: dict[str, Any], folder: Path | None) -> Source:
        self.check_keys(table, ("set", "file", "exclude", "drop_empty"), "[data]")
        if ("set" in table) == ("file" in table):
            raise self.make_error("[data]", 'needs either set = "a name" or file = "a path".')
        exclude = table.get("exclude", [])
        if not (isinstance(exclude, list) and all(isinstance(c, str) for c in exclude)):
            raise self.make_error("[data] exclude", f"must be a list of class names, got {exclude!r}.")
        if not isinstance(drop := table.get("drop_empty", False), bool):
            raise self.make_error("[data] drop_empty", f"must be true or false, got {drop!r}.")
        if "set" in table:
            from ..datasets.registry import DATASETS

            chosen = self.read_text(table, "set", "")
            if chosen not in DATASETS:
                raise self.make_error("[data] set", f"= {chosen!r} does not exist{choose_from(chosen, DATASETS)}")
            return Source(set=chosen, exclude=tuple(exclude), drop_empty=drop)
        path = Path(self.read_text(table, "file", ""))
        path = path if path.is_absolute() or folder is None else folder / path
        return Source(file=str(path.resolve()), exclude=tuple(exclude), drop_empty=drop)

    def read_known(self, table: dict[str, Any]) -> KnownClasses:
        self.check_keys(table, ("classes", "train", "test", "part", "test_part"), "[known]")
        classes = self.read_count(self.require(table, "classes", "[known]"), "[known] classes")
        if classes < 2:
            raise self.make_error("[known] classes", "must be at least 2.")
        train = self.require(table, "train", "[known]")
        if train == "all":
            share: int | float = 1.0
        elif isinstance(train, float) and 0 < train < 1:
            share = train
        else:
            share = self.read_count(train, '[known] train (a number of samples, a share below 1, or "all")')
        part, test_part = self.read_part(table, "part", "[known]"), self.read_part(table, "test_part", "[known]")
        if test_part is not None and part is None:
            raise self.make_error("[known] test_part", "needs a part too; otherwise samples could be in both.")
        if train == "all" and test_part in (None, part):
            raise self.make_error(
                '[known] train = "all"',
                "needs a test_part that differs from part; otherwise no test samples are left.",
            )
        test = self.read_samples(table.get("test", "rest"), "[known] test")
        return KnownClasses(classes, share, test, part, test_part or part)

    def read_unknown(self, table: dict[str, Any]) -> UnknownClasses:
        self.check_keys(table, ("classes", "test", "part"), "[unknown]")
        given = self.require(table, "classes", "[unknown]")
        if isinstance(given, dict):
            where = "[unknown] classes"
            self.check_keys(given, ("from", "to", "step"), where)
            low, high = (self.read_count(self.require(given, key, where), f"{where} {key}") for key in ("from", "to"))
            if high > MOST_CLASSES:
                raise self.make_error(f"{where} to", f"must be at most {MOST_CLASSES:,}, got {high}.")
            given = list(range(low, high + 1, self.read_count(given.get("step", 1), f"{where} step")))
        levels = [self.read_count(n, "[unknown] classes") for n in (given if isinstance(given, list) else [given])]
        if not levels or sorted(set(levels)) != levels:
            raise self.make_error("[unknown] classes", f"must be numbers of classes in rising order, got {given!r}.")
        test = self.read_samples(table.get("test", "all"), "[unknown] test")
        return UnknownClasses(tuple(levels), test, self.read_part(table, "part", "[unknown]"))

    def read_methods(self, chosen: Any, tables: dict[str, Any]) -> tuple[MethodSetting, ...]:
        from ..rivals.methods import open_set_methods

        available = open_set_methods()
        settings = {name: MethodSetting(name, name) for name in available}
        settings |= {
            name: self.read_method(name, self.check_table(t, f"method.{name}"), available) for name, t in tables.items()
        }
        if chosen == "all":
            return tuple(settings.values())
        if not (isinstance(chosen, list) and chosen and all(isinstance(c, str) for c in chosen)):
            raise self.make_error("methods", f'must be "all" or a list of names, got {chosen!r}.')
        for name in chosen:
            if name not in settings:
                raise self.make_error("methods", f"names {name!r}, which does not exist{choose_from(name, settings)}")
        if unused := [name for name in tables if name not in chosen]:
            raise self.make_error(
                f"[method.{unused[0]}]", 'is not listed in methods; add it, or write methods = "all".'
            )
        return tuple(settings[name] for name in dict.fromkeys(chosen))

    def read_method(self, name: str, table: dict[str, Any], available: dict[str, Any]) -> MethodSetting:
        entry = f"[method.{name}]"
        if not METHOD_NAME.fullmatch(name):
            raise self.make_error(
                entry, "must have a name of at most 100 lower-case letters, digits, dots, hyphens and underscores "
                "that begins with a letter or a digit."
            )  # fmt: skip
        parameters = dict(table)
        base = self.read_text(parameters, "method", name)
        parameters.pop("method", None)
        if base not in available:
            raise self.make_error(f"{entry} method", f"= {base!r} does not exist{choose_from(base, available)}")
        trials = parameters.pop("trials", None)
        if trials is not None:
            trials = self.read_count(trials, f"{entry} trials")
        if not isinstance(coverage := parameters.pop("coverage", True), bool):
            raise self.make_error(f"{entry} coverage", f"must be true or false, got {coverage!r}.")
        follows = parameters.get("openness") == "level"
        if follows:
            del parameters["openness"]
            if "openness" not in available[base].get_params():
                raise self.make_error(f"{entry} openness", f"is not a parameter of {base}.")
            if "weight" in parameters:
                raise self.make_error(
                    f"{entry} weight", 'is computed from openness = "level"; give only one of the two.'
                )
        setting = MethodSetting(name, base, parameters, follows, trials, coverage)
        try:
            make_classifier(setting, 0)
        except (ValueError, TypeError) as error:
            raise self.make_error(entry, str(error)) from None
        return setting

    def read_features(self, given: Any) -> dict[str, Any]:
        from ..features.spatial_pyramid import SpatialPyramid

        table = self.check_table(given, "features")
        allowed = [p for p in SpatialPyramid().get_params() if p not in ("n_jobs", "random_state")]
        self.check_keys(table, ("kind", *allowed), "[features]")
        if table.get("kind") != "spatial-pyramid":
            raise self.make_error("[features] kind", f'must be "spatial-pyramid", got {table.get("kind")!r}.')
        parameters = {key: value for key, value in table.items() if key != "kind"}
        try:
            SpatialPyramid(**parameters)._check_parameters()
        except (ValueError, TypeError) as error:
            raise self.make_error("[features]", str(error)) from None
        return parameters

    # -- entries ---------------------------------------------------------------------------------------

    def check_table(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.make_error(name, f"must be a table, [{name}], got {value!r}.")
        return value

    def check_keys(self, table: dict[str, Any], allowed: Iterable[str], where: str) -> None:
        for key in table:
            if key not in allowed:
                raise self.make_error(where, f"has an unknown entry {key!r}{did_you_mean(key, allowed)}; "
                                 f"valid entries are {join_names(allowed)}.")  # fmt: skip

    def require(self, table: dict[str, Any], key: str, where: str) -> Any:
        if key not in table:
            raise self.make_error(where, f"lacks {key}.")
        return table[key]

    def read_text(self, table: dict[str, Any], key: str, default: str) -> str:
        value = table.get(key, default)
        if not isinstance(value, str):
            raise self.make_error(key, f"must be text, got {value!r}.")
        return value

    def read_part(self, table: dict[str, Any], key: str, where: str) -> str | None:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise self.make_error(f"{where} {key}", f"must be the name of a part, got {value!r}.")
        return value

    def read_count(self, value: Any, entry: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.make_error(entry, f"must be a whole number of at least 1, got {value!r}.")
        return value

    def read_samples(self, value: Any, entry: str) -> int | None:
        if value in REST:
            return None
        if isinstance(value, str):
            raise self.make_error(entry, f'must be a number of samples, "all" or "rest", got {value!r}.')
        return self.read_count(value, entry)
