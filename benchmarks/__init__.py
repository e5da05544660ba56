"""Benchmarks: of the coder against other solvers, and of the recogniser against other methods, on real data.

Run from the root of the repository:

- ``python -m benchmarks.coding``: speed and certificates, judged by code that trusts no solver;
- ``python -m benchmarks.large``: 36,000 atoms within a memory limit;
- ``python -m benchmarks.tails``: the Pareto fit beside scipy's;
- ``python -m benchmarks.accuracy``: open set trials, and how well a target rate of false rejection is kept;
- ``python -m benchmarks.ablation``: what the parts of the calibrated rule are worth;
- ``python -m benchmarks.fitting``: what a fit costs beside its coding, and a new class beside a fit.
"""
