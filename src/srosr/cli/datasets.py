"""``srosr datasets``: the public data sets that are known by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import json_option

if TYPE_CHECKING:
    from ..datasets import Dataset

__all__ = ["datasets"]


@click.command()
@click.argument("name", required=False)
@click.option("--fetch", is_flag=True, help="Download the set NAME where it is not at hand, and check it.")
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the set as two tables to try srosr with: FOLDER/known.csv and FOLDER/new.csv.",
)
@json_option
def datasets(name: str | None, fetch: bool, export: Path | None, as_json: bool) -> None:
    """List the public data sets known by name, or describe one.

    A set is looked for in the folder that SROSR_DATA_DIR names, then in the cache, then downloaded with a checksum.
    "digits" comes with scikit-learn and is always there. Any of them serves "srosr reproduce", and Python as
    srosr.load_dataset(NAME).

    --export makes tables to begin with: known.csv has half the samples of the first six in ten classes, new.csv the
    other half of them and all samples of the other classes, which are the strangers; the column "label" says which.

    \b
    Examples:
      srosr datasets                    the list, and which are at hand
      srosr datasets usps               samples, classes, source
      srosr datasets usps --fetch       download it first
      srosr datasets digits --export .  known.csv and new.csv, to try srosr with
    """
    from .._support.messages import choose_from, count_of, list_names
    from ..datasets import DATASETS, DatasetError, DatasetNotFound, load_dataset
    from .bad_input import BadInput
    from .console import err, print_json, show_facts

    if name is None:
        if fetch or export is not None:
            raise BadInput("--fetch and --export need the name of a set, as in srosr datasets digits --export .")
        _list(list(DATASETS), as_json)
        return
    if name not in DATASETS:
        raise BadInput(f"there is no data set {name}{choose_from(name, DATASETS)}")
    try:
        with err().status(f"Loading {name} …"):
            data = load_dataset(name, download=fetch)
    except DatasetError as error:
        absent = isinstance(error, DatasetNotFound)
        hint = " --fetch downloads it, where it has a home to be downloaded from." if absent and not fetch else ""
        raise BadInput(" ".join(f"{error}{hint}".split())) from None
    if export is not None:
        files = _export(data, export)
        if as_json:
            print_json({file.stem: {"file": str(file), "rows": n} for file, n in files.items()})
        else:
            show_facts([(str(file), f"{count_of(n, 'row')}") for file, n in files.items()])
        return
    parts = [] if data.part is None else sorted(set(data.part.tolist()))
    if as_json:
        print_json({
            "name": name, "samples": len(data.y), "features": None if data.pictures else int(data.X.shape[1]),
            "pictures": data.pictures, "classes": list(data.class_names), "parts": parts, "source": data.source,
        })  # fmt: skip
        return
    facts: list[tuple[str, str]] = []
    what = "pictures" if data.pictures else f"{data.X.shape[1]:,} features each"
    facts.append(("samples", f"{len(data.y):,}, {what}"))
    named = list_names(data.class_names, 12)
    facts.append(("classes", f"{count_of(len(data.class_names), 'class', 'classes')}: {named}"))
    if parts:
        facts.append(("parts", list_names(parts)))
    facts.append(("source", data.source))
    show_facts(facts)


def _list(names: list[str], as_json: bool) -> None:
    """Names, and whether each is at hand; nothing is downloaded, and nothing large is read twice."""
    from rich.table import Table

    from ..datasets import DatasetError, DatasetNotFound, load_dataset
    from .console import err, out, print_json

    found: list[dict[str, object]] = []
    with err().status("Looking for data sets …"):
        for name in names:
            try:
                data = load_dataset(name, download=False)
            except DatasetNotFound:
                found.append({"name": name, "at_hand": False})
            except DatasetError as error:
                found.append({"name": name, "at_hand": False, "damaged": " ".join(str(error).split())})
            else:
                features = None if data.pictures else int(data.X.shape[1])
                one: dict[str, object] = {
                    "samples": len(data.y),
                    "features": features,
                    "classes": len(data.class_names),
                }
                found.append({"name": name, "at_hand": True, **one})
    if as_json:
        print_json(found)
        return
    table = Table(header_style="bold")
    table.add_column("name")
    for heading in ("samples", "features", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("at hand")
    for line in found:
        here = bool(line["at_hand"])
        numbers = [line.get(key) for key in ("samples", "features", "classes")]
        cells = ["" if not here else "pictures" if n is None else f"{n:,}" for n in numbers]
        table.add_row(
            str(line["name"]),
            *cells,
            "yes" if here else "damaged" if "damaged" in line else "no",
            style="" if here else "dim",
        )
    out().print(table)
    if not all(line["at_hand"] for line in found):
        out().print("srosr datasets NAME --fetch downloads one that is not at hand, where it has a home.", style="dim")
    for line in found:
        if "damaged" in line:
            out().print(f"Note: {line['damaged']}", style="yellow")


def _export(data: Dataset, folder: Path) -> dict[Path, int]:
    """Write two tables, one to learn from and one to judge; how many rows each has."""
    import numpy as np
    from pandas import DataFrame

    from .._support.atomic_files import make_folder, write_atomically
    from .bad_input import BadInput, refusing
    from .output_files import check_output_path

    if data.pictures:
        raise BadInput(f"{data.name} holds pictures, which --export cannot put into tables.")
    n_known = max(2, round(0.6 * len(data.class_names)))
    order = np.random.default_rng(0).permutation(len(data.y))
    learnt = np.zeros(len(data.y), bool)
    for k in range(n_known):
        rows = order[data.y[order] == k]
        learnt[rows[: (len(rows) + 1) // 2]] = True
    names = np.array(data.class_names)
    files = {folder / "known.csv": order[learnt[order]], folder / "new.csv": order[~learnt[order]]}
    with refusing():
        make_folder(folder)
        for file in files:
            check_output_path(file, "the table", "--export")
        for file, rows in files.items():
            table = DataFrame(data.X[rows], columns=[f"f{j}" for j in range(data.X.shape[1])])
            table["label"] = names[data.y[rows]]
            write_atomically(file, table.to_csv(index=False).encode())
    return {file: len(rows) for file, rows in files.items()}
