"""Which nodes get a daemon pod, how many roll at once, and when the status needs a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from actors.controllers.daemonset.decide import (
    NodeFit,
    View,
    count_status,
    decide_roll,
    is_status_stale,
    pods_by_node,
    rolling_limits,
    target_node,
    template_generation,
    with_counts,
)
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["orch"]


def rolling(**limits: Any) -> Obj:
    return {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}}


@pytest.mark.parametrize(
    ("limits", "desired", "wanted"),
    [
        ({"maxUnavailable": "10%"}, 3, (0, 1)),
        ({"maxUnavailable": 0, "maxSurge": "50%"}, 3, (2, 0)),
        ({"maxUnavailable": 0, "maxSurge": 0}, 3, (0, 1)),
        ({"maxUnavailable": "50%"}, 0, (0, 0)),  # no node needs a pod: no pod of other nodes rolls
    ],
)
def test_rolling_limits_round_up_and_are_not_both_zero(
    limits: Obj, desired: int, wanted: tuple[int, int]
) -> None:
    assert rolling_limits(rolling(**limits), desired) == wanted


@pytest.mark.parametrize(("text", "number"), [("3", "3"), ("-1", "-1"), ("three", None), ("", None)])
def test_invalid_template_generation_labels_no_pod(text: str, number: str | None) -> None:
    owner: Obj = {"metadata": {"annotations": {N.annotation_template_generation: text}}}
    assert template_generation(owner, N) == number


def test_status_is_written_for_changed_counts_or_unobserved_generation() -> None:
    counts = {"currentNumberScheduled": 0, "numberReady": 1, "numberAvailable": 0}
    owner: Obj = {"metadata": {"generation": 2}, "status": {"numberReady": 1, "observedGeneration": 2}}
    assert not is_status_stale(owner, counts)
    assert is_status_stale(owner, {**counts, "numberAvailable": 1})
    assert is_status_stale({**owner, "metadata": {"generation": 3}}, counts)


def test_counts_keep_other_fields_of_the_status() -> None:
    stored: Obj = {"collisionCount": 2, "numberAvailable": 3, "observedGeneration": 1}
    told = with_counts(stored, {"numberReady": 0, "numberAvailable": 0})
    assert told == {"collisionCount": 2, "observedGeneration": 1, "numberReady": 0}


def template(**spec: Any) -> Obj:
    return {"metadata": {}, "spec": {"containers": [], **spec}}


def node(name: str = "n", taints: Sequence[Obj] = (), **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def fit(made: Obj, onto: Obj) -> tuple[bool, bool]:
    return NodeFit(made, N).fresh(onto)


def required(*terms: Obj) -> Obj:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


@pytest.mark.parametrize(
    ("made", "onto", "expected"),
    [
        (template(), node(), (True, True)),
        (template(nodeName="n"), node(), (True, True)),
        (template(nodeName="other"), node(), (False, False)),
        (template(nodeSelector={"disk": "ssd"}), node(disk="ssd"), (True, True)),
        (template(nodeSelector={"disk": "ssd"}), node(disk="hdd"), (False, False)),
        (template(affinity=required({})), node(), (False, False)),
        (
            template(
                affinity=required(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                )
            ),
            node(),
            (True, True),
        ),
        (
            template(affinity=required({"matchExpressions": [{"key": "disk", "operator": "Exists"}]})),
            node(),
            (False, False),
        ),
    ],
)
def test_daemon_pod_fits_by_name_selector_and_required_affinity(
    made: Obj, onto: Obj, expected: tuple[bool, bool]
) -> None:
    assert fit(made, onto) == expected


@pytest.mark.parametrize(
    ("effect", "expected"),
    [("NoSchedule", (False, True)), ("NoExecute", (False, False)), ("PreferNoSchedule", (True, True))],
)
def test_untolerated_taint_keeps_new_pods_off_and_evicts_by_effect(
    effect: str, expected: tuple[bool, bool]
) -> None:
    assert fit(template(), node(taints=[{"key": "own", "value": "x", "effect": effect}])) == expected


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "own", "operator": "Exists"}, True),
        ({"key": "own", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "own", "value": "x"}, True),
        ({"key": "own", "value": "y"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_toleration_of_the_template_is_matched_by_key_value_and_effect(toleration: Obj, fits: bool) -> None:
    onto = node(taints=[{"key": "own", "value": "x", "effect": "NoSchedule"}])
    assert fit(template(tolerations=[toleration]), onto) == (fits, True)


def test_daemon_pods_tolerate_nodes_that_are_not_ready_or_under_pressure() -> None:
    executed = [{"key": key, "effect": "NoExecute"} for key in (N.taint_not_ready, N.taint_unreachable)]
    pressed = (N.taint_disk_pressure, N.taint_memory_pressure, N.taint_pid_pressure, N.taint_unschedulable)
    taints = [*executed, *({"key": key, "effect": "NoSchedule"} for key in pressed)]
    assert fit(template(), node(taints=taints)) == (True, True)


@pytest.mark.parametrize(("host_network", "fits"), [(True, True), (False, False)])
def test_only_pods_of_the_host_network_tolerate_a_missing_network(host_network: bool, fits: bool) -> None:
    taint = {"key": N.taint_network_unavailable, "effect": "NoSchedule"}
    assert fit(template(hostNetwork=host_network), node(taints=[taint])) == (fits, True)


def field_term(*values: str, key: str = "metadata.name", operator: str = "In") -> Obj:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ({"nodeName": "bound", "affinity": required(field_term("wished"))}, "bound"),
        ({"affinity": required(field_term("wished"))}, "wished"),
        ({"affinity": required(field_term("one", "two"))}, ""),
        ({"affinity": required(field_term("one", operator="NotIn"))}, ""),
        ({"affinity": required(field_term("one", key="metadata.namespace"))}, ""),
        ({"affinity": required({}, field_term("second"))}, "second"),
        ({}, ""),
    ],
)
def test_target_of_a_daemon_pod_is_its_node_or_its_single_wish(spec: Obj, target: str) -> None:
    assert target_node({"spec": spec}) == target


def daemon_pod(name: str, onto: str, ready: bool) -> Obj:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    meta = {"name": name, "creationTimestamp": "2020-01-01T00:00:00Z"}
    return {"metadata": meta, "spec": {"nodeName": onto}, "status": {"conditions": conditions}}


class FakeView:
    """A node with the label `out` needs no pod; pods named new... have the present template."""

    def __init__(self, **limits: Any) -> None:
        self.owner = rolling(**limits)

    def fit(self, onto: Obj) -> tuple[bool, bool]:
        return ("out" not in onto["metadata"]["labels"], True)

    def is_available(self, pod: Obj) -> bool:
        return pod["metadata"]["name"].endswith("available")

    def is_updated(self, pod: Obj) -> bool:
        return pod["metadata"]["name"].startswith("new")


def test_status_counts_each_node_once_by_its_oldest_pod() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d"), node("e", out="")]
    pods = [
        daemon_pod("new-available", "a", ready=True),
        daemon_pod("new", "b", ready=True),
        daemon_pod("old-available", "c", ready=False),
        daemon_pod("new-first", "e", ready=True),
        daemon_pod("new-second", "e", ready=True),
    ]
    counts = count_status(cast("View", FakeView()), nodes, pods_by_node(pods))
    assert counts == {
        "currentNumberScheduled": 3,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 4,
        "numberReady": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
        "numberUnavailable": 3,
    }


@pytest.mark.parametrize(("surge", "created"), [(1, []), (2, ["b"]), (3, ["b", "c"])])
def test_node_with_several_old_pods_takes_a_place_of_the_surge(surge: int, created: list[str]) -> None:
    view = cast("View", FakeView(maxUnavailable=0, maxSurge=surge))
    old = [daemon_pod(f"old-{index}-available", onto, ready=True) for index, onto in enumerate("aabc")]
    changes = decide_roll(view, [node(name) for name in "abc"], pods_by_node(old))
    assert (changes.create, changes.delete) == (created, [])


def test_oldest_of_two_pods_on_a_node_counts_for_the_status() -> None:
    young, old = daemon_pod("new-available", "a", ready=True), daemon_pod("old", "a", ready=False)
    young["metadata"]["creationTimestamp"] = "2021-01-01T00:00:00Z"
    counts = count_status(cast("View", FakeView()), [node("a")], pods_by_node([young, old]))
    assert (counts["numberReady"], counts["updatedNumberScheduled"]) == (0, 0)


def test_new_pod_that_is_not_available_takes_one_place_of_the_surge() -> None:
    view = cast("View", FakeView(maxUnavailable=0, maxSurge=2))
    old = [daemon_pod(f"old-{onto}-available", onto, ready=True) for onto in "abc"]
    pods = pods_by_node([*old, daemon_pod("new", "a", ready=True)])
    changes = decide_roll(view, [node(name) for name in "abc"], pods)
    assert (changes.create, changes.delete) == (["b"], [])
