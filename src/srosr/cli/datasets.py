"""``srosr datasets``: list, describe, download and export public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._support.atomic_files import make_folder, write_atomically
from .._support.messages import choose_from, count_of, list_names
from ..operations.input_errors import InputError, convert_errors
from .console import err, json_option, out, print_facts, print_json
from .output_paths import check_output_path

if TYPE_CHECKING:
    from ..datasets.dataset import Dataset


@click.command()
@click.argument("name", required=False)
@click.option("--fetch", is_flag=True, help="Download the data set if it is not available here, and check it.")
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write two tables to try srosr with: FOLDER/known.csv and FOLDER/new.csv.",
)
@json_option
def datasets(name: str | None, fetch: bool, export: Path | None, as_json: bool) -> None:
    """List the public data sets, or describe one.

    A data set is looked for in the folder SROSR_DATA_DIR, then in the cache; --fetch downloads it and checks its
    content. "digits" comes with scikit-learn and is always available. "srosr reproduce" uses these data sets; in
    Python they are srosr.load_dataset(NAME).

    --export writes tables to begin with: known.csv has half the samples of 60 % of the classes, new.csv has the other
    half of them and all samples of the other classes, which are unknown; the column "label" has the classes.

    \b
    Examples:
      srosr datasets                    the list, and which are available
      srosr datasets usps               samples, classes, source
      srosr datasets usps --fetch       download it first
      srosr datasets digits --export .  known.csv and new.csv, to try srosr with
    """
    from ..datasets.dataset import DatasetError, DatasetNotFound
    from ..datasets.registry import DATASETS, load_dataset

    if name is None:
        if fetch or export is not None:
            raise InputError("--fetch and --export need the name of a data set, as in srosr datasets digits --export .")
        _print_list(list(DATASETS), as_json)
        return
    if name not in DATASETS:
        raise InputError(f"there is no data set {name}{choose_from(name, DATASETS)}")
    try:
        with err().status(f"Loading {name} …"):
            data = load_dataset(name, download=fetch)
    except DatasetError as error:
        absent = isinstance(error, DatasetNotFound)
        hint = " --fetch downloads it if it can be downloaded." if absent and not fetch else ""
        raise InputError(" ".join(f"{error}{hint}".split())) from None
    if export is not None:
        files = _export(data, export)
        if as_json:
            print_json({file.stem: {"file": str(file), "rows": n} for file, n in files.items()})
        else:
            print_facts([(str(file), count_of(n, "row")) for file, n in files.items()])
        return
    parts = [] if data.part is None else sorted(set(data.part.tolist()))
    if as_json:
        print_json({
            "name": name, "samples": len(data.y), "features": None if data.pictures else int(data.X.shape[1]),
            "pictures": data.pictures, "classes": list(data.class_names), "parts": parts, "source": data.source,
        })  # fmt: skip
        return
    what = "pictures" if data.pictures else f"{data.X.shape[1]:,} features each"
    classes = f"{count_of(len(data.class_names), 'class', 'classes')}: {list_names(data.class_names, 12)}"
    some_parts = [("parts", list_names(parts))] if parts else []
    print_facts([
        ("samples", f"{len(data.y):,}, {what}"), ("classes", classes), *some_parts, ("source", data.source)
    ])  # fmt: skip


def _print_list(names: list[str], as_json: bool) -> None:
    """Print the data sets and whether each is available; nothing is downloaded."""
    from rich.table import Table

    from ..datasets.dataset import DatasetError, DatasetNotFound
    from ..datasets.registry import load_dataset

    found: list[dict[str, object]] = []
    with err().status("Looking for data sets …"):
        for name in names:
            try:
                data = load_dataset(name, download=False)
            except DatasetNotFound:
                found.append({"name": name, "available": False})
            except DatasetError as error:
                found.append({"name": name, "available": False, "damaged": " ".join(str(error).split())})
            else:
                n_features = None if data.pictures else int(data.X.shape[1])
                sizes = {"samples": len(data.y), "features": n_features, "classes": len(data.class_names)}
                found.append({"name": name, "available": True, **sizes})
    if as_json:
        print_json(found)
        return
    table = Table(header_style="bold")
    table.add_column("name")
    for heading in ("samples", "features", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("available")
    for line in found:
        here = bool(line["available"])
        numbers = [line.get(key) for key in ("samples", "features", "classes")]
        cells = ["" if not here else "pictures" if n is None else f"{n:,}" for n in numbers]
        state = "yes" if here else "damaged" if "damaged" in line else "no"
        table.add_row(str(line["name"]), *cells, state, style="" if here else "dim")
    out().print(table)
    if not all(line["available"] for line in found):
        out().print("srosr datasets NAME --fetch downloads one that is not available.", style="dim")
    for line in found:
        if "damaged" in line:
            out().print(f"Note: {line['damaged']}", style="yellow")


def _export(data: Dataset, folder: Path) -> dict[Path, int]:
    """Write two tables, one to fit and one to predict; return the number of rows of each."""
    import numpy as np
    from pandas import DataFrame

    if data.pictures:
        raise InputError(f"{data.name} holds pictures, which --export cannot write to tables.")
    n_known = max(2, round(0.6 * len(data.class_names)))
    order = np.random.default_rng(0).permutation(len(data.y))
    in_training = np.zeros(len(data.y), bool)
    for k in range(n_known):
        rows = order[data.y[order] == k]
        in_training[rows[: (len(rows) + 1) // 2]] = True
    names = np.array(data.class_names)
    files = {folder / "known.csv": order[in_training[order]], folder / "new.csv": order[~in_training[order]]}
    with convert_errors():
        make_folder(folder)
        for file in files:
            check_output_path(file, "the table", "--export")
        for file, rows in files.items():
            table = DataFrame(data.X[rows], columns=[f"f{j}" for j in range(data.X.shape[1])])
            table["label"] = names[data.y[rows]]
            write_atomically(file, table.to_csv(index=False).encode())
    return {file: len(rows) for file, rows in files.items()}
