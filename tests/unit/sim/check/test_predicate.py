"""A predicate is true of what it says, and what is true of no object of a resource is refused."""

import re
from typing import Any

import pytest

from sim.check import parse_condition
from sim.check.predicate import _at
from sim.ident import NAMES

NAMES_ = NAMES["orch"]

# The resource of the field that a predicate names.
OWNERS_OF = {
    "taint": "nodes",
    "held": "leases",
    "Replicas": "replicasets",
    "capacity": "nodes",
    "images": "nodes",
}

FED, READY = {"type": "example.com/fed", "status": "True"}, {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("predicate", "obj", "true"),
    [
        (
            "taint unreachable:NoExecute",
            {"spec": {"taints": [{"key": NAMES_.taint_unreachable, "effect": "NoExecute"}]}},
            True,
        ),
        (
            "taint unreachable:NoExecute",
            {"spec": {"taints": [{"key": NAMES_.taint_unreachable, "effect": "NoSchedule"}]}},
            False,
        ),
        (
            "taint node.kubernetes.io/unreachable",
            {"spec": {"taints": [{"key": NAMES_.taint_unreachable, "effect": "NoExecute"}]}},
            True,
        ),
        (
            f"taint {NAMES_.taint_unreachable}:NoExecute",
            {"spec": {"taints": [{"key": NAMES_.taint_unreachable, "effect": "NoExecute"}]}},
            True,
        ),
        (
            "taint shop.example/gpu",
            {"spec": {"taints": [{"key": "shop.example/gpu", "effect": "NoExecute"}]}},
            True,
        ),
        (
            "taint dedicated:NoExecute",
            {"spec": {"taints": [{"key": "dedicated", "effect": "NoExecute"}]}},
            True,
        ),
        ("Running", {"status": {"phase": "Running"}}, True),
        ("not Running", {"status": {"phase": "Running"}}, False),
        ("status.readyReplicas=3", {"status": {"readyReplicas": 3}}, True),
        ("status.readyReplicas=0", {"status": {}}, True),
        ("status.readyReplicas>=3", {"status": {"readyReplicas": 2}}, False),
        ("status.capacity.cpu>=8", {"status": {"capacity": {"cpu": "8"}}}, True),
        ("status.capacity.cpu>=8", {"status": {"capacity": {"cpu": "7900m"}}}, False),
        ("status.capacity.memory<=1Gi", {"status": {"capacity": {"memory": "1025Mi"}}}, False),
        ("status.capacity.memory<=1Gi", {"status": {"capacity": {"memory": "1024Mi"}}}, True),
        ("metadata.labels.step>=1", {"metadata": {"labels": {"step": "2"}}}, True),
        ("metadata.labels.step>=1", {"metadata": {"labels": {"step": "last"}}}, False),
        ("metadata.labels.step<=1", {"metadata": {"labels": {"step": "last"}}}, False),
        ("metadata.labels.step!=0", {"metadata": {}}, True),
        ("metadata.name=0", {"metadata": {}}, False),
        ("status.capacity.memory=1Gi", {"status": {"capacity": {"memory": "1024Mi"}}}, True),
        ("status.capacity.cpu!=500m", {"status": {"capacity": {"cpu": "0.5"}}}, False),
        ("spec.hostNetwork=false", {"spec": {}}, True),
        ("spec.hostNetwork!=false", {"spec": {"hostNetwork": True}}, True),
        ("Unknown", {"status": {"phase": "Unknown"}}, True),
        ("status.images[1].sizeBytes>=2", {"status": {"images": [{"sizeBytes": 9}, {"sizeBytes": 2}]}}, True),
        (
            "status.images[2].sizeBytes>=2",
            {"status": {"images": [{"sizeBytes": 9}, {"sizeBytes": 2}]}},
            False,
        ),
        ("bound and not terminating", {"metadata": {}, "spec": {"nodeName": "n"}}, True),
        ("condition example.com/fed=True", {"status": {"conditions": [FED]}}, True),
        ("condition example.com/fed!=True", {"status": {"conditions": [FED]}}, False),
        ("not condition Available=True and ready", {"status": {"conditions": [FED, READY]}}, True),
        ("held", {"spec": {"holderIdentity": ""}}, False),
        ("held", {}, False),
        ("held", {"spec": {"holderIdentity": "a"}}, True),
        ("taint unreachable", {}, False),
        ("taint unreachable", {"spec": {"taints": None}}, False),
        ("taint unreachable", {"spec": {"taints": [{"key": "other", "effect": "NoExecute"}]}}, False),
        ("Running", {}, False),
        ("bound", {}, False),
        ("terminating", {"metadata": {"deletionTimestamp": "t"}}, True),
        ("bound and Running", {"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}, False),
        ("condition example.com/fed!=True", {}, True),
        ("status.readyReplicas<=0", {}, True),
        ("status.readyReplicas>=1", {}, False),
        ("status.readyReplicas>=3", {"status": {"readyReplicas": 3}}, True),
        ("status.readyReplicas!=3", {"status": {"readyReplicas": 4}}, True),
        ("spec.hostNetwork=true", {"spec": {"hostNetwork": True}}, True),
        ("spec.hostNetwork=true", {"spec": {"hostNetwork": False}}, False),
        ("metadata.labels.step<=2", {"metadata": {"labels": {"step": "2"}}}, True),
        ("metadata.labels.app!=web", {"metadata": {"labels": {"app": "db"}}}, True),
        ("status.images[1].sizeBytes>=2", {"status": {"images": "text"}}, False),
    ],
)
def test_predicates(predicate: str, obj: dict[str, Any], true: bool) -> None:
    resource = next((known for part, known in OWNERS_OF.items() if part in predicate), "pods")
    assert parse_condition(f"any {resource} are {predicate}", NAMES_).test(obj) is true


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("no deployments are Running", "'Running' is true of no deployments: they have no status.phase"),
        ("all leases are ready", "'ready' is true of no leases: they have no status.conditions"),
        ("any nodes are not held", "'held' is true of no nodes: they have no spec.holderIdentity"),
        ("any pods are cordoned", "'cordoned' is true of no pods: they have no spec.unschedulable"),
        ("any configmaps have Ready=True", "'Ready=True' is true of no configmaps"),
        (
            "any pods have taint unreachable",
            "'taint unreachable' is true of no pods: they have no spec.taints",
        ),
        ("any pods have spec.nodename=node-1", "spec has no field 'nodename'; did you mean 'nodeName'?"),
        (
            "any pods have status.containerStatus[0].restartCount>=1",
            "status has no field 'containerStatus'; did you mean 'containerStatuses'?",
        ),
        (
            "any pods have status.containerStatuses.restartCount>=1",
            "status.containerStatuses is a list; write status.containerStatuses[0] for its first item",
        ),
        ("any pods have Status.phase=Running", "an object has no field 'Status'; did you mean 'status'?"),
        ("any pods have not status.replicas=3", "status has no field 'replicas'"),
        ("all nodes have status.capacity=8", "status.capacity is no single value"),
        ("any pods have metadata.labels.a.example/b=c", "metadata.labels.a has no field 'example/b'"),
        ("all pods are Terminating", "'Terminating' is true of no pods; write terminating for"),
        ("no pods are Active", "'Active' is true of no pods; their phases are Pending, Running"),
        ("no nodes are Running", "'Running' is true of no nodes; no phase of nodes is ever set"),
        ("any pods have status.phase=Runing", "'Runing' is true of no pods; their phases are"),
        (
            "all deployments are ready",
            "no deployments have the condition Ready of 'ready'; their conditions are Available",
        ),
        (
            "all statefulsets have Ready=True",
            "no component sets conditions on them; write e.g. status.readyReplicas>=3",
        ),
        ("any pods have Available=True", "no pods have the condition Available of 'Available=True'"),
        (
            "any pods have Available=True",
            "; of one that a readiness gate names so, write condition Available=True",
        ),
        (
            "any pods have example.com/fed=True",
            "an object has no field 'example'; of a condition write condition example.com/fed=True",
        ),
        (
            "any configmaps have condition example.com/fed=True",
            "is true of no configmaps: they have no status",
        ),
        ("any pods have condition example.com/fed=yes", "is True, False or Unknown, never 'yes'"),
        ("any pods have condition example.com/fed>=True", "can be compared by = and != only"),
        ("any pods have status.phase>=3", "status.phase is a string; >= compares numbers and quantities"),
        ("any pods have status.startTime<=3", "status.startTime is a time; <= compares numbers"),
        (
            "any deployments have status.replicas=three",
            "'three' is not a number or quantity, which status.replicas is",
        ),
        ("any deployments have spec.paused=True", "spec.paused is true or false, never 'True'"),
        ("any deployments have status.replicas==3", "a field is compared by =, !=, >= and <="),
        ("any deployments have status.replicas>3", "a field is compared by =, !=, >= and <="),
        ("any nodes have taint :NoExecute", "'taint :NoExecute' names no key"),
    ],
)
def test_a_field_that_no_object_has_is_refused(condition: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_condition(condition, NAMES_)


@pytest.mark.parametrize(
    "condition",
    [
        "any pods have metadata.labels.app=web",
        "all configmaps have data.key=value",
        "any nodes have status.capacity.memory>=16Gi",
        "any events have reason=Killing",
        "any customresourcedefinitions have spec.names.kind=Widget",
    ],
)
def test_a_field_that_objects_may_have_is_not_refused(condition: str) -> None:
    assert parse_condition(condition, NAMES_).test({}) is False


def test_path_into_a_list_needs_the_number_of_an_item() -> None:
    obj = {"spec": {"containers": [{"image": "a"}]}}
    assert _at(obj, ("spec", "containers", "0", "image")) == "a"
    assert [_at(obj, ("spec", "containers", part)) for part in ("1", "first", "-1")] == [None] * 3
    assert _at(obj, ("spec", "containers", "0", "image", "x")) is None
