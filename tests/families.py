"""Dictionaries of the kinds real data bring, and the queries that go with them, as hypothesis strategies.

Each family is a function (rng, n_atoms, n_features) -> atoms as rows. Sizes and seeds are drawn by
hypothesis, so a failing case shrinks toward few atoms, few features and a small seed.

``FAMILIES`` have an unambiguous numerical rank. In ``BLURRED`` atoms almost repeat each other, so
that the rank depends on who asks: there every claim holds that does not mention the span.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


def gaussian(rng, n, m):
    return rng.standard_normal((n, m))


def unit_gaussian(rng, n, m):
    atoms = rng.standard_normal((n, m))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def duplicated(rng, n, m):
    """Draw every atom with replacement from about a third as many distinct ones."""
    return rng.standard_normal((max(1, n // 3), m))[rng.integers(0, max(1, n // 3), n)]


def sign_flipped(rng, n, m):
    """Return atoms and their negatives, so that the optimum is never unique."""
    half = rng.standard_normal(((n + 1) // 2, m))
    return np.concatenate([half, -half])[rng.permutation(2 * len(half))[:n]]


def collinear(rng, n, m):
    """Return atoms of which the later half are combinations of the earlier half."""
    base = rng.standard_normal(((n + 1) // 2, m))
    mixing = rng.standard_normal((n - len(base), len(base)))
    return np.concatenate([base, mixing @ base])


def multiples(rng, n, m):
    """Return few directions, each at several lengths: only the longest of a direction is useful."""
    base = rng.standard_normal((max(1, n // 3), m))
    return rng.choice([-2.0, 0.5, 1.0, 2.0], n)[:, None] * base[rng.integers(0, len(base), n)]


def zeros_among(rng, n, m):
    atoms = rng.standard_normal((n, m))
    atoms[rng.random(n) < 0.4] = 0.0
    return atoms


def binary(rng, n, m):
    """Return attribute-like atoms: sparse zeros and ones from a few class prototypes, with many equal rows and ties."""
    prototypes = rng.random((4, m)) < 0.35
    flips = rng.random((n, m)) < 0.1
    return (prototypes[rng.integers(0, 4, n)] ^ flips).astype(float)


def unit_binary(rng, n, m):
    atoms = binary(rng, n, m)
    lengths = np.linalg.norm(atoms, axis=1, keepdims=True)
    return atoms / np.where(lengths > 0, lengths, 1.0)


def coherent(rng, n, m):
    """Return atoms with a common mean and a little noise, like pictures of one face."""
    atoms = rng.random(m) + 0.5 + 0.02 * rng.standard_normal((n, m))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def low_rank_integers(rng, n, m):
    rank = rng.integers(1, 5)
    return (rng.integers(-2, 3, (n, rank)) @ rng.integers(-2, 3, (rank, m))).astype(float)


def small_integers(rng, n, m):
    """Return entries -1, 0, 1: correlations tie exactly again and again along the path."""
    return rng.integers(-1, 2, (n, m)).astype(float)


def mixed_lengths(rng, n, m):
    return rng.standard_normal((n, m)) * 10.0 ** rng.uniform(-2, 2, (n, 1))


def tiny(rng, n, m):
    return 1e-7 * rng.standard_normal((n, m))


def huge(rng, n, m):
    return 1e7 * rng.standard_normal((n, m))


def near_duplicates(rng, n, m):
    """Return copies that differ in the last digits, by anything from 1e-3 to 1e-12."""
    base = rng.standard_normal((max(1, n // 3), m))
    noise = 10.0 ** rng.uniform(-12, -3, (n, 1)) * rng.standard_normal((n, m))
    return base[rng.integers(0, len(base), n)] + noise


def near_collinear(rng, n, m):
    atoms = collinear(rng, n, m)
    return atoms + 10.0 ** rng.uniform(-10, -3) * rng.standard_normal((n, m))


def decaying_spectrum(rng, n, m):
    """Return atoms whose singular values fall smoothly over fifteen orders of magnitude, like smooth spectra."""
    k = min(n, m)
    left, _ = np.linalg.qr(rng.standard_normal((n, k)))
    right, _ = np.linalg.qr(rng.standard_normal((m, k)))
    return (left * 10.0 ** -np.linspace(0, 15, k)) @ right.T


BLURRED = {family.__name__: family for family in (near_duplicates, near_collinear, decaying_spectrum)}

FAMILIES = {
    family.__name__: family
    for family in (
        gaussian,
        unit_gaussian,
        duplicated,
        sign_flipped,
        collinear,
        multiples,
        zeros_among,
        binary,
        unit_binary,
        coherent,
        low_rank_integers,
        small_integers,
        mixed_lengths,
        tiny,
        huge,
    )
}


def _query(kind, rng, atoms):
    n, m = atoms.shape
    length = np.linalg.norm(atoms, axis=1).max() or 1.0
    if kind == "outside":
        return length * rng.standard_normal(m)
    if kind == "atom":
        return rng.choice([-1.0, 1.0]) * atoms[rng.integers(n)]
    if kind == "near an atom":
        return atoms[rng.integers(n)] + 0.1 * length * rng.standard_normal(m) / np.sqrt(m)
    if kind == "mixture":
        weights = np.zeros(n)
        weights[rng.integers(0, n, 3)] = rng.choice([-1.0, 1.0, 2.0], 3)
        return weights @ atoms
    if kind == "integers":
        return length * rng.integers(-1, 2, m)
    return np.zeros(m)


QUERY_KINDS = ("outside", "atom", "near an atom", "mixture", "integers", "zero")


class Case:
    """A dictionary and a few queries."""

    def __init__(self, family, n_atoms, n_features, seed, n_queries):
        rng = np.random.default_rng(seed)
        self.name = f"{family}, N={n_atoms}, M={n_features}, seed={seed}, queries={n_queries}"
        self.rng = rng
        self.atoms = (FAMILIES | BLURRED)[family](rng, n_atoms, n_features)
        kinds = rng.permutation(QUERY_KINDS)[:n_queries]
        self.kinds = list(kinds)
        self.queries = np.array([_query(kind, rng, self.atoms) for kind in kinds])

    def __repr__(self):
        return f"Case({self.name})"


def cases(families=tuple(FAMILIES), max_atoms=40, max_features=30, max_queries=3):
    """Return a strategy of cases; N < M, N > M, N = 1 and M = 1 all occur."""
    return st.builds(
        Case,
        st.sampled_from(list(families)),
        st.integers(1, max_atoms),
        st.integers(1, max_features),
        st.integers(0, 2**16),
        st.integers(1, max_queries),
    )
