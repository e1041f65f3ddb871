"""Mutants of decision code: one-line mistakes drawn at random, and which of them tests notice.

    python -m tests.bench.decision_mutants [--seed S] [--count N] [--only TEXT] [--list]

Turns the modules of `DECISIONS` into all mistakes that `_mistakes` knows (a comparison that is off
by one or turned around, `and` for `or`, a clause that is left out, plus for minus, a number that is
one too large, `any` for `all`, `min` for `max`), draws N of them by the seed, evenly over the
modules, and runs for each the tests nearest to its module (see `tests.bench.mutant_session`).

Holds: the draw depends on the seed and on the sources alone.  Nearest are the unit tests that
import the module, the tests of `BESIDE`, and those of a controller's loop.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from tests.bench.mutant_session import ROOT, Mutant, functions, run

# Files with decisions: a folder, a file, or a pattern below the root.
DECISIONS = (
    "actors/controllers/*/decide.py",
    "actors/controllers/deployment/rollout.py",
    "actors/controllers/*/sync.py",
    "actors/controllers/job/failure_policy.py",
    "actors/controllers/persistentvolume_binder/binding.py",
    "actors/controllers/persistentvolume_binder/provision.py",
    "actors/controllers/persistentvolume_binder/reclaim.py",
    "actors/controllers/endpointslice/topology_hints.py",
    "actors/controllers/nodelifecycle/examine.py",
    "actors/controllers/nodelifecycle/zones.py",
    "actors/controllers/disruption.py",
    "actors/controllers/podgc.py",
    "actors/controllers/replicaset.py",
    "actors/controllers/ttl.py",
    "actors/node/backoff.py",
    "actors/node/pods/admit.py",
    "actors/node/pods/pod_status.py",
    "actors/node/pods/preemption.py",
    "actors/node/pods/restarts.py",
    "actors/node/pressure/*_decide.py",
    "actors/node/proxy/frequency.py",
    "actors/node/proxy/rules.py",
    "actors/scheduler/match.py",
    "actors/scheduler/plugins/*.py",
    "actors/scheduler/preempt.py",
    "actors/scheduler/queue.py",
    "actors/users/requests.py",
    "sim/api/admission/quota.py",
    "sim/api/aggregation/availability.py",
    "sim/api/auth/node_authorizer.py",
    "sim/api/auth/rbac/*.py",
    "sim/api/cron.py",
    "sim/api/fairness/*.py",
    "sim/api/kinds/common/scheduling*.py",
    "sim/api/ownership/apply.py",
    "sim/api/selectors.py",
    "sim/api/verbs/delete.py",
    "sim/api/watch/cache.py",
    "sim/api/watch/window.py",
    "sim/check/*.py",
    "sim/client/election/elector.py",
    "sim/client/events/correlator.py",
    "sim/client/queue.py",
    "sim/client/rest/limiter.py",
)
# Tests beside those that import a module, by the begin of its path: they reach it by a process.
BESIDE = {
    "actors/controllers/garbagecollector": ("tests/actor/controllers/test_collectors.py",),
    "actors/controllers/endpointslice/topology_hints": ("tests/actor/controllers/test_topology_hints.py",),
    "actors/controllers/endpointslicemirroring": ("tests/actor/controllers/test_endpoints_mirrored.py",),
    "actors/controllers/podgc": ("tests/actor/controllers/test_collectors.py",),
    "actors/node/pods/restarts": ("tests/actor/node/test_pods.py",),
    "actors/scheduler/match": ("tests/unit/actors/scheduler/plugins/test_nodes.py",),
    "actors/scheduler/plugins": (
        "tests/unit/actors/scheduler/plugins",
        "tests/unit/actors/scheduler/test_volumes.py",
        "tests/actor/test_scheduler_plugins.py",
    ),
    "actors/scheduler/queue": ("tests/actor/test_scheduler.py",),
    "sim/api/admission/quota": ("tests/actor/controllers/test_resourcequota.py",),
    "sim/api/auth/rbac": ("tests/unit/sim/api/auth/rbac",),
    "sim/api/fairness": ("tests/actor/apiserver/test_fairness.py", "tests/property/test_fairness.py"),
    "sim/check": ("tests/unit/sim/check",),
    "sim/api/verbs/delete": ("tests/actor/apiserver/test_verbs.py", "tests/actor/apiserver/test_ending.py"),
    "sim/api/watch": ("tests/actor/apiserver/test_list_watch.py",),
    "sim/client/election": ("tests/actor/client/test_election.py",),
    "sim/client/events": ("tests/property/test_correlator.py",),
    "sim/client/queue": ("tests/unit/sim/client", "tests/actor/client/test_client.py"),
}
# Mutants that change nothing that can be seen, by module, function and text, with the reason.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("actors/controllers/horizontalpodautoscaler/decide.py", "_is_settling", "0 -> 1"): (
        "a microsecond after 1970 is long ago, too"
    ),
    ("actors/node/pods/admit.py", "refuse_otherwise", "requests.ports -> True"): (
        "spares a loop over no ports"
    ),
    ("actors/scheduler/plugins/inter_pod_affinity.py", "filter", "pod.pod_terms.required -> True"): (
        "spares a look at no terms, for each node and pod"
    ),
    ("actors/scheduler/plugins/node_ports.py", "filter", "pod.ports -> True"): "spares a loop over no ports",
    (
        "actors/node/pods/preemption.py",
        "_distance",
        "short > 0 -> (short >= 0)",
    ): "adds the square of nothing",
    (
        "actors/controllers/cronjob/sync.py",
        "_is_started",
        "bool(last and parse_time(last) == at_s * SECOND) -> False",
    ): "a run that is due is after the last one",
    ("actors/controllers/namespace/decide.py", "pods_estimate_s", "0 -> False"): "a number all the same",
    ("actors/controllers/namespace/sync.py", "_update", "200 -> 201"): "only whether it is ok is asked",
    ("actors/controllers/namespace/sync.py", "_update", "0 -> 1"): "only whether it is ok is asked",
    ("actors/scheduler/plugins/image_locality.py", "score", "0 -> False"): "a score of False is 0",
    ("sim/api/watch/cache.py", "_on_change", "False -> True"): "looks once more at watches without news",
    ("sim/api/watch/cache.py", "_on_change", "watch.prefix is prefix -> False"): (
        "each key of a cache begins with the prefix of the cache"
    ),
    ("sim/api/watch/cache.py", "_on_change", "was is not spec -> True"): "one spec has one value",
    ("sim/check/availability.py", "_together", "two < len(second) -> (two <= len(second))"): (
        "both coverings end together, so that the first comparison ends the loop"
    ),
    ("sim/check/availability.py", "_together", "two < len(second) -> True"): (
        "of a covering that the loop has looked at a piece is left"
    ),
    ("sim/check/availability.py", "_together", "end_us > begin_us -> (end_us >= begin_us)"): (
        "coverings have no pieces without length"
    ),
    ("sim/check/expect.py", "since_us", "0 -> False"): "a number all the same",
    ("sim/check/expect.py", "_each_measured", "0 -> False"): "a number all the same",
    ("sim/check/tally.py", "see", "not world.moved -> False"): "no object is placed on a node without a name",
    ("sim/check/tally.py", "see", "world.node_of(resource, item.obj) -> True"): (
        "an object without a node is on no node that moved"
    ),
    ("sim/check/trigger.py", "step", "self._after -> True"): "no step has an empty name",
}


_SWAPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_TWINS = {"any": "all", "all": "any", "min": "max", "max": "min"}


def files() -> list[str]:
    """The modules with decisions, in the order of their paths."""
    found = {path for pattern in DECISIONS for path in ROOT.glob(pattern) if path.name != "__init__.py"}
    return sorted(str(path.relative_to(ROOT)) for path in found)


@cache
def _importing() -> dict[str, list[str]]:
    """The unit tests that import a name, by the dotted name of the module or of what it holds."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests/unit").rglob("test_*.py")):
        names = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        for name in sorted(names):
            found[name].append(str(path.relative_to(ROOT)))
    return found


