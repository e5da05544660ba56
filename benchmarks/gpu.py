"""Coding on a GPU against the CPU of the same machine, and against the card itself: ``python -m benchmarks.gpu``.

Samples are real test samples (or, for the largest dictionaries, mixtures of real embeddings), drawn again and again in
random order until there are as many as are timed. They are tensors on the card, and so are the codes; "arrays" says how
fast it is with NumPy arrays on both sides. Times of coding are the shortest of several after a first call; fit, predict
and the experiment are timed once, after a first time.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks import report
from benchmarks.mixtures import draw_mixture, read_embeddings
from benchmarks.problems import Problem, Unavailable, describe, mnist, uiuc, unit_rows, yaleb
from benchmarks.timing import clock
from srosr import BPDN, Dictionary, Lasso, sparse_encode

RESULTS = Path(__file__).parent / "results" / "gpu.json"
SEED = 0
TOLERANCE = 1e-6
COMPARED = 500
"""Samples whose codes are compared with those of the CPU."""


@dataclass(frozen=True)
class Case:
    """A set and a problem: how many samples the card codes, and how many the CPU."""

    name: str
    problem: Problem
    n_card: int
    n_cpu: int


@dataclass(frozen=True)
class Samples:
    """Atoms and samples of a set, of unit length."""

    title: str
    atoms: NDArray
    queries: NDArray


def _mixture(n: int, n_features: int) -> Samples:
    trial = draw_mixture(read_embeddings(), n, 1000, n_features, SEED)
    return Samples(f"mixtures of CLIP embeddings, {n:,} x {n_features}", unit_rows(trial.X), unit_rows(trial.X_test))


def _from(make: Callable[..., Any], n_queries: int, **options: Any) -> Samples:
    data = make(n_queries, **options)
    return Samples(data.title, data.atoms, data.queries)


SETS: dict[str, Callable[[], Samples]] = {
    "yaleb": partial(_from, yaleb, 1900),
    "mnist": partial(_from, mnist, 10_000),
    "uiuc": partial(_from, uiuc, 2000),
    "mnist-all": partial(_from, mnist, 10_000, per_class=10_000),
    "clip": partial(_mixture, 100_000, 512),
    "million": partial(_mixture, 1_000_000, 128),
}
CASES = (
    Case("yaleb", Lasso(0.05), 2**19, 8000),
    Case("yaleb", Lasso(0.02), 2**19, 8000),
    Case("yaleb", Lasso(0.01), 2**19, 8000),
    Case("yaleb", BPDN(0.3), 2**15, 2000),
    Case("yaleb", BPDN(0.1), 2**11, 400),
    Case("yaleb", BPDN(0.001), 2**19, 2000),
    Case("mnist", Lasso(0.05), 2**18, 6000),
    Case("mnist", Lasso(0.02), 2**17, 3000),
    Case("mnist", Lasso(0.01), 2**16, 1500),
    Case("uiuc", Lasso(0.05), 2**19, 8000),
    Case("uiuc", Lasso(0.01), 2**19, 8000),
    Case("mnist-all", Lasso(0.05), 2**14, 400),
    Case("mnist-all", Lasso(0.02), 2**14, 400),
    Case("clip", Lasso(0.1), 2**13, 200),
    Case("clip", Lasso(0.05), 2**13, 200),
    Case("million", Lasso(0.1), 2**10, 16),
)
QUICK = ("yaleb", "mnist", "uiuc")


def measure_compiling(device: Any) -> list[dict[str, Any]]:
    """Time the first call of each kernel, which compiles it, with nothing in Triton's cache, and the second."""
    import torch

    from srosr.coding.device.path_solver import PathSolver, Variant

    out: list[dict[str, Any]] = []
    atoms = unit_rows(np.random.default_rng(SEED).standard_normal((2048, 256)))
    for n_atoms in (512, 2048):
        gram = torch.tensor(atoms[:n_atoms] @ atoms[:n_atoms].T, device=device)
        for problem in (Lasso(0.3), BPDN(0.9)):
            solver = PathSolver(problem.require_path_end(), 256, device)
            for n_slots in (64, 128, 256):
                seconds = []
                for _ in range(2):
                    start = time.perf_counter()
                    solver._launch(Variant(n_slots, True), gram, None, gram[:64], gram.diagonal()[:64].contiguous())
                    torch.cuda.synchronize()
                    seconds.append(time.perf_counter() - start)
                what = "Lasso" if isinstance(problem, Lasso) else "BPDN"
                out.append(
                    {"problem": what, "atoms": n_atoms, "slots": n_slots, "first": seconds[0], "then": seconds[1]}
                )
    return out


