"""How much of a test the default run does, and how much ``--slow`` adds.

The default run is the one of README.md: a few minutes. ``python -m pytest --slow`` runs every test with every parameter
and more examples of the property tests; ``conftest.py`` has the option.
"""

import pytest
from hypothesis import settings

# The number of examples that hypothesis itself would try; the profiles in conftest.py are fractions of it.
FULL = 100


def examples(n):
    """Return the number of examples of a property test: ``n`` with ``--slow``, a quarter of it without."""
    return max(n * settings.default.max_examples // FULL, min(n, 5))


def slow_except(quick, values):
    """Return the parameters ``values``, of which all but those in ``quick`` are marked as slow; a tuple is several."""
    values, quick = list(values), list(quick)
    missing = [value for value in quick if value not in values]
    assert not missing, f"not among the parameters: {missing}"
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*parts, marks=() if value in quick else pytest.mark.slow)
        for value, parts in zip(values, several, strict=True)
    ]
