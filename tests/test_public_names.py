"""What ``import srosr`` promises: every name is there, light, and stays what it is."""

from __future__ import annotations

import doctest
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import srosr

#: What modules import that need an extra: they are left out where it is not installed.
EXTRAS = (
    "fastapi", "h11", "prometheus_client", "pydantic", "pydantic_core", "python_multipart", "starlette", "triton",
    "uvicorn",
)  # fmt: skip


def test_no_part_of_the_package_has_a_public_name():
    """Once it is imported, it would take the place of what has the name."""
    assert not {part.name for part in pkgutil.iter_modules(srosr.__path__)} & set(srosr.__all__)


@pytest.mark.slow
def test_every_public_name_is_what_its_home_holds_whatever_was_imported_before():
    """A module of the package with the name of a function would take its place once imported."""
    program = (
        "import importlib, pkgutil, srosr\n"
        f"extras = {EXTRAS!r}\n"
        "for part in pkgutil.walk_packages(srosr.__path__, 'srosr.'):\n"
        "    if part.name.endswith('.__main__'): continue\n"
        "    try: importlib.import_module(part.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name.partition('.')[0] not in extras: raise\n"
        "import types\n"
        "wrong = [n for n in srosr.__all__ if isinstance(getattr(srosr, n), types.ModuleType)]\n"
        "assert not wrong, wrong\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_every_public_name_is_there_and_has_a_docstring():
    assert len(srosr.__all__) == len(set(srosr.__all__)) > 90
    for name in srosr.__all__:
        assert getattr(srosr, name).__doc__ or name == "__version__", name


def test_importing_the_package_loads_nothing_heavy():
    heavy = "('numpy', 'scipy', 'sklearn', 'numba', 'pandas', 'matplotlib', 'torch', 'safetensors')"
    program = f"import sys, srosr; found = [m for m in {heavy} if m in sys.modules]; assert not found, found"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["open-set-recognition", "how-it-works", "small-dictionaries", "questions"])
def test_the_sessions_of_the_guide_run_as_printed(page):
    path = Path(__file__).resolve().parents[1] / "docs" / "guide" / f"{page}.md"
    failed, tried = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert tried and not failed


@pytest.mark.slow
def test_the_python_of_the_page_on_rivals_runs_as_printed(tmp_path):
    text = (Path(__file__).resolve().parents[1] / "docs" / "rivals.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, timeout=300, check=True)
    assert (tmp_path / "digits.srosr").exists()


def test_the_page_on_rivals_has_a_line_for_each_method():
    text = (Path(__file__).resolve().parents[1] / "docs" / "rivals.md").read_text()
    for name, clf in srosr.open_set_methods().items():
        assert len(re.findall(rf"^\| {re.escape(name)} \|", text, re.MULTILINE)) == 4, name  # cost, AUROC, F, OSCR
        assert f"`{type(clf).__name__}" in text
