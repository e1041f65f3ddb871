"""The diagrams of `docs/explanation/state-machines.md` show the tables of the code."""

from __future__ import annotations

import re
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from actors.node.pod_work import FINISHED, SYNC, TRANSITIONS
from sim.transitions import Transitions
from tests.tidy.sources import nodes, product_files

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "state-machines.md"
BLOCK = re.compile(r"<!-- (?P<module>[\w.]+) -->\n\n```mermaid\n(?P<diagram>.*?)\n```", re.DOTALL)


def diagrams() -> dict[str, str]:
    """Each diagram of the page by the module that holds its table."""
    return {found["module"]: found["diagram"] for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}


def table_of(module: str) -> Transitions[Any]:
    """The table of a module."""
    table = import_module(module).TRANSITIONS
    assert isinstance(table, Transitions)
    return table


def machines() -> list[str]:
    """The modules that assign `TRANSITIONS`."""
    return [
        path.removesuffix(".py").replace("/", ".")
        for path in product_files()
        if any(getattr(node, "id", "") == "TRANSITIONS" and _is_assigned(node) for node in nodes(path))
    ]


def _is_assigned(node: Any) -> bool:
    return type(node.ctx).__name__ == "Store"


def test_page_shows_each_machine_once() -> None:
    assert sorted(diagrams()) == sorted(machines())


@pytest.mark.parametrize("module", sorted(diagrams()))
def test_diagram_shows_the_table(module: str) -> None:
    assert diagrams()[module] == table_of(module).diagram()


@pytest.mark.parametrize("module", sorted(diagrams()))
def test_table_reaches_each_state(module: str) -> None:
    table = table_of(module)
    reached, waiting = set[Enum](), [table.start]
    while waiting:
        state = waiting.pop()
        if state not in reached:
            reached.add(state)
            waiting += table.successors[state]
    assert reached == set(type(table.start)) == set(table.successors)


def test_move_outside_of_the_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="no move"):
        TRANSITIONS.move(FINISHED, SYNC)
