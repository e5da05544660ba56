"""Benchmarks of the coder against other solvers and of the recognizer against other methods, on real data.

Run from the root of the repository:

- ``python -m benchmarks.coding``: speed and certificates, checked by code that trusts no solver;
- ``python -m benchmarks.large``: 36,000 atoms within a memory limit;
- ``python -m benchmarks.tails``: the Pareto fit compared with scipy's;
- ``python -m benchmarks.accuracy``: open set trials, and how well a target rate of false rejection is met;
- ``python -m benchmarks.ablation``: what each part of the calibrated rule contributes;
- ``python -m benchmarks.fitting``: what a fit costs beyond its coding, and what adding a class costs;
- ``python -m benchmarks.growth``: time and memory of fit and predict against the number of samples, with exponents;
- ``python -m benchmarks.cluster``: one against two Dask workers, and what a killed worker costs;
- ``python -m benchmarks.house``: the rooms of the package, their sizes and their imports.
"""
