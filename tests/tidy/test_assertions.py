"""No assertion holds for one of two reasons: a test says which one it expects."""

import ast

import pytest

from tests.tidy.sources import nodes, tracked


@pytest.mark.slow
def test_no_assertion_is_an_alternative() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tracked("tests/*.py")
        for node in nodes(path)
        if isinstance(node, ast.Assert)
        and isinstance(node.test, ast.BoolOp)
        and isinstance(node.test.op, ast.Or)
    ]
    assert found == []
