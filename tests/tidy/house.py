"""The figures of the house: what a reader of the whole tree would count.

    python -m tests.tidy.house             one line a figure
    python -m tests.tidy.house FIGURE      the places that a figure counts

Turns the syntax trees of `sim` and `actors` into named lists of places.  `test_house` holds each
list under its recorded number, so that a figure only falls.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.tidy.sources import Function, descendants, nodes, product_files, text
from tests.tidy.test_imports import import_graph

ATTRIBUTES_MAX = 20
REASON = "Size:"  # the paragraph of a docstring that says why a class has so many attributes
# Where the records of options, documents and their steps are, and that of identifiers.
RECORDS = ("sim/options/", "sim/scenario/schema/", "sim/faults/machines/", "actors/apiserver/options.py")
IDENTIFIERS = "sim/ident.py"
# The left side of the glossary as words of identifiers: dialect, and participles in place of nouns.
DIALECT = re.compile(
    r"lessons?|moulds?|lanes?|folded|beaten|stirred|foretold|urge|urgent|likeness|terse|told|heard|befell|"
    r"silenced|blame|moves|lots?",
    re.IGNORECASE,
)
# Participles in place of the noun that says what a value is.
PARTICIPLES = {"found", "given", "wanted", "known", "made", "held", "kept", "asked", "told"}
EXTENDED = ("RecordKind",)  # programs of a user declare further ones
# Three rules are matched where such texts meet in one module.
TOLERATION = {"Exists", "effect"}, {"Equal", "effect"}
AFFINITY = ({"DoesNotExist", "Gt"},)
QOS = ({"Guaranteed", "BestEffort"},)


def folder_circles() -> Iterator[str]:
    """Groups of neighbours in one folder that import each other in a circle."""
    children: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, imported in import_graph().items():
        for target in imported:
            here, there = name.split("."), target.split(".")
            depth = next(
                (i for i, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), None
            )
            if depth:
                children[".".join(here[:depth])][here[depth]].add(there[depth])
    for folder, graph in sorted(children.items()):
        for circle in circles(graph):
            yield f"{folder}: {', '.join(circle)}"


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of a graph with more than one node, sorted."""
    reached = {start: _reachable(graph, start) for start in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
        for name in graph
        if name in reached[name]
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [*graph[start]]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph.get(name, ())
    return seen


def _classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in product_files():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                yield path, node


def protocols() -> Iterator[str]:
    """Classes that are Protocols."""
    for path, node in _classes():
        if any(ast.unparse(base).split("[")[0] == "Protocol" for base in node.bases):
            yield f"{node.name} {path}:{node.lineno}"


def protocols_of_one_name() -> Iterator[str]:
    """Names that more than one Protocol has."""
    places = list(protocols())
    counted = Counter(place.split()[0] for place in places)
    return (place for place in places if counted[place.split()[0]] > 1)


def attributes(node: ast.ClassDef) -> set[str]:
    """What an instance holds: annotated fields, and attributes that its methods assign to `self`."""
    found = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and "ClassVar" not in ast.unparse(item.annotation)
    }
    for inner in descendants(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            if isinstance(inner.value, ast.Name) and inner.value.id == "self":
                found.add(inner.attr)
    return found


def is_record(path: str, node: ast.ClassDef) -> bool:
    """True if a class is a frozen record of which each field is an entry of a list outside of this
    project: an option of a command line, an entry of a document, an identifier.
    """
    is_frozen = any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    is_strict = any(ast.unparse(base) == "Strict" for base in node.bases)  # a frozen Struct
    return path == IDENTIFIERS or (path.startswith(RECORDS) and (is_frozen or is_strict))


@cache
def large_classes() -> tuple[str, ...]:
    """Classes of more than twenty attributes, without records (`is_record`).

    A record has as many fields as the list that it mirrors has entries, it holds no state, and a
    part of it would have a name that the list does not have.  Each class that can change counts.
    """
    counts = ((path, node, len(attributes(node))) for path, node in _classes() if not is_record(path, node))
    return tuple(
        f"{node.name} {count} {path}:{node.lineno}"
        for path, node, count in counts
        if count > ATTRIBUTES_MAX and "Protocol" not in [ast.unparse(base) for base in node.bases]
    )


def large_classes_without_reason() -> Iterator[str]:
    """Classes of more than twenty attributes without the reason in their docstring."""
    reasons = {
        f"{path}:{node.lineno}" for path, node in _classes() if REASON in (ast.get_docstring(node) or "")
    }
    return (place for place in large_classes() if place.split()[-1] not in reasons)


def _enums() -> dict[str, set[str]]:
    """The members of each enum of the product, by its name."""
    return {
        node.name: {
            target.id
            for item in node.body
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name)
        }
        for _, node in _classes()
        if any(ast.unparse(base).endswith(("Enum", "Flag")) for base in node.bases)
    }


