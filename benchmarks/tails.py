"""Our generalized Pareto fit compared with scipy's: which likelihood is larger, and how long a fit takes.

``python -m benchmarks.tails`` draws seeded samples (shape in ±0.9, 10 to 5,000 excesses, scales 1e-3 to 1e3), fits each
with `srosr.fit_gpd` and with scipy's generic fit from three starts, and counts how often scipy's likelihood is larger
although its shape is at least −1, where the likelihood has a maximum.
"""

from __future__ import annotations

import time
import warnings

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import genpareto

from srosr import fit_gpd

SIZES = (10, 100, 1000, 5000)
TOLERANCE = 1e-8


@click.command(help=__doc__)
@click.option("--samples", default=100, show_default=True, help="Samples to fit.")
@click.option("--seed", default=0, show_default=True)
def main(samples: int, seed: int) -> None:
    """Run the comparison."""
    rng, console = np.random.default_rng(seed), Console()
    compared = worse = boundary = 0
    largest, theirs = -np.inf, 0.0
    fit_gpd(rng.random(20))  # compiles
    for _ in range(samples):
        xi, n = rng.uniform(-0.9, 0.9), int(np.exp(rng.uniform(np.log(10), np.log(5000))))
        z = genpareto.rvs(xi, scale=10 ** rng.uniform(-3, 3), size=n, random_state=rng)
        *_, likelihood, at_boundary = fit_gpd(z)
        boundary += at_boundary
        for start in (-0.3, 0.1, 0.5):
            started = time.perf_counter()
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    shape, _, scale = genpareto.fit(z, start, floc=0)
                    other = genpareto.logpdf(z, shape, scale=scale).sum()
                except (RuntimeError, ValueError):
                    continue
            theirs += time.perf_counter() - started
            if shape >= -1 and np.isfinite(other):
                compared += 1
                largest = max(largest, other - likelihood)
                worse += other > likelihood + TOLERANCE
    console.print(
        f"{samples} samples, {compared} comparisons: scipy's log-likelihood larger by over {TOLERANCE:g} in {worse}, "
        f"at most {largest:.1e} larger; {boundary} at the boundary; scipy {theirs / samples / 3e-3:.0f} ms per fit"
    )
    table = Table("excesses", "median ms", "largest of 200, ms")
    for n in SIZES:
        z, spent = genpareto.rvs(-0.2, size=n, random_state=rng), []
        for _ in range(200):
            started = time.perf_counter()
            fit_gpd(z)
            spent.append(time.perf_counter() - started)
        table.add_row(str(n), f"{np.median(spent) * 1e3:.3f}", f"{max(spent) * 1e3:.3f}")
    console.print(table)


if __name__ == "__main__":
    main()
