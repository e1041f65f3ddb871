"""The project keeps its own rules: layers are import-linter's, the rest is read here from the
sources.
"""

import ast
import re
import subprocess
from collections import Counter

import pytest

from tests.tidy.sources import (
    ROOT,
    Function,
    docstrings,
    functions,
    nodes,
    product_files,
    text,
    tracked,
    tree,
)

# Prose wraps at 100 characters; splitting one idea over two files to stay below a number is worse
# than a long file.
FILE_MAX, FUNCTION_MAX = 660, 70
IMPURE = {"trio", "time", "random", "os", "socket", "uuid", "logging", "secrets", "threading"}
PURE_ZONE = (
    "sim/api/",
    "sim/options/",
    "sim/ident.py",
    "sim/units.py",
    "sim/errors.py",
    "sim/series.py",
    "sim/statistics.py",
    "sim/verdict.py",
    "sim/check/",
    "sim/report/",
)
# Types of generators that are handed in may be named, the module's functions may not be called.
TYPES_ONLY = {("random", "Random")}


def test_no_file_holds_more_than_one_idea() -> None:
    lengths = {path: text(path).count("\n") for path in product_files()}
    long = {path: length for path, length in lengths.items() if length > FILE_MAX}
    assert long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{path}:{node.name}": node.end_lineno - node.lineno + 1
        for path in product_files()
        for node in functions(path)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > FUNCTION_MAX
    }
    assert long == {}


def test_every_module_says_what_it_turns_into_what() -> None:
    parsed = {path: tree(path) for path in product_files()}
    assert [path for path, one in parsed.items() if one.body and not ast.get_docstring(one)] == []


def _imports(path: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(name.name.split(".")[0], "") for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(node.module.split(".")[0], name.name) for name in node.names]
    return found


def test_the_pure_zone_knows_no_clock_no_chance_and_no_io() -> None:
    bad = [
        (path, module)
        for path in product_files()
        if path.startswith(PURE_ZONE)
        for module, name in _imports(path)
        if module in IMPURE and (module, name) not in TYPES_ONLY
    ]
    assert bad == []


def test_actors_never_ask_the_wall_clock_or_global_chance() -> None:
    bad = [
        (path, module)
        for path in product_files()
        if path.startswith("actors/")
        for module, name in _imports(path)
        if module in IMPURE - {"trio"} and (module, name) not in TYPES_ONLY
    ]
    assert bad == []


def test_no_test_is_timed() -> None:
    """Speed is measured by `tests/bench`: a machine that is busy makes no test fail."""
    clock = re.compile(
        r"^(?:from time )?import .*\b(?:process_time|perf_counter)\b|\btime\.perf_", re.MULTILINE
    )
    tests = [path for path in tracked("tests/*test_*.py") if clock.search(text(path))]
    assert tests == []


def test_what_a_module_defines_is_used_somewhere() -> None:
    texts = [text(path) for path in (*product_files(), *tracked("orrery/*.py", "tests/*.py"))]
    words = Counter(word for each in texts for word in re.findall(r"\w+", each))
    defined = [
        (path, name)
        for path in product_files()
        for node in tree(path).body
        for name in (
            [node.name]
            if isinstance(node, Function | ast.ClassDef)
            else [t.id for t in node.targets if isinstance(t, ast.Name)]
            if isinstance(node, ast.Assign)
            else []
        )
    ]
    # Python itself calls __getattr__ and __dir__ of a module.
    unused = [pair for pair in defined if words[pair[1]] == 1 and not pair[1].startswith("__")]
    assert unused == []


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("set", "frozenset")
    )


def test_no_loop_iterates_over_a_set_literal() -> None:
    bad = []
    for path in product_files():
        for node in nodes(path):
            iterables = [node.iter] if isinstance(node, ast.For | ast.comprehension) else []
            bad += [f"{path}:{item.lineno}" for item in iterables if _is_set(item)]
    assert bad == []


def test_identifiers_of_the_product_are_spelled_in_one_place() -> None:
    spelled = re.compile(
        r"[\w.]*(?:kubernetes\.io|k8s\.io|orch\.io)|\b(?:kube|orch)-(?:system|public|node-lease|scheduler|controller-manager)\b"
    )
    bad = []
    for path in product_files():
        if path == "sim/ident.py":
            continue
        prose = {id(node) for node in docstrings(path)}
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                if spelled.search(node.value):
                    bad.append(f"{path}:{node.lineno} {node.value[:60]!r}")
    assert bad == []


OF_CONTAINERS = (
    "tests/unit/actors/node/programs/*",
    "tests/unit/actors/node/runtime/test_interpreter.py",
    "tests/actor/node/test_programs.py",
    "tests/actor/node/test_shared_processes.py",
    "tests/actor/test_kubectl_streams.py",
    "tests/cluster/faults/test_programs.py",
)


@pytest.mark.parametrize(
    "pattern",
    [
        "(TODO|FIXME|XXX)[^a-zA-Z]",
        "NotImplementedError",
        "(/root/|/home/[a-z]|/tmp/(?!healthy|hostpath_pv)[a-z])",
    ],
)
def test_nothing_is_left_open_and_no_path_of_one_machine_is_named(pattern: str) -> None:
    # /tmp/healthy is the file of the first example of liveness probes in upstream's documentation.
    # The files of programs in containers are not those of any machine.
    here = (":!tests/tidy/test_tidy.py", *(f":!{path}" for path in OF_CONTAINERS))
    found = subprocess.run(
        ["git", "grep", "-nP", pattern, "--", "*.py", "*.md", "*.yaml", "*.toml", *here],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode in (0, 1), found.stderr
    assert found.stdout == ""
