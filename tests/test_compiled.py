"""Loops are compiled wherever the package can be read, also where compiled code cannot be kept."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import caching

from srosr._support import compiled


def test_without_a_folder_for_compiled_code_none_is_asked_for(monkeypatch):
    if not compiled._can_cache():
        pytest.skip("no folder for compiled code can be written here")
    classes = [kind for kind in vars(caching).values() if isinstance(kind, type) and hasattr(kind, "_locator_classes")]
    assert classes
    for kind in classes:
        monkeypatch.setattr(kind, "_locator_classes", [])
    assert not compiled._can_cache()


def test_all_functions_are_compiled_with_the_options_of_one_module():
    package = Path(compiled.__file__).parents[1]
    numba = re.compile(r"^\s*(from|import) numba\b", re.MULTILINE)
    importers = [path for path in package.rglob("*.py") if numba.search(path.read_text("utf-8"))]
    assert importers == [Path(compiled.__file__)]


@pytest.mark.slow
def test_the_package_works_without_a_folder_for_compiled_code():
    program = (
        "from numba.core import caching\n"
        "for kind in list(vars(caching).values()):\n"
        "    if isinstance(kind, type) and hasattr(kind, '_locator_classes'): kind._locator_classes = []\n"
        "import numpy as np, srosr\n"
        "print(srosr.sparse_encode(np.eye(3), np.eye(3), srosr.OMP(1)).toarray().tolist() == np.eye(3).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
