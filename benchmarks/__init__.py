"""Benchmarks: of the coder against other solvers, and of the recogniser against other methods, on real data.

Run from the root of the repository: ``python -m benchmarks.coding`` (speed and certificates; a judge trusts no solver),
``python -m benchmarks.large`` (36,000 atoms within a memory limit), ``python -m benchmarks.accuracy`` (open set trials and
coverage) or ``python -m benchmarks.fitting`` (what a fit costs beside its coding).
"""