def nearest(file: str) -> tuple[str, ...]:
    """The tests nearest to a module: of its import, of `BESIDE`, and of its controller."""
    importing = _importing().get(file.removesuffix(".py").replace("/", "."), [])
    beside = [test for begin, tests in BESIDE.items() if file.startswith(begin) for test in tests]
    if file.startswith("actors/controllers/"):
        loop = f"tests/actor/controllers/test_{file.removesuffix('.py').split('/')[2]}.py"
        beside += [loop] if (ROOT / loop).exists() else []
    found = tuple(dict.fromkeys((*importing, *beside)))
    assert found, f"{file}: no test imports it, and BESIDE names none"
    return found


class Mistake(NamedTuple):
    """A part of a module, and the text that takes its place.

    begin, end: in the bytes of the module
    """

    begin: int
    end: int
    instead: str
    line: int
    qualified: str


class _Source:
    """The bytes of a module, and the place of each of its lines in them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.text = (ROOT / file).read_bytes()
        self._lines = [0]
        for line in self.text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Where an expression begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def of(self, node: ast.expr) -> str:
        """The text of an expression."""
        begin, end = self.span(node)
        return self.text[begin:end].decode()

    def clause(self, mistake: Mistake) -> str:
        """A mistake in one line: what was there, and what is there instead."""
        return " ".join(f"{self.text[mistake.begin : mistake.end].decode()} -> {mistake.instead}".split())

    def mutant(self, mistake: Mistake) -> Mutant:
        """The module with the mistake."""
        changed = self.text[: mistake.begin] + mistake.instead.encode() + self.text[mistake.end :]
        return Mutant(self.file, mistake.qualified, mistake.line, self.clause(mistake), changed.decode())


def _mistakes(
    function: ast.FunctionDef | ast.AsyncFunctionDef, source: _Source
) -> Iterator[tuple[ast.expr, str]]:
    """Each mistake in a function: the expression, and the text that takes its place."""
    text = source.of
    apart = {id(part) for node in ast.walk(function) for part in _annotations(node)}
    apart |= {id(part) for node in function.decorator_list for part in ast.walk(node)}
    for node in ast.walk(function):
        if id(node) in apart:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            operator = _SWAPPED[type(node.ops[0])]
            yield node, f"({text(node.left)} {operator} {text(node.comparators[0])})"
        elif isinstance(node, ast.BoolOp):
            neutral = "True" if isinstance(node.op, ast.And) else "False"
            yield from ((operand, neutral) for operand in node.values)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node):
            operator = "-" if isinstance(node.op, ast.Add) else "+"
            yield node, f"({text(node.left)} {operator} {text(node.right)})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, f"bool({text(node.operand)})"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, str(node.value + 1)
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield node, str(not node.value)
        elif isinstance(node, ast.Name) and node.id in _TWINS:
            yield node, _TWINS[node.id]


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """All parts of the annotations of a node."""
    for name in ("annotation", "returns"):
        annotation = getattr(node, name, None)
        if annotation is not None:
            yield from ast.walk(annotation)


def _is_text(node: ast.BinOp) -> bool:
    """True if an operand is a text or a list, for which there is no minus."""
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.Dict)
    return any(
        isinstance(operand, kinds) or (isinstance(operand, ast.Constant) and isinstance(operand.value, str))
        for operand in (node.left, node.right)
    )


def mistakes(source: _Source) -> list[Mistake]:
    """All mistakes in a module that are not known to be equivalent."""
    found = []
    for qualified, function in functions(ast.parse(source.text).body):
        for node, instead in _mistakes(function, source):
            mistake = Mistake(*source.span(node), instead, node.lineno, qualified)
            is_new = source.of(node) != instead
            if is_new and (source.file, function.name, source.clause(mistake)) not in EQUIVALENT:
                found.append(mistake)
    return found


def draw(seed: int, count: int, only: str) -> list[Mutant]:
    """Draw mutants: a module first, then one of its mistakes that is not drawn yet."""
    dice = Random(seed)
    sources = {file: _Source(file) for file in files() if only in file}
    left = {file: found for file, source in sources.items() if (found := mistakes(source))}
    drawn = []
    while left and len(drawn) < count:
        file = dice.choice(sorted(left))
        drawn.append(sources[file].mutant(left[file].pop(dice.randrange(len(left[file])))))
        if not left[file]:
            del left[file]
    return sorted(drawn)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw and run the mutants; returns how many survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--count", type=int, default=200, help="of the mutants (default: 200)")
    parser.add_argument("--only", default="", metavar="TEXT", help="modules with this in their paths")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="each Mth module, from the Nth on")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    chosen = parser.parse_args(arguments)
    drawn = draw(chosen.seed, chosen.count, chosen.only)
    part, parts = map(int, chosen.part.split("/"))
    modules = sorted({each.file for each in drawn})[part - 1 :: parts]
    found = [(each, nearest(each.file)) for each in drawn if each.file in modules]
    if chosen.list:
        for each, _ in found:
            print(f"{each.file}:{each.line} {each.function}: {each.clause}")
        return 0
    survived = run(found, sys.stdout)
    killed = len(found) - survived
    print(f"{len(found)} mutants, {killed} killed: {100 * killed / max(1, len(found)):.0f} %")
    return survived


if __name__ == "__main__":
    raise SystemExit(main())