def _literals() -> dict[str, set[object]]:
    """The values of each name that stands for a `Literal` of the product."""
    return {
        node.targets[0].id: {each.value for each in descendants(node.value) if isinstance(each, ast.Constant)}
        for path in product_files()
        for node in nodes(path)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and ast.unparse(node.value).startswith("Literal[")
        and node.targets[0].id not in EXTENDED
    }


def _typed_names(literals: Collection[str]) -> tuple[dict[tuple[str, str], str], dict[str, set[str]]]:
    """Names of variables and arguments with such a type, by path and name; and those of attributes."""
    variables: dict[tuple[str, str], str] = {}
    attributes_of: dict[str, set[str]] = defaultdict(set)
    for path in product_files():
        for node in nodes(path):
            if isinstance(node, ast.arg) and node.annotation is not None:
                name, annotation = node.arg, node.annotation
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name | ast.Attribute):
                target, annotation = node.target, node.annotation
                name = target.id if isinstance(target, ast.Name) else target.attr
            else:
                continue
            written = ast.unparse(annotation).removesuffix(" | None")
            if written in literals:
                variables[path, name] = written
                if isinstance(node, ast.AnnAssign):
                    attributes_of[name].add(written)
    return variables, attributes_of


class _Cases:
    """Which members of an enum, and which values of a `Literal`, a comparison names."""

    def __init__(self) -> None:
        self._enums, self._literals = _enums(), _literals()
        self._variables, self._attributes = _typed_names(self._literals)

    def of(self, path: str, subject: ast.AST, value: ast.AST) -> Iterator[str]:
        """A text for each case that a comparison of a subject with a value names."""
        if isinstance(value, ast.Tuple):
            for each in value.elts:
                yield from self.of(path, subject, each)
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            if value.attr in self._enums.get(value.value.id, ()):
                yield ast.unparse(value)
        elif isinstance(value, ast.Constant):
            if any(value.value in self._literals[each] for each in self._types(path, subject)):
                yield repr(value.value)

    def _types(self, path: str, subject: ast.AST) -> Iterable[str]:
        if isinstance(subject, ast.Name):
            found = self._variables.get((path, subject.id))
            return () if found is None else (found,)
        return self._attributes.get(subject.attr, ()) if isinstance(subject, ast.Attribute) else ()

    def of_test(self, path: str, test: ast.AST) -> Iterator[str]:
        """The cases that the test of an `if` names."""
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq | ast.In):
            yield from self.of(path, test.left, test.comparators[0])


