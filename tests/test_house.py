"""The rooms of the package: the order of imports, what a room shows, and how large things may grow."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import srosr
from benchmarks import house


@pytest.fixture(scope="module")
def imports():
    return list(house.find_imports(house.find_modules()))


def test_every_entry_at_the_top_is_a_room_of_the_order():
    rooms = {name.removesuffix(".py") for name in house.entries()} - {"__init__", "__init__.pyi", "py.typed"}
    assert rooms == set(house.ORDER)


def test_a_room_imports_only_from_rooms_before_it(imports):
    assert [f"{edge.importer}:{edge.line} imports {edge.imported}" for edge in house.back_edges(imports)] == []


def test_another_room_is_entered_through_its_init_only(imports):
    assert [f"{edge.importer}:{edge.line} imports {edge.imported}" for edge in house.reaches_inside(imports)] == []


def test_no_modules_of_a_room_import_each_other_in_a_circle(imports):
    assert house.find_cycles(imports) == []


def test_every_exception_to_the_order_is_used_and_has_a_reason(imports):
    used = {(edge.importer, house.room_of(edge.imported)) for edge in imports}
    assert set(house.EXCEPTIONS) <= used
    assert all(house.EXCEPTIONS.values())


def test_a_back_edge_a_shortcut_and_a_circle_are_found():
    edges = [
        house.Import("coding.encode", "classifiers", 1),
        house.Import("scoring.fusion", "coding.encode", 2),
        house.Import("tails.gpd", "tails.weibull", 3),
        house.Import("tails.weibull", "tails.gpd", 4),
    ]
    assert house.back_edges(edges) == edges[:1]
    assert house.reaches_inside(edges) == edges[1:2]
    assert house.find_cycles(edges) == [["tails.gpd", "tails.weibull"]]


def test_imports_inside_functions_are_seen(tmp_path):
    (tmp_path / "coding").mkdir()
    (tmp_path / "coding" / "__init__.py").write_text("")
    (tmp_path / "coding" / "encode.py").write_text("def encode():\n    from ..cli import main\n    return main\n")
    (tmp_path / "cli.py").write_text("import srosr.coding.encode\n")
    found = list(house.find_imports(house.find_modules(tmp_path)))
    assert house.Import("coding.encode", "cli", 2, ("main",)) in found
    assert house.Import("cli", "coding.encode", 1, ("srosr.coding.encode",)) in found


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for path in Path(srosr.__file__).parent.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_two_modules_or_classes_share_a_name():
    """Private classes may: nobody meets two of them at once."""
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in house.find_modules().items()}
    files = [name.rpartition(".")[2] for name, path in house.find_modules().items() if path.name != "__init__.py"]
    classes = [node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    assert find_repeated(files) == set()
    assert {name for name in find_repeated(classes) if not name.startswith("_")} == set()


def find_repeated(names):
    return {name for name, count in Counter(names).items() if count > 1}


def test_no_function_is_longer_than_a_hundred_lines():
    long = [function for function in house.find_functions(house.find_modules()) if function.lines > 100]
    assert long == []
