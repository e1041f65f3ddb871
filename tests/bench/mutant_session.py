"""Runs mutants in one session of pytest: the tests that enter a mutant's function, and no others.

Turns mutants, each with the tests that are to notice it, into verdicts.

Holds: the tests run once without any mutant, all in one process, with a note of the functions that
each enters.  Each mutant then has a fork of that process, in which the tests that enter its
function run, the fastest first, until one fails.  A test that fails without any mutant is left out.
"""

from __future__ import annotations

import ast
import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from time import process_time
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TextIO

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENTERED = "_entered_by_a_test"  # the name in a module of what notes its functions
LIMIT_S = 120.0  # of processor time, for the tests of one mutant; one that loops is noticed
_NOT_A_TEST = 255


class Mutant(NamedTuple):
    """A mistake in a function: the clause that changes, and the text of the file with it."""

    file: str
    qualified: str
    line: int
    clause: str
    source: str

    @property
    def function(self) -> str:
        """The name of the function, without its class."""
        return self.qualified.rpartition(".")[2]


Report = Callable[[Mutant, bool], None]


def functions(
    body: Sequence[ast.stmt], within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions and methods of a module, with their qualified names."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{within}{node.name}.")


def code_of(module: CodeType, qualified: str) -> CodeType:
    """The code of a function, from the code of its module."""
    code = module
    for name in qualified.split("."):
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)
    return code


def function_of(file: str, qualified: str) -> FunctionType:
    """The function of a file, without what decorates it."""
    found: Any = import_module(file.removesuffix(".py").replace("/", "."))
    for name in qualified.split("."):
        found = vars(found)[name] if isinstance(found, type) else getattr(found, name)
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        inner = [getattr(found, each, None) for each in ("__wrapped__", "fget", "__func__", "func")]
        found = next(each for each in inner if each is not None)
    return found


class _Notes:
    """What the functions of some files note when they are entered."""

    def __init__(self, files: Sequence[str]) -> None:
        self.entered: set[tuple[str, str]] = set()
        self._codes = []
        for file in files:
            source = (ROOT / file).read_text(encoding="utf-8")
            tree = ast.parse(source)
            named = dict(functions(tree.body))
            for qualified, node in named.items():
                call = f"{ENTERED}(({file!r}, {qualified!r}))"
                node.body.insert(0, ast.copy_location(ast.parse(call).body[0], node.body[0]))
            whole = compile(ast.fix_missing_locations(tree), file, "exec")
            module = import_module(file.removesuffix(".py").replace("/", "."))
            setattr(module, ENTERED, self.entered.add)
            for qualified in named:
                function = function_of(file, qualified)
                self._codes.append((function, function.__code__))
                function.__code__ = code_of(whole, qualified)

    def end(self) -> None:
        """Put the functions back as they were."""
        for function, code in self._codes:
            function.__code__ = code


