"""Programs never reach the machine on which the simulation runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[5] / "actors" / "node" / "programs"
FORBIDDEN = (
    "asyncio", "glob", "io", "multiprocessing", "os", "pathlib", "pty", "random", "shutil", "signal", "socket",
    "subprocess", "tempfile", "threading", "time", "trio",
)  # fmt: skip


def reaches(source: str) -> list[str]:
    """The imports and calls in a module by which it could reach the machine."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in FORBIDDEN]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN:
            found.append(node.module or "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += (
                [node.func.id] if node.func.id in ("__import__", "compile", "eval", "exec", "open") else []
            )
    return found


@pytest.mark.parametrize("source", ["import os.path", "from io import open", "open('x')", "eval('1')"])
def test_a_reach_for_the_machine_is_found(source: str) -> None:
    assert reaches(source)


@pytest.mark.slow
def test_no_module_of_programs_can_reach_a_file_or_a_process_of_the_machine() -> None:
    modules = sorted(PROGRAMS.rglob("*.py"))
    assert len(modules) > 5
    assert {str(path): found for path in modules if (found := reaches(path.read_text()))} == {}
