"""The import graph of `sim` and `actors`: no cycles, and folders that a reader can survey.

Every import counts: late imports in functions and imports under `TYPE_CHECKING` too, because a
module that names another one cannot be understood without it.  An import of a name from a package
counts as an import of the package's `__init__` module.
"""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.tidy.sources import ROOT, nodes, product_files, tree

MODULES_MAX = 20

Graph = dict[str, set[str]]


def modules() -> dict[str, str]:
    """The files of all modules, by dotted name; a package is named by its folder."""
    return {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in product_files()
    }


def imports_of(name: str, path: str, known: dict[str, str]) -> set[str]:
    """The modules of the project that a module imports anywhere in its file."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            full = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {each if each in known else node.module for each in full}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & known.keys()) - {name}


def import_graph() -> Graph:
    """Each module with the modules that it imports."""
    known = modules()
    return {name: imports_of(name, path, known) for name, path in known.items()}


def cycle_in(graph: Graph) -> list[str]:
    """One cycle of a graph, from a module back to itself; empty if there is none."""
    try:
        TopologicalSorter({name: sorted(imported) for name, imported in graph.items()}).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[::-1]
    return []


def test_imports_form_no_cycle() -> None:
    assert cycle_in(import_graph()) == []


def test_cycle_in_finds_a_cycle_that_runs_through_three_modules() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_no_folder_holds_more_modules_than_a_reader_can_survey() -> None:
    counts = Counter(
        str(Path(path).parent) for path in modules().values() if not path.endswith("__init__.py")
    )
    assert {folder: count for folder, count in counts.items() if count > MODULES_MAX} == {}


def test_each_folder_of_unit_tests_mirrors_a_folder_of_the_sources() -> None:
    unit = ROOT / "tests" / "unit"
    folders = sorted({path.parent.relative_to(unit) for path in unit.rglob("test_*.py")})
    assert [str(folder) for folder in folders if not (ROOT / folder).is_dir()] == []


def test_dataclasses_are_those_that_are_cheap_to_define() -> None:
    """Not where a class has InitVar, which only the standard library's decorator takes."""
    imports = {
        path
        for path in product_files()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if "dataclass" in [alias.name for alias in node.names]
    }
    assert imports == {"sim/dataclass.py", "sim/kernel/network.py"}


def test_expressions_of_modules_are_compiled_when_they_are_used() -> None:
    """Not where a file runs without the other modules."""
    eager = [
        f"{path}:{node.lineno}"
        for path in product_files()
        if path != "sim/app/process/interpreter.py"
        for node in tree(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "re.compile"
    ]
    assert eager == []
