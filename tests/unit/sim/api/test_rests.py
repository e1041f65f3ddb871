"""Where work on large definitions and objects rests (`sim.pauses`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.api.crd.cel import rules
from sim.api.crd.structural import structural
from sim.api.go.comparing import NODE_US
from sim.api.go.differences import difference
from sim.api.kinds.apiextensions.custom_resource_definition.schemas import schema_errors
from sim.api.kinds.networking.network_policy import KIND, PEER_US
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


@pytest.mark.slow
def test_difference_of_two_long_lists_rests() -> None:
    old, new = (
        {"volumes": [{"name": f"v{n}", "emptyDir": {"medium": m}} for n in range(MANY)]} for m in "ab"
    )
    nodes = 8 * MANY  # at least, for each volume has some twenty fields
    assert parts_of(lambda: difference("core.PodSpec", old, new)) > nodes * NODE_US // PART_US


def test_validation_of_many_peers_rests() -> None:
    peers = [{"ipBlock": {"cidr": f"10.0.{n // 250}.{n % 250}/32"}} for n in range(3_000)]
    spec = {"podSelector": {}, "ingress": [{"from": peers}]}
    policy = {"metadata": {"name": "a", "namespace": "b"}, "spec": spec}
    assert parts_of(lambda: KIND.validate_create(policy)) > 3_000 * PEER_US // PART_US