class _Session:
    """A plugin of pytest: the mutants run in its session."""

    def __init__(self, mutants: Sequence[tuple[Mutant, Sequence[str]]], report: Report) -> None:
        self._mutants, self._report = mutants, report
        self._entered: dict[tuple[str, str], list[int]] = {}
        self._took_s: list[float] = []
        self._steady: dict[int, bool] = {}  # of tests that failed: True if it passes otherwise
        self._failed = False
        self.wrong: list[str] = []  # tests that fail without any mutant

    def pytest_configure(self) -> None:
        """Let a property be tested with the same examples each time, on a busy machine too."""
        from hypothesis import settings  # once its own plugin is there

        settings.register_profile("mutants", deadline=None, derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once, and then those of each mutant in a fork."""
        if session.testsfailed:
            raise session.Interrupted("a module of tests cannot be imported")
        self._items = session.items
        notes = _Notes(sorted({mutant.file for mutant, _ in self._mutants}))
        for at, item in enumerate(self._items):
            notes.entered.clear()
            begun_s = process_time()
            self._run(item, self._items[at + 1] if at + 1 < len(self._items) else None)
            self._took_s.append(process_time() - begun_s)
            for name in () if self._failed else notes.entered:
                self._entered.setdefault(name, []).append(at)
            if self._failed:
                self.wrong.append(item.nodeid)
                self._failed = False
        notes.end()
        gc.freeze()
        for mutant, tests in self._mutants:
            self._report(mutant, self._is_noticed(mutant, tests))
        return True

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _is_noticed(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """True if one of the tests fails with this mutant only."""
        within = tuple(str(ROOT / each.partition("::")[0]) for each in tests)
        entering = self._entered.get((mutant.file, mutant.qualified), ())
        chosen = [at for at in entering if str(self._items[at].path).startswith(within)]
        chosen.sort(key=lambda at: self._took_s[at])
        while (found := self._first_failing(chosen, mutant)) is not None:
            if found == _NOT_A_TEST or self._is_steady(chosen[found]):
                return True
            chosen.pop(found)
        return False

    def _is_steady(self, at: int) -> bool:
        if at not in self._steady:
            self._steady[at] = self._first_failing([at], None) is None
        return self._steady[at]

    def _first_failing(self, chosen: Sequence[int], mutant: Mutant | None) -> int | None:
        """The place in `chosen` of the first test that fails in a fork; `_NOT_A_TEST` if the fork
        ends otherwise, None if none fails.
        """
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
                if mutant is not None:
                    install(mutant)
                for place, at in enumerate(chosen):
                    following = self._items[chosen[place + 1]] if place + 1 < len(chosen) else None
                    self._items[at]._initrequest()  # type: ignore[attr-defined]  # as for a new run
                    self._run(self._items[at], following)
                    if self._failed:
                        os.write(writing, place.to_bytes(4, "big"))
                        break
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        told = os.read(reading, 4)
        os.close(reading)
        ended = os.waitpid(child, 0)[1]
        if told:
            return int.from_bytes(told, "big")
        return _NOT_A_TEST if ended else None


def install(mutant: Mutant) -> None:
    """Put a mutant in the place of its function in this process, and forget what it has answered."""
    module = import_module(mutant.file.removesuffix(".py").replace("/", "."))
    tree = ast.parse(mutant.source)
    function, arguments = (
        function_of(mutant.file, mutant.qualified),
        dict(functions(tree.body))[mutant.qualified].args,
    )
    function.__code__ = code_of(compile(tree, mutant.file, "exec"), mutant.qualified)
    pairs = zip(arguments.defaults, function.__defaults__ or (), strict=True)
    function.__defaults__ = tuple(_default(node, before) for node, before in pairs)
    for argument, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if node is not None and function.__kwdefaults__:
            function.__kwdefaults__[argument.arg] = _default(node, function.__kwdefaults__[argument.arg])
    for cached in _caches(vars(module)):
        cached.cache_clear()


def _default(node: ast.expr, before: object) -> object:
    return node.value if isinstance(node, ast.Constant) else before


def _caches(names: Any) -> Iterator[Any]:
    for found in list(names.values()):
        if isinstance(found, _lru_cache_wrapper):
            yield found
        elif isinstance(found, type):
            yield from (each for each in vars(found).values() if isinstance(each, _lru_cache_wrapper))


def run(mutants: Sequence[tuple[Mutant, Sequence[str]]], out: TextIO) -> int:
    """Run mutants, each with its tests, and print each; returns how many survived."""
    told = os.fdopen(os.dup(out.fileno()), "w")
    survived = 0

    def report(mutant: Mutant, noticed: bool) -> None:
        nonlocal survived
        survived += not noticed
        verdict = "killed    " if noticed else "SURVIVED  "
        print(
            f"{verdict}{mutant.file}:{mutant.line} {mutant.function}: {mutant.clause}", file=told, flush=True
        )

    tests = sorted({test for _, each in mutants for test in each})
    within = [test for test in tests if not any(test.startswith(f"{other}/") for other in tests)]
    session = _Session(mutants, report)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *(str(ROOT / each) for each in within)]
        code = pytest.main(arguments, plugins=[session])
    told.close()
    for test in session.wrong:
        print(f"left out, for it fails without any mutant: {test}", file=out)
    expected = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
    assert code in expected, f"pytest ended with {code!r}: run the tests by themselves"
    return survived
