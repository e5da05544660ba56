"""The rooms of the package: the order of imports, and how large things may be."""

from __future__ import annotations

from pathlib import Path

import pytest

import srosr
from benchmarks import house

#: What ``src`` may be at most. The numbers go only down: a change that makes the package smaller lowers them.
BUDGET = {"lines": 52_984, "statements": 27_875, "modules": 303, "wide functions": 39}
#: To raise a number, add an entry: by how much, and why nothing smaller would do.
RAISED: dict[str, list[tuple[int, str]]] = {}


@pytest.fixture(scope="module")
def imports():
    return list(house.find_imports(house.find_modules()))


def test_every_entry_at_the_top_is_a_room_of_the_order():
    rooms = {name.removesuffix(".py") for name in house.entries()} - {"__init__", "__init__.pyi", "py.typed"}
    assert rooms == set(house.ORDER)


def test_a_room_imports_only_from_rooms_before_it(imports):
    assert [f"{edge.importer}:{edge.line} imports {edge.imported}" for edge in house.back_edges(imports)] == []


def test_no_modules_of_a_room_import_each_other_in_a_circle(imports):
    assert house.find_cycles(imports) == []


def test_every_exception_to_the_order_is_used_and_has_a_reason(imports):
    used = {(edge.importer, house.room_of(edge.imported)) for edge in imports}
    assert set(house.EXCEPTIONS) <= used
    assert all(house.EXCEPTIONS.values())


def test_a_back_edge_and_a_circle_are_found():
    edges = [
        house.Import("coding.encode", "classifiers", 1),
        house.Import("tails.gpd", "tails.weibull", 3),
        house.Import("tails.weibull", "tails.gpd", 4),
    ]
    assert house.back_edges(edges) == edges[:1]
    assert house.find_cycles(edges) == [["tails.gpd", "tails.weibull"]]


def test_imports_inside_functions_are_seen(tmp_path):
    (tmp_path / "coding").mkdir()
    (tmp_path / "coding" / "__init__.py").write_text("")
    (tmp_path / "coding" / "encode.py").write_text("def encode():\n    from ..cli import main\n    return main\n")
    (tmp_path / "cli.py").write_text("import srosr.coding.encode\n")
    found = list(house.find_imports(house.find_modules(tmp_path)))
    assert house.Import("coding.encode", "cli", 2) in found
    assert house.Import("cli", "coding.encode", 1) in found


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for path in Path(srosr.__file__).parent.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_function_is_longer_than_a_hundred_lines():
    long = [function for function in house.find_functions(house.find_modules()) if function.lines > 100]
    assert long == []


@pytest.mark.parametrize("name", BUDGET)
def test_the_package_keeps_its_budget_which_goes_only_down(name):
    limit = BUDGET[name] + sum(more for more, why in RAISED.get(name, ()) if why)
    size = house.measure(house.find_modules())[name]
    assert size <= limit, f"{size} {name} where {limit} are allowed: make it smaller, or say in RAISED why not"
    assert size == limit, f"{size} {name} where {limit} are allowed: lower the number in BUDGET"


def test_sizes_are_counted_as_a_reader_would(tmp_path):
    (tmp_path / "one.py").write_text('"""Text."""\n\nx = 1\n')
    (tmp_path / "two.py").write_text(
        'class A:\n    """Text."""\n\n    def f(self, a, b, c, d, /, e, f, g, *, h):\n        return a\n\n\n'
        "def g(a, b, c, d, e, f, g, h, *, i):\n    if a:\n        return b\n"
    )
    modules = house.find_modules(tmp_path)
    assert house.measure(modules) == {"lines": 13, "statements": 6 + 1, "modules": 2, "wide functions": 1}
