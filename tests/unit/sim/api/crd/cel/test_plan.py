"""Plans of rules: what is remembered in loops changes no result and no cost; limits end them."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.crd.cel import plan
from sim.api.crd.cel.evaluate import COST_MAX, TOO_COSTLY, Outcome
from sim.api.crd.cel.rules import compiled
from sim.api.crd.cel.values import value_of
from sim.api.crd.structural import structural
from sim.api.types import Obj

SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
OBJECT: Obj = {"n": 3, "l": [1, 2, 3], "m": {"a": 1, "b": 2}}


def outcome(rule: str, obj: Obj = OBJECT) -> Outcome:
    """The outcome of a rule for an object."""
    schema = structural({**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]})
    _, (made,) = compiled(schema, root=True)
    assert made.program is not None, made.error
    return made.program.run(value_of(obj, schema))


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.l.all(x, x < self.n + 1)", True),
        ("self.l.exists(x, x == self.m['b'])", True),
        ("self.l.map(x, x + self.n).filter(y, y > self.n + 1) == [5, 6]", True),
        ("self.l.all(x, self.m.all(k, self.m[k] + self.n > x || size(self.l) == 3))", True),
        ("self.l.exists_one(x, x * self.n == 9)", True),
        ("self.l.all(x, self.l.exists(y, x + y == self.n + 1))", True),
        ("self.l.exists(x, x > self.m['none'])", None),
        ("self.l.all(x, x / (self.n - 3) == 0)", None),
    ],
)
def test_parts_that_are_remembered_change_neither_result_nor_cost(
    monkeypatch: pytest.MonkeyPatch, rule: str, value: Any
) -> None:
    fast = outcome(rule)
    calls = 0

    def evaluated(step: plan.Step, *_: int) -> plan.Step:
        nonlocal calls
        calls += 1
        return step

    monkeypatch.setattr(plan, "_remembered", evaluated)
    assert outcome(rule) == fast
    assert fast.value is value
    assert calls > 0, "nothing in this rule is remembered"


def test_one_side_decides_although_the_other_fails() -> None:
    assert outcome("self.m['none'] == 1 || self.n == 3").value is True
    assert outcome("self.n == 4 && self.m['none'] == 1").value is False
    assert outcome("self.m['none'] == 1 && self.n == 3").error == "no such key: none"


def test_condition_evaluates_one_branch_alone() -> None:
    assert outcome("self.n == 3 ? true : self.m['none'] == 1").value is True
    assert outcome("self.n == 4 ? true : self.m['none'] == 1").error == "no such key: none"


def test_evaluation_beyond_the_limit_is_cancelled_at_one_unit_more() -> None:
    many = {**OBJECT, "l": list(range(300))}
    rule = "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))"
    assert outcome(rule, many) == Outcome(None, TOO_COSTLY, COST_MAX + 1)
