"""Mutants of the guards of fast paths: drops one clause at a time and runs the tests that are
nearest.

python -m tests.bench.mutants [NAME ...] [--list] [--sample N [--seed S]] [--part N/M]

A clause is one operand of an `or` in an `if` that returns None or False, or one operand of an `and`
in such a return.  NAME: only functions with this in their names.  `tests.bench.mutant_session`
runs them.  Prints each mutant as its tests end, so that a run that is stopped counts too; at the
end the share of the mutants that a test notices.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from random import Random

from tests.bench.mutant_session import ROOT, Mutant, functions, run

GUARDS = "tests/actor/apiserver/test_guards.py"
LEASES = "tests/actor/apiserver/test_guards_leases.py"
CALLS = "tests/actor/client/test_coalesced_guards.py"
CREATES = "tests/actor/apiserver/test_guards_creates.py"
NODES = "tests/actor/apiserver/test_guards_nodes.py"
# By file: the functions with the guards to drop, and the tests nearest to them.
TARGETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "actors/apiserver/fast/write_templates.py": (
        ("follow", "_event_key", "_create_pod", "_bind", "_patch_status", "patch_pod", "_is_plain", "_beat"),
        (
            GUARDS,
            NODES,
            "tests/property/test_write_templates.py",
            "tests/cluster/cli/test_fast_plain.py::test_status_patches_of_terminating_pods_give_one_trace",
        ),
    ),
    "actors/apiserver/fast/lease_updates.py": (
        ("update", "serves", "move", "renew", "_line_of", "is_open", "find_lease_path"),
        (
            GUARDS,
            LEASES,
            "tests/actor/client/test_heartbeat.py",
            "tests/property/test_lease_renewals.py",
        ),
    ),
    "actors/apiserver/fast/node_heartbeats.py": (
        ("with_new_times", "whole", "moved"),
        (NODES, "tests/property/test_write_templates.py"),
    ),
    "actors/apiserver/fast/node_creates.py": (
        (
            "shape_of",
            "_add_metadata",
            "_is_uid",
            "_add_node",
            "_add_addresses",
            "_add_info",
            "_add_conditions",
            "_add_lease",
            "_add_csi_node",
        ),
        (CREATES,),
    ),
    "sim/client/fast/lease_renewal.py": (("_is_open",), ("tests/actor/client/test_heartbeat.py",)),
    "sim/client/fast/coalesced_calls.py": (
        ("_is_open", "send"),
        (CALLS, "tests/property/test_coalesced_calls.py", "tests/property/test_coalesced_pod_calls.py"),
    ),
    "sim/client/fast/read_modify_write.py": (
        ("exchange",),
        (CALLS, "tests/property/test_coalesced_calls.py", "tests/property/test_coalesced_pod_calls.py"),
    ),
}
# By function and clause: mutants that change nothing that can be seen, with the reason.
EQUIVALENT: dict[tuple[str, str], str] = {
    ("patch_pod", "not self._view.holds(plan.reads)"): (
        "admission of a status patch reads the pod's namespace alone, and does not decide by what is in it"
    ),
    ("_beat", "not self._view.holds(known[0])"): "admission of a node's status by its agent reads nothing",
    ("with_new_times", "len(time) != TIME_LENGTH"): "a time of a component is stored as it came",
    ("_beat", '"deletionTimestamp" in node["metadata"]'): (
        "a node terminates with finalizers only, of which a patch of its status removes none"
    ),
}


def replaced(source: str, node: ast.expr, text: str) -> str:
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


def _clauses(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.expr, str]]:
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
    """All of them in the order of the files, except those that are equivalent."""
    for file, (names, _) in TARGETS.items():
        source = (ROOT / file).read_text(encoding="utf-8")
        for qualified, node in functions(ast.parse(source).body):
            if node.name in names:
                for clause, instead in _clauses(node):
                    text = " ".join((ast.get_source_segment(source, clause) or "").split())
                    if (node.name, text) not in EQUIVALENT:
                        changed = replaced(source, clause, instead)
                        yield Mutant(file, qualified, clause.lineno, text, changed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants; returns how many survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument("--sample", type=int, help="run so many of the mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--tests", type=int, default=9, help="run so many files of the nearest tests only")
    parser.add_argument("--part", default="1/1", help="N/M: each Mth of the mutants, from the Nth on")
    chosen = parser.parse_args(arguments)
    found = [
        each for each in mutants() if not chosen.names or any(name in each.function for name in chosen.names)
    ]
    part, parts = map(int, chosen.part.split("/"))
    found = found[part - 1 :: parts]
    if chosen.list:
        for each in found:
            print(f"{each.file}:{each.line} {each.function}: {each.clause}")
        return 0
    if chosen.sample:
        found = sorted(Random(chosen.seed).sample(found, min(chosen.sample, len(found))))
    beside = [(each, TARGETS[each.file][1][: chosen.tests]) for each in found]
    survived = run(beside, sys.stdout)
    killed = len(found) - survived
    print(f"{len(found)} mutants, {killed} killed: {100 * killed / max(1, len(found)):.0f} %")
    return survived


if __name__ == "__main__":
    raise SystemExit(main())
