"""Our interior point method for hard codes compared with Clarabel: ``python -m benchmarks.interior``."""

from __future__ import annotations

import time

import click
import numpy as np

from benchmarks import report
from benchmarks.problems import Unavailable
from benchmarks.trials import mnist
from srosr import BPDN, Dictionary, sparse_encode
from srosr._support.threads import one_blas_thread
from srosr.coding.solvers import fallback
from srosr.coding.solvers.interior_point import basis_pursuit

#: Test samples of the trial with seed 100 for which the homotopy path does not end in a certified code.
SAMPLES = (123, 128, 130, 144, 156)
ATOMS = 600
"""Default number of atoms for the comparison; with all 1,800 Clarabel takes minutes per sample."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--samples", type=click.IntRange(1, len(SAMPLES)), default=3, show_default=True)
@click.option("--atoms", type=click.IntRange(100, 1800), default=ATOMS, show_default=True, help="For the comparison.")
def main(samples: int, atoms: int) -> None:
    """Time BPDN(0.001) over MNIST pictures, one sample at a time, and print how much the two objectives differ."""
    try:
        trial = mnist(100)
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    out = report.console()
    dictionary = Dictionary(trial.X[:atoms], trial.y[:atoms], normalize=True)
    X = trial.X_test[: 2 * samples : 2]
    sparse_encode(X[:1], dictionary, BPDN(0.001))
    spectrum = fallback.Spectrum(dictionary.squared_norms, atoms=dictionary.linear_atoms)
    table = report.new_table(out, "sample", "interior s", "Clarabel s", "ratio", "relative difference")
    queries = dictionary.query(X)
    for i, (corr, square) in enumerate(zip(queries.cross, queries.squared_norms, strict=True)):
        target = spectrum.project(corr[None])[0]
        epsilon = 1.1 * float(np.sqrt(max(square - target @ target, 0.0))) + 0.001
        with one_blas_thread():
            started = time.perf_counter()
            found = basis_pursuit(spectrum.features, target, epsilon)
            middle = time.perf_counter()
            conic, _ = fallback._solve_conic(spectrum, corr, epsilon=epsilon)
            ended = time.perf_counter()
        ours, theirs = np.inf if found is None else np.abs(found[0]).sum(), np.abs(conic).sum()
        table.add_row(
            str(i),
            f"{middle - started:.2f}",
            f"{ended - middle:.2f}",
            f"{(ended - middle) / (middle - started):.0f}",
            f"{ours / theirs - 1:.1e}",
        )
    report.show(out, f"BPDN over {atoms} MNIST pictures of rank {len(spectrum.singular)}", table)
    whole = Dictionary(trial.X, trial.y, normalize=True)
    rows = list(SAMPLES[:samples])
    sparse_encode(trial.X_test[:1], whole, BPDN(0.001))
    started = time.perf_counter()
    codes = sparse_encode(trial.X_test[rows], whole, BPDN(0.001))
    seconds = (time.perf_counter() - started) / samples
    out.print(
        f"All {len(trial.X)} atoms, samples without a certified homotopy code: {seconds:.1f} s each, "
        f"worst gap {codes.gap.max():.0e}."
    )


if __name__ == "__main__":
    main()
