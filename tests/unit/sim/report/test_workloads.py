"""The workload of a pod, and why it is pending."""

from typing import Any

import pytest

from sim.api.store import Item
from sim.report.workloads import pod_state, shown_state, workload_of


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Item:
    obj = {"metadata": {"name": "p", **metadata}, "spec": spec or {}, "status": status or {}}
    return Item("//pods/shop/p", obj, 1, 1)


def owned(kind: str, name: str, **labels: str) -> Item:
    owners = [{"kind": "Other", "name": "x"}, {"kind": kind, "name": name, "controller": True}]
    return pod(ownerReferences=owners, labels={key.replace("_", "-"): text for key, text in labels.items()})


@pytest.mark.parametrize(
    ("item", "workload"),
    [
        (owned("ReplicaSet", "web-5d8f", pod_template_hash="5d8f"), "deployment shop/web"),
        (owned("ReplicaSet", "web-5d8f"), "replicaset shop/web-5d8f"),
        (owned("ReplicaSet", "web", pod_template_hash="5d8f"), "replicaset shop/web"),
        (owned("StatefulSet", "db"), "statefulset shop/db"),
        (owned("DaemonSet", "log"), "daemonset shop/log"),
        (owned("Job", "night-28000001"), "job shop/night-…"),
        (owned("Job", "once-1"), "job shop/once-1"),
        (owned("Node", "n1"), "static pods"),
        (pod(), "pods of shop without a controller"),
        (pod(ownerReferences=[{"kind": "Other", "name": "x"}]), "pods of shop without a controller"),
    ],
)
def test_workload_of_a_pod_is_that_of_its_controller(item: Item, workload: str) -> None:
    assert workload_of(item) == workload


def waiting(reason: str, of: str = "containerStatuses") -> dict[str, Any]:
    ready = {"state": {"terminated": {"reason": "Completed"}}}
    return {"startTime": "x", of: [ready, {"state": {"waiting": {"reason": reason}}}]}


def unscheduled(reason: str) -> dict[str, Any]:
    return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]}


BOUND = {"nodeName": "n"}


@pytest.mark.parametrize(
    ("spec", "status", "reason"),
    [
        ({}, {}, "not scheduled yet"),
        ({}, unscheduled("SchedulerError"), "not scheduled yet"),
        ({}, unscheduled("Unschedulable"), "no node fits"),
        (BOUND, unscheduled("Unschedulable"), "waits for its node"),
        (BOUND, {"startTime": "x"}, "starting"),
        (BOUND, waiting("ContainerCreating"), "starting"),
        (BOUND, waiting("PodInitializing"), "starting"),
        (BOUND, waiting("ErrImagePull"), "image not pulled"),
        (BOUND, waiting("ImagePullBackOff", "initContainerStatuses"), "image not pulled"),
        (BOUND, waiting("InvalidImageName"), "image not pulled"),
        (BOUND, waiting("RegistryUnavailable"), "image not pulled"),
        (BOUND, waiting("CreateContainerConfigError"), "container fails"),
        (BOUND, waiting("CrashLoopBackOff", "initContainerStatuses"), "container fails"),
    ],
)
def test_pending_pod_is_shown_with_its_reason(
    spec: dict[str, Any], status: dict[str, Any], reason: str
) -> None:
    item = pod(spec, status)
    assert (pod_state(item), shown_state(item.obj)) == ("pending", f"pending: {reason}")


@pytest.mark.parametrize(
    ("item", "state"),
    [
        (pod(BOUND, {"phase": "Running", **waiting("ErrImagePull")}), "running"),
        (pod({}, {"phase": "Pending"}, deletionTimestamp="x"), "terminating"),
        (pod(BOUND, {"phase": "Failed"}), "failed"),
    ],
)
def test_state_of_any_other_pod_has_no_reason(item: Item, state: str) -> None:
    assert shown_state(item.obj) == state
