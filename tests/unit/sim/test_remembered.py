"""Tables of remembered results are emptied together once bodies from outside have brought much."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest

from sim import remembered
from sim.api.memo import IdentityMemo
from sim.api.ownership import field_sets
from sim.remembered import VALUE_WEIGHT, WEIGHT_MAX, cached, take_in


class Value:
    """Something that can be referred to weakly."""


def remember() -> tuple[IdentityMemo[str], ref[Value]]:
    memo: IdentityMemo[str] = IdentityMemo()
    value = Value()
    memo.put("result", value)
    return memo, ref(value)


@pytest.fixture(autouse=True)
def _nothing_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_weight", 0)


def test_memo_drops_values_once_it_is_full() -> None:
    memo, value = remember()
    take_in(b"x" * WEIGHT_MAX)
    assert value() is not None
    take_in(b"x")
    assert value() is None
    assert memo.put("again", Value()) == "again"


def test_values_of_a_body_weigh_more_than_their_text() -> None:
    _memo, value = remember()
    take_in(b"," * (WEIGHT_MAX // (VALUE_WEIGHT + 1) + 1))
    assert value() is None


def test_cache_of_a_function_is_emptied_with_the_tables() -> None:
    @cached(4)
    def twice(text: str) -> str:
        return text + text

    first = twice("ab")
    assert twice("ab") is first
    take_in(b"x" * (WEIGHT_MAX + 1))
    assert twice("ab") == first
    assert twice("ab") is not first


def test_interned_trees_are_bounded_by_their_keys_too(monkeypatch: pytest.MonkeyPatch) -> None:
    take_in(b"x" * (WEIGHT_MAX + 1))
    monkeypatch.setattr(field_sets, "_FIELDS_MAX", 100)
    names = [f"f:{n}" for n in range(10)]
    for turn in range(20):  # one set, in many orders
        order = [*names[turn % 10 :], *names[: turn % 10]]
        field_sets.intern({name: field_sets.intern({f"f:{turn}": field_sets.LEAF}) for name in order})
        held = sum(map(len, field_sets._trees)) + sum(map(len, field_sets._trees.values()))
        assert held <= 2 * 100


@pytest.mark.slow
def test_process_with_tables_ends_without_errors_of_references(tmp_path: Path) -> None:
    nodes, scenario = tmp_path / "nodes.json", tmp_path / "s.yaml"
    nodes.write_text('{"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}}]}')
    command = [sys.executable, "-m", "sim.app.cli", "import", "kubectl-dump", nodes, "-o", scenario]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "Exception ignored" in ended.stderr) == (0, False)
