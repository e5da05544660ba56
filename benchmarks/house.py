"""Print how the package is built: its size, rooms, longest functions, and imports against the order.

    python -m benchmarks.house

A *room* is an entry at the top level of ``src/srosr``. :data:`ORDER` lists the rooms in the order in which data pass
through them: a room imports only from rooms before it. :data:`EXCEPTIONS` lists the imports that deliberately break
this, with the reason. ``tests/test_house.py`` checks both, and holds the sizes to a budget that goes only down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "srosr"

#: The rooms, each importing only from those before it.
ORDER = (
    "exceptions",
    "_support",
    # work on other machines
    "distributed",
    # X → dictionary → codes → evidence (→ fewer atoms) → tails → score → threshold → label
    "dictionary",
    "coding",
    "evidence",
    "atoms",
    "tails",
    "scoring",
    "thresholds",
    "classifiers",
    # other methods, and how well a method does
    "rivals",
    "metrics",
    "model_selection",
    "inspection",
    "monitor",
    "discovery",
    # from and to files
    "features",
    "tables",
    "model_files",
    "datasets",
    # experiments and what is shown of them
    "evaluation",
    "experiments",
    "reports",
    # users: the shell and the network
    "operations",
    "server",
    "cli",
    "__main__",
)

#: Imports against the order, module by module, each with its reason.
EXCEPTIONS = {
    ("classifiers.base", "model_files"): "`save` is a method of every classifier; the import runs when it is called",
    ("classifiers.srosr_classifier", "inspection"): "`explain` is a method; the import runs when it is called",
    ("classifiers.srosr_classifier", "discovery"): "`discover` is a method; the import runs when it is called",
}

#: A function with more parameters than this counts as wide.
MOST_PARAMETERS = 8


@dataclass(frozen=True)
class Import:
    """One import of a module of the package by another, both as dotted names below ``srosr``."""

    importer: str
    imported: str
    line: int

    @property
    def crosses_rooms(self) -> bool:
        return room_of(self.importer) != room_of(self.imported)


@dataclass(frozen=True)
class Function:
    """A function, how many lines its body has without the docstring, and its parameters without ``self``."""

    module: str
    name: str
    lines: int
    parameters: int


def room_of(module: str) -> str:
    """Return the room of a module, "" for the package itself."""
    return module.split(".")[0]


def find_modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the modules of the package by dotted name, packages by the name of their folder."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def find_imports(modules: dict[str, Path]) -> Iterator[Import]:
    """Yield every import of one module of the package by another, those inside functions included."""
    for importer, path in modules.items():
        package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.Import):
                targets = [alias.name.removeprefix("srosr.") for alias in node.names if alias.name.startswith("srosr.")]
            elif isinstance(node, ast.ImportFrom):
                targets = _targets(node, package, modules)
            else:
                continue
            for target in targets:
                if target and target != importer:
                    yield Import(importer, target, node.lineno)


def _targets(node: ast.ImportFrom, package: str, modules: dict[str, Path]) -> list[str]:
    if node.level:
        above = package.split(".") if package else []
        base = ".".join([*above[: len(above) - node.level + 1], *([node.module] if node.module else [])])
    elif node.module == "srosr" or (node.module or "").startswith("srosr."):
        base = (node.module or "").removeprefix("srosr").removeprefix(".")
    else:
        return []
    below = [f"{base}.{alias.name}" if base else alias.name for alias in node.names]
    return sorted({name if name in modules else base for name in below})


def back_edges(imports: list[Import]) -> list[Import]:
    """Return the imports that point backward in :data:`ORDER` and are not among :data:`EXCEPTIONS`."""
    place = {room: number for number, room in enumerate(ORDER)}
    return [
        edge
        for edge in imports
        if edge.crosses_rooms
        and room_of(edge.importer) in place
        and place[room_of(edge.imported)] > place[room_of(edge.importer)]
        and (edge.importer, room_of(edge.imported)) not in EXCEPTIONS
    ]


def find_cycles(imports: list[Import]) -> list[list[str]]:
    """Return the knots of modules of one room that import each other, each as a sorted list."""
    graph: dict[str, set[str]] = {}
    for edge in imports:
        if not edge.crosses_rooms and edge.imported != room_of(edge.importer):
            graph.setdefault(edge.importer, set()).add(edge.imported)
    reached = {module: _reachable(graph, module) for module in graph}
    knots = {frozenset(m for m in found if module in reached.get(m, ())) for module, found in reached.items()}
    return sorted(sorted(knot) for knot in knots if knot)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph.get(waiting.pop(), ()):
            if module not in found:
                found.add(module)
                waiting.append(module)
    return found


def find_functions(modules: dict[str, Path]) -> list[Function]:
    """Return all functions with the lines of their bodies, the longest first."""
    found = []
    for module, path in modules.items():
        for node in ast.walk(_parse(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if len(node.body) > 1 and ast.get_docstring(node) else node.body
                names = [part.arg for part in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                parameters = len(names) - (names[:1] in (["self"], ["cls"]))
                found.append(Function(module, node.name, (node.end_lineno or 0) - body[0].lineno + 1, parameters))
    return sorted(found, key=lambda function: (-function.lines, function.module))


def measure(modules: dict[str, Path]) -> dict[str, int]:
    """Return the size of the package: lines, statements without docstrings, modules and functions that are wide."""
    nodes = [node for path in modules.values() for node in ast.walk(_parse(path))]
    return {
        "lines": sum(path.read_bytes().count(b"\n") for path in modules.values()),
        "statements": sum(isinstance(node, ast.stmt) and not _is_text(node) for node in nodes),
        "modules": len(modules),
        "wide functions": sum(function.parameters > MOST_PARAMETERS for function in find_functions(modules)),
    }


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def entries(package: Path = PACKAGE) -> list[str]:
    """Return the names at the top level of the package."""
    return sorted(path.name for path in package.iterdir() if path.name != "__pycache__")


def main() -> None:
    """Print the house."""
    modules = find_modules()
    imports = list(find_imports(modules))
    sizes = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules.items()}
    importers: dict[str, set[str]] = {}
    for edge in imports:
        importers.setdefault(edge.imported, set()).add(edge.importer)
    single = [name for name in modules if len(importers.get(name, ())) == 1]
    functions = find_functions(modules)
    long = [function for function in functions if function.lines > 100]
    print(f"entries at the top   {len(entries())}: {' '.join(entries())}")
    for name, number in measure(modules).items():
        print(f"{name:20s} {number:,}")
    print(f"single importer      {len(single)} modules")
    print(f"functions            {len(functions):,}, of them {len(long)} longer than 100 lines")
    for function in functions[:5]:
        print(f"  {function.lines:4d}  {function.module}.{function.name}")
    print(f"back-edges           {len(back_edges(imports))}, exceptions allowed {len(EXCEPTIONS)}")
    for edge in back_edges(imports):
        print(f"        {edge.importer}:{edge.line} imports {edge.imported}")
    print(f"knots inside a room  {len(find_cycles(imports))}")
    for knot in find_cycles(imports):
        print(f"        {' '.join(knot)}")
    print("\nroom              modules   lines")
    for room in ORDER:
        inside = [name for name in modules if room_of(name) == room]
        print(f"{room:16s} {len(inside):8d} {sum(sizes[name] for name in inside):7,d}")


if __name__ == "__main__":
    main()