def measure_case(case: Case, data: Samples, device: Any, ceilings: Any, *, repeats: int) -> dict[str, Any]:
    """Measure one case, on the card and on the CPU."""
    import torch

    from benchmarks.gpu_ceilings import time_on_card

    rng = np.random.default_rng(SEED)
    drawn = data.queries[rng.integers(0, len(data.queries), case.n_card)]
    dictionary = Dictionary(data.atoms)
    X = torch.tensor(drawn, device=device)
    start = time.perf_counter()
    codes = sparse_encode(X, dictionary, case.problem, device=device, n_jobs=-1, tol=TOLERANCE)
    torch.cuda.synchronize()
    first = time.perf_counter() - start

    def encode(samples: Any) -> Any:
        return sparse_encode(samples, dictionary, case.problem, device=device, n_jobs=-1, tol=TOLERANCE)

    seconds = time_on_card(partial(encode, X), repeats)
    by_arrays = time_on_card(partial(encode, drawn[: case.n_card // 4]), 2)
    gap = codes.gap.cpu().numpy()
    used = torch.diff(codes.codes.crow_indices()).double().mean().item()
    row = {
        "set": case.name,
        "problem": describe(case.problem),
        "atoms": len(data.atoms),
        "features": data.atoms.shape[1],
        "samples": case.n_card,
        "rate": case.n_card / seconds,
        "rate of arrays": case.n_card // 4 / by_arrays,
        "first call": first,
        "certified": float((codes.status != "max_iter").mean()),
        "on the card": float(codes.on_device.double().mean()),
        "median gap": float(np.median(gap)),
        "largest gap": float(gap.max()),
        "largest violation": float(codes.violation.max()),
        "atoms used": used,
    }
    del X, codes
    row |= _count_floor(case, data, dictionary, device, ceilings, drawn, row)
    row |= _compare_with_cpu(case, dictionary, device, drawn)
    for threads in (2, -1):
        some = drawn[: case.n_cpu if threads == -1 else max(case.n_cpu // 4, 16)]
        code = partial(sparse_encode, some, dictionary, case.problem, n_jobs=threads)
        sparse_encode(some[:8], dictionary, case.problem, n_jobs=threads)
        row[f"CPU {threads}"] = len(some) / min(clock(code)[0] for _ in range(2))
    return row


def _compare_with_cpu(case: Case, dictionary: Dictionary, device: Any, drawn: NDArray) -> dict[str, Any]:
    """Return how much codes of the card and of the CPU differ."""
    some = drawn[: min(COMPARED, max(case.n_cpu // 4, 16))]
    here = sparse_encode(some, dictionary, case.problem, n_jobs=-1)
    there = sparse_encode(some, dictionary, case.problem, device=device)
    apart = abs(here.codes - there.codes)
    return {
        "largest difference": float(apart.max()) if apart.nnz else 0.0,
        "same status": bool((here.status == there.status).all()),
        "compared": len(some),
    }


def _count_floor(
    case: Case, data: Samples, dictionary: Dictionary, device: Any, ceilings: Any, drawn: NDArray, row: dict[str, Any]
) -> dict[str, Any]:
    """Count what a sample takes at least, and what the solver reads for it.

    Any coder has to multiply the sample with all atoms, and all atoms with those of the code to certify it (operations
    in double precision, at the measured rate of products), and to read the sample from memory. Our solver reads rows of
    the Gram matrix and its tables from the cache; the time for these bytes at the measured bandwidth is the share of
    its ceiling.
    """
    import torch

    from srosr.coding.device import DeviceCoder
    from srosr.dictionary.device_dictionary import put_on_device

    n, m = data.atoms.shape
    coder = DeviceCoder(put_on_device(dictionary, device), case.problem, TOLERANCE)
    rate, operations = row["rate"], 2 * n * m + 2 * n * row["atoms used"]
    floor = max(operations / ceilings.double, 8 * m / ceilings.memory)
    out = {"floor": 1.0 / floor, "share of floor": rate * floor}
    if not coder.by_features and case.problem.path_end is not None and coder._inverse is None:
        queries = coder.dictionary.query(torch.tensor(drawn[:4096], device=device))
        cross = queries.cross if coder._copies is None else queries.cross[:, coder._copies.firsts]
        for _ in range(2):  # the second time with as many slots as most samples need
            found = coder._solver.solve(coder._gram, cross, queries.squared_norms, coder._coarse_gram)
        size = 4 if coder._solver.is_coarse else 8
        read = size * (found.gram_rows.double() * coder._gram.shape[1] + found.table_entries.double()).mean().item()
        out |= {
            "passes": found.passes.double().mean().item(),
            "steps": found.steps.double().mean().item(),
            "bytes from the cache": read,
            "share of the cache": rate * read / ceilings.cache,
        }
    return out


def measure_fit(device: Any, n: int = 6000) -> dict[str, Any]:
    """Time ``fit`` and ``predict`` of the default rule on MNIST, on card and CPU, and compare the answers."""
    from benchmarks.problems import read_mnist
    from srosr import SROSRClassifier

    X, y = read_mnist("train")
    X_test, _ = read_mnist("test")
    rng = np.random.default_rng(SEED)
    known = np.sort(rng.permutation(10)[:6])
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == c))[: n // 6] for c in known])
    out: dict[str, Any] = {"samples": len(rows), "features": X.shape[1]}
    X, X_test, y = X[rows].astype(np.float64), X_test.astype(np.float64), y[rows]
    models = {}
    for name, where in (("card", device), ("CPU", "cpu")):
        for turn in ("first fit", "fit"):  # the first one compiles
            start = time.perf_counter()
            models[name] = SROSRClassifier(random_state=0, device=where, n_jobs=-1).fit(X, y)
            out[f"{turn}, {name}"] = time.perf_counter() - start
        some = X_test if name == "card" else X_test[:2000]
        models[name].predict(some[:100])
        start = time.perf_counter()
        models[name].predict(some)
        out[f"predict, {name}"] = len(some) / (time.perf_counter() - start)
    return out | _compare_models(models["card"], models["CPU"], X_test[:2000])


def _compare_models(card: Any, cpu: Any, X: NDArray) -> dict[str, Any]:
    labels, scores = card.predict(X), card.unknown_score(X)
    apart = np.abs(scores - cpu.unknown_score(X))
    return {
        "labels compared": len(X),
        "labels that differ": int((labels != cpu.predict(X)).sum()),
        "largest difference of unknown scores": float(apart.max()),
        "difference of thresholds": float(np.abs(np.asarray(card.threshold_) - np.asarray(cpu.threshold_)).max()),
    }


def measure_labels(device: Any) -> Iterator[dict[str, Any]]:
    """Fit and predict the test sets of the accuracy benchmark on the card and on the CPU, and compare the answers."""
    from benchmarks.trials import TRIALS
    from srosr import SROSRClassifier

    for name, trials in TRIALS.items():
        try:
            trial = trials.draw(SEED)
        except Unavailable as missing:
            yield {"set": name, "skipped": str(missing)}
            continue
        models = [
            SROSRClassifier(random_state=0, device=where, n_jobs=-1, n_repeats=10).fit(trial.X, trial.y)
            for where in (device, "cpu")
        ]
        yield {"set": name} | _compare_models(*models, trial.X_test)


def measure_experiment(device: Any, n_problems: int = 350_000) -> dict[str, Any]:
    """Time the coding of the Yale B experiment: so many pictures, over 50 dictionaries of 80 % of the atoms."""
    import torch

    data = _from(yaleb, 1900)
    rng = np.random.default_rng(SEED)
    out: dict[str, Any] = {"problems": n_problems}
    n_splits = 50
    for problem in (Lasso(0.02), BPDN(0.001)):
        seconds = 0.0
        sparse_encode(data.queries, data.atoms, problem, device=device)
        for _ in range(n_splits):
            atoms = data.atoms[np.sort(rng.permutation(len(data.atoms))[: round(0.8 * len(data.atoms))])]
            X = torch.tensor(data.queries[rng.integers(0, len(data.queries), n_problems // n_splits)], device=device)
            torch.cuda.synchronize()
            start = time.perf_counter()
            sparse_encode(X, atoms, problem, device=device, n_jobs=-1)
            torch.cuda.synchronize()
            seconds += time.perf_counter() - start
        out[describe(problem)] = seconds
    return out


def describe_machine(device: Any) -> dict[str, Any]:
    """Return what the measurements ran on."""
    import torch
    import triton

    return {
        "card": torch.cuda.get_device_name(device),
        "memory": torch.cuda.get_device_properties(device).total_memory,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def print_cases(out: Console, rows: list[dict[str, Any]], cores: int) -> None:
    """Print the table of the cases, and that of their floors."""
    table = report.new_table(
        out, "set", "atoms", "problem", "samples/s", "arrays", "certified", "on the card", "largest gap", "difference",
        "2 threads", "ratio", f"{cores} cores", "ratio ", "of arrays", "first s", texts=("problem",),
    )  # fmt: skip
    for r in rows:
        table.add_row(
            r["set"], f"{r['atoms']:,}", r["problem"], f"{r['rate']:,.0f}", f"{r['rate of arrays']:,.0f}",
            f"{100 * r['certified']:.4g} %", f"{100 * r['on the card']:.5g} %", f"{r['largest gap']:.1e}",
            f"{r['largest difference']:.1e}", f"{r['CPU 2']:,.0f}", f"{r['rate'] / r['CPU 2']:,.0f}",
            f"{r['CPU -1']:,.0f}", f"{r['rate'] / r['CPU -1']:,.1f}", f"{r['rate of arrays'] / r['CPU -1']:,.1f}",
            f"{r['first call']:.1f}",
        )  # fmt: skip
    out.print(table)
    table = report.new_table(
        out, "set", "problem", "atoms used", "passes", "steps", "KB of cache", "share of the cache", "floor, samples/s",
        "share of the floor", texts=("problem",),
    )  # fmt: skip
    for r in rows:
        counted = (
            [f"{r['passes']:.1f}", f"{r['steps']:.1f}", f"{r['bytes from the cache'] / 1024:,.0f}",
             f"{100 * r['share of the cache']:.0f} %"]
            if "passes" in r
            else ["", "", "", ""]
        )  # fmt: skip
        table.add_row(
            r["set"], r["problem"], f"{r['atoms used']:.1f}", *counted, f"{r['floor']:,.0f}",
            f"{100 * r['share of floor']:.1f} %",
        )  # fmt: skip
    out.print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", metavar="SETS", help=f"Comma-separated sets: {', '.join(SETS)}; by default {', '.join(QUICK)}.")
@click.option("--fit", is_flag=True, help="Also time fit and predict of the default rule on 6,000 MNIST pictures.")
@click.option("--labels", is_flag=True, help="Also compare labels and unknown scores with the CPU on all test sets.")
@click.option("--compile", "compiling", is_flag=True, help="First time how long each kernel takes to compile.")
@click.option("--experiment", is_flag=True, help="Also time the coding of the Yale B experiment.")
@click.option(
    "--repeat", type=click.IntRange(1), default=3, show_default=True, help="Timed repeats, the shortest counts."
)
@click.option("--device", default="cuda", show_default=True, help="The card.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="Where the records go.  [benchmarks/results/gpu.json]",
)
def main(
    only: str | None, fit: bool, labels: bool, compiling: bool, experiment: bool, repeat: int, device: str, path: Path
) -> None:
    """Time coding on a GPU against the CPU of the same machine and against the ceilings of the card."""
    if compiling:  # Triton then has nothing on disk
        os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    from srosr._support.devices import DeviceError, find_device

    names = list(QUICK) if only is None else [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in names if name not in SETS]:
        raise click.BadParameter(f"{', '.join(unknown)} is not among: {', '.join(SETS)}", param_hint="--only")
    try:
        card = find_device(device)
    except DeviceError as error:
        raise click.ClickException(str(error)) from None
    if card is None or card.type != "cuda":
        raise click.ClickException("there is no card to measure.")
    from benchmarks.gpu_ceilings import measure_ceilings

    out, records = report.console(), {"machine": describe_machine(card)}
    ceilings = measure_ceilings(card)
    records["ceilings"] = asdict(ceilings)
    out.print(
        f"{records['machine']['card']}, {records['machine']['cores']} cores; PyTorch {records['machine']['torch']}, "
        f"Triton {records['machine']['triton']}. Ceilings: memory {ceilings.memory / 1e12:.2f} TB/s, cache "
        f"{ceilings.cache / 1e12:.2f} TB/s, products {ceilings.double / 1e12:.0f} (double) and "
        f"{ceilings.single / 1e12:.0f} (single) TFLOP/s."
    )
    if compiling:
        records["compiling"] = measure_compiling(card)
        for one in records["compiling"]:
            out.print(
                f"kernel for {one['problem']}, {one['slots']} slots, {one['atoms']} atoms: first call "
                f"{one['first']:.2f} s, second {1e3 * one['then']:.1f} ms"
            )
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            data = SETS[name]()
        except Unavailable as missing:
            out.print(f"{name}: skipped, {missing}")
            continue
        for case in CASES:
            if case.name == name:
                out.print(f"… {data.title}: {describe(case.problem)}", style="dim")
                rows.append(measure_case(case, data, card, ceilings, repeats=repeat))
                out.print(f"  {rows[-1]['rate']:,.0f} samples/s", style="dim")
                _write(path, records | {"cases": rows})  # a run that is stopped keeps what it has measured
    records["cases"] = rows
    if rows:
        print_cases(out, rows, records["machine"]["cores"])
    if experiment:
        records["experiment"] = measure_experiment(card)
        out.print(f"Yale B experiment: {records['experiment']}")
    if fit:
        records["fit"] = measure_fit(card)
        out.print(f"fit and predict: {records['fit']}")
    if labels:
        records["labels"] = []
        for record in measure_labels(card):
            records["labels"].append(record)
            out.print(f"labels: {record}")
    _write(path, records)


def _write(path: Path, records: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
