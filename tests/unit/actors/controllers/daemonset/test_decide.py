"""Which nodes get a daemon pod, how many roll at once, and when the status needs a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from actors.controllers.daemonset.decide import (
    FailedPodBackoff,
    NodeFit,
    View,
    count_status,
    daemon_pod,
    daemon_template,
    decide_roll,
    is_status_stale,
    new_revision,
    pods_by_node,
    rolling_limits,
    target_node,
    template_generation,
    with_counts,
)
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import SECOND

N = NAMES["orch"]


def rolling(**limits: Any) -> Obj:
    return {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}}


@pytest.mark.parametrize(
    ("limits", "desired", "wanted"),
    [
        ({"maxUnavailable": "10%"}, 3, (0, 1)),
        ({"maxUnavailable": 0, "maxSurge": "50%"}, 3, (2, 0)),
        ({"maxUnavailable": 0, "maxSurge": 0}, 3, (0, 1)),
        ({}, 3, (0, 1)),
        ({"maxUnavailable": "50%"}, 0, (0, 0)),  # no node needs a pod: no pod of other nodes rolls
    ],
)
def test_rolling_limits_round_up_and_are_not_both_zero(
    limits: Obj, desired: int, wanted: tuple[int, int]
) -> None:
    assert rolling_limits(rolling(**limits), desired) == wanted


def test_set_that_updates_on_delete_rolls_no_pod() -> None:
    assert rolling_limits({"spec": {"updateStrategy": {"type": "OnDelete"}}}, 3) == (0, 0)


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
    assert is_status_stale({"metadata": {"generation": 1}}, {})
    assert not is_status_stale({"metadata": {}}, {})


def test_counts_keep_other_fields_of_the_status() -> None:
    stored: Obj = {"collisionCount": 0, "numberAvailable": 3, "observedGeneration": 1}
    told = with_counts(stored, {"numberReady": 0, "numberAvailable": 0})
    assert told == {"collisionCount": 0, "observedGeneration": 1, "numberReady": 0}


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
        ({"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "In"}]})}, ""),
        ({}, ""),
    ],
)
def test_target_of_a_daemon_pod_is_its_node_or_its_single_wish(spec: Obj, target: str) -> None:
    assert target_node({"spec": spec}) == target


def pod_of(name: str, onto: str, ready: bool) -> Obj:
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
        pod_of("new-available", "a", ready=True),
        pod_of("new", "b", ready=True),
        pod_of("old-available", "c", ready=False),
        pod_of("new-first", "e", ready=True),
        pod_of("new-second", "e", ready=True),
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
    old = [pod_of(f"old-{index}-available", onto, ready=True) for index, onto in enumerate("aabc")]
    changes = decide_roll(view, [node(name) for name in "abc"], pods_by_node(old))
    assert (changes.create, changes.delete) == (created, [])


def test_oldest_of_two_pods_on_a_node_counts_for_the_status() -> None:
    young, old = pod_of("new-available", "a", ready=True), pod_of("old", "a", ready=False)
    young["metadata"]["creationTimestamp"] = "2021-01-01T00:00:00Z"
    counts = count_status(cast("View", FakeView()), [node("a")], pods_by_node([young, old]))
    assert (counts["numberReady"], counts["updatedNumberScheduled"]) == (0, 0)


def test_new_pod_that_is_not_available_takes_one_place_of_the_surge() -> None:
    view = cast("View", FakeView(maxUnavailable=0, maxSurge=2))
    old = [pod_of(f"old-{onto}-available", onto, ready=True) for onto in "abc"]
    pods = pods_by_node([*old, pod_of("new", "a", ready=True)])
    changes = decide_roll(view, [node(name) for name in "abc"], pods)
    assert (changes.create, changes.delete) == (["b"], [])


def names_of(pods: Sequence[Obj]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def rolled(
    nodes: Sequence[Obj], pods: Sequence[tuple[str, str]], **limits: Any
) -> tuple[list[str], list[str]]:
    """The nodes that get a pod and the pods to delete.  pods: (name, node)"""
    made = [pod_of(name, onto, ready=True) for name, onto in pods]
    changes = decide_roll(cast("View", FakeView(**limits)), nodes, pods_by_node(made))
    return changes.create, names_of(changes.delete)


OLD_B, OLD_C = ("old-b-available", "b"), ("old-c-available", "c")


@pytest.mark.parametrize(
    "lacking",
    [
        [],
        [("new", "a")],
        [("new-available", "a"), ("old-available", "a")],
        [("new-1-available", "a"), ("new-2-available", "a")],
    ],
)
def test_node_without_one_available_new_pod_counts_once_as_unavailable(lacking: list[Any]) -> None:
    nodes, pods = [node(name) for name in "abc"], [*lacking, OLD_B, OLD_C]
    assert rolled(nodes, pods, maxUnavailable=1) == ([], [])
    assert rolled(nodes, pods, maxUnavailable=2) == ([], ["old-b-available"])


def test_node_that_takes_no_new_pod_does_not_count_as_unavailable() -> None:
    assert rolled([node("a", out=""), node("b")], [OLD_B], maxUnavailable=1) == ([], ["old-b-available"])


def test_node_with_several_new_pods_takes_one_place_of_the_surge() -> None:
    nodes = [node(name) for name in "abc"]
    pods = [("new-1-available", "a"), ("new-2-available", "a"), OLD_B, OLD_C]
    assert rolled(nodes, pods, maxSurge=1, maxUnavailable=0) == ([], [])
    assert rolled(nodes, pods, maxSurge=2, maxUnavailable=0) == (["b"], [])


def test_bound_pod_counts_before_an_older_one_that_is_not_bound() -> None:
    bound, wished = pod_of("new-available", "a", ready=True), pod_of("old", "", ready=False)
    wished["metadata"]["creationTimestamp"] = "2019-01-01T00:00:00Z"
    wished["spec"] = {"affinity": required(field_term("a"))}
    counts = count_status(cast("View", FakeView()), [node("a")], pods_by_node([wished, bound]))
    assert (counts["numberReady"], counts["updatedNumberScheduled"]) == (1, 1)


class CountedFit(NodeFit):
    """Counts the answers without the memo."""

    count = 0

    def fresh(self, node: Obj) -> tuple[bool, bool]:
        self.count += 1
        return super().fresh(node)


def test_fit_of_a_node_is_remembered_until_its_labels_or_spec_change() -> None:
    found, first = CountedFit(template(nodeSelector={"disk": "ssd"}), N), node(disk="ssd")
    assert (found(first), found({**first}), found.count) == ((True, True), (True, True), 1)
    relabelled = {**first, "metadata": {"name": "n", "labels": {"disk": "hdd"}}}
    assert found(relabelled) == (False, False)
    tainted = node(taints=[{"key": "own", "effect": "NoSchedule"}])
    assert found({**first, "spec": tainted["spec"]}) == (False, True)


def test_daemon_pod_keeps_other_affinity_than_the_required_one_of_nodes() -> None:
    wished: Obj = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity = {"podAffinity": {"x": 1}, "nodeAffinity": {**required({})["nodeAffinity"], **wished}}
    made = daemon_pod(template(affinity=affinity), {"metadata": {"name": "ds"}}, {}, "a")
    wanted = {**required(field_term("a"))["nodeAffinity"], **wished}
    assert made["spec"]["affinity"] == {"podAffinity": {"x": 1}, "nodeAffinity": wanted}


@pytest.mark.parametrize("meta", [None, {}, {"labels": None}])
def test_template_without_labels_gets_that_of_its_revision(meta: Obj | None) -> None:
    bare = {**template(), "metadata": meta}
    owner: Obj = {"metadata": {"name": "ds", "namespace": "default"}, "spec": {"template": bare}}
    made = daemon_template(owner, "x", None, N)
    assert made["metadata"]["labels"] == {N.label_controller_revision_hash: "x"}
    revision = new_revision(owner, {}, 1, N)["metadata"]
    hashed = revision["name"].removeprefix("ds-")
    assert revision["labels"] == {N.label_controller_revision_hash: hashed}


# --- back-off of failed pods ----------------------------------------------------------------------

KEY = ("uid", 1, "a")
LONGEST_US = 900 * SECOND


def test_failed_pod_is_deleted_at_once_and_then_after_delays_that_double() -> None:
    backoff, now_us = FailedPodBackoff(), 5
    for delay_s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900):
        assert backoff.wait_us(KEY, now_us) == 0
        assert backoff.wait_us(KEY, now_us + delay_s * SECOND - 1) == delay_s * SECOND
        now_us += delay_s * SECOND
    assert backoff.wait_us(("uid", 1, "b"), now_us) == 0


@pytest.mark.parametrize(("late_us", "delay_s"), [(0, 2), (1, 1)])
def test_back_off_begins_again_after_twice_the_longest_delay(late_us: int, delay_s: int) -> None:
    backoff, now_us = FailedPodBackoff(), 5
    assert backoff.wait_us(KEY, now_us) == 0
    now_us += 2 * LONGEST_US + late_us
    assert backoff.wait_us(KEY, now_us) == 0
    assert backoff.wait_us(KEY, now_us) == delay_s * SECOND


@pytest.mark.parametrize(("late_us", "kept"), [(0, 2), (1, 1)])
def test_back_off_that_is_over_is_dropped_with_the_next_new_one(late_us: int, kept: int) -> None:
    backoff, now_us = FailedPodBackoff(), 2 * LONGEST_US
    assert backoff.wait_us(KEY, now_us) == 0
    assert backoff.wait_us(("uid", 1, "b"), now_us + 2 * LONGEST_US + late_us) == 0
    assert len(backoff._entries) == kept
