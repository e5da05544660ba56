"""Loops are compiled wherever the package can be read, also where compiled code cannot be kept."""

from functools import partial

import pytest
from numba import njit
from numba.core import caching

from srosr._support import compiled


def test_without_a_folder_for_compiled_code_functions_are_compiled_in_every_process(monkeypatch):
    if not compiled._can_cache():
        pytest.skip("no folder for compiled code can be written here")
    classes = [kind for kind in vars(caching).values() if isinstance(kind, type) and hasattr(kind, "_locator_classes")]
    assert classes
    for kind in classes:
        monkeypatch.setattr(kind, "_locator_classes", [])
    assert not compiled._can_cache()
    options = compiled._OPTIONS | {"cache": compiled._can_cache()}
    assert partial(njit, **options)()(lambda x: x + 1)(2) == 3
