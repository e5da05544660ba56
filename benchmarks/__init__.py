"""Benchmarks of the coder: problems, opponents and a judge that trusts none of them.

Run ``python -m benchmarks.coding`` (speed and certificates against other solvers) or
``python -m benchmarks.large`` (36,000 atoms within a memory limit) from the root of the repository.
"""
