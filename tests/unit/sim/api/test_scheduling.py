"""Where a pod may run, and its class of service."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.scheduling import (
    qos_class,
    required_nodes,
    taint_of,
    tolerates,
    toleration,
    toleration_of,
    with_toleration,
)

TAINT = {"key": "a", "value": "x", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({"key": "a", "value": "x"}, True),
        ({"key": "a", "value": "y"}, False),
        ({"key": "b", "value": "x"}, False),
        ({"key": "a", "operator": "Equal", "value": "x", "effect": "NoExecute"}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Other", "value": "x"}, False),
    ],
)
def test_toleration_matches_by_key_operator_value_and_effect(fields: dict[str, str], matches: bool) -> None:
    assert tolerates([toleration_of(fields)], taint_of(TAINT)) is matches


def test_one_of_many_tolerations_is_enough() -> None:
    either = [toleration_of({"key": "b", "operator": "Exists"}), toleration_of({"key": "a", "value": "x"})]
    assert tolerates(either, taint_of(TAINT))
    assert not tolerates([], taint_of(TAINT))


def test_toleration_of_no_key_and_of_some_seconds() -> None:
    assert toleration("", "NoExecute") == {"operator": "Exists", "effect": "NoExecute"}
    assert toleration("k", "NoExecute", 5) == {
        "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5,
    }  # fmt: skip


def test_added_toleration_takes_the_place_of_each_equal_one() -> None:
    other, added = toleration("b", "NoExecute"), toleration("a", "NoExecute")
    limited = toleration("a", "NoExecute", 5)
    assert with_toleration([limited, other, limited], added) == [added, other, added]
    assert with_toleration([other], added) == [other, added]


@pytest.mark.parametrize(
    ("bound", "label", "matches"),
    [("3", "4", True), ("4", "4", False), ("x", "4", False), ("1" * 5000, "4", False), ("3", "x", False)],
)
def test_affinity_compares_whole_numbers_only(bound: str, label: str, matches: bool) -> None:
    term = {"matchExpressions": [{"key": "n", "operator": "Gt", "values": [bound]}]}
    assert _required(term).match("a", {"n": label}) is matches


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ((), False),
        (({},), False),
        (({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},), True),
        (({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},), False),
        (({}, {"matchExpressions": [{"key": "n", "operator": "DoesNotExist"}]}), True),
    ],
)
def test_one_term_with_requirements_is_enough(terms: tuple[Any, ...], matches: bool) -> None:
    assert _required(*terms).match("a", {}) is matches


def test_node_selector_restricts_beside_the_affinity() -> None:
    spec = {"nodeSelector": {"disk": "ssd"}}
    assert required_nodes(spec).match("a", {"disk": "ssd"})
    assert not required_nodes(spec).match("a", {"disk": "hdd"})
    assert required_nodes({}).match("a", {})


def _required(*terms: dict[str, Any]) -> Any:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return required_nodes({"affinity": {"nodeAffinity": required}})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}],
            "Guaranteed",
        ),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}],
            "Burstable",
        ),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"requests": {"storage": "1"}}], "BestEffort"),
    ],
)
def test_qos_class_follows_requests_and_limits(resources: list[dict[str, Any]], expected: str) -> None:
    assert qos_class({"containers": [{"resources": r} for r in resources]}) == expected
