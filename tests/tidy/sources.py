"""The files of the project as the tests of its rules read them: each is read and parsed once.

Paths are relative to the root of the project.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
# The strings and comments of a Python file, of which only comments are a group; `tokenize` takes
# thirteen times as long.
_STRING_OR_COMMENT = re.compile(
    r"""('{3}|"{3})(?:[^\\]|\\.)*?\1|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?P<comment>\#[^\n]*)""",
    re.DOTALL,
)


class Comment(NamedTuple):
    """A comment and its line."""

    line: int
    text: str


@cache
def tracked(*patterns: str) -> tuple[str, ...]:
    """Files of the work tree that git tracks or would track, in sorted order."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted(path for path in set(listed.stdout.splitlines()) if (ROOT / path).is_file()))


def product_files() -> tuple[str, ...]:
    """The Python files of `sim` and `actors`."""
    return tracked("sim/*.py", "actors/*.py")


@cache
def text(path: str) -> str:
    """What a file holds."""
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: str) -> ast.Module:
    """The syntax tree of a Python file."""
    found = _trees().get(path)
    return _parsed((path,))[path] if found is None else found


@cache
def _trees() -> dict[str, ast.Module]:
    """The trees of the Python files of `sim` and `actors`."""
    return _parsed(product_files())


def _parsed(paths: Iterable[str]) -> dict[str, ast.Module]:
    """The trees of files.

    Trees hold no garbage, and the searches for it while they grow take three times as long as
    parsing.
    """
    gc.disable()
    try:
        return {path: ast.parse(text(path)) for path in paths}
    finally:
        gc.enable()


@cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of a Python file, in the order of `ast.walk`."""
    return tuple(descendants(tree(path)))


def descendants(node: ast.AST) -> list[ast.AST]:
    """A node and all nodes below it, in the order of `ast.walk`, which takes twice as long."""
    found = [node]
    for each in found:  # the list grows while it is read
        for value in vars(each).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


@cache
def comments(path: str) -> tuple[Comment, ...]:
    """The comments of a Python file."""
    whole = text(path)
    matches = _STRING_OR_COMMENT.finditer(whole) if "#" in whole else ()
    return tuple(
        Comment(whole.count("\n", 0, each.start()) + 1, each["comment"])
        for each in matches
        if each["comment"]
    )


def docstrings(path: str) -> Iterator[ast.Constant]:
    """The docstrings of a Python file."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                if isinstance(first.value.value, str):
                    yield first.value


def functions(path: str) -> Iterator[Function]:
    """The functions and methods of a Python file."""
    return (node for node in nodes(path) if isinstance(node, Function))


def forget() -> None:
    """Free the memory of all that was read."""
    for each in (tracked, text, tree, _trees, nodes, comments):
        each.cache_clear()
