"""What the documentation promises: every exported name has its page and its parameters, every link leads somewhere."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import srosr

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SUBPACKAGES = ("datasets", "metrics", "rivals", "features", "distributed", "experiments", "model_selection")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [page for page in PAGES if not {"_build", "auto_examples"} & set(page.relative_to(ROOT).parts)]


# -- the reference -----------------------------------------------------------------------------------------


def listed_in_the_reference() -> list[str]:
    """Return the names in the autosummary tables of docs/api, relative to srosr."""
    names: list[str] = []
    for page in sorted((DOCS / "api").glob("*.rst")):
        for table in re.findall(
            r"\.\. autosummary::\n(?:   :.*\n)+\n((?:   \S+\n)+)", page.read_text(encoding="utf-8")
        ):
            names += table.split()
    return names


def found(name: str) -> Any:
    """Return the object that a name in the reference refers to."""
    module, _, last = f"srosr.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_every_exported_name_is_in_the_reference_and_only_once():
    listed = listed_in_the_reference()
    assert sorted(set(listed)) == sorted(listed)
    assert set(srosr.__all__) - {"__version__"} <= set(listed)


def test_every_page_of_the_reference_is_reached_from_its_index():
    index = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    for page in (DOCS / "api").glob("*.rst"):
        assert page.stem == "index" or f"\n   {page.stem}\n" in index, page.stem


# -- docstrings --------------------------------------------------------------------------------------------


def section(doc: str, title: str) -> set[str]:
    """Return the names that a section of a numpydoc docstring describes."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", doc, re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^([*\w]\S*(?:, [*\w]\S*)*)(?: :.*)?$", match[1], re.MULTILINE) if match else []
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def parameters(thing: Any) -> set[str]:
    """Return the names of the parameters of a call, without self and those that are private."""
    return {name for name in inspect.signature(thing).parameters if name != "self" and not name.startswith("_")}


def documented() -> list[str]:
    kinds = (type, type(documented))
    return [name for name in listed_in_the_reference() if isinstance(found(name), kinds)]


def test_the_reader_of_docstrings_sees_what_is_written():
    doc = """Title.

Parameters
----------
a, b : int
    Text: more.
**rest
c
    Text.

Returns
-------
d : int
"""
    assert section(doc, "Parameters") == {"a", "b", "rest", "c"}
    assert section(doc, "Returns") == {"d"}
    assert section(doc, "Attributes") == set()


@pytest.mark.parametrize("name", documented())
def test_a_docstring_has_the_parameters_of_the_signature(name):
    thing = found(name)
    doc = inspect.cleandoc(thing.__doc__ or "")
    assert doc, f"srosr.{name} has no docstring"
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return
    described = section(doc, "Parameters")
    if is_dataclass(thing):  # results and settings: a field is an attribute too
        described |= section(doc, "Attributes")
    if inspect.isabstract(thing) and not described:  # never made by a user
        return
    assert parameters(thing) == described & parameters(thing), f"{name}: {parameters(thing) - described} not described"
    extra = section(doc, "Parameters") - parameters(thing)
    assert not extra, f"{name}: {extra} described but not taken"


def methods_of(thing: type) -> list[tuple[str, Any]]:
    """Return the public methods that the package itself defines."""
    found = inspect.getmembers(thing, inspect.isroutine)
    return [(n, m) for n, m in found if not n.startswith("_") and getattr(m, "__module__", "").startswith("srosr")]


@pytest.mark.parametrize("name", [name for name in documented() if isinstance(found(name), type)])
def test_every_public_method_says_what_it_does_and_describes_no_parameter_that_it_does_not_take(name):
    for method, function in methods_of(found(name)):
        doc = inspect.getdoc(function)
        assert doc, f"srosr.{name}.{method} has no docstring"
        extra = section(doc, "Parameters") - parameters(function)
        assert not extra, f"{name}.{method}: {extra} described but not taken"


@pytest.mark.parametrize("package", SUBPACKAGES)
def test_the_subpackages_say_what_they_are_for(package):
    module = importlib.import_module(f"srosr.{package}")
    assert isinstance(module, ModuleType) and module.__doc__


# -- links -------------------------------------------------------------------------------------------------


def links(page: Path) -> list[str]:
    """Return the relative targets of links and pictures in a Markdown page, outside code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "`code`", text)
    targets = re.findall(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", text)
    targets += re.findall(r"<img[^>]*\ssrc=\"([^\"]+)\"", text)
    return [target for target in targets if not re.match(r"[a-z]+:|//", target)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() and "auto_examples" in path:  # made from examples/ by the build
            there = ROOT / "examples" / f"{Path(path).stem}.py"
            assert there.exists() or Path(path).stem == "index", f"{target}: there is no such example"
            continue
        if not there.exists() and not there.suffix:  # a page without its suffix
            there = there.with_suffix(".md")
        assert there.exists() or there.with_suffix(".rst").exists(), f"{target} leads nowhere"
        assert not anchor or there.suffix != ".md" or anchor in anchors(there), f"{target}: there is no such heading"


def test_a_page_of_the_guide_or_on_a_topic_is_reached_from_a_table_of_contents():
    """Sphinx would say so too, but only where it is installed."""
    trees = ""
    for page in DOCS.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in tree.split("\n"):
                entry = re.sub(r".*<(.*)>", r"\1", line.strip())
                trees += f"|{(page.parent / entry).resolve()}"
    for page in PAGES:
        if page.is_relative_to(DOCS) and page != DOCS / "index.md":
            assert f"|{page.with_suffix('')}" in trees, f"{page.relative_to(ROOT)} is in no toctree"


# -- examples ----------------------------------------------------------------------------------------------


def test_every_example_has_its_place_in_the_gallery():
    order = (DOCS / "_ext" / "gallery_order.py").read_text(encoding="utf-8")
    for path in (ROOT / "examples").glob("*.py"):
        assert path.name.startswith("plot_") and f'"{path.name}"' in order, path.name
        compile(path.read_text(encoding="utf-8"), path.name, "exec")
