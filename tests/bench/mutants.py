"""Mutants of the guards of fast paths: drops one clause at a time and runs the tests that are nearest.

python -m tests.bench.mutants [NAME ...] [--list]

A clause is one operand of an `or` in an `if` that returns None or False, or one operand of an `and` in such a return.  NAME:
only functions with this in their names.  Works on a copy of the project; prints the mutants that no test notices, and their
share.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GUARDS = "tests/actor/apiserver/test_guards.py"
# By file: the functions whose guards are dropped, and the tests nearest to them.
TARGETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "actors/apiserver/fast/write_templates.py": (
        ("follow", "_event_key", "_create_pod", "_bind", "_patch_status", "patch_pod", "_is_plain", "_beat"),
        (GUARDS, "tests/property/test_plans.py"),
    ),
    "actors/apiserver/fast/lease_updates.py": (
        ("update", "serves", "move", "renew", "_line_of", "is_open", "find_open_lane"),
        (GUARDS, "tests/actor/client/test_heartbeat.py", "tests/property/test_lane.py"),
    ),
    "actors/apiserver/fast/node_heartbeats.py": (
        ("beaten", "whole", "moved"),
        ("tests/property/test_plans.py",),
    ),
    "sim/client/fast/lease_renewal.py": (("_is_open",), ("tests/actor/client/test_heartbeat.py",)),
    "sim/client/fast/coalesced_calls.py": (
        ("_is_open", "send"),
        ("tests/property/test_folded.py", "tests/property/test_pod_ways.py"),
    ),
    "sim/client/fast/read_modify_write.py": (
        ("exchange",),
        ("tests/property/test_folded.py", "tests/property/test_pod_ways.py"),
    ),
}


class Mutant(NamedTuple):
    """A clause that is dropped: which one, and the text of the file without it."""

    file: str
    function: str
    line: int
    clause: str
    source: str


def _replaced(source: str, node: ast.expr, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    assert node.end_lineno is not None and node.end_col_offset is not None
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    whole = source.encode()
    return (whole[:begin] + text.encode() + whole[end:]).decode()


def _refuses(body: Sequence[ast.stmt]) -> bool:
    last = body[-1]
    return isinstance(last, ast.Return) and (
        last.value is None or (isinstance(last.value, ast.Constant) and last.value.value in (None, False))
    )


def _clauses(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, str]]:
    """Each clause of the guards of a function, and what takes its place."""
    for node in ast.walk(function):
        if isinstance(node, ast.If) and _refuses(node.body):
            test = node.test
            operands = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
            yield from ((operand, "False") for operand in operands)
        elif (
            isinstance(node, ast.Return)
            and isinstance(node.value, ast.BoolOp)
            and isinstance(node.value.op, ast.And)
        ):
            yield from ((operand, "True") for operand in node.value.values)


def mutants() -> Iterator[Mutant]:
    """All of them, in the order of the files."""
    for file, (names, _) in TARGETS.items():
        source = (ROOT / file).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name in names:
                for clause, instead in _clauses(node):
                    text = ast.get_source_segment(source, clause) or ""
                    yield Mutant(
                        file,
                        node.name,
                        clause.lineno,
                        " ".join(text.split()),
                        _replaced(source, clause, instead),
                    )


def fails(file: str, copy: Path) -> bool:
    """Whether one of the tests that are nearest to a file fails."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    for tests in TARGETS[file][1]:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tests]
        if subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode:
            return True
    return False


def is_noticed(mutant: Mutant, copy: Path) -> bool:
    """Whether one of the nearest tests fails with this mutant in place."""
    changed = copy / mutant.file
    original = changed.read_text(encoding="utf-8")
    changed.write_text(mutant.source, encoding="utf-8")
    try:
        return fails(mutant.file, copy)
    finally:
        changed.write_text(original, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants and answer how many are not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args(arguments)
    found = [
        each for each in mutants() if not chosen.names or any(name in each.function for name in chosen.names)
    ]
    if chosen.list:
        for each in found:
            print(f"{each.file}:{each.line} {each.function}: {each.clause}")
        return 0
    kept: list[Mutant] = []
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "out", "__pycache__", ".*_cache")
        )
        for file in dict.fromkeys(each.file for each in found):
            assert not fails(file, copy), f"the tests of {file} fail without any mutant"
        for each in found:
            if not is_noticed(each, copy):
                kept.append(each)
                print(f"not noticed: {each.file}:{each.line} {each.function}: {each.clause}", flush=True)
    share = 100 * (len(found) - len(kept)) / max(1, len(found))
    print(f"{len(found)} mutants, {len(found) - len(kept)} noticed: {share:.0f} %")
    return len(kept)


if __name__ == "__main__":
    raise SystemExit(main())
