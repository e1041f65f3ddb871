"""Where work on large definitions, and on objects with many rules, rests (`sim.pauses`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.api.crd.cel import rules
from sim.api.crd.structural import structural
from sim.api.kinds.apiextensions.custom_resource_definition.schemas import schema_errors
from sim.pauses import PART_US, Parts

MANY = 2_000


def parts_of(work: Callable[[], object]) -> int:
    """In how many parts a function is done."""
    parts, count = Parts(work), 1
    while not parts.go_on():
        count += 1
    assert parts.found is not None
    parts.found.unwrap()
    return count


def holder(**schema: Any) -> dict[str, Any]:
    return {"openAPIV3Schema": {"type": "object", **schema}}


def properties(**schema: Any) -> dict[str, Any]:
    return {f"p{n}": {"type": "string", **schema} for n in range(MANY)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "us"),
    [
        (holder(properties=properties()), 20),
        (holder(properties={f"p{n}": {"type": "string", "pattern": f"a{n}"} for n in range(MANY)}), 60),
        (holder(allOf=[{"properties": {"a": {"maximum": n}}} for n in range(MANY)]), 20),
    ],
    ids=["properties", "patterns", "allOf"],
)
def test_validation_of_a_large_schema_rests(schema: dict[str, Any], us: int) -> None:
    assert parts_of(lambda: schema_errors(schema, False, "s")) > MANY * us // PART_US


def test_rules_rest_alike_whether_they_were_compiled_before_or_not() -> None:
    made = [{"rule": f"self.a > {n}"} for n in range(200)]
    whole = structural({
        "type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": made,
    })  # fmt: skip
    first, second = (parts_of(lambda: rules.rule_errors(whole, {"a": 9}, None)) for _ in range(2))
    assert first == second > 200 * rules.RULE_US // PART_US