def open_cases() -> Iterator[str]:
    """Places that distinguish cases of an enum or a `Literal` without `assert_never` at the end.

    A `match` with such a case, and a chain of `if` and `elif` in which two tests name one.
    """
    cases = _Cases()
    for path in product_files():
        inner: set[ast.AST] = set()
        for node in nodes(path):
            if isinstance(node, ast.Match):
                patterns = [each.value for each in descendants(node) if isinstance(each, ast.MatchValue)]
                if any([*cases.of(path, node.subject, each)] for each in patterns) and not _closed(node):
                    yield f"{path}:{node.lineno}"
            elif isinstance(node, ast.If) and node not in inner:
                tests, last = [node.test], node
                while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
                    last = last.orelse[0]
                    inner.add(last)
                    tests.append(last.test)
                named = [test for test in tests if [*cases.of_test(path, test)]]
                if len(named) > 1 and not _closed(node):
                    yield f"{path}:{node.lineno}"


def _closed(node: ast.AST) -> bool:
    return "assert_never" in ast.unparse(node)


def dialect() -> Iterator[str]:
    """Identifiers that are defined with a word of the glossary's left side."""
    for path in product_files():
        for node in nodes(path):
            name = _defined(node)
            if name and _is_dialect(name):
                yield f"{name} {path}:{getattr(node, 'lineno', 0)}"


def participles() -> Iterator[str]:
    """Variables and parameters that a participle names in place of a noun."""
    for path in product_files():
        for node in nodes(path):
            if (name := _defined(node)).strip("_") in PARTICIPLES:
                yield f"{name} {path}:{getattr(node, 'lineno', 0)}"


@cache
def _is_dialect(name: str) -> bool:
    return any(map(DIALECT.fullmatch, re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)))


def _defined(node: ast.AST) -> str:
    """The name that a node gives, "" for none."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.ClassDef | Function) else ""


def _modules_with(choices: tuple[set[str], ...]) -> Iterator[str]:
    """Modules that hold all texts of one of the choices, but for tables of a schema and options."""
    for path in product_files():
        if any(part in path for part in ("/schema/", "/protobuf/", "/openapi/", "/options/")):
            continue
        held = {
            node.value
            for node in nodes(path)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if any(texts <= held for texts in choices):
            yield path


def cause_assignments() -> Iterator[str]:
    """Places that assign the cause of the kernel."""
    for path in product_files():
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == "cause":
                if ast.unparse(node.value).endswith("kernel"):
                    yield f"{path}:{node.lineno}"


def lines_of_source() -> Iterator[str]:
    """The lines of `orrery`, `sim` and `actors`."""
    for path in product_files():
        yield from (f"{path}:{number}" for number in range(1, text(path).count("\n") + 1))


def crowded_folders() -> Iterator[str]:
    """Folders of more than twenty modules."""
    counts = Counter(str(Path(path).parent) for path in product_files() if not path.endswith("__init__.py"))
    return (f"{folder} {count}" for folder, count in sorted(counts.items()) if count > 20)


FIGURES: dict[str, Callable[[], Iterable[str]]] = {
    "folder circles": folder_circles,
    "folders over 20 modules": crowded_folders,
    "protocols": protocols,
    "protocols of one name": protocols_of_one_name,
    "classes over 20 attributes": large_classes,
    "classes over 20 attributes without a reason": large_classes_without_reason,
    "open cases of enums": open_cases,
    "identifiers of the dialect": dialect,
    "participles as names": participles,
    "modules that match tolerations": lambda: _modules_with(TOLERATION),
    "modules that match affinity terms": lambda: _modules_with(AFFINITY),
    "modules that classify QoS": lambda: _modules_with(QOS),
    "assignments of kernel.cause": cause_assignments,
    "lines of source": lines_of_source,
}


def figures() -> dict[str, int]:
    """Each figure by its name."""
    return {name: sum(1 for _ in places()) for name, places in FIGURES.items()}


def main(arguments: list[str]) -> int:
    """Print all figures, or the places of the one that is named."""
    name = " ".join(arguments)
    if name and name not in FIGURES:
        print(f"no figure is named {name!r}; there are: {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    print("\n".join(FIGURES[name]() if name else (f"{count:7} {key}" for key, count in figures().items())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
